//! The life of a worker process between its transactions.

use std::os::fd::RawFd;
use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::pg_sys;
use pgrx::prelude::*;

/// Takes over signals: SIGTERM interrupts what runs, as in a session; SIGHUP reloads at the next wait.
pub fn take_signals() {
    // SAFETY: `die` is the server's own handler; installed before signals are unblocked.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(on_terminate));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(pg_sys::SIGTERM as i32, Some(on_terminate));
    }
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
}

/// A signal handler may not unwind, and `die` does not: it sets flags and the latch.
unsafe extern "C-unwind" fn on_terminate(signal: i32) {
    // SAFETY: the server's own handler, called as the server would.
    unsafe { pg_sys::die(signal) };
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// Somebody set the latch: a commit, a call of wake(), a signal.
    pub by_latch: bool,
    /// The configuration was reloaded.
    pub reloaded: bool,
}

/// Sleeps until the latch is set, `wakeup` is readable or `limit` is over; then handles interrupts (which may end the
/// process) and reloads the configuration if asked to.
pub fn wait(wakeup: RawFd, limit: Duration) -> Woken {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH | pg_sys::WL_SOCKET_READABLE;
    let milliseconds = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX).max(1);
    let was_set;
    // SAFETY: the worker's own latch and an open descriptor.
    let happened = unsafe {
        let happened = pg_sys::WaitLatchOrSocket(
            pg_sys::MyLatch,
            i32::try_from(events).unwrap_or_default(),
            wakeup,
            milliseconds,
            pg_sys::PG_WAIT_EXTENSION,
        );
        // Whoever sets the latch between the wait and its reset has been heard as well.
        was_set = (*pg_sys::MyLatch).is_set != 0;
        pg_sys::ResetLatch(pg_sys::MyLatch);
        // A cancel that comes while nothing runs has nothing to cancel, as in a session.
        pg_sys::QueryCancelPending = 0;
        happened
    };
    check_for_interrupts!();
    let reloaded = BackgroundWorker::sighup_received();
    if reloaded {
        reload();
    }
    Woken { by_latch: was_set || happened.cast_unsigned() & pg_sys::WL_LATCH_SET != 0, reloaded }
}

/// Waits in a session, which can be cancelled meanwhile.
pub fn pause(limit: Duration) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    let milliseconds = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX).max(1);
    // SAFETY: the session's own latch.
    unsafe {
        let events = i32::try_from(events).unwrap_or_default();
        pg_sys::WaitLatch(pg_sys::MyLatch, events, milliseconds, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
    check_for_interrupts!();
}

/// Reads the configuration files.
pub fn reload() {
    // SAFETY: outside a transaction, as the server's own loops do it.
    unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
}

/// Connects the worker to a database by its oid, as the bootstrap superuser.
pub fn connect(database: pg_sys::Oid) {
    // SAFETY: called once by a background worker before anything else; raises FATAL when it cannot connect.
    unsafe { pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0) };
}

/// The database that this session is connected to.
pub fn current_database() -> pg_sys::Oid {
    // SAFETY: a plain read.
    unsafe { pg_sys::MyDatabaseId }
}

/// This process's id.
pub fn current_pid() -> i32 {
    // SAFETY: a plain read.
    unsafe { pg_sys::MyProcPid }
}

/// Ends the process so that the postmaster starts it again after its restart time.
pub fn exit_for_restart() -> ! {
    // SAFETY: proc_exit runs the exit callbacks and does not return; exit code 1 asks for a restart.
    unsafe { pg_sys::proc_exit(1) };
    #[allow(unreachable_code, reason = "only some majors' bindings know that proc_exit never returns")]
    {
        std::process::abort()
    }
}
