//! One client: a connection, and a transaction after the other.

use std::iter;

use anyhow::Result;
use fastrand::Rng;

use super::Soak;
use super::operation::{OPERATIONS, Work};

/// What a server says that is being killed, or that had to choose between two clients, or whose fence was met.
const BAD_LUCK: [&str; 6] = ["SRF01", "40P01", "57P01", "57P02", "57P03", "53300"];

/// A client with its own chance.
pub(super) struct Client<'a> {
    pub(super) soak: &'a Soak<'a>,
    pub(super) db: postgres::Client,
    pub(super) rng: Rng,
    name: usize,
    serial: u32,
    /// Keys that the transaction names for the first time.
    born: Vec<String>,
}

/// A row that is locked, and the texts in it.
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) urls: Vec<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(soak: &'a Soak<'a>, name: usize, rng: Rng) -> Result<Self> {
        Ok(Self { soak, db: soak.connect()?, rng, name, serial: 0, born: Vec::new() })
    }

    pub(super) fn run(mut self) -> Result<()> {
        let bag: Vec<_> = OPERATIONS.iter().flat_map(|one| iter::repeat_n(one, one.weight)).collect();
        while !self.soak.is_over() {
            let operation = bag[self.rng.usize(..bag.len())];
            let commits = self.rng.u8(..10) > 0;
            let place = match self.attempt(operation.work, commits) {
                Ok(()) if commits => 0,
                Ok(()) => 1,
                Err(error) if is_bad_luck(&error) => {
                    self.recover()?;
                    2
                }
                Err(error) => return Err(error.context(operation.name)),
            };
            self.soak.ledger().done.entry(operation.name).or_default()[place] += 1;
        }
        Ok(())
    }

    fn attempt(&mut self, work: Work, commits: bool) -> Result<()> {
        self.born.clear();
        self.db.batch_execute("BEGIN")?;
        work(self)?;
        self.db.batch_execute(if commits { "COMMIT" } else { "ROLLBACK" })?;
        if commits {
            let born = std::mem::take(&mut self.born);
            self.committed(&born);
        }
        Ok(())
    }

    /// From now on somebody is answerable for these.
    pub(super) fn committed(&self, keys: &[String]) {
        let mut ledger = self.soak.ledger();
        for key in keys {
            ledger.loose.remove(key);
        }
    }

    fn recover(&mut self) -> Result<()> {
        if self.db.batch_execute("ROLLBACK").is_err() {
            self.db = self.soak.connect()?;
        }
        Ok(())
    }

    /// Stores new objects. Until a row that names them is committed, nobody is answerable for them.
    pub(super) fn store(&mut self, count: usize) -> Result<Vec<String>> {
        let keys: Vec<String> = (0..count).map(|_| self.new_key()).collect();
        let contents = self.soak.contents()?;
        for key in &keys {
            self.soak.ledger().loose.insert(key.clone());
            contents.put(key)?;
        }
        self.soak.ledger().stored += keys.len() as u64;
        self.born.extend_from_slice(&keys);
        Ok(keys)
    }

    fn new_key(&mut self) -> String {
        self.serial += 1;
        format!("c{:02}-{:07}.bin", self.name, self.serial)
    }

    /// One of the ways to write a key down.
    pub(super) fn spelled(&mut self, key: &str) -> String {
        match self.rng.u8(..4) {
            0 => key.to_owned(),
            1 => format!("https://cdn.example.test/{key}"),
            2 => format!("http://CDN.example.test/{key}?v={}", self.rng.u8(..)),
            _ => format!("s3://{}/{key}", self.soak.bucket),
        }
    }

    pub(super) fn all_spelled(&mut self, keys: &[String]) -> Vec<String> {
        keys.iter().map(|key| self.spelled(key)).collect()
    }

    /// Locks some rows from a random place on; what they name has to be there as long as they are.
    pub(super) fn locked(&mut self, table: &str, most: i64, mode: &str) -> Result<Vec<Row>> {
        let urls = if table == "album" { "urls" } else { "ARRAY[url]" };
        let sql = format!(
            "SELECT id, {urls} FROM {table}
             WHERE id >= (SELECT coalesce(floor($1::float8 * max(id)), 0)::bigint FROM {table})
             ORDER BY id LIMIT $2 FOR {mode}"
        );
        let found = self.db.query(&sql, &[&self.rng.f64(), &most])?;
        let rows: Vec<Row> = found.iter().map(|row| Row { id: row.get(0), urls: row.get(1) }).collect();
        let contents = self.soak.contents()?;
        for (id, url) in rows.iter().flat_map(|row| row.urls.iter().map(|url| (row.id, url))) {
            if !contents.exists(key_of(url))? {
                let what = format!("was gone while row {id} of {table} named it");
                self.soak.ledger().violations.entry(key_of(url).to_owned()).or_insert(what);
            }
        }
        Ok(rows)
    }
}

/// The key that a text names, whichever way it is written.
pub(super) fn key_of(url: &str) -> &str {
    let path = url.split('?').next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

fn is_bad_luck(error: &anyhow::Error) -> bool {
    let of_server = error.chain().find_map(|cause| cause.downcast_ref::<postgres::Error>());
    // Without a code, the connection is gone.
    of_server.is_some_and(|error| error.code().is_none_or(|code| BAD_LUCK.contains(&code.code())))
}
