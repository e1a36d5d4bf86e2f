//! References of every kind, declared with protect().

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

/// Tables that name `N.png` in every way, each with the index that its reference wants.
const REFERENCES: &str = r#"
    SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media');
    CREATE TABLE profile (id int, avatar text); INSERT INTO profile VALUES (1, 'https://cdn.example.test/0.png?v=3');
    CREATE INDEX ON profile (storage_reaper.fingerprint(avatar));
    SELECT storage_reaper.protect('profile', 'avatar');

    CREATE TABLE gallery (id int, files text[]); INSERT INTO gallery VALUES (1, ARRAY['x.png', NULL, '1.png']);
    CREATE INDEX ON gallery USING gin (storage_reaper.fingerprints(files));
    SELECT storage_reaper.protect('gallery', 'files', backend => 'media');

    CREATE TABLE doc (id int, meta jsonb); INSERT INTO doc VALUES (1, '{"a": [{"deep": {"url": "https://cdn.example.test/2.png"}}]}'),
        (2, '{"html": "<img src=\"https://cdn.example.test/12.png\"> and more", "files": {"13.png": {"size": 7}}}');
    CREATE INDEX ON doc USING gin (storage_reaper.fingerprints(storage_reaper.strings(meta)));
    SELECT storage_reaper.protect('doc', 'meta');

    CREATE TABLE page (id int, content json); INSERT INTO page VALUES (1, '{"title": "4.png", "blocks": [{"src": ["3.png"]}]}');
    CREATE INDEX ON page USING gin (storage_reaper.fingerprints(storage_reaper.strings(content::jsonb, 'src')));
    SELECT storage_reaper.protect('page', 'content', member => 'src', backend => 'media');

    CREATE TABLE article (id int, body text);
    INSERT INTO article VALUES (1, '<p>See <img src="https:&#47;&#47;cdn.example.test/5.png"> or ![6](//cdn.example.test/6.png).</p>');
    CREATE INDEX ON article USING gin (storage_reaper.fingerprints(storage_reaper.urls(body)));
    SELECT storage_reaper.protect('article', 'body', embedded => true);

    CREATE TABLE link (image_id bigint); CREATE INDEX ON link (image_id); INSERT INTO link VALUES (8);
    SELECT storage_reaper.protect('link', 'image_id', row_of => 'image.url');

    CREATE TABLE blob (id int PRIMARY KEY, key text); INSERT INTO blob VALUES (1, '8.png'), (2, '9.png');
    CREATE TABLE post (blob_id int); INSERT INTO post VALUES (1);
    CREATE INDEX ON blob (storage_reaper.fingerprint(key)); CREATE INDEX ON post (blob_id);
    CREATE VIEW used AS SELECT b.key FROM blob b JOIN post p ON p.blob_id = b.id;
    SELECT storage_reaper.protect('used', 'key', backend => 'media');

    CREATE TABLE note (id int, url text, deleted_at timestamptz); INSERT INTO note VALUES (1, '10.png', NULL), (2, '11.png', now());
    CREATE INDEX ON note (storage_reaper.fingerprint(url)) WHERE deleted_at IS NULL;
    SELECT storage_reaper.protect('note', 'url', filter => 'deleted_at IS NULL', backend => 'media');

    CREATE TABLE export (day date); INSERT INTO export VALUES ('2026-12-24'); CREATE INDEX ON export (day);
    SELECT storage_reaper.protect('export', template => '{day}.png', backend => 'media', allow_scan => true)"#;

#[test]
fn a_reference_of_some_kind_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    let mut keys: Vec<String> = (0..14).map(|number| format!("{number}.png")).collect();
    keys.push("2026-12-24.png".to_owned());
    reaper.add_images(&keys)?;
    reaper.db.run(REFERENCES)?;
    // Detached or not: what was captured is looked up all the same.
    reaper.db.run("DELETE FROM image; SELECT storage_reaper.detach('image.url')")?;
    reaper.arm()?;
    reaper.until_drained()?;
    let kept = reaper.db.rows(
        "SELECT replace(locator, '.png', ''), reason FROM storage_reaper.history WHERE outcome = 'kept'
         ORDER BY length(locator), locator",
    )?;
    let by = |number: &str, name: &str| format!("{number}|referenced by reference {name}");
    assert_eq!(
        kept,
        [
            by("0", "profile.avatar"),
            by("1", "gallery.files"),
            by("2", "doc.meta"),
            by("3", "page.content"),
            by("5", "article.body"),
            by("6", "article.body"),
            by("7", "link.image_id"),
            by("8", "used.key"),
            by("10", "note.url"),
            by("12", "doc.meta"),
            by("13", "doc.meta"),
            by("2026-12-24", "export.template"),
        ]
    );
    // A word that is no reference, a blob that no post uses, a note that is deleted.
    ensure!(!reaper.objects()?.iter().any(|key| ["4.png", "9.png", "11.png"].contains(&key.as_str())));
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.protections WHERE fault IS NULL")?, 9);
    Ok(())
}

#[test]
fn a_reference_that_cannot_be_asked_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.db.run(
        "CREATE ROLE author; GRANT CREATE ON SCHEMA public TO author; SET ROLE author;
         CREATE TABLE page (id int, url text); INSERT INTO page VALUES (1, 'else.png'); RESET ROLE;
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
    )?;
    reaper.arm()?;
    for (broken, mended) in [
        (
            "ALTER TABLE page ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
            "ALTER TABLE page NO FORCE ROW LEVEL SECURITY",
        ),
        (
            "ALTER TABLE page RENAME COLUMN url TO link; ALTER TABLE page DROP COLUMN link",
            "ALTER TABLE page ADD COLUMN url text; SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
        ),
        ("DROP TABLE page", "SELECT storage_reaper.unprotect('page.url')"),
    ] {
        reaper.db.run(broken)?;
        reaper
            .db
            .run("INSERT INTO image (url) SELECT 'a.png' WHERE NOT EXISTS (SELECT FROM image); DELETE FROM image")?;
        reaper.until("the fault shows", "SELECT sources_faulty = 1 FROM storage_reaper.status")?;
        wait::stays(Duration::from_millis(300), "the object is there", || reaper.bucket()?.exists("a.png"))?;
        reaper.db.run(&format!("{mended}; SELECT storage_reaper.wake()"))?;
        reaper.until_drained()?;
        ensure!(!reaper.bucket()?.exists("a.png")?, "{broken}");
        reaper.bucket()?.put("a.png")?;
    }
    Ok(())
}

#[test]
fn a_protection_gives_objects_up() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run(
        "CREATE TABLE page (id int, url text); INSERT INTO page VALUES (1, 'a.png'), (2, 'b.png');
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM page WHERE id = 1; TRUNCATE page; DROP TABLE page")?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.queue")?, 0);
    Ok(())
}

#[test]
fn a_detached_partition_protects_nothing_any_more() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png", "c.png", "d.png", "e.png"])?;
    reaper.db.run(
        "CREATE TABLE page (id int, url text, other text) PARTITION BY RANGE (id);
         CREATE TABLE page_0 PARTITION OF page FOR VALUES FROM (0) TO (10);
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true, name => 'page');
         CREATE TABLE page_1 (other text, id int, url text); ALTER TABLE page ATTACH PARTITION page_1 FOR VALUES FROM (10) TO (20);
         INSERT INTO page VALUES (1, 'a.png', 'd.png'), (11, 'b.png', 'e.png');
         ALTER TABLE page DETACH PARTITION page_0; ALTER TABLE page DETACH PARTITION page_1",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE url < 'd'")?;
    reaper.until_drained()?;
    // Declared anew with another column, and by partitions whose columns lie in another order.
    reaper.db.run(
        "SELECT storage_reaper.protect('page', 'other', backend => 'media', allow_scan => true, name => 'page');
         DELETE FROM image; SELECT storage_reaper.enqueue(ARRAY['a.png'], backend => 'media')",
    )?;
    reaper.until_drained()?;
    assert_eq!(
        reaper.outcomes()?,
        ["a.png|deleted", "a.png|kept", "b.png|kept", "c.png|deleted", "d.png|kept", "e.png|kept"]
    );
    reaper.db.run("DROP TABLE page_0, page_1; SELECT storage_reaper.enqueue(ARRAY['d.png'], backend => 'media')")?;
    reaper.until_drained()?;
    assert!(!reaper.bucket()?.exists("d.png")?);
    Ok(())
}

#[test]
fn a_partition_that_leaves_while_it_is_locked_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.db.run(
        "CREATE TABLE page (id int, url text) PARTITION BY RANGE (id);
         CREATE TABLE page_0 PARTITION OF page FOR VALUES FROM (0) TO (10); INSERT INTO page VALUES (1, 'a.png');
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
    )?;
    reaper.db.run("DELETE FROM image")?;
    // Begun after the capture, so that nobody waits for its end.
    let mut owner = reaper.cluster.database("shop")?;
    owner.run("BEGIN; ALTER TABLE page DETACH PARTITION page_0")?;
    reaper.arm()?;
    // It knows the partition as one of the table's, and waits for both.
    reaper.until(
        "the check waits",
        "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'page'::regclass",
    )?;
    owner.run("COMMIT")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|deleted"]);
    Ok(())
}
