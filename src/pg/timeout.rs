//! The statement timeout, armed by hand: a background worker has no main loop of a session that would do it.

use std::time::Duration;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

unsafe extern "C-unwind" {
    /// utils/timeout.h, which pgrx does not bind.
    fn enable_timeout_after(id: std::ffi::c_int, delay_ms: std::ffi::c_int);
    fn disable_timeout(id: std::ffi::c_int, keep_indicator: bool);
}

/// STATEMENT_TIMEOUT of enum TimeoutId: the fourth, on every supported major.
const STATEMENT_TIMEOUT: std::ffi::c_int = 3;

/// Cancels the running statement after `limit`, as statement_timeout would.
pub fn start(limit: Duration) {
    let delay = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: InitPostgres registered the timeout's handler when the worker connected.
    unsafe { pg_guard_ffi_boundary(|| enable_timeout_after(STATEMENT_TIMEOUT, delay)) };
}

/// Takes the limit off.
pub fn stop() {
    // SAFETY: harmless when it is not running.
    unsafe { pg_guard_ffi_boundary(|| disable_timeout(STATEMENT_TIMEOUT, false)) };
}
