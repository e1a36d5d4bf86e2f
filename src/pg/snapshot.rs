//! Queries that only read, and the snapshot that they see.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString};

use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;

/// What a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// All that is committed now: triggers and commands act on the catalog as it is, and so must what they read of the
    /// extension's own tables.
    Latest,
    /// What the transaction saw at its start, the same for every query in it.
    Transaction,
}

/// Runs a step on a snapshot that is newer than every lock that the transaction has: what TRUNCATE or a rewrite has put into
/// a table is not seen by an older one.
pub fn renewed<R>(step: impl FnOnce() -> R) -> R {
    // SAFETY: an error pops the snapshot with the transaction.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = step();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Opens a cursor over a query that only reads. Call it within an SPI connection, which closes the cursor at its end.
/// Returns the cursor's name.
pub fn open(query: &str, arguments: &[DatumWithOid<'_>], snapshot: Snapshot) -> Option<String> {
    let mut types: Vec<_> = arguments.iter().map(DatumWithOid::oid).collect();
    let given = arguments.iter().map(|argument| argument.datum().map(|datum| datum.sans_lifetime()));
    let mut values: Vec<_> = given.clone().map(|datum| datum.unwrap_or(pg_sys::Datum::from(0_usize))).collect();
    let nulls: Vec<_> = given.map(|datum| if datum.is_some() { b' ' } else { b'n' } as std::ffi::c_char).collect();
    let plan = plan(query, &mut types)?;
    // SAFETY: within an SPI connection by contract; the arrays have one element for each argument. The portal keeps the
    // snapshot; an error pops it with the (sub)transaction.
    unsafe {
        pg_sys::PushActiveSnapshot(match snapshot {
            Snapshot::Latest => pg_sys::GetLatestSnapshot(),
            Snapshot::Transaction => pg_sys::GetActiveSnapshot(),
        });
        let portal = pg_sys::SPI_cursor_open(std::ptr::null(), plan, values.as_mut_ptr(), nulls.as_ptr(), true);
        pg_sys::PopActiveSnapshot();
        Some(CStr::from_ptr((*portal).name).to_string_lossy().into_owned())
    }
}

/// Frees what was fetched last; otherwise it stays until the SPI connection ends. Nothing of it may be used any more.
pub fn free_batch() {
    // SAFETY: SPI itself keeps the pointer to its last result, or null, and forgets a table that is freed.
    unsafe {
        pg_sys::SPI_freetuptable(pg_sys::SPI_tuptable);
    }
}

thread_local! {
    /// Plans of statements that are run again and again, by their text; the server replans what has changed.
    static PLANS: RefCell<HashMap<String, pg_sys::SPIPlanPtr>> = RefCell::new(HashMap::new());
}

/// Texts that are remembered: the fixed statements, and those of some hundred references.
const REMEMBERED: usize = 512;

fn plan(query: &str, types: &mut [pg_sys::Oid]) -> Option<pg_sys::SPIPlanPtr> {
    if let Some(known) = PLANS.with_borrow(|plans| plans.get(query).copied()) {
        return Some(known);
    }
    let text = CString::new(query).ok()?;
    // SAFETY: within an SPI connection; a kept plan lives until the session ends.
    unsafe {
        let plan = pg_sys::SPI_prepare(text.as_ptr(), i32::try_from(types.len()).ok()?, types.as_mut_ptr());
        if plan.is_null() {
            return None;
        }
        if PLANS.with_borrow(HashMap::len) < REMEMBERED && pg_sys::SPI_keepplan(plan) == 0 {
            PLANS.with_borrow_mut(|plans| plans.insert(query.to_owned(), plan));
        }
        Some(plan)
    }
}
