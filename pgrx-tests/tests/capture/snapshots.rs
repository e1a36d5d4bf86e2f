//! Transactions that see the database as it was.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn a_transaction_older_than_the_source_is_not_captured() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'a.png'), (2, 'b.png'), (3, 'c.png')")?;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut old = bed.connect()?;
        old.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM image"))?;
        bed.attach("'image', 'url'")?;
        let next = "(SELECT min(id) FROM image)";
        old.run(&format!("DELETE FROM image WHERE id = {next}; COMMIT"))?;
        // Neither is it remembered that there was no source.
        old.run(&format!("DELETE FROM image WHERE id = {next} AND id = 3"))?;
        bed.db.run("SELECT storage_reaper.detach('image.url')")?;
    }
    assert_eq!(bed.captured()?, ["a.png", "b.png", "c.png"]);
    Ok(())
}

#[test]
fn a_partition_made_in_an_older_transaction_is_not_covered() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE photo (id int, key text) PARTITION BY LIST (id)")?;
    let mut old = bed.connect()?;
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
    bed.attach("'photo', 'key'")?;
    old.run("CREATE TABLE photo_1 PARTITION OF photo FOR VALUES IN (1); INSERT INTO photo VALUES (1, 'p1'); DELETE FROM photo_1; COMMIT")?;
    assert_eq!(bed.captured()?, ["p1"]);
    Ok(())
}
