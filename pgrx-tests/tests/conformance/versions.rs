//! Buckets that keep versions: what is deleted is only hidden, and history says so; or its versions go, too.

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::{Reaper, unique};
use storage_reaper_tests::store::{Program, Version};

fn version(key: &str, is_marker: bool) -> Version {
    Version { key: key.to_owned(), is_marker }
}

/// Whether the scenario's bucket keeps versions from now on, where the server has them.
fn has_versions(reaper: &Reaper) -> Result<bool> {
    let has_versions = reaper.bucket()?.keep_versions()?;
    ensure!(has_versions || Program::chosen()? != Program::Moto, "moto has forgotten about versions");
    Ok(has_versions)
}

#[test]
fn a_version_that_is_only_hidden_counts_as_deleted() -> Result<()> {
    let mut reaper = Reaper::new()?;
    if !has_versions(&reaper)? {
        return Ok(());
    }
    reaper.images()?;
    reaper.add_images(&["alone.png", "b.png", "c.png"])?;
    reaper.bucket()?.put("stays.png")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until_drained()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["stays.png"]);
    assert_eq!(reaper.outcomes()?, ["alone.png|delete_marker", "b.png|delete_marker", "c.png|delete_marker"]);
    let hidden = ["alone.png", "b.png", "c.png"].into_iter().flat_map(|key| [version(key, false), version(key, true)]);
    let expected: Vec<Version> = hidden.chain([version("stays.png", false)]).collect();
    assert_eq!(reaper.bucket()?.versions()?, expected);
    Ok(())
}

#[test]
fn a_locked_version_is_lost_or_asked_for_again_and_again() -> Result<()> {
    let mut reaper = Reaper::new()?;
    let name = unique("locking");
    if reaper.store()?.create_locking_bucket(&name)?.is_none() {
        ensure!(Program::chosen()? != Program::Moto, "moto has forgotten about locks");
        return Ok(());
    }
    reaper.images()?;
    reaper.db.run(&format!("SELECT storage_reaper.alter_backend('media', bucket => '{name}')"))?;
    let keys = ["alone.png", "b.png", "c.png"];
    let tomorrow = reaper
        .db
        .row("SELECT to_char((now() + interval '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")?;
    for key in keys {
        reaper.store()?.bucket(&name)?.put_locked(key, &tomorrow)?;
    }
    reaper.db.client().execute("INSERT INTO image (url) SELECT unnest($1::text[])", &[&keys.as_slice()])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until_drained()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    // A lock holds a version; a marker may hide it, as on AWS.
    assert_eq!(reaper.outcomes()?, keys.map(|key| format!("{key}|delete_marker")));
    let expected: Vec<Version> = keys.into_iter().flat_map(|key| [version(key, false), version(key, true)]).collect();
    assert_eq!(reaper.store()?.bucket(&name)?.versions()?, expected);
    Ok(())
}

#[test]
fn versions_are_left_or_those_of_another_key_go() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run("SELECT storage_reaper.alter_backend('media', versions => 'all')")?;
    reaper.images()?;
    let has_versions = has_versions(&reaper)?;
    // What only begins with the key is another object.
    let (doomed, others) = (["a.png", "b/c d+e.png"], ["a.png.bak", "a.pn", "b/c d+e.png2"]);
    for _ in 0..3 {
        reaper.bucket()?.put_all(&doomed)?;
        reaper.bucket()?.put_all(&others)?;
    }
    let keys = [&doomed[..], &others].concat();
    for key in &keys {
        reaper.bucket()?.begin_upload(key)?;
    }
    let begun = reaper.bucket()?.uploads()?.unwrap_or_default();
    reaper.db.client().execute("INSERT INTO image (url) SELECT unnest($1::text[])", &[&doomed.as_slice()])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let mut left = others.map(str::to_owned).to_vec();
    left.sort();
    assert_eq!(reaper.objects()?, left);
    assert_eq!(reaper.tally()?, ["deleted|2"]);
    if has_versions {
        let expected: Vec<Version> = left.iter().flat_map(|key| std::iter::repeat_n(version(key, false), 3)).collect();
        assert_eq!(reaper.bucket()?.versions()?, expected);
        ensure!(!begun.is_empty(), "a server with versions lists no uploads");
    }
    let unfinished: Vec<String> = begun.into_iter().filter(|key| left.contains(key)).collect();
    assert_eq!(reaper.bucket()?.uploads()?.unwrap_or_default(), unfinished);
    Ok(())
}

/// The store's dates are in seconds.
fn turn_of_the_clock(reaper: &mut Reaper) -> Result<()> {
    let then = reaper.db.row("SELECT clock_timestamp() + interval '2 seconds'")?;
    reaper.until("the clock has moved on", &format!("SELECT clock_timestamp() > '{then}'"))
}

#[test]
fn a_version_that_came_after_the_row_went_goes_too() -> Result<()> {
    let mut reaper = Reaper::new()?;
    if !has_versions(&reaper)? {
        return Ok(());
    }
    reaper.db.run("SELECT storage_reaper.alter_backend('media', versions => 'captured')")?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.bucket()?.put("a.png")?;
    turn_of_the_clock(&mut reaper)?;
    reaper.db.run("DELETE FROM image")?;
    turn_of_the_clock(&mut reaper)?;
    reaper.bucket()?.put("a.png")?;
    reaper.arm()?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["a.png"]);
    assert_eq!(reaper.bucket()?.versions()?, [version("a.png", false)]);
    Ok(())
}
