//! The two grounds of the scenarios: a database in which only capture matters, and a whole reaper with a store.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};

use crate::account::Account;
use crate::cluster::{Cluster, PRELOADED, SHOP};
use crate::database::Database;
use crate::fault::FaultServer;
use crate::store::{ACCESS_KEY, Contents, Program, SECRET_KEY, Store};
use crate::wait;

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A name that no other scenario of this test binary has.
pub fn unique(what: &str) -> String {
    format!("{what}{}", SERIAL.fetch_add(1, Ordering::Relaxed))
}

/// A database of its own in a preloaded cluster that many scenarios share. Its worker serves another database,
/// so what is captured stays in the queue to be looked at.
pub struct Bed {
    /// The shared cluster.
    pub cluster: Arc<Cluster>,
    /// A superuser's connection to the database.
    pub db: Database,
    /// The database's name.
    pub name: String,
}

impl Bed {
    /// Makes the database, with the extension and the backend `media`, to which nothing is ever sent.
    pub fn new() -> Result<Bed> {
        let mut bed = Bed::bare()?;
        bed.db.run(
            "CREATE EXTENSION storage_reaper;
             SELECT storage_reaper.create_backend('media', kind => 'generic', endpoint => 'https://s3.example.test',
                                                  bucket => 'media', credentials => 'profile:media')",
        )?;
        Ok(bed)
    }

    /// Makes the database only.
    pub fn bare() -> Result<Bed> {
        let cluster = shared_cluster()?;
        let name = unique("bed");
        // Another scenario may just have crashed the server that we share; that is that scenario's failure, not ours.
        let mut postgres =
            wait::until(wait::PATIENCE, "the shared cluster answers", || Ok(cluster.database("postgres").ok()))?;
        postgres.run(&format!("CREATE DATABASE {name}"))?;
        let db = cluster.database(&name)?;
        Ok(Bed { cluster, db, name })
    }

    /// The locators in the queue, sorted, each as often as it was captured.
    pub fn captured(&mut self) -> Result<Vec<String>> {
        self.db.rows("SELECT locator FROM storage_reaper.queue ORDER BY locator COLLATE \"C\"")
    }

    /// A table `image (id, url)` that is attached, with one row per url.
    pub fn images(&mut self, urls: &[&str]) -> Result<()> {
        self.db.run("CREATE TABLE image (id bigint PRIMARY KEY, url text); CREATE INDEX ON image (storage_reaper.fingerprint(url))")?;
        self.fill("image", urls)?;
        self.attach("'image', 'url'")
    }

    /// Rows (1, first), (2, second), … in a table whose columns are (id, locator).
    pub fn fill(&mut self, table: &str, locators: &[&str]) -> Result<()> {
        let mut rows = String::new();
        for (index, locator) in locators.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(rows, "{comma}({}, '{locator}')", index + 1)?;
        }
        self.db.run(&format!("INSERT INTO {table} VALUES {rows}"))
    }

    /// Calls attach with these arguments and the backend `media`; small tables may be scanned.
    pub fn attach(&mut self, arguments: &str) -> Result<()> {
        self.db.run(&format!("SELECT storage_reaper.attach({arguments}, backend => 'media', allow_scan => true)"))
    }

    /// A login role of this database that may do only what is granted here; returns its name.
    pub fn role(&mut self, grants: &str) -> Result<String> {
        let role = unique("app");
        self.db.run(&format!("CREATE ROLE {role} LOGIN; {}", grants.replace("{role}", &role)))?;
        Ok(role)
    }

    /// A connection as somebody else.
    pub fn connect_as(&self, role: &str) -> Result<Database> {
        Ok(Database::over(self.cluster.connect_as(&self.name, role)?))
    }

    /// One more connection as superuser.
    pub fn connect(&self) -> Result<Database> {
        self.cluster.database(&self.name)
    }
}

fn shared_cluster() -> Result<Arc<Cluster>> {
    static SHARED: Mutex<Option<Arc<Cluster>>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if shared.is_none() {
        let conf = "shared_preload_libraries = 'storage_reaper'\nstorage_reaper.database = 'postgres'\n";
        *shared = Some(Arc::new(Cluster::start(conf)?));
    }
    shared.clone().context("the shared cluster is missing")
}

/// A cluster of its own whose preloaded worker serves the database `shop`, and a bucket in a real store.
pub struct Reaper {
    /// The cluster.
    pub cluster: Cluster,
    /// A superuser's connection to `shop`.
    pub db: Database,
    store: Option<Arc<Store>>,
    bucket: String,
}

impl Reaper {
    /// With the store that the test binary shares.
    pub fn new() -> Result<Reaper> {
        Reaper::over(Store::shared()?, "")
    }

    /// The same with more settings.
    pub fn with(conf: &str) -> Result<Reaper> {
        Reaper::over(Store::shared()?, conf)
    }

    /// With a store of its own, for scenarios that take it away.
    pub fn with_own_store(conf: &str) -> Result<Reaper> {
        Reaper::over(Arc::new(Store::start(Program::chosen()?)?), conf)
    }

    fn over(store: Arc<Store>, conf: &str) -> Result<Reaper> {
        let endpoint = store.endpoint();
        Reaper::through(store, &endpoint, conf)
    }

    /// With a store that the worker reaches through something else.
    pub fn through(store: Arc<Store>, endpoint: &str, conf: &str) -> Result<Reaper> {
        let (bucket, kind) = (unique("bucket"), store.program().kind());
        store.create_bucket(&bucket)?;
        Reaper::begin(Some(store), bucket, endpoint, kind, conf)
    }

    /// With a scripted server instead of a store.
    pub fn facing(server: &FaultServer, conf: &str) -> Result<Reaper> {
        // Of a kind that takes keys as they are.
        Reaper::begin(None, "bucket".to_owned(), &server.endpoint(), "ceph", conf)
    }

    /// A scripted server, and a cluster that faces it, armed, with an empty table of images.
    pub fn armed_facing(conf: &str) -> Result<(FaultServer, Reaper)> {
        let server = FaultServer::start()?;
        let mut reaper = Reaper::facing(&server, conf)?;
        reaper.images()?;
        reaper.arm()?;
        Ok((server, reaper))
    }

    fn begin(store: Option<Arc<Store>>, bucket: String, endpoint: &str, kind: &str, conf: &str) -> Result<Reaper> {
        let cluster = Cluster::start(&format!("{PRELOADED}{conf}"))?;
        write_credentials(&cluster, SECRET_KEY)?;
        let db = cluster.database(SHOP)?;
        let mut reaper = Reaper { cluster, db, store, bucket };
        reaper.db.run("CREATE EXTENSION storage_reaper")?;
        reaper.create_backend("media", kind, endpoint)?;
        Ok(reaper)
    }

    /// Declares a backend over this scenario's bucket.
    pub fn create_backend(&mut self, name: &str, kind: &str, endpoint: &str) -> Result<()> {
        self.db.run(&format!(
            "SELECT storage_reaper.create_backend('{name}', kind => '{kind}', endpoint => '{endpoint}',
                                                  bucket => '{}', credentials => 'profile:media')",
            self.bucket
        ))
    }

    /// Replaces the secret that the worker reads.
    pub fn write_secret(&self, secret: &str) -> Result<()> {
        write_credentials(&self.cluster, secret)
    }

    /// The store.
    pub fn store(&self) -> Result<&Store> {
        self.store.as_deref().context("this scenario faces a scripted server, not a store")
    }

    /// The name of this scenario's bucket.
    pub fn bucket_name(&self) -> &str {
        &self.bucket
    }

    /// This scenario's bucket.
    pub fn bucket(&self) -> Result<Contents<'_>> {
        self.store()?.bucket(&self.bucket)
    }

    /// What the store lists, sorted.
    pub fn objects(&self) -> Result<Vec<String>> {
        Ok(self.bucket()?.list()?.into_iter().collect())
    }

    /// An empty table `image (id, url)`, attached; not armed yet.
    pub fn images(&mut self) -> Result<()> {
        self.db
            .run("CREATE TABLE image (id bigserial PRIMARY KEY, url text); CREATE INDEX ON image (storage_reaper.fingerprint(url))")?;
        self.db.run("SELECT storage_reaper.attach('image', 'url', backend => 'media')")
    }

    /// Rows in `image` and, where there is a store, their objects.
    pub fn add_images<K: AsRef<str> + Sync>(&mut self, keys: &[K]) -> Result<()> {
        if self.store.is_some() {
            self.bucket()?.put_all(keys)?;
        }
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        self.db.client().execute("INSERT INTO image (url) SELECT unnest($1::text[])", &[&keys])?;
        Ok(())
    }

    /// Allows deletions.
    pub fn arm(&mut self) -> Result<()> {
        self.db.run("SELECT storage_reaper.arm()")
    }

    /// Waits until a query answers yes; a failure comes with a picture of the situation.
    pub fn until(&mut self, what: &str, sql: &str) -> Result<()> {
        let waited = wait::until(wait::PATIENCE, what, || Ok(self.db.holds(sql)?.then_some(())));
        waited.with_context(|| self.picture())
    }

    /// Waits until the queue is empty.
    pub fn until_drained(&mut self) -> Result<()> {
        self.until("the queue is empty", "SELECT count(*) = 0 FROM storage_reaper.entry")
    }

    /// Outcomes of the history with their locators, sorted.
    pub fn outcomes(&mut self) -> Result<Vec<String>> {
        self.db.rows("SELECT locator, outcome FROM storage_reaper.history ORDER BY locator COLLATE \"C\", outcome")
    }

    /// How many objects ended in each outcome.
    pub fn tally(&mut self) -> Result<Vec<String>> {
        self.db.rows("SELECT outcome, count(*) FROM storage_reaper.history GROUP BY outcome ORDER BY outcome")
    }

    /// The worker's process id, once there is one.
    pub fn worker(&mut self) -> Result<i32> {
        wait::until(wait::PATIENCE, "a worker serves the database", || {
            let pid = self.db.row("SELECT worker_pid FROM storage_reaper.status")?;
            Ok(pid.parse().ok())
        })
    }

    /// What somebody who looks into a failure wants to see first.
    pub fn picture(&mut self) -> String {
        let mut picture = String::new();
        for view in ["status", "backends", "sources", "parked"] {
            let rows = self.db.rows(&format!("SELECT * FROM storage_reaper.{view} LIMIT 5"));
            let _ = writeln!(picture, "{view}: {rows:?}");
        }
        let queue = "SELECT state, attempts, last_error, count(*) FROM storage_reaper.queue GROUP BY 1, 2, 3 LIMIT 5";
        let _ = writeln!(picture, "queue: {:?}", self.db.rows(queue));
        let log = self.cluster.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let _ = writeln!(picture, "log:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        picture
    }
}

/// Writes the shared credentials file with the profile `media`, readable by the server only.
pub fn write_credentials(cluster: &Cluster, secret: &str) -> Result<()> {
    let path = cluster.directory().join("credentials");
    let text = format!("[media]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {secret}\n");
    Account::of_servers()?.write_private(&path, &text)
}
