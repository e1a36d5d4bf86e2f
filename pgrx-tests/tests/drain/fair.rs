//! Sources take turns: a long queue of one delays no other.

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Reaper;

/// Tables `t1` and so on, attached, with that many rows each; their objects are not there, which no store minds.
fn tables(reaper: &mut Reaper, rows: &[usize]) -> Result<()> {
    for (number, rows) in (1..).zip(rows) {
        reaper.db.run(&format!(
            "CREATE TABLE t{number} (id int PRIMARY KEY, url text);
             INSERT INTO t{number} SELECT n, 't{number}/' || n FROM generate_series(1, {rows}) n;
             CREATE INDEX ON t{number} (storage_reaper.fingerprint(url));
             SELECT storage_reaper.attach('t{number}', 'url', backend => 'media')"
        ))?;
    }
    Ok(())
}

#[test]
fn a_large_delete_of_one_table_delays_another_table() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.breaker_objects = -1\n")?;
    tables(&mut reaper, &[40_000, 1])?;
    reaper.arm()?;
    // All of it is due at once, and the one row comes last.
    reaper.db.run("BEGIN; DELETE FROM t1; DELETE FROM t2; COMMIT")?;
    reaper.until_drained()?;
    let before = "SELECT count(*) FROM storage_reaper.history WHERE source = 't1.url'
                  AND settled_at < (SELECT settled_at FROM storage_reaper.history WHERE source = 't2.url')";
    let before = reaper.db.number(before)?;
    ensure!(before < 20_000, "{before} objects of the large table went first");
    Ok(())
}

#[test]
fn of_many_large_deletes_the_last_one_waits_for_all_others() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.breaker_objects = -1\n")?;
    tables(&mut reaper, &[8000; 6])?;
    reaper.arm()?;
    let deletes: String = (1..=6).map(|number| format!("DELETE FROM t{number};")).collect();
    reaper.db.run(&format!("BEGIN; {deletes} COMMIT"))?;
    reaper.until_drained()?;
    let is_fair = "WITH way AS (SELECT min(settled_at) AS begins, max(settled_at) AS ends FROM storage_reaper.history GROUP BY source)
                   SELECT count(*) = 6 AND max(begins) < min(ends) FROM way";
    ensure!(reaper.db.holds(is_fair)?, "one was over before another began");
    Ok(())
}

#[test]
fn a_mass_deletion_hides_behind_the_queue_of_another_table() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.breaker_objects = 100\n")?;
    tables(&mut reaper, &[100_000, 2000])?;
    reaper.db.run("ANALYZE t1, t2; SELECT storage_reaper.pause('t1.url')")?;
    reaper.arm()?;
    reaper.db.run("DO $$ BEGIN FOR n IN 1..2100 LOOP DELETE FROM t1 WHERE id = n; END LOOP; END $$")?;
    reaper.db.run("DELETE FROM t2")?;
    reaper.until(
        "the source is held",
        "SELECT held_since IS NOT NULL FROM storage_reaper.sources WHERE name = 't2.url'",
    )?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.history WHERE source = 't2.url'")?, 0);
    Ok(())
}
