//! The fence: no interleaving deletes an object that a committed row names.

mod declared;
mod writers;

use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::database::{Database, Refusal};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::process;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// So that a machine that stands still for a while refuses nobody; a later line wins.
const PATIENT: &str = "storage_reaper.fence_timeout = '60s'\n";

/// A fenced table `image` in front of a scripted server.
fn facing(conf: &str) -> Result<(FaultServer, Reaper)> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, &format!("{PATIENT}{conf}"))?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.attach('image', 'url', backend => 'media', fence => true); CREATE TABLE other (id int)",
    )?;
    reaper.arm()?;
    Ok((server, reaper))
}

fn fenced(conf: &str) -> Result<Reaper> {
    let mut reaper = Reaper::with(&format!("{PATIENT}{conf}"))?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.attach('image', 'url', backend => 'media', fence => true); CREATE TABLE other (id int)",
    )?;
    reaper.arm()?;
    Ok(reaper)
}

/// Waits until the deletion of the only object is on the wire.
fn in_flight(server: &FaultServer, reaper: &mut Reaper, key: &str) -> Result<()> {
    let seen = server.requests().len();
    server.hold();
    reaper.db.run(&format!("INSERT INTO image (url) VALUES ('{key}'); DELETE FROM image WHERE url = '{key}'"))?;
    server.request_after(seen, wait::PATIENCE).context("no request came")?;
    Ok(())
}

type Writer = JoinHandle<Result<(Database, Option<Refusal>)>>;

/// Runs a statement on a connection of its own, and says how it ended.
fn write(reaper: &Reaper, sql: &str) -> Result<Writer> {
    let mut writer = reaper.cluster.database("shop")?;
    let sql = sql.to_owned();
    Ok(thread::spawn(move || match writer.run(&sql) {
        Ok(()) => Ok((writer, None)),
        Err(_) => {
            writer.run("ROLLBACK")?;
            let refusal = writer.refusal(&sql)?;
            Ok((writer, Some(refusal)))
        }
    }))
}

fn waits(reaper: &mut Reaper) -> Result<()> {
    reaper.until("a writer waits", "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'userlock' AND NOT granted")
}
