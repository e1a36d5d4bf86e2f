//! Attaching again, altering and detaching.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn attaching_twice_captures_twice() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.attach("'image', 'url'")?;
    bed.attach("'image', 'url', grace => '1 hour'")?;
    assert_eq!(
        bed.db.rows(
            "SELECT name, relation, grace, on_update, on_truncate, covered_relations FROM storage_reaper.sources"
        )?,
        ["image.url|image|01:00:00|capture|capture|1"]
    );
    bed.db.run("DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    assert_eq!(
        bed.db.number("SELECT count(*) FROM storage_reaper.queue WHERE due_at = captured_at + interval '1 hour'")?,
        1
    );
    Ok(())
}

#[test]
fn attaching_again_in_another_session_is_not_noticed() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png"])?;
    let mut other = bed.connect()?;
    other.run("DELETE FROM image WHERE id = 1")?;
    bed.attach("'image', 'url', grace => '2 hours'")?;
    other.run("DELETE FROM image WHERE id = 2")?;
    bed.db.run("SELECT storage_reaper.detach('image.url')")?;
    other.run("DELETE FROM image WHERE id = 3")?;
    assert_eq!(
        bed.db.rows("SELECT locator, due_at - captured_at FROM storage_reaper.queue ORDER BY 1")?,
        ["a.png|00:00:00", "b.png|02:00:00"]
    );
    Ok(())
}

#[test]
fn detaching_empties_the_queue_or_leaves_triggers() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    bed.db.run("DELETE FROM image WHERE id = 1; SELECT storage_reaper.detach('image.url'); DELETE FROM image WHERE id = 2; TRUNCATE image")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    assert_eq!(bed.db.number("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'image'::regclass")?, 0);
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.sources")?, 0);
    bed.db.run("DROP TABLE image")?;
    Ok(())
}

#[test]
fn an_attach_that_is_rolled_back_goes_on_capturing() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'a.png')")?;
    bed.db
        .run("BEGIN; SELECT storage_reaper.attach('image', 'url', backend => 'media', allow_scan => true); ROLLBACK; DELETE FROM image")?;
    assert!(bed.captured()?.is_empty());
    Ok(())
}

#[test]
fn dropping_the_extension_leaves_tables_that_cannot_be_deleted_from() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.db.run(
        "SELECT storage_reaper.detach('image.url'); DROP INDEX image_fingerprint_idx; DROP EXTENSION storage_reaper; DELETE FROM image; DROP TABLE image",
    )?;
    bed.db.run("CREATE EXTENSION storage_reaper")?;
    Ok(())
}
