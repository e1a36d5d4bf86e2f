//! Records what became of objects. A claim ends in one transaction: its entry goes, and each of its objects is in
//! history, parked, or back in the outbox.

use pgrx::datum::TimestampWithTimeZone;

use crate::error::Result;

use super::derivation::Derived;
use super::entry::Key;
use super::spi;

/// Objects of one entry with the same outcome.
pub struct Settled {
    pub source_id: Option<i32>,
    pub backend_id: Option<i32>,
    pub captured_at: TimestampWithTimeZone,
    pub objects: i16,
    pub outcome: &'static str,
    pub reason: Option<String>,
    pub payload: Vec<u8>,
    /// By which rule they went with others.
    pub derivation_id: Option<i32>,
}

/// Objects for the outbox: those of an entry that are tried again, or that go with others.
pub struct Queued {
    pub source_id: Option<i32>,
    pub backend_id: Option<i32>,
    pub captured_at: TimestampWithTimeZone,
    pub horizon: String,
    pub delay_ms: i64,
    pub attempts: i16,
    pub objects: i16,
    pub payload: Vec<u8>,
    pub last_error: Option<String>,
    pub whole: bool,
    pub derived: Option<Derived>,
}

/// One object that is set aside for a person.
pub struct Parked {
    pub source_id: Option<i32>,
    pub backend_id: Option<i32>,
    pub captured_at: TimestampWithTimeZone,
    pub horizon: String,
    pub locator: String,
    pub row_id: Option<String>,
    pub owns: Option<String>,
    pub shares: Option<String>,
    pub reason: &'static str,
    pub last_error: Option<String>,
    pub attempts: i32,
    /// A whole segment that could not be read; `locator` then says which.
    pub payload: Option<Vec<u8>>,
    pub derived: Option<Derived>,
    /// With which object it goes.
    pub parent: Option<String>,
}

/// Takes entries out of the outbox.
pub fn remove_entries(entries: &[Key]) -> Result<()> {
    let (sources, backends): (Vec<_>, Vec<_>) = entries.iter().map(|key| key.strand).unzip();
    let (due, ids): (Vec<_>, Vec<_>) = entries.iter().map(|key| (key.due_at, key.id)).unzip();
    let statement = include_str!("../../sql/queries/entry_remove.sql");
    spi::execute(statement, &[sources.into(), backends.into(), due.into(), ids.into()]).map(drop)
}

/// Writes outcomes into history.
pub fn record(settled: Vec<Settled>) -> Result<()> {
    if settled.is_empty() {
        return Ok(());
    }
    let mut columns = (vec![], vec![], vec![], vec![], vec![], vec![], vec![], vec![]);
    for row in settled {
        columns.0.push(row.source_id);
        columns.1.push(row.backend_id);
        columns.2.push(row.captured_at);
        columns.3.push(row.objects);
        columns.4.push(row.outcome);
        columns.5.push(row.reason);
        columns.6.push(row.payload);
        columns.7.push(row.derivation_id);
    }
    spi::execute(
        include_str!("../../sql/queries/settlement_insert.sql"),
        &[
            columns.0.into(),
            columns.1.into(),
            columns.2.into(),
            columns.3.into(),
            columns.4.into(),
            columns.5.into(),
            columns.6.into(),
            columns.7.into(),
        ],
    )
    .map(drop)
}

/// Puts objects into the outbox.
pub fn queue(queued: Vec<Queued>) -> Result<()> {
    if queued.is_empty() {
        return Ok(());
    }
    let mut columns = (vec![], vec![], vec![], vec![], vec![], vec![], vec![], vec![], vec![], vec![], vec![], vec![]);
    for row in queued {
        columns.0.push(row.delay_ms);
        columns.1.push(row.horizon);
        columns.2.push(row.captured_at);
        columns.3.push(row.source_id);
        columns.4.push(row.backend_id);
        columns.5.push(row.attempts);
        columns.6.push(row.objects);
        columns.7.push(row.payload);
        columns.8.push(row.last_error);
        columns.9.push(row.whole);
        columns.10.push(row.derived.map(|derived| derived.derivation_id));
        columns.11.push(row.derived.map(|derived| derived.is_prefix));
    }
    spi::execute(
        include_str!("../../sql/queries/entry_insert.sql"),
        &[
            columns.0.into(),
            columns.1.into(),
            columns.2.into(),
            columns.3.into(),
            columns.4.into(),
            columns.5.into(),
            columns.6.into(),
            columns.7.into(),
            columns.8.into(),
            columns.9.into(),
            columns.10.into(),
            columns.11.into(),
        ],
    )
    .map(drop)
}

/// Sets objects aside.
pub fn park(parked: Vec<Parked>) -> Result<()> {
    if parked.is_empty() {
        return Ok(());
    }
    let mut columns = (
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
        vec![],
    );
    let mut parents = Vec::with_capacity(parked.len());
    for row in parked {
        columns.0.push(row.source_id);
        columns.1.push(row.backend_id);
        columns.2.push(row.locator);
        columns.3.push(row.row_id);
        columns.4.push(row.reason);
        columns.5.push(row.last_error);
        columns.6.push(row.attempts);
        columns.7.push(row.horizon);
        columns.8.push(row.captured_at);
        columns.9.push(row.payload);
        columns.10.push(row.owns);
        columns.11.push(row.shares);
        columns.12.push(row.derived.map(|derived| derived.derivation_id));
        columns.13.push(row.derived.map(|derived| derived.is_prefix));
        parents.push(row.parent);
    }
    spi::execute(
        include_str!("../../sql/queries/parked_insert.sql"),
        &[
            columns.0.into(),
            columns.1.into(),
            columns.2.into(),
            columns.3.into(),
            columns.4.into(),
            columns.5.into(),
            columns.6.into(),
            columns.7.into(),
            columns.8.into(),
            columns.9.into(),
            columns.10.into(),
            columns.11.into(),
            columns.12.into(),
            columns.13.into(),
            parents.into(),
        ],
    )
    .map(drop)
}

/// Segments that one call of `forget_history` removes at most; its statement says the same.
pub const FORGOTTEN_AT_ONCE: usize = 1000;

/// Removes outcomes that are older than `retention`, a bounded number at a time; returns how many.
pub fn forget_history(retention: std::time::Duration) -> Result<usize> {
    let seconds = i64::try_from(retention.as_secs()).unwrap_or(i64::MAX);
    spi::execute(include_str!("../../sql/queries/settlement_forget.sql"), &[seconds.into()])
}
