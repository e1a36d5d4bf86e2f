//! A drain that is disturbed: killed workers, servers that go away, secrets that are wrong.

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_reaper_tests::process;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::store::SECRET_KEY;
use storage_reaper_tests::wait;

/// Small batches, one after the other, so that there is a middle to be killed in.
const SLOW: &str = "storage_reaper.batch_size = 20\nstorage_reaper.concurrency = 1\n";

#[test]
fn a_worker_killed_mid_drain_loses_objects() -> Result<()> {
    let mut reaper = Reaper::with(SLOW)?;
    reaper.images()?;
    let keys: Vec<String> = (0..1500).map(|n| format!("k/{n}")).collect();
    reaper.add_images(&keys)?;
    reaper.bucket()?.put("stays")?;
    reaper.arm()?;
    let worker = reaper.worker()?;
    reaper.db.run("DELETE FROM image")?;
    // The embedded server's listing stumbles over objects that vanish under it, so single objects are asked for.
    wait::until(wait::PATIENCE, "the drain has begun", || {
        let bucket = reaper.bucket()?;
        let first = keys.iter().take(20).map(|key| bucket.exists(key)).collect::<Result<Vec<_>>>()?;
        Ok(first.contains(&false).then_some(()))
    })?;
    process::signal(worker, libc::SIGKILL)?;
    // The server ends all its processes, and our connection goes with them, before it starts again.
    wait::until(wait::PATIENCE, "the server noticed", || Ok(reaper.db.run("SELECT 1").is_err().then_some(())))?;
    reaper.db = wait::until(wait::PATIENCE, "the server is back", || Ok(reaper.cluster.database("shop").ok()))?;
    ensure!(reaper.worker()? != worker, "the worker survived kill -9");
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["stays"]);
    let lost = "SELECT count(DISTINCT locator) FROM storage_reaper.history WHERE outcome IN ('deleted', 'absent')";
    assert_eq!(reaper.db.number(lost)?, 1500);
    assert_eq!(reaper.db.number("SELECT parked FROM storage_reaper.status")?, 0);
    Ok(())
}

#[test]
fn a_server_that_crashes_mid_drain_loses_objects() -> Result<()> {
    let mut reaper = Reaper::with(SLOW)?;
    reaper.images()?;
    let keys: Vec<String> = (0..300).map(|n| format!("k/{n}")).collect();
    reaper.add_images(&keys)?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.cluster.crash_and_restart()?;
    reaper.db = reaper.cluster.database("shop")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_store_that_is_away_for_a_while_uses_up_attempts_or_loses_objects() -> Result<()> {
    let mut reaper = Reaper::with_own_store(
        "storage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '2s'\nstorage_reaper.max_attempts = 2\n",
    )?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.arm()?;
    reaper.store()?.stop();
    reaper.db.run("DELETE FROM image")?;
    reaper.until(
        "the outage is noticed",
        "SELECT count(*) > 0 FROM storage_reaper.backends WHERE held_since IS NOT NULL",
    )?;
    wait::stays(Duration::from_secs(3), "no attempt is used up", || {
        reaper.db.holds("SELECT count(*) = 2 AND max(attempts) = 0 FROM storage_reaper.queue")
    })?;
    reaper.store()?.restart()?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, Vec::<String>::new());
    assert_eq!(reaper.tally()?, ["deleted|2"]);
    reaper.until("the backend is no longer held", "SELECT held_since IS NULL FROM storage_reaper.backends")
}

#[test]
fn a_wrong_secret_uses_up_attempts_or_is_tried_for_ever() -> Result<()> {
    let mut reaper = Reaper::with(
        "storage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '2s'\nstorage_reaper.max_attempts = 2\n",
    )?;
    reaper.write_secret("not-the-secret")?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until(
        "the backend is held",
        "SELECT held_since IS NOT NULL AND held_reason <> '' FROM storage_reaper.backends",
    )?;
    wait::stays(Duration::from_secs(3), "no attempt is used up", || {
        reaper.db.holds("SELECT count(*) = 1 AND max(attempts) = 0 FROM storage_reaper.queue")
    })?;
    assert_eq!(reaper.db.row("SELECT state FROM storage_reaper.queue")?, "held");
    ensure!(reaper.bucket()?.exists("a.png")?);
    reaper.write_secret(SECRET_KEY)?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|deleted"]);
    assert_eq!(reaper.objects()?, Vec::<String>::new());
    Ok(())
}
