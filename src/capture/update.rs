//! UPDATE (also by MERGE, ON CONFLICT and SET NULL cascades): locators that rows named before and none names now.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_128;

use crate::pg::memory::Scratch;
use crate::pg::trigger::Trigger;
use crate::pg::tuples::{Row, Tuples};

use super::locator::Locator;
use super::plan::Plan;
use super::statement::{NEW_ROWS, OLD_ROWS, capture_query, named};
use super::writer::Writer;

/// New locators of one statement that are remembered, by digest. Of a larger statement every replaced locator is
/// captured: what a row still names is then kept by the guard.
const REMEMBERED: usize = 1 << 20;

/// Captures the objects that the statement replaced or let go. Two rows that swap their locators orphan nothing.
pub fn capture_update(trigger: &Trigger, plan: &Plan) {
    if let Locator::Query(sql) = &plan.locator {
        let name = &plan.alias;
        let query = format!(
            // An anti-join, which can be hashed whatever its size; NOT IN cannot.
            "SELECT o.locator, o.row_id, o.owns, o.shares FROM ({}) AS o(locator, row_id, owns, shares) \
             WHERE o.locator IS NOT NULL AND NOT EXISTS \
             (SELECT FROM ({}) AS n(locator, row_id, owns, shares) WHERE n.locator COLLATE \"C\" = o.locator COLLATE \"C\")",
            sql.over(&named(OLD_ROWS, name)),
            sql.over(&named(NEW_ROWS, name)),
        );
        capture_query(trigger, plan, &query);
        return;
    }
    let Some(now_named) = now_named(trigger, plan) else { return };
    let Some(rows) = Pairs::of(trigger, plan) else { return };
    let mut writer = Writer::new(plan, None);
    rows.each(plan, &mut |change| {
        if let Some(Change { old: Some(row), before, .. }) = change {
            let (owns, shares) = plan.extras.of_row(row);
            writer.row_has(owns, shares);
            for locator in before.iter().filter(|locator| !now_named.contains(locator)) {
                writer.push(locator, &plan.row_id.of_row(row));
            }
        }
        writer.row_done();
    });
    writer.finish();
}

/// Locators that changed rows name now.
#[derive(Default)]
struct NowNamed {
    digests: HashSet<u128>,
    is_full: bool,
}

impl NowNamed {
    fn add(&mut self, locators: &[String]) {
        self.is_full |= self.digests.len() + locators.len() > REMEMBERED;
        if self.is_full {
            self.digests = HashSet::new();
        } else {
            self.digests.extend(locators.iter().map(|locator| xxh3_128(locator.as_bytes())));
        }
    }

    fn contains(&self, locator: &str) -> bool {
        self.digests.contains(&xxh3_128(locator.as_bytes()))
    }
}

/// `None` when no row's locators changed, which is the usual case.
fn now_named(trigger: &Trigger, plan: &Plan) -> Option<NowNamed> {
    let rows = Pairs::of(trigger, plan)?;
    let mut found = None;
    let mut scratch = Scratch::enter();
    rows.each(plan, &mut |change| {
        if let Some(change) = change {
            found.get_or_insert_with(NowNamed::default).add(change.after);
        }
        scratch.row_done();
    });
    found
}

/// A row whose locators changed: as it was, what it named and what it names.
struct Change<'a> {
    old: Option<&'a Row<'a>>,
    before: &'a [String],
    after: &'a [String],
}

/// Both transition tables. Make it before any memory is current that is emptied between rows.
struct Pairs<'a> {
    old: Tuples<'a>,
    new: Tuples<'a>,
}

impl<'a> Pairs<'a> {
    fn of(trigger: &'a Trigger, plan: &Plan) -> Option<Self> {
        let (old, new) = (trigger.old_rows()?, trigger.new_rows()?);
        Some(Self { old: old.reading(plan.last_column), new: new.reading(plan.last_column) })
    }

    /// Calls `take` once a row, with its change if its locators changed.
    ///
    /// The server fills both transition tables row by row, so equal positions are the same row and an update that
    /// leaves the locator alone costs one comparison. If positions ever differ (a trigger that swallows the second
    /// half of a row's move between partitions), more is compared and the answer stays the same, since it is taken
    /// from the sets.
    fn each(mut self, plan: &Plan, take: &mut dyn FnMut(Option<Change<'_>>)) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        loop {
            let (old, new) = (self.old.next(), self.new.next());
            if old.is_none() && new.is_none() {
                return;
            }
            before.clear();
            after.clear();
            if let Some(row) = &old {
                plan.locator.each(row, &mut |locator| before.push(locator.to_owned()));
            }
            if let Some(row) = &new {
                plan.locator.each(row, &mut |locator| after.push(locator.to_owned()));
            }
            let changed = before != after;
            take(changed.then_some(Change { old: old.as_ref(), before: &before, after: &after }));
        }
    }
}
