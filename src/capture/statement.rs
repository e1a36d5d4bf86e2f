//! DELETE: every row that a statement removed.

use crate::pg::cursor::{self, Sight};
use crate::pg::subtransaction;
use crate::pg::trigger::Trigger;
use crate::pg::tuples::Tuples;

use super::locator::{Locator, RowId, is_candidate};
use super::plan::Plan;
use super::writer::Writer;

/// The name of the transition table with the rows as they were.
pub const OLD_ROWS: &str = "storage_reaper_old";
/// The name of the transition table with the rows as they are.
pub const NEW_ROWS: &str = "storage_reaper_new";

/// Bytes of a row that are kept when its locators cannot be computed.
const LONGEST_ROW: usize = 64 * 1024;

/// Captures the objects of all removed rows.
pub fn capture_delete(trigger: &Trigger, plan: &Plan) {
    match &plan.locator {
        Locator::Query(sql) => {
            let query = sql.over(&named(OLD_ROWS, &plan.alias));
            capture_query(trigger, plan, &query);
        }
        _ => {
            if let Some(rows) = trigger.old_rows() {
                capture_rows(rows, plan, |writer| writer);
            }
        }
    }
}

/// Captures the objects of rows that are read without SQL.
pub fn capture_rows<'a>(rows: Tuples<'_>, plan: &'a Plan, set: impl FnOnce(Writer<'a>) -> Writer<'a>) {
    let mut rows = rows.reading(plan.last_column);
    let mut writer = set(Writer::new(plan, None));
    while let Some(row) = rows.next() {
        // The row id is read lazily: most rows of a filtered or sparse column name nothing.
        let mut id = None;
        plan.locator.each(&row, &mut |locator| {
            let id = id.get_or_insert_with(|| {
                let (owns, shares) = plan.extras.of_row(&row);
                writer.row_has(owns, shares);
                plan.row_id.of_row(&row)
            });
            writer.push(locator, id);
        });
        writer.row_done();
    }
    writer.finish();
}

/// Captures what a query over the transition tables yields. If it fails, the rows themselves are kept for a person, or
/// at least their keys: the application's statement goes on, and nothing is forgotten.
pub fn capture_query(trigger: &Trigger, plan: &Plan, query: &str) {
    let attempt = |query: &str, fault: Option<&str>| {
        subtransaction::attempt(std::panic::AssertUnwindSafe(|| write_query(trigger, plan, query, fault)))
    };
    let Err(message) = attempt(query, None) else { return };
    if attempt(&whole_rows(), Some(&message)).is_err() {
        write_query(trigger, plan, &mere_rows(), Some(&message));
    }
}

fn write_query(trigger: &Trigger, plan: &Plan, query: &str, fault: Option<&str>) {
    let mut writer = Writer::new(plan, fault);
    push_all(query, &Sight::Statement(trigger), &mut writer);
    writer.finish();
}

/// Pushes every locator, with its row id, that a query yields.
pub fn push_all(query: &str, sight: &Sight<'_>, writer: &mut Writer<'_>) {
    cursor::each(query, sight, &mut |row| {
        let mut id = RowId::None;
        row.with(1, &mut |text| id = RowId::Text(text.to_owned()));
        writer.row_has(row.text(2), row.text(3));
        row.with(0, &mut |locator| {
            if writer.takes_rows() {
                writer.push(start_of(locator), &id);
            } else if is_candidate(locator) {
                writer.push(locator, &id);
            }
        });
        writer.row_done();
    });
}

/// A transition table or table under the name that expressions use.
pub fn named(from: &str, alias: &str) -> String {
    format!("{from} AS {}", pgrx::spi::quote_identifier(alias))
}

/// json, not jsonb: it takes columns of type json as they are.
fn whole_rows() -> String {
    format!(
        "SELECT pg_catalog.row_to_json(storage_reaper_row.*)::text, NULL::text, NULL::text, NULL::text FROM {OLD_ROWS} AS storage_reaper_row"
    )
}

/// The number of rows is all that is sure to be had.
fn mere_rows() -> String {
    format!("SELECT 'a row that cannot be shown', NULL::text, NULL::text, NULL::text FROM {OLD_ROWS}")
}

/// As much of a row as is kept for a person.
fn start_of(row: &str) -> &str {
    let end = (0..=row.len().min(LONGEST_ROW)).rev().find(|&end| row.is_char_boundary(end)).unwrap_or(0);
    &row[..end]
}
