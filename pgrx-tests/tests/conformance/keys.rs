//! Hostile keys: every one goes, and nothing else does.

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

use crate::hostile::{BYSTANDERS, sorted};

/// A reaper with rows and objects of all hostile keys that the server keeps, among bystanders.
fn among_bystanders(kept: &[String], conf: &str) -> Result<Reaper> {
    let mut reaper = Reaper::with(conf)?;
    reaper.images()?;
    reaper.bucket()?.put_all(&BYSTANDERS)?;
    for key in kept {
        ensure!(reaper.bucket()?.takes(key)?, "the server does not take {key:?} any more");
    }
    insert(&mut reaper, kept)?;
    reaper.arm()?;
    Ok(reaper)
}

fn insert(reaper: &mut Reaper, keys: &[String]) -> Result<()> {
    reaper.db.client().execute("INSERT INTO image (url) SELECT unnest($1::text[])", &[&keys])?;
    Ok(())
}

fn only_bystanders_are_left(reaper: &Reaper) -> Result<()> {
    let mut expected = BYSTANDERS.to_vec();
    expected.sort_unstable();
    assert_eq!(reaper.objects()?, expected);
    Ok(())
}

/// Sorted as the history is.
fn all_are(outcome: &str, keys: &[String]) -> Vec<String> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys.iter().map(|key| format!("{key}|{outcome}")).collect()
}

#[test]
fn a_hostile_key_in_a_batch_takes_a_bystander_or_stays() -> Result<()> {
    let kept = sorted()?.kept;
    let mut reaper = among_bystanders(&kept, "")?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    only_bystanders_are_left(&reaper)?;
    assert_eq!(reaper.outcomes()?, all_are("deleted", &kept));
    Ok(())
}

#[test]
fn a_hostile_key_alone_takes_a_bystander_or_stays() -> Result<()> {
    let kept = sorted()?.kept;
    let mut reaper = among_bystanders(&kept, "")?;
    for key in &kept {
        reaper.db.client().execute("DELETE FROM image WHERE url = $1", &[key])?;
        reaper.until_drained()?;
        ensure!(!reaper.bucket()?.knows(key)?, "{key:?} is still there");
    }
    only_bystanders_are_left(&reaper)?;
    assert_eq!(reaper.outcomes()?, all_are("deleted", &kept));
    Ok(())
}

#[test]
fn a_key_that_the_server_refuses_holds_up_its_mates() -> Result<()> {
    let sorted = sorted()?;
    let conf = "storage_reaper.retry_base = '1s'\nstorage_reaper.max_attempts = 2\n";
    let mut reaper = among_bystanders(&sorted.kept, conf)?;
    insert(&mut reaper, &sorted.refused)?;
    reaper.db.run("DELETE FROM image")?;
    let done = "SELECT count(*) FROM storage_reaper.history WHERE outcome = 'deleted' AND locator = ANY ($1)";
    wait::until(wait::PATIENCE, "the mates are gone", || {
        let done: i64 = reaper.db.client().query_one(done, &[&sorted.kept])?.get(0);
        Ok((done == sorted.kept.len() as i64).then_some(()))
    })
    .with_context(|| reaper.picture())?;
    // Some servers confirm what they would not keep; others complain, and may fail for good where nothing else is asked of
    // them. While they answer others, it is the key's fault, and it is parked.
    let mut followers = 0;
    wait::until(wait::PATIENCE, "the refused keys are settled", || {
        followers += 1;
        reaper.add_images(&[format!("follower/{followers}")])?;
        reaper.db.run("DELETE FROM image")?;
        let busy = "SELECT count(*) = 0 FROM storage_reaper.queue WHERE locator NOT LIKE 'follower/%'";
        Ok(reaper.db.holds(busy)?.then_some(()))
    })
    .with_context(|| reaper.picture())?;
    reaper.until_drained()?;
    only_bystanders_are_left(&reaper)
}
