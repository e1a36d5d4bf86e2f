//! What pg_stat_activity and the statistics views show of a worker.

use std::ffi::CString;

use pgrx::pg_sys;

/// Shows `doing` as the running statement.
pub fn running(doing: &str) {
    let text = CString::new(doing).unwrap_or_default();
    // SAFETY: the text is copied into shared memory during the call.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text.as_ptr()) };
}

/// Shows the worker as idle.
pub fn idle() {
    // SAFETY: a null text is allowed and keeps the last one.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null()) };
}

/// Sends table statistics: a worker's are never flushed by themselves, so autovacuum would not see our deletes.
pub fn flush_statistics() {
    // SAFETY: called outside a transaction.
    unsafe { pg_sys::pgstat_report_stat(false) };
    idle();
}
