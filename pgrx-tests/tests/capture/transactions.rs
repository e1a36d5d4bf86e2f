//! What does not commit leaves nothing behind; what commits later is captured later.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn a_rollback_leaves_an_entry() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.db.run("BEGIN; DELETE FROM image; ROLLBACK")?;
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.entry")?, 0);
    bed.db.run("DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    Ok(())
}

#[test]
fn a_rollback_to_savepoint_leaves_an_entry() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png", "d.png"])?;
    bed.db.run(
        "BEGIN;
         DELETE FROM image WHERE id = 1;
         SAVEPOINT one; DELETE FROM image WHERE id = 2; ROLLBACK TO one;
         SAVEPOINT two; DELETE FROM image WHERE id = 3; RELEASE two;
         COMMIT",
    )?;
    assert_eq!(bed.captured()?, ["a.png", "c.png"]);
    Ok(())
}

#[test]
fn a_failing_statement_leaves_an_entry() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    bed.db.run("CREATE TABLE use (image bigint REFERENCES image); INSERT INTO use VALUES (2)")?;
    assert_eq!(bed.db.refusal("DELETE FROM image")?.code, "23503");
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.entry")?, 0);
    Ok(())
}

#[test]
fn a_prepared_transaction_is_captured_early_or_not_at_all() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    let name = bed.name.clone();
    bed.db.run(&format!("BEGIN; DELETE FROM image WHERE id = 1; PREPARE TRANSACTION '{name}-1'"))?;
    bed.db.run(&format!("BEGIN; DELETE FROM image WHERE id = 2; PREPARE TRANSACTION '{name}-2'"))?;
    assert!(bed.captured()?.is_empty());
    let mut other = bed.connect()?;
    other.run(&format!("COMMIT PREPARED '{name}-1'"))?;
    other.run(&format!("ROLLBACK PREPARED '{name}-2'"))?;
    assert_eq!(bed.captured()?, ["a.png"]);
    Ok(())
}

#[test]
fn two_transactions_that_delete_the_same_locators_wait_for_each_other() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'x'), (2, 'y'), (3, 'y'), (4, 'x')")?;
    bed.attach("'image', 'url'")?;
    let mut other = bed.connect()?;
    bed.db.run("SET lock_timeout = '30s'; BEGIN; DELETE FROM image WHERE id = 1")?;
    other.run("SET lock_timeout = '30s'; BEGIN; DELETE FROM image WHERE id = 3")?;
    bed.db.run("DELETE FROM image WHERE id = 2")?;
    other.run("DELETE FROM image WHERE id = 4; COMMIT")?;
    bed.db.run("COMMIT")?;
    assert_eq!(bed.captured()?, ["x", "x", "y", "y"]);
    Ok(())
}
