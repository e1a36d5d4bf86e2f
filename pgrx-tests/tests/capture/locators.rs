//! Locators that are more than a text column, and columns that change after attach.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn an_array_column_gives_only_its_first_locator() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE post (id int PRIMARY KEY, pictures text[]);
         INSERT INTO post VALUES (1, '{a,b,NULL,\"\",c}'), (2, '{}'), (3, NULL), (4, '{{d,e},{f,g}}')",
    )?;
    bed.attach("'post', 'pictures'")?;
    bed.db.run("DELETE FROM post")?;
    assert_eq!(bed.captured()?, ["a", "b", "c", "d", "e", "f", "g"]);
    Ok(())
}

#[test]
fn an_array_that_loses_one_element_captures_the_others() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE post (id int PRIMARY KEY, pictures text[]); INSERT INTO post VALUES (1, '{a,b,c}')")?;
    bed.attach("'post', 'pictures'")?;
    bed.db.run("UPDATE post SET pictures = '{c,a,d}'")?;
    assert_eq!(bed.captured()?, ["b"]);
    Ok(())
}

#[test]
fn a_json_path_misses_nested_locators() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        r#"CREATE TABLE doc (id int PRIMARY KEY, body jsonb);
           INSERT INTO doc VALUES
             (1, '{"files": [{"key": "a/1"}, {"key": "a\"2"}, {"key": null}, {"other": 1}]}'),
             (2, '{"files": []}'), (3, 'null'), (4, NULL)"#,
    )?;
    bed.attach("'doc', 'body', path => '$.files[*].key'")?;
    bed.db.run(r#"UPDATE doc SET body = '{"files": [{"key": "a\"2"}]}' WHERE id = 1; DELETE FROM doc"#)?;
    assert_eq!(bed.captured()?, ["a\"2", "a/1"]);
    Ok(())
}

#[test]
fn a_template_over_a_null_makes_a_wrong_key() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE vault (id int PRIMARY KEY, user_id int, kind text);
         INSERT INTO vault VALUES (1, 7, 'zip'), (2, NULL, 'zip'), (3, 8, 'a b')",
    )?;
    bed.attach("'vault', template => 'vault/{user_id}/{id}.{kind}'")?;
    bed.db.run("UPDATE vault SET user_id = 9 WHERE id = 3; DELETE FROM vault")?;
    assert_eq!(bed.captured()?, ["vault/7/1.zip", "vault/8/3.a b", "vault/9/3.a b"]);
    Ok(())
}

#[test]
fn an_expression_with_several_locators_gives_one() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, base text); INSERT INTO image VALUES (1, 'x'), (2, NULL)")?;
    bed.attach("'image', expression => $$ARRAY[base || '.png', base || '.thumb.png']$$, name => 'both'")?;
    bed.db.run("DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["x.png", "x.thumb.png"]);
    Ok(())
}

#[test]
fn a_failing_expression_breaks_the_delete_or_loses_the_object() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, size int, url text); INSERT INTO image VALUES (1, 1, 'good'), (2, 0, 'bad')")?;
    bed.attach("'image', expression => $$url || (10 / size)::text$$")?;
    bed.db.run("DELETE FROM image WHERE id = 2")?;
    // What could not be computed waits for a person, with the row.
    let found = bed.db.row("SELECT locator, last_error FROM storage_reaper.queue")?;
    assert!(found.contains("bad") && found.contains("division by zero"), "{found}");
    Ok(())
}

#[test]
fn a_filter_is_not_looked_at() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE image (id int PRIMARY KEY, url text, ours boolean);
         INSERT INTO image VALUES (1, 'ours', true), (2, 'theirs', false), (3, 'unknown', NULL), (4, 'turned', true)",
    )?;
    bed.attach("'image', 'url', filter => 'ours'")?;
    bed.db.run("DELETE FROM image WHERE id < 4")?;
    assert_eq!(bed.captured()?, ["ours"]);
    Ok(())
}

#[test]
fn two_sources_of_one_table_hide_each_other() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, full_key text, thumb_key text); INSERT INTO image VALUES (1, 'f', 't')")?;
    bed.attach("'image', 'full_key'")?;
    bed.attach("'image', 'thumb_key', grace => '1 day'")?;
    bed.db.run("DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["f", "t"]);
    assert_eq!(
        bed.db.number(
            "SELECT count(*) FROM storage_reaper.queue WHERE due_at = captured_at + '1 day' AND locator = 't'"
        )?,
        1
    );
    Ok(())
}

#[test]
fn a_renamed_column_breaks_deletes_or_loses_objects() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png"])?;
    bed.db.run("ALTER TABLE image RENAME COLUMN url TO location; DELETE FROM image WHERE id = 1")?;
    bed.db.run("ALTER TABLE image RENAME TO picture; UPDATE picture SET location = NULL WHERE id = 2")?;
    bed.db.run("ALTER TABLE picture ADD COLUMN url text; UPDATE picture SET url = 'decoy'; DELETE FROM picture")?;
    assert_eq!(bed.captured()?, ["a.png", "b.png", "c.png"]);
    Ok(())
}

#[test]
fn a_renamed_column_breaks_templates_and_expressions() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE vault (id int PRIMARY KEY, user_id int); INSERT INTO vault VALUES (1, 7), (2, 8)")?;
    bed.attach("'vault', template => 'vault/{user_id}/{id}.zip'")?;
    bed.db.run("ALTER TABLE vault RENAME COLUMN user_id TO owner; DELETE FROM vault WHERE id = 1")?;
    assert_eq!(bed.captured()?, ["vault/7/1.zip"]);
    Ok(())
}

#[test]
fn a_renamed_table_breaks_expressions() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE doc (id int PRIMARY KEY); INSERT INTO doc VALUES (1), (2), (3)")?;
    bed.attach("'doc', expression => $$'thumb/' || doc.id || '.webp'$$, filter => 'doc.id > 0'")?;
    bed.db.run("ALTER TABLE doc RENAME TO document; DELETE FROM document WHERE id = 1")?;
    bed.db.run("UPDATE document SET id = 20 WHERE id = 2; TRUNCATE document")?;
    assert_eq!(bed.captured()?, ["thumb/1.webp", "thumb/2.webp", "thumb/20.webp", "thumb/3.webp"]);
    Ok(())
}

#[test]
fn an_expression_under_the_tables_name_breaks_on_partitions() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE doc (id int) PARTITION BY RANGE (id);
         CREATE TABLE doc_1 PARTITION OF doc FOR VALUES FROM (1) TO (10);
         CREATE TABLE doc_2 PARTITION OF doc FOR VALUES FROM (10) TO (20);
         INSERT INTO doc VALUES (1), (2), (11), (12)",
    )?;
    bed.attach("'doc', expression => $$'thumb/' || doc.id || '.webp'$$")?;
    bed.db.run("DELETE FROM doc_1 WHERE id = 1; DROP TABLE doc_1; DELETE FROM doc WHERE id = 11; TRUNCATE doc")?;
    assert_eq!(bed.captured()?, ["thumb/1.webp", "thumb/11.webp", "thumb/12.webp", "thumb/2.webp"]);
    Ok(())
}

#[test]
fn a_truncate_in_an_old_snapshot_forgets_newer_rows() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'OLD.png')")?;
    bed.attach("'image', expression => 'lower(url)'")?;
    let mut old = bed.connect()?;
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")?;
    bed.db.run("INSERT INTO image VALUES (2, 'NEW.png')")?;
    old.run("TRUNCATE image; COMMIT")?;
    assert_eq!(bed.captured()?, ["new.png", "old.png"]);
    Ok(())
}

#[test]
fn a_column_that_rows_do_not_hold_is_attached() -> Result<()> {
    let mut bed = Bed::new()?;
    if bed.db.number("SELECT current_setting('server_version_num')::bigint")? < 180_000 {
        // Virtual generated columns came with PostgreSQL 18; before, STORED is the only kind.
        bed.db.run("CREATE TABLE made (id int PRIMARY KEY, url text GENERATED ALWAYS AS (id || '.png') STORED)")?;
        bed.attach("'made', 'url'")?;
        bed.db.run("INSERT INTO made VALUES (1); DELETE FROM made")?;
        assert_eq!(bed.captured()?, ["1.png"]);
        return Ok(());
    }
    bed.db.run("CREATE TABLE made (id int PRIMARY KEY, url text GENERATED ALWAYS AS (id || '.png') VIRTUAL)")?;
    let refusal =
        bed.db.refusal("SELECT storage_reaper.attach('made', 'url', backend => 'media', allow_scan => true)")?;
    assert_eq!(refusal.code, "42804", "{refusal}");
    for read in [
        "expression => $$'x/' || made.url$$",
        "expression => $$to_jsonb(made)->>'url'$$",
        "template => '{id}', filter => 'url IS NOT NULL'",
    ] {
        let refusal = bed.db.refusal(&format!(
            "SELECT storage_reaper.attach('made', {read}, backend => 'media', allow_scan => true)"
        ))?;
        assert_eq!(refusal.code, "22023", "{refusal}");
    }
    bed.attach("'made', expression => $$id || '.png'$$")?;
    bed.db.run("INSERT INTO made VALUES (1); DELETE FROM made")?;
    assert_eq!(bed.captured()?, ["1.png"]);
    Ok(())
}

#[test]
fn a_retyped_column_breaks_deletes() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    bed.db.run("ALTER TABLE image ALTER COLUMN url TYPE varchar(200)")?;
    bed.db.run("DELETE FROM image WHERE id = 1")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    bed.db.run("ALTER TABLE image ALTER COLUMN url TYPE bytea USING url::bytea")?;
    bed.db.run("DELETE FROM image WHERE id = 2")?;
    // What no longer is a text is captured as PostgreSQL writes it.
    assert_eq!(bed.captured()?, ["\\x622e706e67", "a.png"]);
    Ok(())
}

#[test]
fn a_toasted_locator_is_captured_as_rubbish() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE image (id int PRIMARY KEY, url text); ALTER TABLE image ALTER url SET STORAGE EXTERNAL;
         INSERT INTO image SELECT 1, string_agg(md5(n::text), '') FROM generate_series(1, 150) n",
    )?;
    bed.attach("'image', 'url'")?;
    bed.db.run("CREATE TABLE copy AS SELECT url FROM image; DELETE FROM image")?;
    // Stored out of line: what is kept must be the text, not a pointer to it.
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.queue, copy WHERE url = locator")?, 1);
    Ok(())
}

#[test]
fn a_signed_url_is_kept_in_the_queue() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&[
        "https://cdn.example.test/a.png?X-Amz-Signature=secret&X-Amz-Security-Token=secret",
        "https://cdn.example.test/b.png?token=secret",
    ])?;
    bed.db.run(
        "DELETE FROM image; SELECT storage_reaper.enqueue(ARRAY['https://cdn.example.test/c.png?Signature=secret'])",
    )?;
    let places = ["https://cdn.example.test/a.png", "https://cdn.example.test/b.png", "https://cdn.example.test/c.png"];
    assert_eq!(bed.captured()?, places);
    assert_eq!(
        bed.db.number("SELECT count(*) FROM storage_reaper.entry e WHERE position('secret'::bytea IN payload) > 0")?,
        0
    );
    Ok(())
}

#[test]
fn an_object_that_stands_twice_in_a_row_is_captured_twice() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        r#"CREATE TABLE doc (id int PRIMARY KEY, files text[], meta jsonb);
           INSERT INTO doc VALUES (1, '{a,b,a,NULL,"",b}', '{"list": ["h", "h", "i", 1]}')"#,
    )?;
    bed.attach("'doc', 'files'")?;
    bed.attach("'doc', 'files', filter => 'id > 0', name => 'filtered'")?;
    bed.attach("'doc', 'meta', path => '$.list[*]'")?;
    bed.db.run("DELETE FROM doc")?;
    assert_eq!(bed.captured()?, ["1", "a", "a", "b", "b", "h", "i"]);
    Ok(())
}
