//! Many objects, one, and none.

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Reaper;

#[test]
fn the_thousand_and_first_object_stays_behind() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    let keys: Vec<String> = (0..1001).map(|number| format!("many/{number:04}.png")).collect();
    reaper.add_images(&keys)?;
    reaper.bucket()?.put_all(&["many/1001.png", "many/100", "many.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["many.png", "many/100", "many/1001.png"]);
    let expected: Vec<String> = keys.iter().map(|key| format!("{key}|deleted")).collect();
    assert_eq!(reaper.outcomes()?, expected);
    Ok(())
}

#[test]
fn an_object_alone_takes_its_neighbours() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["one/o.png"])?;
    reaper.bucket()?.put_all(&["one/o.pn", "one/o.png2", "one/O.png", "o.png", "one/p/o.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["o.png", "one/O.png", "one/o.pn", "one/o.png2", "one/p/o.png"]);
    assert_eq!(reaper.outcomes()?, ["one/o.png|deleted"]);
    Ok(())
}

#[test]
fn an_absent_object_is_asked_for_again_and_again() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.bucket()?.put_all(&["there.png", "there/too.png"])?;
    // Objects that never were, alone and in a batch; in folders that are there, and in others.
    reaper.db.run("INSERT INTO image (url) VALUES ('there/absent.png'), ('a'), ('no/such/folder.png')")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until_drained()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["there.png", "there/too.png"]);
    // Most servers confirm a key that was not there, as AWS does.
    let other = "SELECT count(*) FROM storage_reaper.history WHERE outcome NOT IN ('deleted', 'absent')";
    assert_eq!(reaper.db.number(other)?, 0, "{:?}", reaper.outcomes()?);
    let keys: Vec<String> =
        reaper.outcomes()?.iter().filter_map(|line| Some(line.split_once('|')?.0.to_owned())).collect();
    assert_eq!(keys, ["a", "no/such/folder.png", "there/absent.png"]);
    ensure!(reaper.db.number("SELECT count(*) FROM storage_reaper.parked")? == 0);
    Ok(())
}

#[test]
fn a_probe_takes_something_or_leaves_something_behind() -> Result<()> {
    let mut reaper = Reaper::new()?;
    let has_versions = reaper.bucket()?.keep_versions()?;
    reaper.bucket()?.put("stays.png")?;
    reaper.db.run("SELECT storage_reaper.probe_backend('media')")?;
    reaper.until("the store was asked", "SELECT probed_at IS NOT NULL FROM storage_reaper.backends")?;
    let found = reaper
        .db
        .row("SELECT probe_error, takes_batches, coalesce(keeps_versions, false) FROM storage_reaper.backends")?;
    assert_eq!(found, format!("∅|t|{}", if has_versions { "t" } else { "f" }));
    assert_eq!(reaper.objects()?, ["stays.png"]);
    if has_versions {
        assert_eq!(reaper.bucket()?.versions()?.len(), 1);
    }
    Ok(())
}
