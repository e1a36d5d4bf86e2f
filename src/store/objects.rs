//! Single objects in the outbox and among the parked, for the functions that people call.

use pgrx::datum::{Interval, TimestampWithTimeZone};

use crate::error::Result;
use crate::pg::transaction;

use super::derivation::Derived;
use super::entry::Key;
use super::{settle, spi};

/// Puts objects into the outbox that the application names itself.
pub fn enqueue(payload: &[u8], objects: i16, backend_id: Option<i32>, grace: Interval) -> Result<()> {
    let horizon = transaction::horizon();
    spi::execute(
        include_str!("../../sql/queries/entry_enqueue.sql"),
        &[payload.to_vec().into(), objects.into(), backend_id.into(), grace.into(), horizon.into()],
    )
    .map(drop)
}

/// An entry that holds objects to cancel; locked until the transaction ends.
pub struct Cancellable {
    pub key: Key,
    pub captured_at: TimestampWithTimeZone,
    pub source_id: Option<i32>,
    pub backend_id: Option<i32>,
    pub payload: Vec<u8>,
    pub derivation_id: Option<i32>,
}

/// Entries that are not due yet and hold one of the locators.
pub fn cancellable(locators: Vec<String>, source: Option<&str>) -> Result<Vec<Cancellable>> {
    spi::write(include_str!("../../sql/queries/entry_cancellable.sql"), &[locators.into(), source.into()], |row| {
        Ok(Cancellable {
            key: Key::of(row)?,
            captured_at: row.required("captured_at")?,
            source_id: row.optional("source_id")?,
            backend_id: row.optional("backend_id")?,
            payload: row.required("payload")?,
            derivation_id: row.optional("derivation_id")?,
        })
    })
}

/// Puts what is left of an entry in its place; `None` takes the entry out.
pub fn shrink(entry: &Cancellable, rest: Option<(&[u8], i16)>) -> Result<()> {
    let Some((payload, objects)) = rest else { return settle::remove_entries(&[entry.key]) };
    let Key { strand: (source, backend), due_at, id } = entry.key;
    spi::execute(
        include_str!("../../sql/queries/entry_shrink.sql"),
        &[source.into(), backend.into(), due_at.into(), id.into(), payload.to_vec().into(), objects.into()],
    )
    .map(drop)
}

/// A parked object.
pub struct ParkedObject {
    pub id: i64,
    pub source: Option<String>,
    pub source_id: Option<i32>,
    pub backend_id: Option<i32>,
    pub locator: String,
    pub row_id: Option<String>,
    pub owns: Option<String>,
    pub shares: Option<String>,
    pub reason: String,
    pub captured_at: TimestampWithTimeZone,
    pub horizon: String,
    /// A whole segment that could not be read.
    pub payload: Option<Vec<u8>>,
    pub derived: Option<Derived>,
    /// With which object it goes.
    pub parent: Option<String>,
}

/// Parked objects: all, by id, or by source.
pub fn parked(ids: Option<Vec<i64>>, source: Option<&str>) -> Result<Vec<ParkedObject>> {
    spi::write(include_str!("../../sql/queries/parked_select.sql"), &[ids.into(), source.into()], |row| {
        Ok(ParkedObject {
            id: row.required("id")?,
            source: row.optional("source")?,
            source_id: row.optional("source_id")?,
            backend_id: row.optional("backend_id")?,
            locator: row.required("locator")?,
            row_id: row.optional("row_id")?,
            owns: row.optional("owns")?,
            shares: row.optional("shares")?,
            reason: row.required("reason")?,
            captured_at: row.required("captured_at")?,
            horizon: row.required("horizon")?,
            payload: row.optional("payload")?,
            derived: Derived::of(row)?,
            parent: row.optional("parent")?,
        })
    })
}

/// Takes objects off the list of the parked.
pub fn unpark(ids: Vec<i64>) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/parked_remove.sql"), &[ids.into()]).map(drop)
}

/// What the database knows of an object.
pub struct Known {
    pub place: String,
    pub state: String,
    pub source: Option<String>,
    pub backend: Option<String>,
    pub locator: String,
    pub detail: Option<String>,
    pub due_at: Option<TimestampWithTimeZone>,
}

/// Looks fingerprints up in the queue, among the parked and in history.
pub fn known(prints: Vec<i64>) -> Result<Vec<Known>> {
    spi::read(include_str!("../../sql/queries/explain.sql"), &[prints.into()], |row| {
        Ok(Known {
            place: row.required("place")?,
            state: row.required("state")?,
            source: row.optional("source")?,
            backend: row.optional("backend")?,
            locator: row.required("locator")?,
            detail: row.optional("detail")?,
            due_at: row.optional("due_at")?,
        })
    })
}
