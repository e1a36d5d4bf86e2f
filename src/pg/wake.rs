//! Wakes the worker once, at commit, never on rollback.

use std::cell::Cell;
use std::ffi::c_void;

use pgrx::pg_sys;
use pgrx::prelude::*;

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    static WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Asks for one wake-up when the current transaction commits.
pub fn at_commit() {
    WANTED.set(true);
    if !REGISTERED.replace(true) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(on_transaction_end), std::ptr::null_mut()) };
    }
}

/// Wakes the worker now; for what is committed already.
pub fn now() {
    super::shared::wake_workers();
}

/// Nothing in here may raise: the transaction has ended.
#[pg_guard]
unsafe extern "C-unwind" fn on_transaction_end(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    match event {
        pg_sys::XactEvent::XACT_EVENT_COMMIT if WANTED.replace(false) => now(),
        pg_sys::XactEvent::XACT_EVENT_ABORT | pg_sys::XactEvent::XACT_EVENT_PREPARE => WANTED.set(false),
        _ => {}
    }
}
