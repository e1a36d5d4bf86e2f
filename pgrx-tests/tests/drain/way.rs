//! The way of an object from the DELETE to the empty place in the bucket.

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

#[test]
fn an_object_stays_although_its_row_is_gone() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png", "stays.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE url <> 'stays.png'")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["stays.png"]);
    assert_eq!(reaper.outcomes()?, ["a.png|deleted", "b.png|deleted"]);
    Ok(())
}

#[test]
fn something_is_deleted_before_arming() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image; SELECT storage_reaper.wake()")?;
    assert_eq!(reaper.db.row("SELECT locator, state FROM storage_reaper.queue")?, "a.png|observed");
    assert_eq!(reaper.db.row("SELECT state FROM storage_reaper.status")?, "observe");
    wait::stays(Duration::from_millis(700), "the object is there", || reaper.bucket()?.exists("a.png"))?;
    reaper.arm()?;
    reaper.until_drained()?;
    ensure!(!reaper.bucket()?.exists("a.png")?);
    Ok(())
}

#[test]
fn a_rolled_back_delete_takes_an_object() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["stays.png", "inner.png", "goes.png"])?;
    reaper.arm()?;
    reaper.db.run("BEGIN; DELETE FROM image; ROLLBACK")?;
    reaper.db.run(
        "BEGIN; SAVEPOINT s; DELETE FROM image WHERE url = 'inner.png'; ROLLBACK TO s;
         DELETE FROM image WHERE url = 'goes.png'; COMMIT",
    )?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["inner.png", "stays.png"]);
    Ok(())
}

#[test]
fn a_prepared_transaction_is_drained_before_its_commit_or_never() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.arm()?;
    reaper.db.run("BEGIN; DELETE FROM image; PREPARE TRANSACTION 'later'")?;
    wait::stays(Duration::from_millis(500), "the object is there", || reaper.bucket()?.exists("a.png"))?;
    reaper.db.run("COMMIT PREPARED 'later'")?;
    wait::until(wait::PATIENCE, "the object is gone", || Ok((!reaper.bucket()?.exists("a.png")?).then_some(())))?;
    reaper.until_drained()
}

#[test]
fn an_object_goes_while_an_older_writer_may_still_name_it() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["reused.png"])?;
    reaper.arm()?;
    let mut writer = reaper.cluster.database("shop")?;
    writer.run("BEGIN; INSERT INTO image (url) VALUES ('reused.png')")?;
    reaper.db.run("DELETE FROM image WHERE url = 'reused.png'")?;
    wait::stays(Duration::from_millis(700), "the object is there", || reaper.bucket()?.exists("reused.png"))?;
    writer.run("COMMIT")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["reused.png|kept"]);
    assert_eq!(reaper.db.row("SELECT reason FROM storage_reaper.history")?, "referenced by source image.url");
    ensure!(reaper.bucket()?.exists("reused.png")?);
    Ok(())
}

#[test]
fn an_object_that_another_row_names_goes() -> Result<()> {
    let mut reaper = Reaper::new()?;
    let endpoint = reaper.store()?.endpoint();
    let bucket = reaper.bucket()?.name().to_owned();
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')")?;
    reaper.add_images(&["same.png", "by url.png", "alone.png"])?;
    reaper.db.run(&format!(
        "CREATE TABLE avatar (id int PRIMARY KEY, link text);
         SELECT storage_reaper.attach('avatar', 'link', backend => 'media', allow_scan => true);
         INSERT INTO image (url) VALUES ('same.png');
         INSERT INTO avatar VALUES (1, '{endpoint}/{bucket}/by%20url.png'), (2, 'https://cdn.example.test/gone.png')"
    ))?;
    reaper.bucket()?.put("gone.png")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM avatar WHERE id = 2; DELETE FROM image WHERE id <= 3")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["by url.png", "same.png"]);
    let kept =
        reaper.db.rows("SELECT locator, reason FROM storage_reaper.history WHERE outcome = 'kept' ORDER BY 1")?;
    assert_eq!(kept, ["by url.png|referenced by source avatar.link", "same.png|referenced by source image.url"]);
    Ok(())
}

#[test]
fn an_object_goes_before_its_grace_is_over() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.attach('image', 'url', backend => 'media', grace => '3 seconds', allow_scan => true)",
    )?;
    reaper.add_images(&["a.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    assert_eq!(reaper.db.row("SELECT state FROM storage_reaper.queue")?, "waiting");
    wait::stays(Duration::from_millis(1000), "the object is there", || reaper.bucket()?.exists("a.png"))?;
    reaper.until_drained()?;
    ensure!(!reaper.bucket()?.exists("a.png")?);
    assert_eq!(
        reaper.db.row("SELECT settled_at - captured_at >= interval '3 seconds' FROM storage_reaper.history")?,
        "t"
    );
    Ok(())
}

#[test]
fn truncated_and_dropped_tables_leave_objects_behind() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["truncated.png"])?;
    reaper.arm()?;
    reaper.db.run("TRUNCATE image")?;
    reaper.add_images(&["dropped.png", "dropped too.png"])?;
    reaper.db.run("DROP TABLE image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, Vec::<String>::new());
    assert_eq!(reaper.tally()?, ["deleted|3"]);
    Ok(())
}

#[test]
fn a_hundred_thousand_rows_in_one_statement_choke_the_drain() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    // Every fiftieth object is really there; a store answers for the others just the same.
    let there: Vec<String> = (1..=2000).map(|n| format!("big/{}", n * 50)).collect();
    reaper.bucket()?.put_all(&there)?;
    reaper.bucket()?.put("big/stays")?;
    reaper.db.run("INSERT INTO image (url) SELECT 'big/' || n FROM generate_series(1, 100000) n; ANALYZE image")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    wait::until(Duration::from_secs(120), "the queue is empty", || {
        Ok(reaper.db.holds("SELECT count(*) = 0 FROM storage_reaper.entry")?.then_some(()))
    })?;
    assert_eq!(reaper.objects()?, ["big/stays"]);
    let settled = reaper.db.row(
        "SELECT count(*), count(DISTINCT locator) FROM storage_reaper.history WHERE outcome IN ('deleted', 'absent')",
    )?;
    assert_eq!(settled, "100000|100000");
    Ok(())
}

#[test]
fn an_absent_object_is_tried_for_ever() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("INSERT INTO image (url) VALUES ('never there.png')")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    ensure!(reaper.db.holds("SELECT outcome IN ('deleted', 'absent') FROM storage_reaper.history")?);
    Ok(())
}

#[test]
fn an_object_that_another_row_names_in_the_very_same_words_goes() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')")?;
    let bucket = reaper.bucket()?.name().to_owned();
    let spellings = [
        "https://cdn.example.test/a.png?v=1".to_owned(),
        "https://CDN.example.test/b.png".to_owned(),
        "https://cdn.example.test:443/c.png".to_owned(),
        format!("S3://{bucket}/d.png"),
    ];
    for (key, spelling) in ["a.png", "b.png", "c.png", "d.png"].iter().zip(&spellings) {
        reaper.bucket()?.put(key)?;
        reaper.db.run(&format!("INSERT INTO image (url) VALUES ('{spelling}'), ('{spelling}')"))?;
    }
    reaper.arm()?;
    reaper.db.run("DELETE FROM image a USING image b WHERE a.url = b.url AND a.id < b.id")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["a.png", "b.png", "c.png", "d.png"]);
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert!(reaper.objects()?.is_empty());
    Ok(())
}
