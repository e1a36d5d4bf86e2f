//! TRUNCATE, which has no transition table.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn a_truncate_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    bed.db.run("INSERT INTO image VALUES (3, NULL), (4, ''); TRUNCATE image")?;
    assert_eq!(bed.captured()?, ["a.png", "b.png"]);
    Ok(())
}

#[test]
fn a_truncate_that_is_rolled_back_is_captured() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.db.run("BEGIN; TRUNCATE image; ROLLBACK")?;
    assert!(bed.captured()?.is_empty());
    assert_eq!(bed.db.number("SELECT count(*) FROM image")?, 1);
    Ok(())
}

#[test]
fn a_truncate_cascade_misses_the_tables_it_reaches() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE account (id int PRIMARY KEY);
         CREATE TABLE model (id int PRIMARY KEY, account int REFERENCES account);
         CREATE TABLE file (id int PRIMARY KEY, model int REFERENCES model, key text);
         INSERT INTO account VALUES (1); INSERT INTO model VALUES (1, 1);
         INSERT INTO file VALUES (1, 1, 'f1'), (2, 1, 'f2')",
    )?;
    bed.attach("'file', 'key'")?;
    bed.db.run("TRUNCATE account CASCADE")?;
    assert_eq!(bed.captured()?, ["f1", "f2"]);
    Ok(())
}

#[test]
fn a_truncate_of_partitions_is_captured_in_part_or_twice() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE photo (id int, key text) PARTITION BY RANGE (id);
         CREATE TABLE photo_0 PARTITION OF photo FOR VALUES FROM (0) TO (10);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES FROM (10) TO (20);
         INSERT INTO photo VALUES (1, 'p1'), (2, 'p2'), (11, 'p11')",
    )?;
    bed.attach("'photo', 'key'")?;
    bed.db.run("TRUNCATE photo_0")?;
    assert_eq!(bed.captured()?, ["p1", "p2"]);
    bed.db.run("TRUNCATE photo")?;
    assert_eq!(bed.captured()?, ["p1", "p11", "p2"]);
    Ok(())
}

#[test]
fn a_forbidden_truncate_passes() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'a.png')")?;
    bed.attach("'image', 'url', on_truncate => 'forbid'")?;
    let refusal = bed.db.refusal("TRUNCATE image")?;
    assert_eq!(refusal.code, "23001", "{refusal}");
    assert!(!refusal.hint.is_empty(), "{refusal}");
    assert_eq!(bed.db.number("SELECT count(*) FROM image")?, 1);
    bed.db.run("DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    Ok(())
}

#[test]
fn a_large_truncate_runs_out_of_order() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["first"])?;
    bed.db.run("INSERT INTO image SELECT n, 'big/' || n FROM generate_series(2, 2500) n; TRUNCATE image")?;
    assert_eq!(bed.db.row("SELECT count(*), count(DISTINCT locator) FROM storage_reaper.queue")?, "2500|2500");
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.entry")?, 3);
    Ok(())
}
