//! The writer's side of the fence: flights as their rows show them, waiting for one, and an error with a code of its own.

use std::ffi::{CString, c_char};
use std::time::Duration;

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::lock;
use super::relation::Relation;
use super::settings::{Settings, set_local};
use super::tuples::{Row, Tuples};

/// A row of storage_reaper.flight, as it is now.
pub struct FlightRow {
    pub id: i64,
    /// Left out when the caller has them.
    pub marks: Option<Vec<u8>>,
    pub is_sent: bool,
    pub is_ended: bool,
    /// Also for the snapshot of the running statement.
    pub was_ended: bool,
    pub gone: Vec<u8>,
    /// Empty when it is over.
    pub unclear: Vec<u8>,
}

/// Columns of storage_reaper.flight in their order; an upgrade may only add columns behind them.
mod column {
    pub const ID: i16 = 1;
    pub const MARKS: i16 = 3;
    pub const SENT_AT: i16 = 4;
    pub const ENDED_AT: i16 = 5;
    pub const GONE: i16 = 7;
    pub const UNCLEAR: i16 = 8;
    pub const UNCLEAR_UNTIL: i16 = 9;
}

/// All flights that are committed now, whatever snapshot the transaction has.
///
/// One that is open, and whose requests left more than `over_after` before the statement began, counts as ended: its leader
/// is gone, and no store takes its requests any more.
pub fn flights(over_after: Duration, is_known: &dyn Fn(i64) -> bool) -> Vec<FlightRow> {
    let Some(relation) = Relation::open_own(c"flight") else { return Vec::new() };
    let mut found = Vec::new();
    let mut rows = Tuples::of_table(&relation);
    while let Some(row) = rows.next() {
        found.push(read(&row, over_after, is_known));
    }
    drop(rows);
    if found.iter().any(|row| row.is_ended) {
        let mut rows = Tuples::of_table_for_statement(&relation);
        while let Some(row) = rows.next() {
            let id = number(&row, column::ID);
            if row.attribute(column::ENDED_AT).is_some() {
                found.iter_mut().filter(|flight| flight.id == id).for_each(|flight| flight.was_ended = true);
            }
        }
    }
    found
}

fn read(row: &Row<'_>, over_after: Duration, is_known: &dyn Fn(i64) -> bool) -> FlightRow {
    let id = number(row, column::ID);
    // When the statement began, not now: it may have written long ago.
    // SAFETY: a plain read.
    let began = unsafe { pg_sys::GetCurrentStatementStartTimestamp() };
    let is_unclear = row.attribute(column::UNCLEAR_UNTIL).is_some() && number(row, column::UNCLEAR_UNTIL) > began;
    let is_sent = row.attribute(column::SENT_AT).is_some();
    let over_us = i64::try_from(over_after.as_micros()).unwrap_or(i64::MAX);
    let is_over = is_sent && number(row, column::SENT_AT).saturating_add(over_us) < began;
    FlightRow {
        id,
        marks: (!is_known(id)).then(|| bytes(row, column::MARKS)),
        is_sent,
        is_ended: is_over || row.attribute(column::ENDED_AT).is_some(),
        was_ended: is_over,
        gone: bytes(row, column::GONE),
        unclear: if is_unclear { bytes(row, column::UNCLEAR) } else { Vec::new() },
    }
}

/// A bigint or timestamp; zero for NULL.
fn number(row: &Row<'_>, column: i16) -> i64 {
    row.attribute(column).map_or(0, |datum| datum.value().cast_signed() as i64)
}

fn bytes(row: &Row<'_>, column: i16) -> Vec<u8> {
    // SAFETY: the column is of type bytea.
    row.attribute(column).and_then(|datum| unsafe { Vec::<u8>::from_datum(datum, false) }).unwrap_or_default()
}

/// Joins a flight until the transaction ends; `false` when it was still closed after `limit`, or after the session's own
/// lock_timeout. The caller must then raise an error.
pub fn join(id: i64, limit: Duration) -> bool {
    // SAFETY: a plain read of a setting, in milliseconds; 0 means none.
    let own = u64::try_from(unsafe { pg_sys::LockTimeout }).unwrap_or_default();
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
    let limit = if own > 0 { limit.min(own) } else { limit };
    let _settings = Settings::level();
    if let Ok(limit) = CString::new(limit.to_string()) {
        set_local(c"lock_timeout", &limit);
    }
    PgTryBuilder::new(|| {
        lock::join_flight(id);
        true
    })
    .catch_when(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, |_| false)
    .execute()
}

unsafe extern "C-unwind" {
    /// Without pgrx's guard, which knows the server's own codes only.
    #[link_name = "ThrowErrorData"]
    fn throw(data: *mut pg_sys::ErrorData);
}

/// An error that is ready to be raised.
pub struct Raised(*mut pg_sys::ErrorData);

impl Raised {
    /// `code` is a SQLSTATE of five characters.
    pub fn new(code: [u8; 5], message: &str, detail: &str, hint: &str) -> Self {
        // SAFETY: the structure is plain data, and zero is valid for each of its fields; it lives until the transaction
        // is aborted, which is what it is for.
        unsafe {
            let data: *mut pg_sys::ErrorData = pg_sys::palloc0(size_of::<pg_sys::ErrorData>()).cast();
            (*data).elevel = PgLogLevel::ERROR as i32;
            let packed =
                code.iter().rev().fold(0, |sum, letter| sum << 6 | (i32::from(*letter) - i32::from(b'0')) & 0x3f);
            (*data).sqlerrcode = packed;
            (*data).message = text(message);
            (*data).detail = text(detail);
            (*data).hint = text(hint);
            (*data).assoc_context = pg_sys::CurrentMemoryContext;
            Self(data)
        }
    }

    /// For a frame that owns nothing, and that no Rust code calls.
    pub fn into_raw(self) -> *mut pg_sys::ErrorData {
        self.0
    }
}

fn text(text: &str) -> *mut c_char {
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    // SAFETY: a copy in the server's memory.
    unsafe { pg_sys::pstrdup(text.as_ptr()) }
}

/// Raises the error by jumping out of the caller.
///
/// # Safety
/// No frame between here and the server's function manager may own anything.
pub unsafe fn raise(data: *mut pg_sys::ErrorData) {
    // SAFETY: by contract; the data was made by `Raised`.
    unsafe { throw(data) }
}
