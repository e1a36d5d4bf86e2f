//! DROP, which fires no trigger on the table that goes.

use anyhow::{Result, ensure};
use storage_reaper_tests::cluster::{Cluster, SHOP};
use storage_reaper_tests::scenario::Bed;
use storage_reaper_tests::wait;

#[test]
fn a_dropped_partition_takes_its_objects_along() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE photo (id int, key text) PARTITION BY RANGE (id);
         CREATE TABLE photo_0 PARTITION OF photo FOR VALUES FROM (0) TO (10);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES FROM (10) TO (20);
         INSERT INTO photo VALUES (1, 'p1'), (2, 'p2'), (11, 'p11')",
    )?;
    bed.attach("'photo', 'key'")?;
    bed.db.run("DROP TABLE photo_0")?;
    assert_eq!(bed.captured()?, ["p1", "p2"]);
    bed.db.run("DROP TABLE photo")?;
    assert_eq!(bed.captured()?, ["p1", "p11", "p2"]);
    Ok(())
}

#[test]
fn a_dropped_table_takes_its_objects_along() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    bed.db.run("DROP TABLE image")?;
    assert_eq!(bed.captured()?, ["a.png", "b.png"]);
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.sources")?, 0);
    Ok(())
}

#[test]
fn a_drop_that_is_rolled_back_is_captured() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.db.run("BEGIN; DROP TABLE image; ROLLBACK; DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    Ok(())
}

#[test]
fn a_dropped_schema_takes_its_objects_along() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE SCHEMA tenant; CREATE TABLE tenant.doc (id int, key text); INSERT INTO tenant.doc VALUES (1, 'd1')",
    )?;
    bed.attach("'tenant.doc', 'key'")?;
    bed.db.run("DROP SCHEMA tenant CASCADE")?;
    assert_eq!(bed.captured()?, ["d1"]);
    Ok(())
}

#[test]
fn a_table_dropped_with_what_it_depends_on_takes_its_objects_along() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE media (id int, key text);
         CREATE TABLE video () INHERITS (media);
         INSERT INTO media VALUES (1, 'm1'); INSERT INTO video VALUES (2, 'v1')",
    )?;
    bed.attach("'media', 'key'")?;
    bed.db.run("DROP TABLE media CASCADE")?;
    assert_eq!(bed.captured()?, ["m1", "v1"]);
    Ok(())
}

#[test]
fn a_partition_of_another_owner_cannot_be_dropped_any_more() -> Result<()> {
    let mut bed = Bed::new()?;
    let (root, leaf) = (bed.role("GRANT CREATE ON SCHEMA public TO {role}")?, bed.role("")?);
    bed.db.run(&format!(
        "SET ROLE {root}; CREATE TABLE photo (id int, key text) PARTITION BY LIST (id);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES IN (1); INSERT INTO photo VALUES (1, 'p1'); RESET ROLE;
         ALTER TABLE photo_1 OWNER TO {leaf}"
    ))?;
    bed.attach("'photo', 'key'")?;
    bed.connect_as(&root)?.run("DROP TABLE photo")?;
    assert_eq!(bed.captured()?, ["p1"]);
    Ok(())
}

#[test]
fn a_stranger_locks_a_table_by_trying_to_drop_it() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    let role = bed.role("")?;
    let mut holder = bed.connect()?;
    holder.run("BEGIN; SELECT count(*) FROM image")?;
    // He would wait for the reader if he got as far as the lock.
    let mut stranger = bed.connect_as(&role)?;
    assert_eq!(stranger.refusal("SET lock_timeout = '30s'; DROP TABLE image")?.code, "42501");
    assert!(bed.captured()?.is_empty());
    Ok(())
}

#[test]
fn a_capture_that_was_rolled_back_counts_for_a_later_drop() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TYPE row_of_own AS (id int, key text); CREATE TABLE own OF row_of_own; INSERT INTO own VALUES (1, 'o1')",
    )?;
    bed.attach("'own', 'key'")?;
    bed.db.run("BEGIN; SAVEPOINT s; DROP TABLE own; ROLLBACK TO s")?;
    // This way to drop the table is not seen before it happens.
    assert_eq!(bed.db.refusal("DROP TYPE row_of_own CASCADE")?.code, "55000");
    bed.db.run("ROLLBACK")?;
    assert_eq!(bed.db.number("SELECT count(*) FROM own")?, 1);
    Ok(())
}

#[test]
fn an_owner_that_is_dropped_takes_objects_along() -> Result<()> {
    let mut bed = Bed::new()?;
    let role = bed.role("GRANT CREATE ON SCHEMA public TO {role}")?;
    bed.db.run(&format!(
        "SET ROLE {role}; CREATE TABLE own (id int, key text); INSERT INTO own VALUES (1, 'o1'); RESET ROLE"
    ))?;
    bed.attach("'own', 'key'")?;
    bed.db.run(&format!("DROP OWNED BY {role}"))?;
    assert_eq!(bed.captured()?, ["o1"]);
    Ok(())
}

#[test]
fn a_dropped_locator_column_breaks_deletes() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    bed.db.run("ALTER TABLE image DROP COLUMN url; DELETE FROM image WHERE id = 1")?;
    // What cannot be read any more waits for a person, with the row.
    let found = bed.db.row("SELECT locator, last_error FROM storage_reaper.queue")?;
    ensure!(found.contains("{\"id\":1}") && found.contains("url"), "{found}");
    Ok(())
}

#[test]
fn without_preload_a_drop_loses_objects_silently() -> Result<()> {
    let cluster = Cluster::start("")?;
    let mut db = cluster.database(SHOP)?;
    db.run(
        "CREATE EXTENSION storage_reaper;
         SELECT storage_reaper.create_backend('media', kind => 'generic', endpoint => 'https://s3.example.test', bucket => 'media');
         CREATE TABLE image (id int, url text); INSERT INTO image VALUES (1, 'a.png'), (2, 'b.png');
         SELECT storage_reaper.attach('image', 'url', backend => 'media', allow_scan => true)",
    )?;
    // A new session has not loaded the library when the DROP begins.
    let mut db = cluster.database(SHOP)?;
    let refusal = db.refusal("DROP TABLE image")?;
    assert_eq!(refusal.code, "55000", "{refusal}");
    ensure!(refusal.hint.contains("shared_preload_libraries"), "{refusal}");
    assert_eq!(db.number("SELECT count(*) FROM image")?, 2);
    // After the way out that the HINT names, the drop goes through and nothing is lost.
    let mut db = cluster.database(SHOP)?;
    db.run("LOAD 'storage_reaper'")?;
    db.run("DROP TABLE image")?;
    assert_eq!(db.rows("SELECT locator FROM storage_reaper.queue ORDER BY 1")?, ["a.png", "b.png"]);
    Ok(())
}

#[test]
fn a_dropped_partition_deadlocks_with_readers_of_its_root() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE photo (id int, key text) PARTITION BY LIST (id);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES IN (1); INSERT INTO photo VALUES (1, 'p1')",
    )?;
    bed.attach("'photo', 'key'")?;
    let (mut reader, mut dropper) = (bed.connect()?, bed.connect()?);
    reader.run("BEGIN; LOCK TABLE ONLY photo IN ACCESS SHARE MODE")?;
    let drop = std::thread::spawn(move || dropper.run("DROP TABLE photo_1"));
    let waiting = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'photo'::regclass";
    wait::until(wait::PATIENCE, "the drop waits for the root", || Ok(bed.db.holds(waiting)?.then_some(())))?;
    // Whoever has the root gets on to the partition.
    reader.run("SET LOCAL lock_timeout = '20s'; SELECT count(*) FROM photo_1; COMMIT")?;
    ensure!(drop.join().is_ok_and(|dropped| dropped.is_ok()), "the drop failed");
    assert_eq!(bed.captured()?, ["p1"]);
    Ok(())
}
