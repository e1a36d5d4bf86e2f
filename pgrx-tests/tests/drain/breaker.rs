//! The mass-delete breaker.

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Reaper;

/// Small enough for a test: more than 20 objects, and more than a tenth of the rows.
const CONF: &str = "storage_reaper.breaker_objects = 20\n";

fn images(reaper: &mut Reaper, count: usize) -> Result<()> {
    let keys: Vec<String> = (1..=count).map(|number| format!("{number}.png")).collect();
    reaper.images()?;
    reaper.add_images(&keys)?;
    reaper.db.run("VACUUM ANALYZE image")?;
    reaper.arm()
}

fn held(reaper: &mut Reaper) -> Result<()> {
    reaper.until("the source is held", "SELECT sources_held = 1 FROM storage_reaper.status")
}

#[test]
fn a_table_that_loses_too_much_goes_on_losing() -> Result<()> {
    for deletion in [
        "DELETE FROM image WHERE id <= 30",
        "DO $$ BEGIN FOR n IN 1..30 LOOP DELETE FROM image WHERE id = n; END LOOP; END $$",
        "UPDATE image SET url = NULL WHERE id <= 30",
        "TRUNCATE image",
        "DROP TABLE image",
    ] {
        let mut reaper = Reaper::with(CONF)?;
        images(&mut reaper, 100)?;
        reaper.db.run(deletion)?;
        held(&mut reaper)?;
        assert_eq!(reaper.objects()?.len(), 100, "{deletion}");
        let states = "SELECT DISTINCT state FROM storage_reaper.queue";
        assert_eq!(reaper.db.rows(states)?, ["held"], "{deletion}");
        let told = "SELECT detail LIKE '%release()%' FROM storage_reaper.explain('7.png') WHERE state = 'queue: held'";
        assert_eq!(reaper.db.rows(told)?, ["t"], "{deletion}");
        ensure!(reaper.cluster.log()?.contains("is held until release('image.url')"), "{deletion}");
        reaper.db.run("SELECT storage_reaper.release('image.url')")?;
        reaper.until_drained()?;
        let left = if deletion.contains("30") { 70 } else { 0 };
        assert_eq!(reaper.objects()?.len(), left, "{deletion}");
        assert_eq!(reaper.db.number("SELECT sources_held FROM storage_reaper.status")?, 0, "{deletion}");
    }
    Ok(())
}

#[test]
fn a_held_source_captures_nothing_or_holds_others() -> Result<()> {
    let mut reaper = Reaper::with(CONF)?;
    images(&mut reaper, 100)?;
    reaper.db.run(
        "CREATE TABLE other (id int PRIMARY KEY, url text); INSERT INTO other SELECT n, n || '.txt' FROM generate_series(1, 5) n;
         SELECT storage_reaper.attach('other', 'url', backend => 'media', allow_scan => true);
         DELETE FROM image WHERE id <= 30",
    )?;
    held(&mut reaper)?;
    reaper.bucket()?.put_all(&["1.txt", "2.txt"])?;
    reaper.db.run("DELETE FROM other WHERE id <= 2; DELETE FROM image WHERE id = 31")?;
    reaper
        .until("the other source goes on", "SELECT count(*) = 2 FROM storage_reaper.history WHERE outcome <> 'kept'")?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.queue WHERE state = 'held'")?, 31);
    Ok(())
}

#[test]
fn a_large_table_or_an_old_backlog_trips() -> Result<()> {
    let mut reaper = Reaper::with(CONF)?;
    images(&mut reaper, 400)?;
    reaper.db.run("DELETE FROM image WHERE id <= 30")?;
    reaper.until_drained()?;
    // As if the store had been away for days.
    reaper.db.run(
        "SELECT storage_reaper.pause();
         DO $$ BEGIN FOR n IN 31..130 LOOP DELETE FROM image WHERE id = n; END LOOP; END $$;
         UPDATE storage_reaper.entry SET captured_at = captured_at - id % 100 * interval '1 hour' - interval '3 hours';
         SELECT storage_reaper.resume()",
    )?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?.len(), 270);
    Ok(())
}

#[test]
fn a_few_at_a_time_slip_through() -> Result<()> {
    let mut reaper = Reaper::with(CONF)?;
    images(&mut reaper, 100)?;
    for round in 0..2 {
        reaper.db.run(&format!("DELETE FROM image WHERE id BETWEEN {} AND {}", round * 15 + 1, round * 15 + 15))?;
        if round == 0 {
            reaper.until_drained()?;
            // What was deleted is remembered across a restart of the worker.
            reaper.cluster.crash_and_restart()?;
            reaper.db = reaper.cluster.database("shop")?;
        }
    }
    held(&mut reaper)?;
    assert_eq!(reaper.objects()?.len(), 85);
    // What was released does not count again; what comes after does.
    reaper.db.run("SELECT storage_reaper.release('image.url')")?;
    reaper.until_drained()?;
    reaper.db.run("DELETE FROM image WHERE id <= 45")?;
    reaper.until_drained()?;
    reaper.db.run("DELETE FROM image WHERE id <= 60")?;
    held(&mut reaper)
}
