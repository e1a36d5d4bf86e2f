//! The background worker: registration, start, and its rooms.

mod breaker;
mod circuit;
mod claim;
mod drain;
mod guard;
mod leader;
mod library;
mod offspring;
mod settlement;

use std::time::{Duration, Instant};

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, DynamicBackgroundWorker};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::pg::wait;
use crate::store::catalog;

/// After an error the postmaster starts the worker again; also how it waits for its database to be created.
const RESTART: Duration = Duration::from_secs(5);
/// A new worker leads within milliseconds, unless the server is very busy.
const LEADS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

fn builder(kind: &str, function: &str, restart: Option<Duration>) -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new(kind)
        .set_type(kind)
        .set_library("storage_reaper")
        .set_function(function)
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(restart)
}

/// Registers the preloaded worker; only while the postmaster loads libraries.
pub fn register() {
    builder("storage_reaper worker", "storage_reaper_worker", Some(RESTART)).load();
}

/// What became of a start.
pub enum Start {
    Running(i32),
    NoSlot,
    Stopped,
}

/// Starts a worker for the current database, unless one runs already.
pub fn start_dynamic() -> Start {
    if let Ok(Some(pid)) = catalog::worker_pid() {
        return Start::Running(pid);
    }
    // Not restarted: its database may be dropped, and then nobody could tell the postmaster to stop trying.
    let worker = builder("storage_reaper dynamic worker", "storage_reaper_dynamic_worker", None)
        .set_argument(wait::current_database().into_datum())
        .set_notify_pid(wait::current_pid());
    let Ok(worker) = worker.load_dynamic() else { return Start::NoSlot };
    match worker.wait_for_startup() {
        Ok(pid) => until_it_leads(&worker, pid),
        Err(_) => Start::Stopped,
    }
}

/// Waits until the new worker, or one that was quicker, has become the leader: who calls `start_worker()` again right
/// away or reads `status` then sees it. Nothing tells of that moment, so it is looked for.
fn until_it_leads(worker: &DynamicBackgroundWorker, pid: i32) -> Start {
    let deadline = Instant::now() + LEADS_WITHIN;
    while Instant::now() < deadline {
        if let Ok(Some(leader)) = catalog::worker_pid() {
            return Start::Running(leader);
        }
        if worker.pid().is_err() {
            return Start::Stopped;
        }
        wait::pause(LOOK_EVERY);
    }
    Start::Running(pid)
}

/// Main function of the preloaded worker.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn storage_reaper_worker(_argument: pg_sys::Datum) {
    wait::take_signals();
    let Some(database) = crate::guc::database() else { return };
    BackgroundWorker::connect_worker_to_spi(Some(&database), None);
    leader::serve();
}

/// Main function of a worker that `start_worker()` started; the argument is its database.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn storage_reaper_dynamic_worker(argument: pg_sys::Datum) {
    wait::take_signals();
    wait::connect(pg_sys::Oid::from(u32::try_from(argument.value()).unwrap_or_default()));
    leader::serve();
}
