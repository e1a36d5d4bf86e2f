//! Ordinary statements: DELETE, UPDATE, INSERT … ON CONFLICT, MERGE, cascades.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn a_delete_is_forgotten() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png"])?;
    bed.db.run("DELETE FROM image WHERE id < 3")?;
    assert_eq!(bed.captured()?, ["a.png", "b.png"]);
    assert_eq!(
        bed.db.row("SELECT source, backend, row_id, state FROM storage_reaper.queue WHERE locator = 'a.png'")?,
        "image.url|media|1|observed"
    );
    Ok(())
}

#[test]
fn a_delete_of_nothing_writes_an_entry() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.db.run("DELETE FROM image WHERE id = 99")?;
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.entry")?, 0);
    Ok(())
}

#[test]
fn a_null_or_blank_locator_becomes_an_entry() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["", "   ", "kept/here.png"])?;
    bed.db.run("INSERT INTO image VALUES (4, NULL), (5, E'\\t\\n'); DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["kept/here.png"]);
    Ok(())
}

#[test]
fn a_hundred_thousand_rows_become_a_hundred_thousand_entries() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["first"])?;
    bed.db.run("INSERT INTO image SELECT n, 'big/' || n FROM generate_series(2, 100000) n; DELETE FROM image")?;
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.entry")?, 100);
    assert_eq!(
        bed.db.row("SELECT count(*), count(DISTINCT locator), count(DISTINCT row_id) FROM storage_reaper.queue")?,
        "100000|100000|100000"
    );
    assert_eq!(
        bed.db
            .number("SELECT count(*) FROM storage_reaper.queue WHERE row_id <> '1' AND locator <> 'big/' || row_id")?,
        0
    );
    Ok(())
}

#[test]
fn a_replaced_locator_is_forgotten() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["old.png", "same.png"])?;
    bed.db.run("UPDATE image SET url = 'new.png' WHERE id = 1; UPDATE image SET url = url")?;
    assert_eq!(bed.captured()?, ["old.png"]);
    Ok(())
}

#[test]
fn a_locator_set_to_null_is_forgotten() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["old.png"])?;
    bed.db.run("UPDATE image SET url = NULL")?;
    assert_eq!(bed.captured()?, ["old.png"]);
    Ok(())
}

#[test]
fn a_swap_of_two_rows_locators_captures_live_objects() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["left.png", "right.png", "gone.png"])?;
    bed.db.run("UPDATE image SET url = CASE id WHEN 1 THEN 'right.png' WHEN 2 THEN 'left.png' ELSE 'next.png' END")?;
    assert_eq!(bed.captured()?, ["gone.png"]);
    Ok(())
}

#[test]
fn a_changed_key_with_the_same_locator_captures_a_live_object() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["same.png"])?;
    bed.db.run("UPDATE image SET id = 1000 + id")?;
    assert!(bed.captured()?.is_empty());
    Ok(())
}

#[test]
fn updates_are_captured_although_the_source_ignores_them() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'old.png')")?;
    bed.attach("'image', 'url', on_update => 'ignore'")?;
    bed.db.run("UPDATE image SET url = 'new.png'; DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["new.png"]);
    Ok(())
}

#[test]
fn an_upsert_hides_the_locator_that_it_replaces() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["old.png"])?;
    bed.db.run(
        "INSERT INTO image VALUES (1, 'new.png'), (2, 'other.png') ON CONFLICT (id) DO UPDATE SET url = excluded.url",
    )?;
    assert_eq!(bed.captured()?, ["old.png"]);
    Ok(())
}

#[test]
fn a_merge_hides_what_it_deletes_and_replaces() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["deleted.png", "replaced.png", "untouched.png"])?;
    bed.db.run(
        "MERGE INTO image i USING (VALUES (1, NULL), (2, 'new.png'), (4, 'inserted.png')) AS v (id, url) ON i.id = v.id
         WHEN MATCHED AND v.url IS NULL THEN DELETE
         WHEN MATCHED THEN UPDATE SET url = v.url
         WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.url)",
    )?;
    assert_eq!(bed.captured()?, ["deleted.png", "replaced.png"]);
    Ok(())
}

#[test]
fn a_writable_cte_hides_its_deletions() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["moved.png", "gone.png"])?;
    bed.db.run("WITH gone AS (DELETE FROM image WHERE id = 2 RETURNING url) SELECT count(*) FROM gone")?;
    assert_eq!(bed.captured()?, ["gone.png"]);
    Ok(())
}

#[test]
fn a_cascade_of_three_levels_forgets_the_grandchildren() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE account (id int PRIMARY KEY);
         CREATE TABLE model (id int PRIMARY KEY, account int REFERENCES account ON DELETE CASCADE);
         CREATE TABLE file (id int PRIMARY KEY, model int REFERENCES model ON DELETE CASCADE, key text);
         INSERT INTO account SELECT generate_series(1, 3);
         INSERT INTO model SELECT n, 1 + n % 3 FROM generate_series(1, 6) n;
         INSERT INTO file SELECT n, 1 + n % 6, 'f' || n FROM generate_series(1, 12) n",
    )?;
    bed.attach("'file', 'key'")?;
    let doomed = bed
        .db
        .rows("SELECT key FROM file JOIN model ON model.id = model WHERE account <= 2 ORDER BY key COLLATE \"C\"")?;
    bed.db.run("DELETE FROM account WHERE id <= 2")?;
    assert_eq!(doomed.len(), 8);
    assert_eq!(bed.captured()?, doomed);
    Ok(())
}

#[test]
fn a_tree_that_deletes_itself_is_captured_in_part_or_twice() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE folder (id int PRIMARY KEY, parent int REFERENCES folder ON DELETE CASCADE, cover text);
         INSERT INTO folder VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 3, 'd'), (5, NULL, 'e')",
    )?;
    bed.attach("'folder', 'cover'")?;
    bed.db.run("DELETE FROM folder WHERE id = 1")?;
    assert_eq!(bed.captured()?, ["a", "b", "c", "d"]);
    Ok(())
}

#[test]
fn a_child_that_is_set_null_captures_a_live_object() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE owner (id int PRIMARY KEY);
         CREATE TABLE file (id int PRIMARY KEY, owner int REFERENCES owner ON DELETE SET NULL, key text);
         INSERT INTO owner VALUES (1); INSERT INTO file VALUES (1, 1, 'stays')",
    )?;
    bed.attach("'file', 'key'")?;
    bed.db.run("DELETE FROM owner")?;
    assert!(bed.captured()?.is_empty());
    Ok(())
}

#[test]
fn a_row_that_a_trigger_saves_is_captured() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["saved.png", "gone.png"])?;
    bed.db.run(
        "CREATE FUNCTION save() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF old.id = 1 THEN RETURN NULL; END IF; RETURN old; END $$;
         CREATE TRIGGER save BEFORE DELETE ON image FOR EACH ROW EXECUTE FUNCTION save();
         DELETE FROM image",
    )?;
    assert_eq!(bed.captured()?, ["gone.png"]);
    Ok(())
}

#[test]
fn deletions_inside_a_function_are_lost() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png"])?;
    bed.db.run(
        "DO $$ BEGIN
            FOR n IN 1..2 LOOP
                BEGIN DELETE FROM image WHERE id = n; EXCEPTION WHEN others THEN NULL; END;
            END LOOP;
            BEGIN DELETE FROM image WHERE id = 3; RAISE 'undone'; EXCEPTION WHEN others THEN NULL; END;
         END $$",
    )?;
    assert_eq!(bed.captured()?, ["a.png", "b.png"]);
    Ok(())
}
