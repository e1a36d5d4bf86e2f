//! A step that may fail without failing the statement it is part of.

use std::panic::{AssertUnwindSafe, UnwindSafe};

use pgrx::callbacks::{PgSubXactCallbackEvent, register_subxact_callback};
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::settings::Settings;

/// Runs `step` in a subtransaction with pinned settings. On an error everything that it did is
/// undone and the error's message comes back; a cancel or termination still goes through.
pub fn attempt<R>(step: impl FnOnce() -> R + UnwindSafe) -> Result<R, String> {
    run(step, Settings::pinned, true)
}

/// The same for a step that only reads, with settings for a brief look. It is rolled back in any case, so that it leaves
/// no lock behind, however many tables are looked at.
pub fn look<R>(step: impl FnOnce() -> R + UnwindSafe) -> Result<R, String> {
    run(step, Settings::brief, false)
}

fn run<R>(step: impl FnOnce() -> R + UnwindSafe, settings: fn() -> Settings, keeps: bool) -> Result<R, String> {
    // SAFETY: these are the calls, in the order, that the server's own procedural languages use: the context and
    // resource owner of the outer level are restored on both ways out.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        PgTryBuilder::new(AssertUnwindSafe(|| {
            let settings = settings();
            let result = step();
            drop(settings);
            if keeps {
                pg_sys::ReleaseCurrentSubTransaction();
            } else {
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
            }
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
            Ok(result)
        }))
        .catch_others(|cause| {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
            let (code, message) = super::transaction::describe(&cause);
            match code {
                PgSqlErrorCode::ERRCODE_QUERY_CANCELED | PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN => cause.rethrow(),
                _ => Err(message),
            }
        })
        .execute()
    }
}

/// The number of the current subtransaction, within its transaction.
pub fn current() -> u32 {
    // SAFETY: a plain read of the transaction's state.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}

/// Calls `step` with the number of each subtransaction that is rolled back, until the transaction ends.
pub fn on_abort(step: impl Fn(u32) + UnwindSafe + std::panic::RefUnwindSafe + 'static) {
    register_subxact_callback(PgSubXactCallbackEvent::AbortSub, move |aborted, _| step(aborted));
}
