//! The fence: a statement that writes a row looks whether an object that the row names is in flight.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Instant;

use pgrx::pg_sys;

use crate::domain::backend::BackendId;
use crate::domain::flight::{Flight, Marks, Step, Written, row_mark, share_mark, text_marks};
use crate::error::Result;
use crate::guc;
use crate::pg::cursor::{self, Sight};
use crate::pg::fence::{self, Raised};
use crate::pg::memory::Scratch;
use crate::pg::relation::Relation;
use crate::pg::trigger::Trigger;
use crate::pg::tuples::Tuples;
use crate::pg::{shared, subtransaction};
use crate::store::flight;

use super::locator::{Extras, Locator};
use super::plan::{self, Naming};
use super::statement::{NEW_ROWS, OLD_ROWS, named};

/// Class SR is ours: standard classes begin with other letters.
const IN_FLIGHT: [u8; 5] = *b"SRF01";
const HINT: &str = "Upload the object again, under another key if it can be, and run the transaction again.";

thread_local! {
    static PLANS: RefCell<HashMap<(pg_sys::Oid, i32), Rc<Naming>>> = RefCell::new(HashMap::new());
}

/// Waits for the objects in flight that the statement names. Comes back with an error if one of them is gone.
pub fn check(trigger: &Trigger) -> Result<Option<Raised>> {
    // After the rows are written: whoever marks an object later waits for this transaction.
    if trigger.rows_written() == 0 || !shared::may_be_flights() {
        return Ok(None);
    }
    let flights = flight::seen(guc::fence_linger());
    if flights.is_empty() {
        return Ok(None);
    }
    let relation = trigger.relation();
    let Some(source) = trigger.source_id() else { return Ok(None) };
    let Some(naming) = find(&relation, source)? else { return Ok(None) };
    let written = written(trigger, source, &naming, &flights);
    let deadline = Instant::now() + guc::fence_timeout();
    Ok(flights.iter().find_map(|flight| pass(flight, &written, deadline)))
}

/// Gets past one flight.
fn pass(flight: &Flight, written: &Written, deadline: Instant) -> Option<Raised> {
    match flight.at_first(written) {
        Step::GoOn => None,
        Step::Refuse => Some(gone()),
        Step::Join if !fence::join(flight.id, deadline.saturating_duration_since(Instant::now())) => {
            let detail = "Its deletion has not ended within storage_reaper.fence_timeout.";
            Some(Raised::new(IN_FLIGHT, "an object that the row names is being deleted", detail, HINT))
        }
        Step::Join => match flight::seen(guc::fence_linger()).iter().find(|now| now.id == flight.id) {
            Some(now) if now.once_joined(written) == Step::GoOn => None,
            _ => Some(gone()),
        },
    }
}

fn gone() -> Raised {
    let detail = "No row named it any more when its deletion began.";
    Raised::new(IN_FLIGHT, "an object that the row names has just been deleted", detail, HINT)
}

/// Rows for which it is worth to merge the marks of all flights.
const MANY_ROWS: i64 = 1000;

/// The marks among what the statement's rows name now, and did not name before: what a row named already is seen by every
/// check.
fn written(trigger: &Trigger, source: i32, naming: &Naming, flights: &[Flight]) -> Written {
    let merged =
        (trigger.rows_written() > MANY_ROWS).then(|| Marks::union(flights.iter().map(|flight| &*flight.marks)));
    let is_marked = |mark: &i64| match &merged {
        Some(merged) => merged.contains(*mark),
        None => flights.iter().any(|flight| flight.marks.contains(*mark)),
    };
    let mut now = named_by(trigger, Rows::New, source, naming, &is_marked);
    if trigger.has_old_rows() && !now.fingerprints.is_empty() {
        let before = named_by(trigger, Rows::Old, source, naming, &is_marked);
        now.fingerprints.retain(|mark| !before.fingerprints.contains(mark));
    }
    now
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Old,
    New,
}

fn named_by(trigger: &Trigger, which: Rows, source: i32, naming: &Naming, is_marked: &dyn Fn(&i64) -> bool) -> Written {
    let mut found = Written::default();
    let backend = naming.backend_id.map(BackendId);
    let mut note = |locator: Option<&str>, shares: Option<&str>| {
        let mut add =
            |own: &mut dyn Iterator<Item = i64>| found.fingerprints.extend(own.filter(|mark| is_marked(mark)));
        match (locator, &naming.row_of) {
            (Some(text), None) => add(&mut text_marks(text, backend).into_iter()),
            (Some(id), Some(sources)) => add(&mut sources.iter().map(|source| row_mark(*source, id))),
            (None, _) => {}
        }
        add(&mut shares.into_iter().map(|value| share_mark(source, value)));
    };
    match &naming.locator {
        Locator::Query(sql) => {
            let table = if which == Rows::New { NEW_ROWS } else { OLD_ROWS };
            let query = sql.over(&named(table, &naming.alias));
            let read = subtransaction::attempt(AssertUnwindSafe(|| {
                cursor::each(&query, &Sight::Statement(trigger), &mut |row| {
                    note(row.text(0).as_deref(), row.text(3).as_deref());
                });
            }));
            // What the rows name cannot be told.
            found.is_anything = read.is_err();
        }
        locator => {
            let rows = if which == Rows::New { trigger.new_rows() } else { trigger.old_rows() };
            if let Some(rows) = rows {
                read_natively(rows, locator, &naming.extras, &mut note);
            }
        }
    }
    found
}

fn read_natively(
    rows: Tuples<'_>,
    locator: &Locator,
    extras: &Extras,
    note: &mut dyn FnMut(Option<&str>, Option<&str>),
) {
    let fields = locator.fields().iter().chain(&extras.shares);
    // Before the scratch memory, which is emptied between rows.
    let mut rows = rows.reading(fields.map(|field| field.number).max().unwrap_or(0));
    let mut scratch = Scratch::enter();
    while let Some(row) = rows.next() {
        locator.each(&row, &mut |text| note(Some(text), None));
        if let Some(field) = extras.shares {
            note(None, field.text(&row).as_deref());
        }
        scratch.row_done();
    }
}

fn find(relation: &Relation<'_>, source: i32) -> Result<Option<Rc<Naming>>> {
    plan::forget_what_changed();
    let key = (relation.oid(), source);
    if let Some(known) = PLANS.with_borrow(|plans| plans.get(&key).cloned()) {
        return Ok(Some(known));
    }
    let Some(naming) = plan::naming(relation, source)?.map(Rc::new) else { return Ok(None) };
    PLANS.with_borrow_mut(|plans| plans.insert(key, Rc::clone(&naming)));
    Ok(Some(naming))
}

/// Forgets plans of tables that changed, or all.
pub fn forget(changed: Option<&[pg_sys::Oid]>) {
    PLANS.with_borrow_mut(|plans| match changed {
        Some(changed) => plans.retain(|(relation, _), _| !changed.contains(relation)),
        None => plans.clear(),
    });
}
