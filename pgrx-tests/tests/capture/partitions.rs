//! Partitions and inheritance children, which PostgreSQL's statement triggers do not follow.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

/// `photo`, partitioned by id: 0–9, 10–19 (partitioned once more), and a default.
fn photos(bed: &mut Bed) -> Result<()> {
    bed.db.run(
        "CREATE TABLE photo (id int NOT NULL, key text) PARTITION BY RANGE (id);
         CREATE TABLE photo_0 PARTITION OF photo FOR VALUES FROM (0) TO (10);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id);
         CREATE TABLE photo_1_odd PARTITION OF photo_1 FOR VALUES IN (11, 13, 15, 17, 19);
         CREATE TABLE photo_1_rest PARTITION OF photo_1 DEFAULT;
         CREATE TABLE photo_rest PARTITION OF photo DEFAULT;
         INSERT INTO photo SELECT n, 'p' || n FROM unnest(ARRAY[1, 2, 11, 12, 21]) n",
    )?;
    bed.attach("'photo', 'key'")
}

#[test]
fn a_delete_through_the_root_is_captured_by_root_and_leaf_both() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run("DELETE FROM photo")?;
    assert_eq!(bed.captured()?, ["p1", "p11", "p12", "p2", "p21"]);
    Ok(())
}

#[test]
fn a_partition_leaf_named_directly_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run(
        "DELETE FROM photo_0 WHERE id = 1; DELETE FROM photo_1; UPDATE photo_rest SET key = NULL; DELETE FROM photo_0",
    )?;
    assert_eq!(bed.captured()?, ["p1", "p11", "p12", "p2", "p21"]);
    Ok(())
}

#[test]
fn a_partition_created_later_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run(
        "CREATE TABLE photo_5 PARTITION OF photo FOR VALUES FROM (50) TO (60) PARTITION BY LIST (id);
         CREATE TABLE photo_5_all PARTITION OF photo_5 DEFAULT;
         INSERT INTO photo VALUES (51, 'late'), (52, 'later');
         DELETE FROM photo_5_all WHERE id = 51; TRUNCATE photo_5_all",
    )?;
    assert_eq!(bed.captured()?, ["late", "later"]);
    Ok(())
}

#[test]
fn a_partition_attached_later_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run(
        "CREATE TABLE loose (key text, extra int, id int NOT NULL);
         ALTER TABLE loose DROP COLUMN extra;
         INSERT INTO loose VALUES ('joined', 71), ('again', 72);
         ALTER TABLE photo ATTACH PARTITION loose FOR VALUES FROM (70) TO (80);
         DELETE FROM loose WHERE id = 71; DELETE FROM photo WHERE id = 72",
    )?;
    assert_eq!(bed.captured()?, ["again", "joined"]);
    Ok(())
}

#[test]
fn a_row_that_moves_between_partitions_is_captured() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run("UPDATE photo SET id = 3 WHERE id = 21; UPDATE photo SET id = 22, key = 'renamed' WHERE id = 1")?;
    assert_eq!(bed.captured()?, ["p1"]);
    Ok(())
}

#[test]
fn a_cascade_into_partitions_is_captured_in_part_or_twice() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run(
        "CREATE TABLE album (id int PRIMARY KEY);
         INSERT INTO album SELECT id FROM photo;
         ALTER TABLE photo ADD FOREIGN KEY (id) REFERENCES album ON DELETE CASCADE;
         DELETE FROM album WHERE id <> 2",
    )?;
    assert_eq!(bed.captured()?, ["p1", "p11", "p12", "p21"]);
    Ok(())
}

#[test]
fn a_cascade_declared_on_one_leaf_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run(
        "CREATE TABLE album (id int PRIMARY KEY);
         INSERT INTO album VALUES (1), (2);
         ALTER TABLE photo_0 ADD FOREIGN KEY (id) REFERENCES album ON DELETE CASCADE;
         DELETE FROM album WHERE id = 1",
    )?;
    assert_eq!(bed.captured()?, ["p1"]);
    Ok(())
}

#[test]
fn a_detached_partition_that_is_dropped_takes_its_objects_along() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run("ALTER TABLE photo DETACH PARTITION photo_0")?;
    bed.db.run("DROP TABLE photo_0")?;
    assert_eq!(bed.captured()?, ["p1", "p2"]);
    Ok(())
}

#[test]
fn a_child_by_inheritance_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE media (id int, key text);
         CREATE TABLE video (length int) INHERITS (media);
         INSERT INTO media VALUES (1, 'm1'); INSERT INTO video VALUES (2, 'v1'), (3, 'v2'), (4, 'v3')",
    )?;
    bed.attach("'media', 'key'")?;
    bed.db.run(
        "DELETE FROM video WHERE id = 2; DELETE FROM media WHERE id = 3;
         CREATE TABLE sound () INHERITS (media); INSERT INTO sound VALUES (5, 's1'); DELETE FROM sound;
         CREATE TABLE late (id int, key text); ALTER TABLE late INHERIT media; INSERT INTO late VALUES (6, 'l1'); DELETE FROM late",
    )?;
    assert_eq!(bed.captured()?, ["l1", "s1", "v1", "v2"]);
    Ok(())
}

#[test]
fn attaching_only_a_partition_captures_its_siblings() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE photo (id int, key text) PARTITION BY RANGE (id);
         CREATE TABLE photo_0 PARTITION OF photo FOR VALUES FROM (0) TO (10);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES FROM (10) TO (20);
         INSERT INTO photo VALUES (1, 'ours'), (2, 'ours too'), (11, 'not ours')",
    )?;
    bed.attach("'photo_0', 'key'")?;
    bed.db.run("DELETE FROM photo_0 WHERE id = 1; DELETE FROM photo_1")?;
    assert_eq!(bed.captured()?, ["ours"]);
    Ok(())
}

#[test]
fn a_detached_partition_loses_its_source_with_the_root() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run(
        "ALTER TABLE photo DETACH PARTITION photo_0; ALTER TABLE photo DETACH PARTITION photo_rest; DROP TABLE photo",
    )?;
    assert_eq!(bed.db.row("SELECT name, covered_relations FROM storage_reaper.sources")?, "photo.key|2");
    bed.db
        .run("DELETE FROM photo_0 WHERE id = 1; DROP TABLE photo_0; DELETE FROM photo_rest; DROP TABLE photo_rest")?;
    assert_eq!(bed.captured()?, ["p1", "p11", "p12", "p2", "p21"]);
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.sources")?, 0);
    Ok(())
}

#[test]
fn a_renamed_root_blinds_its_detached_partition() -> Result<()> {
    let mut bed = Bed::new()?;
    photos(&mut bed)?;
    bed.db.run(
        "ALTER TABLE photo DETACH PARTITION photo_0; ALTER TABLE photo RENAME COLUMN key TO link;
         DELETE FROM photo_0 WHERE id = 1; DELETE FROM photo WHERE id = 11;
         ALTER TABLE photo_0 RENAME COLUMN key TO place; DELETE FROM photo_0",
    )?;
    let faults = "SELECT locator, last_error FROM storage_reaper.queue ORDER BY locator";
    assert_eq!(bed.db.rows(faults)?, ["p1|∅", "p11|∅", "p2|∅"]);
    // The reference check asks each by its own name.
    bed.db.run("INSERT INTO photo_0 VALUES (3, 'p3')")?;
    let found = "SELECT state, source FROM storage_reaper.explain('p3')";
    assert_eq!(bed.db.rows(found)?, ["referenced|photo.key"]);
    Ok(())
}
