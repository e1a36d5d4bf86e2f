//! What the worker's memory does while millions of objects wait.

use std::cell::Cell;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::wait;

use super::Bench;
use super::stub::Stub;
use super::usage::{Meter, private_of};

/// Objects that one statement queues.
const AT_ONCE: usize = 100_000;

/// What was seen.
pub struct Backlog {
    /// Objects that waited when it began.
    pub objects: usize,
    /// Of these, how many were deleted while it was looked at.
    pub deleted: usize,
    /// The most memory of its own that the worker was seen to have, in MiB.
    pub private: f64,
    /// The same with what it shares with other processes: programs and shared buffers.
    pub peak: f64,
}

impl Bench {
    /// Lets a part of a backlog go and looks at the worker meanwhile.
    pub fn backlog(&mut self, stub: &Stub, objects: usize) -> Result<Backlog> {
        let db = &mut self.reaper.db;
        db.run("SELECT storage_reaper.pause()")?;
        db.run(&format!(
            "SELECT storage_reaper.alter_backend('media', endpoint => '{}', bucket => 'stub')",
            stub.endpoint()
        ))?;
        for first in (0..objects).step_by(AT_ONCE) {
            let last = objects.min(first + AT_ONCE) - 1;
            db.run(&format!(
                "SELECT storage_reaper.enqueue(array_agg('backlog/' || n / 1000 || '/' || n || '.jpeg'), backend => 'media')
                 FROM generate_series({first}, {last}) n"
            ))?;
        }
        db.run("VACUUM ANALYZE storage_reaper.entry")?;
        let (worker, before) = (i64::from(self.reaper.worker()?), self.deleted()?);
        let wanted = i64::try_from(objects / 10)?;
        let meter = Meter::start(i32::try_from(worker)?)?;
        self.reaper.db.run("SELECT storage_reaper.resume()")?;
        let private = Cell::new(0.0_f64);
        wait::until(wait::PATIENCE * 10, "a tenth of the backlog is gone", || {
            private.set(private.get().max(private_of(worker)?));
            Ok((self.deleted()? - before >= wanted).then_some(()))
        })?;
        let peak = meter.stop()?.peak;
        self.reaper.db.run("SELECT storage_reaper.pause()")?;
        let deleted = usize::try_from(self.deleted()? - before).context("fewer than before")?;
        ensure!(deleted < objects, "nothing was left to wait");
        Ok(Backlog { objects, deleted, private: private.get(), peak })
    }
}
