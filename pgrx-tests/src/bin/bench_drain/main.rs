//! `make bench-drain`: how fast captured objects go, beside the programs that people delete objects with, and against
//! stubs that answer at once, after 20 ms, and only to single deletions. Interleaved rounds, medians; then the memory that
//! a long queue takes. ROUNDS, OBJECTS and BACKLOG make it shorter.

mod backlog;
mod report;
mod stub;
mod tools;
mod usage;

use std::env;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::benchmarks::{circumstances, write_section};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::store::{Program, Store};
use storage_reaper_tests::wait;

use report::Results;
use stub::Stub;
use tools::{Task, Tool};
use usage::{Meter, Usage};

/// The breaker, which would hold losses of this size, is off in every cluster of these tests.
const CONF: &str = "
max_wal_size = '8GB'
checkpoint_timeout = '1h'
autovacuum = off
";
/// A store that is not next door.
const AWAY: Duration = Duration::from_millis(20);

/// Who deletes the objects of the real store.
#[derive(Clone, Copy)]
enum Contender {
    Ours,
    Theirs(Tool),
}

const CONTENDERS: [Contender; 4] =
    [Contender::Ours, Contender::Theirs(Tool::S5cmd), Contender::Theirs(Tool::Rclone), Contender::Theirs(Tool::Script)];

fn main() -> Result<()> {
    let number =
        |name: &str, default: usize| env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default);
    let (rounds, objects) = (number("ROUNDS", 3).max(1), number("OBJECTS", 100_000).max(1000));
    let mut bench = Bench::new(objects)?;
    // The last one at a fifth of the size.
    let stubs = [
        (Stub::start(Duration::ZERO, true)?, objects),
        (Stub::start(AWAY, true)?, objects),
        (Stub::start(AWAY, false)?, objects / 5),
    ];

    let mut results = Results::default();
    for round in 0..rounds {
        // Each round begins with another one, so that none always runs first.
        for place in 0..CONTENDERS.len() {
            let index = (place + round) % CONTENDERS.len();
            eprintln!("round {} of {rounds}, store, {} of {}", round + 1, place + 1, CONTENDERS.len());
            results.of_contender[index].push(bench.against_store(CONTENDERS[index], &format!("drain{round}{index}"))?);
        }
        for place in 0..stubs.len() {
            let index = (place + round) % stubs.len();
            eprintln!("round {} of {rounds}, stubs, {} of {}", round + 1, place + 1, stubs.len());
            results.of_stub[index].push(bench.against_stub(&stubs[index].0, stubs[index].1)?);
        }
    }
    eprintln!("a backlog");
    results.backlog = Some(bench.backlog(&stubs[1].0, number("BACKLOG", 10_000_000).max(10_000))?);
    let circumstances = circumstances(bench.reaper.cluster.installation())?;
    let of_stubs = stubs.each_ref().map(|(_, objects)| *objects);
    write_section("drain", &report::report(&circumstances, rounds, objects, of_stubs, &results)?)
}

struct Bench {
    store: Arc<Store>,
    reaper: Reaper,
    keys: Vec<String>,
    scratch: tempfile::TempDir,
}

impl Bench {
    /// A table for the worker and one for the script, each with an index for its question and as many rows that stay as
    /// there will be rows that go.
    fn new(objects: usize) -> Result<Bench> {
        let store = Arc::new(Store::start(Program::SeaweedFs)?);
        let endpoint = store.endpoint();
        let mut reaper = Reaper::through(Arc::clone(&store), &endpoint, CONF)?;
        reaper.images()?;
        reaper.db.run("CREATE TABLE plain (id bigserial PRIMARY KEY, url text); CREATE INDEX ON plain (url)")?;
        for table in ["image", "plain"] {
            reaper.db.run(&format!(
                "INSERT INTO {table} (url) SELECT 'live/' || n / 1000 || '/' || n || '.jpeg' FROM generate_series(1, {objects}) n"
            ))?;
        }
        reaper.arm()?;
        let keys = (0..objects).map(|n| format!("gone/{}/{n}.jpeg", n / 1000)).collect();
        Ok(Bench { store, reaper, keys, scratch: tempfile::tempdir()? })
    }

    fn against_store(&mut self, contender: Contender, bucket: &str) -> Result<Usage> {
        let store = Arc::clone(&self.store);
        let contents = store.create_bucket(bucket)?;
        contents.put_all(&self.keys)?;
        let usage = match contender {
            Contender::Ours => self.drain(&store.endpoint(), bucket, self.keys.len())?,
            Contender::Theirs(tool) => {
                // Only the script asks, and its rows go before its time begins.
                self.fill("plain", self.keys.len())?;
                self.reaper.db.run("DELETE FROM plain WHERE url LIKE 'gone/%'")?;
                tool.delete(&Task {
                    endpoint: &store.endpoint(),
                    bucket,
                    keys: &self.keys,
                    scratch: self.scratch.path(),
                    postgres: self.reaper.cluster.directory(),
                })?
            }
        };
        // Who leaves something behind is fast, and worthless.
        let left = contents.list()?.len();
        ensure!(left == 0, "{left} of {} objects are still in {bucket}", self.keys.len());
        Ok(usage)
    }

    fn against_stub(&mut self, stub: &Stub, objects: usize) -> Result<Usage> {
        let before = stub.objects();
        let usage = self.drain(&stub.endpoint(), "stub", objects)?;
        let sent = stub.objects() - before;
        ensure!(sent >= objects, "{sent} of {objects} objects were asked for");
        Ok(usage)
    }

    /// From COMMIT of the DELETE until nothing is left in the queue. There is one backend, which goes from place to place:
    /// each one that is declared would have its part in what the worker has to think of.
    fn drain(&mut self, endpoint: &str, bucket: &str, objects: usize) -> Result<Usage> {
        let alter =
            format!("SELECT storage_reaper.alter_backend('media', endpoint => '{endpoint}', bucket => '{bucket}')");
        self.reaper.db.run(&alter)?;
        self.fill("image", objects)?;
        let worker = self.reaper.worker()?;
        let before = self.deleted()?;
        self.reaper.db.run("BEGIN; DELETE FROM image WHERE url LIKE 'gone/%'")?;
        let meter = Meter::start(worker)?;
        self.reaper.db.run("COMMIT")?;
        let db = &mut self.reaper.db;
        let drained = wait::until(wait::PATIENCE * 10, "the queue is empty", || {
            Ok(db.holds("SELECT NOT EXISTS (SELECT FROM storage_reaper.entry)")?.then_some(()))
        });
        drained.with_context(|| self.reaper.picture())?;
        let usage = meter.stop()?;
        let deleted = self.deleted()? - before;
        ensure!(deleted == i64::try_from(objects)?, "{deleted} of {objects} objects were deleted");
        Ok(usage)
    }

    /// Rows of the first keys, in a table without traces of earlier ones.
    fn fill(&mut self, table: &str, objects: usize) -> Result<()> {
        let keys = &self.keys[..objects];
        self.reaper.db.client().execute(&format!("INSERT INTO {table} (url) SELECT unnest($1::text[])"), &[&keys])?;
        // None of these can run in a transaction, so one by one.
        for table in [table, "storage_reaper.entry", "storage_reaper.flight"] {
            self.reaper.db.run(&format!("VACUUM ANALYZE {table}"))?;
        }
        self.reaper.db.run("CHECKPOINT")
    }

    fn deleted(&mut self) -> Result<i64> {
        let deleted = "SELECT coalesce(sum(objects), 0) FROM storage_reaper.outcomes WHERE outcome = 'deleted'";
        self.reaper.db.number(deleted)
    }
}
