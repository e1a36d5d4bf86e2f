//! Transactions of a worker: short, with a time limit, and an error ends the transaction instead of the process.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::{activity, lock, settings, timeout};

/// Why a transaction was rolled back.
#[derive(Debug, Clone)]
pub struct Failure {
    pub code: PgSqlErrorCode,
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (SQLSTATE {})", self.message, sqlstate(self.code))
    }
}

/// Runs `body` in a transaction of its own, on a fresh snapshot, cancelled after `limit`. `doing` is shown in
/// pg_stat_activity meanwhile. Settings of the database or role that could bend the check are put straight first.
pub fn run<R>(doing: &str, limit: Duration, body: impl FnOnce() -> crate::error::Result<R>) -> Result<R, Failure> {
    activity::running(doing);
    // SAFETY: called by a worker outside any transaction; each start is matched by a commit or an abort.
    let result = unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        PgTryBuilder::new(AssertUnwindSafe(|| {
            settings::pin();
            settings::set_local(c"row_security", c"off");
            // default_transaction_read_only and default_transaction_isolation are for sessions of the application: a
            // serializable check would make its transactions fail.
            pg_sys::XactReadOnly = false;
            pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
            settings::set_local(c"jit", c"off");
            // Sessions may wait for flights that this process has closed, and hold what it needs.
            settings::give_in_first();
            settings::set_local(c"synchronous_commit", c"local");
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            timeout::start(limit);
            let result = body();
            timeout::stop();
            match result {
                Ok(value) => {
                    pg_sys::PopActiveSnapshot();
                    pg_sys::CommitTransactionCommand();
                    Ok(value)
                }
                Err(error) => {
                    pg_sys::AbortCurrentTransaction();
                    lock::close_again();
                    Err(Failure { code: PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, message: error.to_string() })
                }
            }
        }))
        .catch_others(|cause| {
            timeout::stop();
            pg_sys::AbortCurrentTransaction();
            lock::close_again();
            let (code, message) = describe(&cause);
            Err(Failure { code, message })
        })
        .execute()
    };
    activity::flush_statistics();
    result
}

/// Shows another doing, and gives what follows its own time.
pub fn go_on(doing: &str, limit: Duration) {
    activity::running(doing);
    timeout::stop();
    timeout::start(limit);
}

/// The next transaction id: whoever is writing now has a lower one, and so has whoever has written but not ended.
pub fn next_id() -> u64 {
    // SAFETY: reads shared memory under the server's own lock.
    unsafe { pg_sys::ReadNextFullTransactionId().value }
}

/// The next transaction id, as xid8 text: whoever is writing now has a lower one.
pub fn horizon() -> String {
    next_id().to_string()
}

/// SQLSTATE and message of a caught error.
pub fn describe(cause: &CaughtError) -> (PgSqlErrorCode, String) {
    match cause {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => (report.sql_error_code(), report.message().to_owned()),
    }
}

/// The five characters of a SQLSTATE, which the server packs six bits each.
fn sqlstate(code: PgSqlErrorCode) -> String {
    let packed = code as i32;
    (0..5).map(|place| char::from(u8::try_from((packed >> (6 * place)) & 0x3f).unwrap_or_default() + b'0')).collect()
}
