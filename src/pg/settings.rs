//! Settings that hold for a while, whatever the session, role or database says.

use std::ffi::CStr;
use std::time::Duration;

use pgrx::pg_sys;

/// Settings that are put back when this is dropped, or by the abort of the (sub)transaction.
pub struct Settings {
    level: i32,
}

impl Settings {
    /// Only pg_catalog is searched, and values become text in one way: what runs meanwhile means the same whoever runs it.
    pub fn pinned() -> Self {
        let settings = Self::level();
        pin();
        settings
    }

    /// The planner takes an index wherever one can answer, also for what a row leads to.
    pub fn by_index() -> Self {
        let settings = Self::level();
        for way in [c"enable_seqscan", c"enable_hashjoin", c"enable_mergejoin"] {
            set_local(way, c"off");
        }
        settings
    }

    /// Pinned, for reading a little of a table that others may be busy with: it waits for no lock, and row security that
    /// would hide rows is an error. Compiling a plan would take longer than running it.
    pub fn brief() -> Self {
        let settings = Self::pinned();
        for (name, value) in [
            (c"row_security", c"off"),
            (c"lock_timeout", c"200ms"),
            (c"jit", c"off"),
            (c"max_parallel_workers_per_gather", c"0"),
        ] {
            set_local(name, value);
        }
        settings
    }

    /// What is set from here on is put back.
    pub fn level() -> Self {
        // SAFETY: the level is closed on drop, or by the abort of the (sub)transaction.
        Self { level: unsafe { pg_sys::NewGUCNestLevel() } }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // SAFETY: closes the level that this value opened; what was set in it goes.
        unsafe { pg_sys::AtEOXact_GUC(false, self.level) };
    }
}

/// Pins the same for the rest of the transaction, or of the innermost level of settings.
pub fn pin() {
    for (name, value) in [
        (c"search_path", c"pg_catalog, pg_temp"),
        (c"DateStyle", c"ISO, MDY"),
        (c"IntervalStyle", c"postgres"),
        (c"TimeZone", c"UTC"),
        (c"extra_float_digits", c"1"),
        (c"bytea_output", c"hex"),
    ] {
        set_local(name, value);
    }
}

/// The statement that is about to fail will not be logged with its error: it may hold what does not belong in a log.
pub fn hide_statement() {
    set_local(c"log_min_error_statement", c"panic");
}

/// The longest wait for a lock of a check, in milliseconds: most commands hold theirs for less.
const LONGEST_LOCK_WAIT: i32 = 500;

/// Whoever waits for this transaction while this one waits for it finds out only after deadlock_timeout: by then this one
/// has given in.
pub fn give_in_first() {
    // SAFETY: a plain read of a setting, in milliseconds.
    let half = unsafe { pg_sys::DeadlockTimeout } / 2;
    if let Ok(limit) = std::ffi::CString::new(half.clamp(1, LONGEST_LOCK_WAIT).to_string()) {
        set_local(c"lock_timeout", &limit);
    }
}

/// Sets a setting for the rest of the transaction, or of the innermost level of settings.
pub fn set_local(name: &CStr, value: &CStr) {
    // SAFETY: both strings are copied; raises for a bad name or value, which constants are not.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

/// How long the session lets a statement run; `None` is for ever.
pub fn statement_timeout() -> Option<Duration> {
    // SAFETY: a plain read of a setting's variable, on the main thread, which alone changes it.
    let limit = unsafe { pg_sys::StatementTimeout };
    u64::try_from(limit).ok().filter(|limit| *limit > 0).map(Duration::from_millis)
}
