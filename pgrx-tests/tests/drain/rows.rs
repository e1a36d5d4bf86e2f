//! References to rows: protect(…, row_of => …).

use anyhow::Result;
use storage_reaper_tests::scenario::Reaper;

#[test]
fn a_reference_to_a_row_holds_what_the_row_has_let_go() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["old.png", "gone.png", "free.png"])?;
    reaper.db.run(
        "CREATE TABLE link (image_id int); CREATE INDEX ON link (image_id); INSERT INTO link VALUES (1), (2);
         SELECT storage_reaper.protect('link', 'image_id', row_of => 'image.url')",
    )?;
    reaper.arm()?;
    // An id beyond the column's type is nobody's, and no error.
    reaper.db.run("INSERT INTO image VALUES (5000000000, 'far.png')")?;
    reaper.db.run("UPDATE image SET url = 'new.png' WHERE id = 1; DELETE FROM image WHERE id > 1")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["far.png|deleted", "free.png|deleted", "gone.png|kept", "old.png|deleted"]);
    Ok(())
}

#[test]
fn a_reference_to_rows_forgets_them_when_their_source_is_attached_anew() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.db.run(
        "CREATE TABLE link (image_id bigint); INSERT INTO link VALUES (1);
         SELECT storage_reaper.protect('link', 'image_id', row_of => 'image.url', allow_scan => true);
         SELECT storage_reaper.detach('image.url');
         SELECT storage_reaper.attach('image', 'url', backend => 'media', name => 'picture')",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept"]);
    Ok(())
}

#[test]
fn rows_that_nothing_tells_apart_are_referred_to_by_nobody() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.db.run(
        "CREATE TABLE link (image_id bigint); INSERT INTO link VALUES (1);
         SELECT storage_reaper.protect('link', 'image_id', row_of => 'image.url', allow_scan => true);
         ALTER TABLE image DROP CONSTRAINT image_pkey",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept"]);
    Ok(())
}

#[test]
fn a_number_in_a_document_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run(
        r#"CREATE TABLE doc (id int PRIMARY KEY, meta jsonb);
           INSERT INTO doc VALUES (1, '{"file": 77}'), (2, '{"file": 77}'), (3, '{"file": 7.50}'), (4, '{"file": "7.50"}'), (5, '{"file": 5}');
           SELECT storage_reaper.attach('doc', 'meta', path => '$.file', backend => 'media', allow_scan => true)"#,
    )?;
    reaper.bucket()?.put_all(&["77", "7.50", "5"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM doc WHERE id IN (1, 3, 5)")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["5|deleted", "7.50|kept", "77|kept"]);
    Ok(())
}

#[test]
fn a_reference_that_is_too_slow_for_many_objects_stops_everything() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.guard_timeout = '500ms'\n")?;
    reaper.images()?;
    let keys: Vec<String> = (0..200).map(|number| format!("{number}.png")).collect();
    reaper.add_images(&keys)?;
    reaper.db.run(
        "CREATE FUNCTION public.slowly(text) RETURNS text LANGUAGE plpgsql IMMUTABLE
             AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN $1; END $$;
         CREATE TABLE page (url text); INSERT INTO page VALUES ('7.png');
         SELECT storage_reaper.protect('page', expression => 'public.slowly(url)', backend => 'media', allow_scan => true)",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["deleted|199", "kept|1"]);
    assert_eq!(reaper.db.number("SELECT sources_faulty FROM storage_reaper.status")?, 0);
    Ok(())
}

#[test]
fn a_backend_that_was_held_before_a_restart_is_held_for_ever() -> Result<()> {
    let mut reaper = Reaper::with_own_store("storage_reaper.connect_timeout = '1s'\n")?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.db.run("UPDATE storage_reaper.backend SET held_since = now(), held_reason = 'before'")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    reaper.until("nothing is held", "SELECT backends_held = 0 FROM storage_reaper.status")
}

#[test]
fn a_table_that_is_filled_anew_looks_empty() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.db.run(
        "CREATE TABLE slow (id int PRIMARY KEY, url text); INSERT INTO slow VALUES (1, 'else.png');
         SELECT storage_reaper.attach('slow', expression => $$url || pg_catalog.pg_sleep(0.5)::text$$, backend => 'media', allow_scan => true);
         CREATE TABLE page (id int, url text); INSERT INTO page VALUES (1, 'a.png');
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    let checking = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'storage_reaper: guard source slow%' AND state = 'active'";
    reaper.until("the check runs", checking)?;
    reaper.db.run("BEGIN; TRUNCATE page; INSERT INTO page VALUES (1, 'a.png'); COMMIT; ALTER TABLE page ALTER COLUMN id TYPE bigint")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|deleted"]);
    Ok(())
}

#[test]
fn rows_of_a_dropped_root_are_referred_to_by_nobody() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run(
        "CREATE TABLE photo (id int PRIMARY KEY, url text) PARTITION BY RANGE (id);
         CREATE TABLE photo_0 PARTITION OF photo FOR VALUES FROM (0) TO (10);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES FROM (10) TO (20);
         INSERT INTO photo VALUES (1, 'a.png'), (11, 'b.png'), (12, 'c.png');
         SELECT storage_reaper.attach('photo', 'url', backend => 'media', allow_scan => true);
         CREATE TABLE link (photo_id int); INSERT INTO link VALUES (11);
         SELECT storage_reaper.protect('link', 'photo_id', row_of => 'photo.url', allow_scan => true)",
    )?;
    reaper.bucket()?.put_all(&["a.png", "b.png", "c.png"])?;
    reaper.arm()?;
    reaper.db.run("ALTER TABLE photo DETACH PARTITION photo_0; DROP TABLE photo")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["b.png|kept", "c.png|deleted"]);
    Ok(())
}
