//! Real S3 servers on loopback, and a small client that tells what is in them.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rusty_s3::actions::{ListObjectsV2, S3Action};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use ureq::Agent;

use crate::process::{Plan, Process};
use crate::wait;

mod embedded;
mod inquiry;
mod moto;
mod rclone;
mod seaweedfs;
mod versions;

pub use versions::Version;

/// The only identity that the servers know.
pub const ACCESS_KEY: &str = "reaper-access-key";
/// Its secret, distinctive enough to be searched for where it must not be.
pub const SECRET_KEY: &str = "wJalrSECRETthatMustNotLeak/bPxRfiCY";

const SIGNED_FOR: Duration = Duration::from_secs(3600);

/// Which server program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// s3s-fs in a small program of this crate.
    Embedded,
    /// SeaweedFS in one process.
    SeaweedFs,
    /// moto, which has the manners of AWS and keeps everything in memory: a restart empties it.
    Moto,
    /// rclone's S3 server over a directory.
    Rclone,
}

impl Program {
    /// The one that STORE names; the embedded one without it.
    pub fn chosen() -> Result<Program> {
        match env::var("STORE").as_deref() {
            Err(_) | Ok("embedded") => Ok(Program::Embedded),
            Ok("seaweedfs") => Ok(Program::SeaweedFs),
            Ok("moto") => Ok(Program::Moto),
            Ok("rclone") => Ok(Program::Rclone),
            Ok(other) => bail!("STORE is {other:?}: say embedded, seaweedfs, moto or rclone"),
        }
    }

    /// The kind that create_backend is told.
    pub fn kind(self) -> &'static str {
        match self {
            Program::Embedded | Program::Rclone => "generic",
            Program::SeaweedFs => "seaweedfs",
            Program::Moto => "aws",
        }
    }
}

/// A running S3 server, or one that was stopped for a while.
pub struct Store {
    program: Program,
    directory: tempfile::TempDir,
    ports: Vec<u16>,
    server: Mutex<Option<Process>>,
    agent: Agent,
}

impl Store {
    /// Starts a server with an empty directory, and waits until it answers.
    pub fn start(program: Program) -> Result<Store> {
        Store::begin(program, false)
    }

    /// The same, but it stays when we end; its directory is the caller's to remove.
    pub fn start_and_keep(program: Program) -> Result<Store> {
        Store::begin(program, true)
    }

    fn begin(program: Program, keep: bool) -> Result<Store> {
        let mut directory = tempfile::Builder::new().prefix("storage-reaper-s3-").tempdir()?;
        directory.disable_cleanup(keep);
        let ports = free_ports(match program {
            Program::SeaweedFs => seaweedfs::PORTS,
            Program::Embedded | Program::Moto | Program::Rclone => 1,
        })?;
        let agent = Agent::config_builder().http_status_as_error(false).timeout_global(Some(wait::PATIENCE)).build();
        let store = Store { program, directory, ports, server: Mutex::new(None), agent: agent.into() };
        store.launch(keep)?;
        Ok(store)
    }

    /// One server for a whole test binary: its buckets keep the scenarios apart.
    pub fn shared() -> Result<Arc<Store>> {
        static SHARED: Mutex<Option<Arc<Store>>> = Mutex::new(None);
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if shared.is_none() {
            *shared = Some(Arc::new(Store::start(Program::chosen()?)?));
        }
        shared.clone().context("the shared store is missing")
    }

    fn launch(&self, keep: bool) -> Result<()> {
        let process = match self.program {
            Program::Embedded => embedded::launch(self.directory.path(), self.ports[0], keep)?,
            Program::SeaweedFs => seaweedfs::launch(self.directory.path(), &self.ports, keep)?,
            Program::Moto => moto::launch(self.directory.path(), self.ports[0], keep)?,
            Program::Rclone => rclone::launch(self.directory.path(), self.ports[0], keep)?,
        };
        let ready = wait::until(wait::PATIENCE * 2, "the S3 server answers", || Ok(self.answers().then_some(())));
        ready.with_context(|| format!("server log: {}", process.log().unwrap_or_default()))?;
        *self.slot() = Some(process);
        Ok(())
    }

    /// Takes the server away, with its data.
    pub fn stop(&self) {
        *self.slot() = None;
        if self.program == Program::SeaweedFs {
            seaweedfs::tidy(&self.ports);
        }
    }

    /// Brings it back on the same port with the same data.
    pub fn restart(&self) -> Result<()> {
        self.launch(false)
    }

    /// The process id of the server.
    pub fn pid(&self) -> Option<i32> {
        self.slot().as_ref().map(Process::pid)
    }

    /// Where its data is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Which program it is.
    pub fn program(&self) -> Program {
        self.program
    }

    /// The URL that clients use.
    pub fn endpoint(&self) -> String {
        let port = match self.program {
            Program::SeaweedFs => self.ports[seaweedfs::S3_PORT],
            Program::Embedded | Program::Moto | Program::Rclone => self.ports[0],
        };
        format!("http://127.0.0.1:{port}")
    }

    /// Makes an empty bucket.
    pub fn create_bucket(&self, name: &str) -> Result<Contents<'_>> {
        let bucket = Bucket::new(self.endpoint().parse()?, UrlStyle::Path, name.to_owned(), "us-east-1")?;
        let contents = Contents { store: self, bucket, credentials: credentials() };
        let create = contents.bucket.create_bucket(&contents.credentials).sign(SIGNED_FOR);
        // A fresh SeaweedFS answers before it can make buckets.
        wait::until(wait::PATIENCE, "the S3 server makes a bucket", || {
            Ok(self.agent.put(create.as_str()).send_empty()?.status().is_success().then_some(()))
        })?;
        Ok(contents)
    }

    /// A bucket that exists.
    pub fn bucket(&self, name: &str) -> Result<Contents<'_>> {
        let bucket = Bucket::new(self.endpoint().parse()?, UrlStyle::Path, name.to_owned(), "us-east-1")?;
        Ok(Contents { store: self, bucket, credentials: credentials() })
    }

    /// Whether it speaks HTTP: an unsigned request is refused by a server that is up.
    fn answers(&self) -> bool {
        self.agent.get(self.endpoint()).call().is_ok_and(|answer| answer.status().as_u16() < 500)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.server.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What is in a bucket.
pub struct Contents<'a> {
    store: &'a Store,
    bucket: Bucket,
    credentials: Credentials,
}

impl Contents<'_> {
    /// The bucket's name.
    pub fn name(&self) -> &str {
        self.bucket.name()
    }

    /// Stores a small object.
    pub fn put(&self, key: &str) -> Result<()> {
        self.write(key, "x")
    }

    /// Stores an object with this content.
    pub fn write(&self, key: &str, content: &str) -> Result<()> {
        let url = self.bucket.put_object(Some(&self.credentials), key).sign(SIGNED_FOR);
        let status = self.store.agent.put(url.as_str()).send(content.as_bytes())?.status();
        ensure!(status.is_success(), "PUT of {key:?} answered {status}");
        Ok(())
    }

    /// Stores many small objects, some at a time.
    pub fn put_all<K: AsRef<str> + Sync>(&self, keys: &[K]) -> Result<()> {
        let share = keys.len().div_ceil(8).max(1);
        thread::scope(|scope| {
            let put = |part: &'_ [K]| part.iter().try_for_each(|key| self.put(key.as_ref()));
            let parts: Vec<_> = keys.chunks(share).map(|part| scope.spawn(move || put(part))).collect();
            parts
                .into_iter()
                .try_for_each(|part| part.join().unwrap_or_else(|_| bail!("a thread that put objects died")))
        })
    }

    /// Whether an object is there.
    pub fn exists(&self, key: &str) -> Result<bool> {
        let url = self.bucket.head_object(Some(&self.credentials), key).sign(SIGNED_FOR);
        match settled(|| self.store.agent.head(url.as_str()).call())?.status().as_u16() {
            200 => Ok(true),
            404 => Ok(false),
            status => bail!("HEAD of {key:?} answered {status}"),
        }
    }

    /// Every key that the server lists.
    pub fn list(&self) -> Result<BTreeSet<String>> {
        let mut keys = BTreeSet::new();
        let mut token: Option<String> = None;
        loop {
            let mut list = self.bucket.list_objects_v2(Some(&self.credentials));
            if self.store.program == Program::Embedded {
                // It says that it encodes keys, and does not.
                list.query_mut().remove("encoding-type");
            }
            if let Some(token) = &token {
                list.with_continuation_token(token.as_str());
            }
            let url = list.sign(SIGNED_FOR);
            let mut answer = settled(|| self.store.agent.get(url.as_str()).call())?;
            ensure!(answer.status().is_success(), "the listing answered {}", answer.status());
            let page = ListObjectsV2::parse_response(&answer.body_mut().read_to_string()?)?;
            keys.extend(page.contents.into_iter().map(|object| object.key));
            token = page.next_continuation_token;
            if token.is_none() {
                return Ok(keys);
            }
        }
    }
}

/// Starts a server program over a directory, which goes with it.
fn serve(command: &[&str], environment: &[(&str, &str)], directory: &Path, keep: bool) -> Result<Process> {
    let log = directory.join("server.log");
    Process::start(&Plan { command, environment, account: None, stop: "KILL", log: &log, scrap: Some(directory), keep })
}

type Answer = ureq::http::Response<ureq::Body>;

/// Asks again while the server is confused: s3s-fs answers 500 when an object goes while it looks at it.
fn settled(mut ask: impl FnMut() -> Result<Answer, ureq::Error>) -> Result<Answer> {
    let mut answer = ask()?;
    for _ in 0..20 {
        if !answer.status().is_server_error() {
            break;
        }
        answer = ask()?;
    }
    Ok(answer)
}

fn credentials() -> Credentials {
    Credentials::new(ACCESS_KEY, SECRET_KEY)
}

/// Ports that nobody listens on. Somebody may take one before the server does; then it fails to start and says so.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let listeners =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<Vec<_>>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
