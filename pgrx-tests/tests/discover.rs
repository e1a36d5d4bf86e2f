//! Discovery: columns that name objects and that nobody declared.

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Bed;

/// What is found, without the examples.
const FOUND: &str = "SELECT relation, \"column\", backend, hits, sampled FROM storage_reaper.discover_references()";

/// A database with the location `https://cdn.example.test/` and the attached table `image (id, url)`.
fn bed(urls: &[&str]) -> Result<Bed> {
    let mut bed = Bed::new()?;
    bed.images(urls)?;
    bed.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')")?;
    Ok(bed)
}

/// Runs every suggestion; what they protect is not found again.
fn protect_all(bed: &mut Bed) -> Result<()> {
    for suggestion in bed.db.rows("SELECT suggestion FROM storage_reaper.discover_references()")? {
        let suggestion = if suggestion.contains("allow_scan") {
            suggestion
        } else {
            suggestion.replace(");", ", allow_scan => true);")
        };
        bed.db.run(&suggestion)?;
    }
    Ok(())
}

#[test]
fn a_copied_table_is_not_discovered() -> Result<()> {
    for urls in [["a.png", "b.png"], ["https://cdn.example.test/a", "s3://media/b"]] {
        let mut bed = bed(&urls)?;
        bed.db.run("CREATE TABLE media_v2 AS SELECT * FROM image")?;
        assert_eq!(bed.db.rows(FOUND)?, ["media_v2|url|media|2|2"]);
        // The copy is all that is left, and the outbox.
        bed.db.run("DELETE FROM image")?;
        assert_eq!(bed.db.rows(FOUND)?, ["media_v2|url|media|2|2"]);
        protect_all(&mut bed)?;
        assert_eq!(bed.db.rows(FOUND)?, Vec::<String>::new());
        let protected = bed.db.rows("SELECT name, kind, backend FROM storage_reaper.protections")?;
        ensure!(protected.len() == 1 && protected[0].starts_with("media_v2.url|column|"), "{protected:?}");
    }
    Ok(())
}

#[test]
fn keys_are_taken_for_words_or_words_for_keys() -> Result<()> {
    let mut bed =
        bed(&["image/1.jpg", "https://cdn.example.test/image/2.jpg", "3b241101-e2bb-4255-8caf-4136c566a962"])?;
    bed.db.run(
        "CREATE TABLE one (note text); INSERT INTO one VALUES ('image/2.jpg'), ('image'), (NULL);
         CREATE TABLE two (picture_path text); INSERT INTO two VALUES ('image/77.jpg'), ('image/78.jpg');
         CREATE TABLE three (blob_id text); INSERT INTO three VALUES ('3b241101-e2bb-4255-8caf-4136c566a962');
         CREATE TABLE plain (note text); INSERT INTO plain VALUES ('image/77.jpg'), ('film.jpg');
         CREATE TABLE other (file_id text); INSERT INTO other SELECT gen_random_uuid() FROM generate_series(1, 9);
         CREATE TABLE word (path text); INSERT INTO word VALUES ('image'), ('jpg'), ('https://elsewhere.test/image/1.jpg')",
    )?;
    assert_eq!(bed.db.rows(FOUND)?, ["one|note|media|1|2", "three|blob_id|media|1|1", "two|picture_path|media|2|2"]);
    let suggestion = bed.db.row("SELECT suggestion FROM storage_reaper.discover_references() WHERE hits = 2")?;
    assert_eq!(suggestion, "SELECT storage_reaper.protect('public.two', 'picture_path', backend => 'media');");
    Ok(())
}

#[test]
fn a_large_attached_table_is_not_asked() -> Result<()> {
    let mut bed = bed(&["image/0.jpg"])?;
    bed.db.run(
        "INSERT INTO image SELECT i + 1, 'image/' || i || '.jpg' FROM generate_series(1, 60000) i; ANALYZE image;
         CREATE TABLE old (note text); INSERT INTO old VALUES ('image/59999.jpg'), ('image/60001.jpg')",
    )?;
    assert_eq!(bed.db.rows(FOUND)?, ["old|note|media|1|2"]);
    // The sample of a large table is no larger than was said.
    bed.db.run("CREATE TABLE copy AS SELECT * FROM image; DROP TABLE old")?;
    assert_eq!(bed.db.rows(&FOUND.replace("()", "(sample_rows => 50)"))?, ["copy|url|media|50|50"]);
    Ok(())
}

#[test]
fn a_json_document_is_not_searched() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    bed.db.run(
        r#"CREATE DOMAIN papers AS jsonb; CREATE DOMAIN labels AS text[]; CREATE DOMAIN label AS varchar(80);
           CREATE TABLE doc (a jsonb, b json, c text[], d papers, e labels, f label, g char(50), h jsonb, i text, j text[]);
           INSERT INTO doc VALUES (
               '{"deep": [{"url": "https://cdn.example.test/1.png?v=2"}], "title": "1"}', '["a.png", 1, null]',
               ARRAY[['x', NULL], ['s3://media/2.png', 'y']], '{"u": "https://cdn.example.test/3.png"}', ARRAY['a.png'],
               '//cdn.example.test/4.png', 'https://cdn.example.test/5.png',
               '{"html": "<img src=\"https://cdn.example.test/6.png\">"}', 'see https://cdn.example.test/7.png.',
               ARRAY['[8](https://cdn.example.test/8.png)']);
           INSERT INTO doc (i, j) VALUES ('https://cdn.example.test/9.png', ARRAY['https://cdn.example.test/9.png']);
           INSERT INTO doc (b, c) VALUES ('{"none": true}', '{}')"#,
    )?;
    let found = bed.db.rows("SELECT \"column\", type, hits, sampled FROM storage_reaper.discover_references()")?;
    assert_eq!(
        found,
        [
            "a|jsonb|1|1",
            "b|json|1|2",
            "c|text[]|1|2",
            "d|public.papers|1|1",
            "e|public.labels|1|1",
            "f|public.label|1|1",
            "g|character(50)|1|1",
            "h|jsonb|1|1",
            "i|text|2|2",
            "j|text[]|2|2",
        ]
    );
    protect_all(&mut bed)?;
    assert_eq!(bed.db.rows(FOUND)?, Vec::<String>::new());
    // What is protected is found by the reference check: each of them under its column.
    for (key, column) in
        [("1", "a"), ("2", "c"), ("3", "d"), ("4", "f"), ("5", "g"), ("6", "h"), ("7", "i"), ("8", "j")]
    {
        let keepers = format!(
            "SELECT DISTINCT source FROM storage_reaper.explain('s3://media/{key}.png') WHERE state = 'referenced'"
        );
        assert_eq!(bed.db.rows(&keepers)?, [format!("doc.{column}")], "{key}");
    }
    let keepers = "SELECT source FROM storage_reaper.explain('s3://media/9.png') WHERE state = 'referenced' ORDER BY 1";
    assert_eq!(bed.db.rows(keepers)?, ["doc.i", "doc.j"]);
    Ok(())
}

#[test]
fn urls_in_texts_are_not_found() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    bed.db.run(
        "CREATE TABLE article (body text);
         INSERT INTO article SELECT repeat('word and media ', 2000) || '<img src=\"https://cdn.example.test/5.png?a=b\">' || repeat(' x', 9999);
         INSERT INTO article SELECT repeat('no picture ', i) FROM generate_series(1, 99) i",
    )?;
    let found = bed.db.rows("SELECT hits, sampled, example, suggestion FROM storage_reaper.discover_references()")?;
    assert_eq!(
        found,
        [
            "1|100|https://cdn.example.test/5.png|SELECT storage_reaper.protect('public.article', 'body', embedded => true);"
        ]
    );
    Ok(())
}

#[test]
fn an_attached_or_protected_column_is_reported() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    bed.db.run(
        "CREATE TABLE child () INHERITS (image); INSERT INTO child VALUES (7, 'a.png');
         CREATE TABLE part (id int, url text) PARTITION BY LIST (id);
         CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1); INSERT INTO part VALUES (1, 'a.png');
         SELECT storage_reaper.attach('part', 'url', backend => 'media', allow_scan => true);
         ALTER TABLE part DETACH PARTITION part_1;
         CREATE TABLE page (url text, picture text); INSERT INTO page VALUES ('a.png', 'a.png');
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true);
         ALTER TABLE page RENAME COLUMN url TO address;
         CREATE TABLE blob (id int, key text); INSERT INTO blob VALUES (1, 'a.png');
         CREATE VIEW used AS SELECT key FROM blob WHERE id > 0;
         SELECT storage_reaper.protect('used', 'key', backend => 'media', allow_scan => true)",
    )?;
    assert_eq!(bed.db.rows(FOUND)?, ["page|picture|media|1|1"]);
    bed.db.run("SELECT storage_reaper.unprotect('page.url')")?;
    assert_eq!(bed.db.rows(FOUND)?, ["page|address|media|1|1", "page|picture|media|1|1"]);
    Ok(())
}

#[test]
fn a_partitioned_or_oddly_named_table_is_missed() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    bed.db.run(
        r#"CREATE SCHEMA "Odd 'one"; CREATE TABLE "Odd 'one"."Ta.ble" (id int, "Ur""l" text, meta jsonb) PARTITION BY LIST (id);
           CREATE TABLE "Odd 'one".leaf_1 PARTITION OF "Odd 'one"."Ta.ble" FOR VALUES IN (1);
           CREATE TABLE "Odd 'one".leaf_2 PARTITION OF "Odd 'one"."Ta.ble" FOR VALUES IN (2);
           INSERT INTO "Odd 'one"."Ta.ble" VALUES (1, 'a.png', '["text with https://cdn.example.test/a.png"]'), (2, 'a.png', NULL);
           CREATE TEMP TABLE passing AS SELECT * FROM image; CREATE MATERIALIZED VIEW kept AS SELECT * FROM image"#,
    )?;
    assert_eq!(bed.db.rows(FOUND)?, [r#""Odd 'one"."Ta.ble"|Ur"l|media|2|2"#, r#""Odd 'one"."Ta.ble"|meta|media|1|1"#]);
    protect_all(&mut bed)?;
    assert_eq!(bed.db.rows(FOUND)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_table_that_cannot_be_read_ends_the_search() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    let owner = bed.role("GRANT CREATE ON SCHEMA public TO {role}")?;
    bed.db.run(&format!(
        "CREATE TABLE alpha (url text); INSERT INTO alpha VALUES ('a.png'); ALTER TABLE alpha OWNER TO {owner};
         ALTER TABLE alpha ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
         CREATE TABLE beta (url json); INSERT INTO beta VALUES ('\"\\u0000\"');
         CREATE TABLE gamma (url text); CREATE TABLE delta AS SELECT * FROM image"
    ))?;
    let mut busy = bed.connect()?;
    busy.run("BEGIN")?;
    busy.run("LOCK TABLE gamma IN ACCESS EXCLUSIVE MODE")?;
    assert_eq!(bed.db.rows(FOUND)?, ["delta|url|media|1|1"]);
    let log = bed.cluster.log()?;
    for table in ["alpha", "beta", "gamma"] {
        ensure!(log.contains(&format!("public.{table}.url was not searched")), "{table} is not named");
    }
    // Nor is a lock left behind.
    bed.db.run("BEGIN")?;
    bed.db.rows(FOUND)?;
    let locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'delta'::regclass";
    assert_eq!(bed.db.number(locks)?, 0);
    bed.db.run("COMMIT")
}

#[test]
fn the_code_of_an_owner_runs_with_more_rights() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    let owner = bed.role("GRANT CREATE ON SCHEMA public TO {role}")?;
    let mut theirs = bed.connect_as(&owner)?;
    theirs.run(
        "CREATE FUNCTION public.spy() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN current_user; END $$;
         CREATE TABLE trap (id int, url text); INSERT INTO trap VALUES (1, 'a.png');
         CREATE POLICY spying ON trap USING (public.spy() = 'nobody');
         ALTER TABLE trap ENABLE ROW LEVEL SECURITY",
    )?;
    assert_eq!(bed.db.rows(FOUND)?, ["trap|url|media|1|1"], "the owner's policies hide nothing");
    let refusal = theirs.refusal("SELECT * FROM storage_reaper.discover_references()")?;
    assert_eq!(refusal.code, "42501", "{refusal}");
    Ok(())
}

#[test]
fn a_signature_is_shown_in_an_example() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    bed.db.run(
        "CREATE TABLE signed (url text, body text, meta jsonb);
         INSERT INTO signed SELECT u, 'see ' || u, jsonb_build_object('u', u)
         FROM (VALUES ('https://s3.example.test/media/a.png?X-Amz-Credential=AKIA1&X-Amz-Signature=abcdef')) v (u)",
    )?;
    let examples = bed.db.rows("SELECT example FROM storage_reaper.discover_references()")?;
    assert_eq!(examples, vec!["https://s3.example.test/media/a.png"; 3]);
    bed.db.run("SELECT storage_reaper.arm()")?;
    ensure!(!bed.cluster.log()?.contains("X-Amz-Signature"), "the log has a signature");
    Ok(())
}

#[test]
fn one_backend_is_taken_for_another() -> Result<()> {
    let mut bed = bed(&["same.png"])?;
    bed.db.run(
        "SELECT storage_reaper.create_backend('docs', kind => 'generic', endpoint => 'https://s3.example.test', bucket => 'docs');
         CREATE TABLE one (url text); INSERT INTO one VALUES ('s3://docs/a.pdf'), ('s3://docs/b.pdf'), ('same.png');
         CREATE TABLE two (url text); INSERT INTO two VALUES ('https://s3.example.test/media/a.png')",
    )?;
    let of = |backend: &str| FOUND.replace("()", &format!("('{backend}')"));
    assert_eq!(bed.db.rows(FOUND)?, ["one|url|docs, media|3|3", "two|url|media|1|1"]);
    assert_eq!(bed.db.rows(&of("docs"))?, ["one|url|docs|2|3"]);
    assert_eq!(bed.db.rows(&of("media"))?, ["one|url|media|1|3", "two|url|media|1|1"]);
    Ok(())
}

#[test]
fn arm_says_nothing_of_undiscovered_references() -> Result<()> {
    let mut bed = bed(&["armed-a.png"])?;
    bed.db.run("CREATE TABLE armed_copy AS SELECT * FROM image; SELECT storage_reaper.arm()")?;
    let log = bed.cluster.log()?;
    for line in ["neither attached nor protected", "public.armed_copy.url (text): 1 of 1 values, such as armed-a.png"] {
        ensure!(log.contains(line), "the log lacks {line:?}");
    }
    assert_eq!(bed.db.row("SELECT state FROM storage_reaper.status")?, "armed");
    Ok(())
}

#[test]
fn arm_fails_over_what_it_cannot_read() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    bed.db.run("CREATE TABLE locked_photos AS SELECT * FROM image")?;
    let mut busy = bed.connect()?;
    busy.run("BEGIN")?;
    busy.run("LOCK TABLE locked_photos, image IN ACCESS EXCLUSIVE MODE")?;
    bed.db.run("SET statement_timeout = '10s'; SELECT storage_reaper.arm()")?;
    assert_eq!(bed.db.row("SELECT state FROM storage_reaper.status")?, "armed");
    ensure!(bed.cluster.log()?.contains("public.locked_photos.url was not searched"), "the locked table is not named");
    Ok(())
}

#[test]
fn arm_takes_as_long_as_the_tables_want() -> Result<()> {
    let mut bed = bed(&["a.png"])?;
    let mut busy = bed.connect()?;
    busy.run("BEGIN")?;
    for number in 0..20 {
        busy.run(&format!("CREATE TABLE slow_{number} (url text)"))?;
    }
    busy.run("COMMIT")?;
    busy.run("BEGIN")?;
    for number in 0..20 {
        busy.run(&format!("LOCK TABLE slow_{number} IN ACCESS EXCLUSIVE MODE"))?;
    }
    // Each table is waited for a little; the statement may take as long as about ten of them want.
    bed.db.run("SET statement_timeout = '2s'; SET log_min_messages = 'notice'; SELECT storage_reaper.arm()")?;
    let log = bed.cluster.log()?;
    ensure!(log.contains("The time was too short for "), "nobody hears of what was left out");
    Ok(())
}
