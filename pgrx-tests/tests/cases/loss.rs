//! How others lost objects that were still wanted.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::cluster::SHOP;
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

const FAULTY: &str = "SELECT sources_faulty > 0 FROM storage_reaper.status";

/// An armed reaper whose table `image` names these objects.
fn with_images(conf: &str, keys: &[&str]) -> Result<Reaper> {
    let mut reaper = Reaper::with(conf)?;
    reaper.images()?;
    reaper.add_images(keys)?;
    reaper.arm()?;
    Ok(reaper)
}

/// Watches for a moment that an object is still there.
fn stays(reaper: &Reaper, key: &str) -> Result<()> {
    wait::stays(Duration::from_millis(400), "the object is there", || reaper.bucket()?.exists(key))
}

#[test]
fn a_row_with_the_public_url_does_not_keep_the_key() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run(
        "CREATE TABLE files (key text PRIMARY KEY); CREATE TABLE profiles (avatar text); CREATE TABLE posts (body_md text);
         SELECT storage_reaper.create_location('https://cdn.example.test/', 'media');
         SELECT storage_reaper.attach('files', 'key', backend => 'media', allow_scan => true);
         SELECT storage_reaper.protect('profiles', 'avatar', allow_scan => true);
         SELECT storage_reaper.protect('posts', 'body_md', embedded => true, allow_scan => true);
         INSERT INTO files VALUES ('u/1.png'), ('u/2.png'), ('u/3.png'), ('u/4.png');
         INSERT INTO profiles VALUES ('https://cdn.example.test/u/1.png'), ('https://cdn.example.test/u/3.png?width=%');
         INSERT INTO posts VALUES ('![x](https://cdn.example.test/u/2.png)')",
    )?;
    reaper.bucket()?.put_all(&["u/1.png", "u/2.png", "u/3.png", "u/4.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM files")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["u/1.png|kept", "u/2.png|kept", "u/3.png|kept", "u/4.png|deleted"]);
    Ok(())
}

#[test]
fn a_link_inside_of_a_text_protects_nothing() -> Result<()> {
    let bodies = [
        r#"{"a": "https:\/\/cdn.example.test\/0.png"}"#,
        r#"{"a": "https://cdn.example.test/\u0031.png"}"#,
        r#"<img src="https://cdn.example.test/2.png?v=1&amp;token=2">"#,
        "![](https://cdn.example.test/a%203.png)",
        r#"<img src="https://cdn.example.test/a 4.png">"#,
        r#"<img src="//cdn.example.test/5.png">"#,
        r#"<img srcset="https://cdn.example.test/6.png 1x, https://cdn.example.test/6b.png 2x">"#,
        "div { background: url('https://cdn.example.test/7.png') }",
        r"see https://cdn.example.test/b\8.png",
        r#"<a href='https://cdn.example.test/it&#39;s9.png'>"#,
        r#"{"html": "<img src=\"https:\/\/cdn.example.test\/caf\u00e9.png\">"}"#,
        "https://CDN.example.test/%C3%89.png",
    ];
    let keys = [
        "0.png",
        "1.png",
        "2.png",
        "a 3.png",
        "a 4.png",
        "5.png",
        "6.png",
        "6b.png",
        "7.png",
        "it's9.png",
        "caf\u{e9}.png",
        "\u{c9}.png",
        "b/8.png",
    ];
    for kind in ["text", "json", "jsonb"] {
        let mut reaper = with_images("", &keys)?;
        reaper.db.run(&format!(
            "SELECT storage_reaper.create_location('https://cdn.example.test/', 'media'); CREATE TABLE doc (body {kind});
             SELECT storage_reaper.protect('doc', {}, allow_scan => true)",
            if kind == "text" { "'body', embedded => true" } else { "expression => 'storage_reaper.urls(body::text)'" }
        ))?;
        for body in bodies {
            let value = if kind == "text" { "$1" } else { "to_jsonb($1::text)" };
            let insert = format!("INSERT INTO doc SELECT {value}::{kind}");
            reaper.db.client().execute(&insert, &[&body])?;
        }
        reaper.db.run("DELETE FROM image")?;
        reaper.until_drained()?;
        assert_eq!(reaper.tally()?, [format!("kept|{}", keys.len())], "{kind}: {:?}", reaper.outcomes()?);
    }
    Ok(())
}

#[test]
fn an_object_that_came_back_within_its_grace_goes() -> Result<()> {
    let mut reaper = with_images("", &["again.png", "same.png"])?;
    reaper.db.run("SELECT storage_reaper.attach('image', 'url', backend => 'media', grace => '2 seconds')")?;
    reaper.db.run("DELETE FROM image WHERE url = 'again.png'; UPDATE image SET url = url")?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.queue")?, 1);
    reaper.add_images(&["again.png"])?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["again.png|kept"]);
    assert_eq!(reaper.objects()?, ["again.png", "same.png"]);
    Ok(())
}

#[test]
fn an_object_that_a_person_releases_is_not_checked_again() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.max_attempts = 1\n")?;
    reaper.images()?;
    reaper.arm()?;
    let refused =
        "<DeleteResult><Error><Key>a.png</Key><Code>InternalError</Code><Message>no</Message></Error></DeleteResult>";
    server.answer_next(Answer::of(200, refused));
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("it is parked", "SELECT count(*) > 0 FROM storage_reaper.parked WHERE locator = 'a.png'")?;
    let seen = server.requests().len();
    reaper.add_images(&["a.png"])?;
    reaper
        .db
        .run("SELECT storage_reaper.retry(ARRAY(SELECT id FROM storage_reaper.parked WHERE locator = 'a.png'))")?;
    reaper.until(
        "it is kept",
        "SELECT count(*) = 1 FROM storage_reaper.history WHERE locator = 'a.png' AND outcome = 'kept'",
    )?;
    ensure!(
        !server.requests()[seen..].iter().any(|request| request.target.contains("a.png")),
        "{:?}",
        server.requests()
    );
    Ok(())
}

#[test]
fn an_object_that_is_tried_again_is_not_checked_again() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.retry_base = '2s'\n")?;
    reaper.images()?;
    reaper.arm()?;
    server.hold();
    server.answer_next(Answer::error(503, "SlowDown"));
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image")?;
    server.request_after(0, wait::PATIENCE).context("no request came")?;
    reaper.add_images(&["a.png"])?;
    server.release();
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept"]);
    assert_eq!(server.requests().len(), 1);
    Ok(())
}

#[test]
fn a_table_that_was_moved_to_another_is_emptied() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.breaker_objects = 10\n")?;
    reaper.images()?;
    let keys: Vec<String> = (0..30).map(|number| format!("pictures/{number}.png")).collect();
    reaper.add_images(&keys)?;
    reaper.arm()?;
    reaper.db.run("CREATE TABLE media_v2 AS SELECT * FROM image; DELETE FROM image")?;
    reaper.until("the source is held", "SELECT sources_held = 1 FROM storage_reaper.status")?;
    let undeclared = "SELECT relation, \"column\", hits FROM storage_reaper.discover_references()";
    assert_eq!(reaper.db.rows(undeclared)?, ["media_v2|url|30"]);
    reaper.db.run(
        "SELECT storage_reaper.protect('media_v2', 'url', backend => 'media', allow_scan => true); SELECT storage_reaper.release('image.url')",
    )?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["kept|30"]);
    assert_eq!(reaper.objects()?.len(), 30);
    Ok(())
}

#[test]
fn a_failing_check_ends_the_worker_or_counts_as_no_reference() -> Result<()> {
    let keys = ["1.png", "2.png", "3.png", "4.png", "5.png"];
    let mut reaper = with_images("storage_reaper.guard_timeout = '1s'\n", &keys)?;
    let worker = reaper.worker()?;
    for (setup, broken, says) in [
        ("CREATE TABLE page (id int, url text)", "ALTER TABLE page DROP COLUMN url", "url"),
        (
            "CREATE TABLE other AS SELECT '9.png'::text AS url; CREATE VIEW page AS SELECT url FROM other, pg_sleep(30)",
            "SELECT 1",
            "57014",
        ),
        (
            "CREATE TABLE other (n int); CREATE VIEW page AS SELECT (1 / n)::text AS url FROM other",
            "INSERT INTO other VALUES (0)",
            "22012",
        ),
        ("CREATE TABLE page (id int, url text)", "DROP TABLE page", ""),
    ] {
        reaper.db.run(&format!(
            "{setup}; SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)"
        ))?;
        reaper.db.run(broken)?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until("the fault shows", FAULTY)?;
        stays(&reaper, "3.png").context(broken)?;
        let fault = reaper.db.row("SELECT fault FROM storage_reaper.protections")?;
        ensure!(fault.contains(says), "{broken}: {fault}");
        assert_eq!(reaper.worker()?, worker, "{broken}");
        reaper.db.run("SELECT storage_reaper.unprotect('page.url')")?;
        reaper.until_drained()?;
        assert_eq!(reaper.objects()?, Vec::<String>::new(), "{broken}");
        reaper.db.run(
            "DO $$ DECLARE kind \"char\" := (SELECT relkind FROM pg_class WHERE oid = to_regclass('page'));
             BEGIN IF kind = 'v' THEN DROP VIEW page; ELSIF kind = 'r' THEN DROP TABLE page; END IF; END $$;
             DROP TABLE IF EXISTS other",
        )?;
        reaper.add_images(&keys)?;
    }
    Ok(())
}

#[test]
fn a_locked_reference_counts_as_no_reference() -> Result<()> {
    let mut reaper = with_images("", &["a.png", "b.png"])?;
    reaper.db.run(
        "CREATE TABLE page (url text); INSERT INTO page VALUES ('a.png');
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
    )?;
    let mut other = reaper.cluster.database(SHOP)?;
    other.run("BEGIN; LOCK TABLE page")?;
    reaper.db.run("DELETE FROM image")?;
    wait::stays(Duration::from_millis(1500), "the objects are there", || Ok(reaper.objects()?.len() == 2))?;
    other.run("COMMIT; SELECT storage_reaper.wake()")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|deleted"]);
    Ok(())
}

#[test]
fn settings_of_the_database_blind_or_stop_the_worker() -> Result<()> {
    let mut reaper = with_images("", &["a.png", "b.png", "old.png"])?;
    reaper.db.run(
        "ALTER DATABASE shop SET statement_timeout = '1ms'; ALTER DATABASE shop SET default_transaction_read_only = on;
         ALTER DATABASE shop SET default_transaction_isolation = 'serializable'; ALTER DATABASE shop SET search_path = nowhere;
         ALTER DATABASE shop SET row_security = on; ALTER DATABASE shop SET standard_conforming_strings = off;
         ALTER DATABASE shop SET idle_in_transaction_session_timeout = '1ms'; ALTER DATABASE shop SET bytea_output = 'escape';
         ALTER DATABASE shop SET DateStyle = 'German'; ALTER DATABASE shop SET enable_indexscan = off;
         ALTER DATABASE shop SET backslash_quote = off; ALTER DATABASE shop SET transform_null_equals = on;
         ALTER DATABASE shop SET array_nulls = off; ALTER DATABASE shop SET quote_all_identifiers = on;
         ALTER DATABASE shop SET client_encoding = 'LATIN1'; ALTER DATABASE shop SET lock_timeout = '1ms'",
    )?;
    let worker = reaper.worker()?;
    reaper.db.run(&format!("SELECT pg_terminate_backend({worker})"))?;
    wait::until(wait::PATIENCE, "another worker comes", || Ok((reaper.worker()? != worker).then_some(())))?;
    reaper.db.run("DELETE FROM image WHERE url <> 'old.png'; INSERT INTO image (url) VALUES ('a.png')")?;
    // The application's sessions have the settings, too.
    let mut session = reaper.cluster.database(SHOP)?;
    session.run("SET statement_timeout = 0; SET default_transaction_read_only = off")?;
    session.run("DELETE FROM public.image WHERE url = 'old.png'")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|deleted", "old.png|deleted"]);
    Ok(())
}

#[test]
fn a_cancelled_worker_dies_or_deletes_unchecked() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.batch_size = 10\nstorage_reaper.concurrency = 2\n")?;
    reaper.images()?;
    let keys: Vec<String> = (0..600).map(|number| format!("{number}.png")).collect();
    reaper.add_images(&keys)?;
    reaper.db.run("CREATE TABLE page AS SELECT url FROM image WHERE id % 2 = 0; CREATE INDEX ON page (storage_reaper.fingerprint(url))")?;
    reaper.db.run("SELECT storage_reaper.protect('page', 'url', backend => 'media')")?;
    reaper.arm()?;
    let worker = reaper.worker()?;
    reaper.db.run("DO $$ BEGIN FOR n IN 1..600 LOOP DELETE FROM image WHERE id = n; END LOOP; END $$")?;
    for _ in 0..300 {
        reaper.db.run(&format!("SELECT pg_cancel_backend({worker})"))?;
    }
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?.len(), 300);
    assert_eq!(reaper.tally()?, ["deleted|300", "kept|300"]);
    Ok(())
}

/// The owner is an ordinary role, and sees only rows of its tenant.
const TENANTS: &str = "
    CREATE ROLE tenant_owner; GRANT CREATE ON SCHEMA public TO tenant_owner; SET ROLE tenant_owner;
    CREATE TABLE photo (id int PRIMARY KEY, tenant text, url text);
    INSERT INTO photo VALUES (1, 'x', 'shared.png'), (2, 'y', 'shared.png'), (3, 'x', 'alone.png'); RESET ROLE;
    SELECT storage_reaper.attach('photo', 'url', backend => 'media', allow_scan => true);
    ALTER TABLE photo ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY mine ON photo USING (tenant = current_setting('app.tenant', true));";

#[test]
fn row_security_makes_every_reference_invisible() -> Result<()> {
    let mut reaper = with_images("", &[])?;
    reaper.bucket()?.put_all(&["shared.png", "alone.png"])?;
    reaper.db.run(TENANTS)?;
    reaper.db.run("SET ROLE tenant_owner; SET app.tenant = 'x'; DELETE FROM photo; RESET ROLE")?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM photo")?, 1);
    reaper.until("the fault shows", FAULTY)?;
    stays(&reaper, "shared.png")?;
    stays(&reaper, "alone.png")?;
    ensure!(reaper.db.row("SELECT fault FROM storage_reaper.sources WHERE name = 'photo.url'")?.contains("42501"));
    // Not forced on the owner: now the check sees all rows.
    reaper.db.run("ALTER TABLE photo NO FORCE ROW LEVEL SECURITY; SELECT storage_reaper.wake()")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["alone.png|deleted", "shared.png|kept"]);
    Ok(())
}

#[test]
fn row_security_beneath_a_view_hides_references() -> Result<()> {
    let mut reaper = with_images("", &["shared.png"])?;
    reaper.db.run(TENANTS)?;
    reaper.db.run(
        "ALTER TABLE photo NO FORCE ROW LEVEL SECURITY; SELECT storage_reaper.detach('photo.url');
         CREATE ROLE reader; GRANT CREATE ON SCHEMA public TO reader; GRANT SELECT ON photo TO reader; SET ROLE reader;
         CREATE VIEW shown AS SELECT url FROM photo; RESET ROLE;
         SELECT storage_reaper.protect('shown', 'url', backend => 'media', allow_scan => true); DELETE FROM image",
    )?;
    reaper.until("the fault shows", FAULTY)?;
    stays(&reaper, "shared.png")?;
    reaper.db.run("ALTER TABLE photo DISABLE ROW LEVEL SECURITY; SELECT storage_reaper.wake()")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["shared.png|kept"]);
    Ok(())
}
