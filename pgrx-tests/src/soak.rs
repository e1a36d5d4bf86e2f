//! Clients that change rows at random for a while, with a worker that is killed and a store that fails, and the question
//! at the end: is every object that a row names there, and every other one gone?
//!
//! Every key is used once: what a transaction newly names is newly stored, or named by a row that the transaction holds
//! locked, or captured after the transaction began to write. Other ways to name an object again race with its deletion.

mod client;
mod disturbance;
mod operation;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::{self, Display};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;

use crate::cluster::Cluster;
use crate::database::Database;
use crate::proxy::Proxy;
use crate::scenario::Reaper;
use crate::store::{Contents, Store};
use crate::wait;

use client::Client;

/// How long, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long clients change rows.
    pub length: Duration,
    /// Decides what each client does, and when what fails.
    pub seed: u64,
    /// How many clients.
    pub clients: usize,
}

/// A store that is impatient enough to be waited for, and attempts enough to never park what only had bad luck.
const CONF: &str = "
storage_reaper.request_timeout = '2s'
storage_reaper.retry_base = '1s'
storage_reaper.retry_max = '1s'
storage_reaper.max_attempts = 1000
storage_reaper.batch_size = 10
deadlock_timeout = '100ms'
";

/// `image` and `album` own objects, `page` only refers to them.
const TABLES: &str = "
SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media');
CREATE TABLE image (id bigserial PRIMARY KEY, url text);
CREATE INDEX ON image (storage_reaper.fingerprint(url));
SELECT storage_reaper.attach('image', 'url', backend => 'media', fence => true);
CREATE TABLE album (id bigserial PRIMARY KEY, urls text[]);
CREATE INDEX ON album USING gin (storage_reaper.fingerprints(urls));
SELECT storage_reaper.attach('album', 'urls', backend => 'media', fence => true);
CREATE TABLE page (id bigserial PRIMARY KEY, url text);
CREATE INDEX ON page (storage_reaper.fingerprint(url));
SELECT storage_reaper.protect('page', 'url', backend => 'media', fence => true);
CREATE TABLE mark (id bigserial PRIMARY KEY);
SELECT storage_reaper.arm()";

/// Every text that names an object.
const NAMED: &str = "SELECT url FROM image UNION ALL SELECT unnest(urls) FROM album UNION ALL SELECT url FROM page";

/// What was kept because a page named it.
const KEPT_BY_PAGES: &str =
    "SELECT locator FROM storage_reaper.history WHERE reason = 'referenced by reference page.url'";

/// What clients share.
struct Soak<'a> {
    cluster: &'a Cluster,
    store: &'a Store,
    bucket: &'a str,
    until: Instant,
    ledger: Mutex<Ledger>,
}

/// What has happened.
#[derive(Default)]
struct Ledger {
    /// Transactions by what they did: committed, rolled back on purpose, failed.
    done: BTreeMap<&'static str, [u64; 3]>,
    /// What was done to the worker.
    disturbances: BTreeMap<&'static str, u64>,
    /// Keys that are stored, while nobody knows that a row that names them was ever committed.
    loose: HashSet<String>,
    stored: u64,
    /// Keys that a page named which was deleted.
    left_by_pages: HashSet<String>,
    /// What should not be, by key.
    violations: BTreeMap<String, String>,
}

/// How it went.
pub struct Verdict {
    ledger: Ledger,
    plan: Plan,
    requests: u64,
    faults: BTreeMap<String, u64>,
    outcomes: Vec<String>,
    named: usize,
    /// How long the queue took to empty when nothing failed any more.
    emptied: Duration,
    violations: Vec<String>,
    /// Objects that a protecting row kept which went later: nobody gives those up.
    left: usize,
}

impl Verdict {
    /// What should not have happened.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }
}

/// Runs it, and looks.
pub fn run(plan: Plan) -> Result<Verdict> {
    let store = Store::shared()?;
    let proxy = Proxy::start(&store.endpoint(), plan.seed)?;
    let mut reaper = Reaper::through(store, &proxy.endpoint(), CONF)?;
    reaper.db.run(TABLES)?;
    let ledger = change_rows(&reaper, plan)?;
    proxy.heal();
    let mut verdict = wait_and_look(&mut reaper, ledger, plan).with_context(|| reaper.picture())?;
    (verdict.requests, verdict.faults) = proxy.tally();
    Ok(verdict)
}

fn change_rows(reaper: &Reaper, plan: Plan) -> Result<Ledger> {
    let soak = Soak {
        cluster: &reaper.cluster,
        store: reaper.store()?,
        bucket: reaper.bucket_name(),
        until: Instant::now() + plan.length,
        ledger: Mutex::default(),
    };
    let mut rng = Rng::with_seed(plan.seed);
    thread::scope(|scope| {
        let disturber = (rng.fork(), &soak);
        let mut threads = vec![scope.spawn(move || disturbance::disturb(disturber.1, disturber.0))];
        for name in 0..plan.clients {
            let (rng, soak) = (rng.fork(), &soak);
            threads.push(scope.spawn(move || Client::new(soak, name, rng)?.run()));
        }
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a thread of the soak died"),
        })
    })?;
    Ok(soak.ledger.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Nothing fails any more: the queue empties, and then every object has to be where its rows say.
fn wait_and_look(reaper: &mut Reaper, mut ledger: Ledger, plan: Plan) -> Result<Verdict> {
    let begun = Instant::now();
    // The worker may just have been killed: whoever asks then is asked to come back.
    let cluster = &reaper.cluster;
    let answer = |sql: &str| cluster.database("shop").and_then(|mut db| db.row(sql)).ok();
    wait::until(wait::PATIENCE, "the server answers", || {
        // Held backends are tried at once.
        Ok(answer("SELECT storage_reaper.resume(), pg_reload_conf()"))
    })?;
    wait::until(wait::PATIENCE * 4, "the queue is empty", || {
        Ok(answer("SELECT count(*) = 0 FROM storage_reaper.entry").filter(|is_empty| is_empty == "t"))
    })?;
    let emptied = begun.elapsed();
    reaper.db = cluster.database("shop")?;

    let named = keys(&mut reaper.db, NAMED)?;
    let kept_by_pages = keys(&mut reaper.db, KEPT_BY_PAGES)?;
    let stored = reaper.bucket()?.list()?;
    let mut wrong = std::mem::take(&mut ledger.violations);
    for key in named.difference(&stored) {
        wrong.entry(key.clone()).or_insert_with(|| "is gone, and a row names it".to_owned());
    }
    let mut left = 0;
    for key in stored.difference(&named).filter(|key| !ledger.loose.contains(*key)) {
        if ledger.left_by_pages.contains(key) && kept_by_pages.contains(key) {
            left += 1;
        } else {
            wrong.entry(key.clone()).or_insert_with(|| "is there, and no row names it".to_owned());
        }
    }
    let tell = |(key, what): (&String, &String)| Ok(format!("{key} {what}: {:#?}", story(&mut reaper.db, key)?));
    let violations = wrong.iter().map(tell).collect::<Result<Vec<_>>>()?;
    let outcomes = reaper.tally()?;
    let (requests, faults) = (0, BTreeMap::new());
    Ok(Verdict { ledger, plan, requests, faults, outcomes, named: named.len(), emptied, violations, left })
}

/// The keys of all texts that a query finds.
fn keys(db: &mut Database, sql: &str) -> Result<BTreeSet<String>> {
    Ok(db.rows(sql)?.iter().map(|url| client::key_of(url).to_owned()).collect())
}

/// What history tells of a key.
fn story(db: &mut Database, key: &str) -> Result<Vec<String>> {
    db.rows(&format!(
        "SELECT settled_at, captured_at, source, outcome, reason, locator FROM storage_reaper.history
         WHERE locator LIKE '%{key}%' ORDER BY settled_at"
    ))
}

impl Soak<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn contents(&self) -> Result<Contents<'_>> {
        self.store.bucket(self.bucket)
    }

    /// A connection as soon as there is one: the server may be starting again.
    fn connect(&self) -> Result<postgres::Client> {
        wait::until(wait::PATIENCE, "the server accepts a client", || Ok(self.cluster.connect("shop").ok()))
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { ledger, plan, .. } = self;
        let sum = |place: usize| ledger.done.values().map(|counts| counts[place]).sum::<u64>();
        writeln!(f, "soak: seed {}, {} clients, {:?}", plan.seed, plan.clients, plan.length)?;
        writeln!(f, "soak: {} operations committed, {} rolled back, {} failed", sum(0), sum(1), sum(2))?;
        for (what, [committed, back, failed]) in &ledger.done {
            writeln!(f, "soak:   {what}: {committed} committed, {back} rolled back, {failed} failed")?;
        }
        writeln!(f, "soak: the worker: {:?}", ledger.disturbances)?;
        writeln!(
            f,
            "soak: {} requests, {} faults: {:?}",
            self.requests,
            self.faults.values().sum::<u64>(),
            self.faults
        )?;
        writeln!(f, "soak: {} objects stored, {:?}", ledger.stored, self.outcomes)?;
        writeln!(
            f,
            "soak: {} named at the end, {} left by protecting rows, {} never named",
            self.named,
            self.left,
            ledger.loose.len()
        )?;
        write!(f, "soak: queue empty after {:.1?}, {} violations", self.emptied, self.violations.len())
    }
}
