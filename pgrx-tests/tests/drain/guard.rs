//! What a committed row names stays, whatever happens in between.

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

#[test]
fn a_writer_that_began_later_but_before_the_capture_loses_its_object() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("CREATE TABLE other (id int)")?;
    reaper.add_images(&["reused.png"])?;
    reaper.arm()?;
    // The deleter has the lower transaction id, the writer a higher one, and both write before the capture.
    reaper.db.run("BEGIN; INSERT INTO other VALUES (1)")?;
    let mut writer = reaper.cluster.database("shop")?;
    writer.run("BEGIN; INSERT INTO image (url) VALUES ('reused.png')")?;
    reaper.db.run("DELETE FROM image WHERE url = 'reused.png'; COMMIT")?;
    wait::stays(Duration::from_millis(700), "the object is there", || reaper.bucket()?.exists("reused.png"))?;
    writer.run("COMMIT")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["reused.png|kept"]);
    Ok(())
}

#[test]
fn a_partition_below_another_table_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run(
        "CREATE TABLE photo (id int, url text) PARTITION BY LIST (id);
         CREATE TABLE photo_1 PARTITION OF photo FOR VALUES IN (1); CREATE TABLE photo_2 PARTITION OF photo FOR VALUES IN (2);
         CREATE TABLE archive (id int, url text) PARTITION BY LIST (id);
         INSERT INTO photo VALUES (1, 'shared.png'), (2, 'shared.png'), (1, 'alone.png');
         SELECT storage_reaper.attach('photo', 'url', backend => 'media', allow_scan => true);
         ALTER TABLE photo DETACH PARTITION photo_2; ALTER TABLE archive ATTACH PARTITION photo_2 FOR VALUES IN (2)",
    )?;
    reaper.bucket()?.put_all(&["shared.png", "alone.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM photo WHERE id = 1")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["alone.png|deleted", "shared.png|kept"]);
    assert_eq!(reaper.objects()?, ["shared.png"]);
    Ok(())
}

#[test]
fn another_spelling_of_the_same_object_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')")?;
    let bucket = reaper.bucket()?.name().to_owned();
    let s3 = format!("S3://{bucket}/5.png");
    // What a row held, and what it, or another row, holds then.
    let spellings = [
        ("https://cdn.example.test/0.png?v=1", "https://cdn.example.test/0.png?v=2"),
        ("https://cdn.example.test/1.png?X-Amz-Signature=a", "https://cdn.example.test/1.png?X-Amz-Signature=b"),
        ("https://cdn.example.test/2.png", "HTTPS://CDN.example.test:443/2.png"),
        ("3.png", "https://cdn.example.test/%33.png"),
        ("https://cdn.example.test/4.png", "//cdn.example.test/4.png"),
        ("5.png", &s3),
        ("https://cdn.example.test/6.png", "https://user@cdn.example.test/6.png"),
        ("7.png", "https://cdn.example.test/x/../7.png#top"),
        ("8.png", "https://cdn.example.test/8.png?width=80"),
    ];
    let keys: Vec<String> = (0..spellings.len()).map(|number| format!("{number}.png")).collect();
    reaper.bucket()?.put_all(&keys)?;
    for (before, _) in spellings {
        reaper.db.run(&format!("INSERT INTO image (url) VALUES ('{before}')"))?;
    }
    reaper.arm()?;
    for (before, after) in spellings {
        reaper.db.run(&format!("UPDATE image SET url = '{after}' WHERE url = '{before}'"))?;
    }
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, keys);
    assert_eq!(reaper.tally()?, ["kept|9"]);
    Ok(())
}

#[test]
fn two_backends_on_one_bucket_do_not_know_each_other() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    let (kind, endpoint) = (reaper.store()?.program().kind(), reaper.store()?.endpoint());
    reaper.create_backend("again", kind, &endpoint)?;
    reaper.db.run(
        "SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'again');
         CREATE TABLE page (id int PRIMARY KEY, url text); INSERT INTO page VALUES (1, 'https://cdn.example.test/shared.png');
         SELECT storage_reaper.attach('page', 'url', backend => 'again', allow_scan => true)",
    )?;
    reaper.add_images(&["shared.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["shared.png|kept"]);
    Ok(())
}

#[test]
fn a_collation_that_ignores_case_hides_a_reference() -> Result<()> {
    let mut reaper = Reaper::new()?;
    // Only a server with ICU has collations that take two texts for one.
    let blind = match reaper.db.holds("SELECT count(*) > 0 FROM pg_collation WHERE collname = 'und-x-icu'")? {
        true => "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        false => "FROM pg_catalog.\"C\"",
    };
    reaper.db.run(&format!("CREATE COLLATION blind {blind}"))?;
    reaper.db.run(
        "CREATE TABLE image (id int PRIMARY KEY, url text COLLATE blind);
         INSERT INTO image VALUES (1, 'a.png'), (2, 'A.png'), (3, 'a.png'), (4, 'B.png');
         SELECT storage_reaper.attach('image', 'url', backend => 'media', allow_scan => true)",
    )?;
    reaper.bucket()?.put_all(&["a.png", "A.png", "B.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id = 1; UPDATE image SET url = 'b.png' WHERE id = 4")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["B.png|deleted", "a.png|kept"]);
    assert_eq!(reaper.objects()?, ["A.png", "a.png"]);
    Ok(())
}

#[test]
fn many_rows_hold_the_same_text_and_the_check_reads_them_all() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.guard_timeout = '1s'\n")?;
    reaper.images()?;
    reaper.add_images(&["default.png", "alone.png"])?;
    reaper.db.run("INSERT INTO image (url) SELECT 'default.png' FROM generate_series(1, 200000)")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id <= 2")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["alone.png|deleted", "default.png|kept"]);
    Ok(())
}

#[test]
fn a_template_looks_different_to_the_guard() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run(
        "CREATE TABLE vault (id int PRIMARY KEY, private boolean, day date, code char(6));
         INSERT INTO vault VALUES (1, true, '2026-12-24', 'x'), (2, true, '2026-12-24', 'x'), (3, false, '2026-12-24', 'x');
         SELECT storage_reaper.attach('vault', template => '{day}/{private}-{code}.zip', backend => 'media', allow_scan => true);
         SET DateStyle = 'German'",
    )?;
    reaper.bucket()?.put_all(&["2026-12-24/true-x.zip", "2026-12-24/false-x.zip"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM vault WHERE id IN (1, 3)")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["2026-12-24/false-x.zip|deleted", "2026-12-24/true-x.zip|kept"]);
    Ok(())
}

#[test]
fn a_pause_during_the_check_comes_too_late() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.db.run(
        "CREATE TABLE slow (id int PRIMARY KEY, url text); INSERT INTO slow VALUES (1, 'else.png');
         SELECT storage_reaper.attach('slow', expression => $$url || pg_catalog.pg_sleep(0.5)::text$$,
                                      backend => 'media', allow_scan => true)",
    )?;
    reaper.arm()?;
    for (stop, start) in
        [("pause()", "resume()"), ("disarm()", "arm()"), ("pause(backend => 'media')", "resume(backend => 'media')")]
    {
        let before = server.requests().len();
        reaper.add_images(&["a.png"])?;
        reaper.db.run("DELETE FROM image")?;
        let checking = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'storage_reaper: guard source slow%' AND state = 'active'";
        reaper.until("the check runs", checking)?;
        reaper.db.run(&format!("SELECT storage_reaper.{stop}"))?;
        let idle = "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'storage_reaper%' AND xact_start IS NOT NULL";
        reaper.until("the check is over", idle)?;
        wait::stays(Duration::from_millis(500), "nothing is sent", || Ok(server.requests().len() == before))?;
        reaper.db.run(&format!("SELECT storage_reaper.{start}"))?;
        reaper.until_drained()?;
        assert_eq!(server.requests().len(), before + 1, "{stop}");
    }
    Ok(())
}

#[test]
fn an_answer_of_the_guard_is_believed_for_minutes() -> Result<()> {
    let server = FaultServer::start()?;
    server.hold();
    let mut reaper = Reaper::facing(&server, "storage_reaper.batch_size = 1\nstorage_reaper.concurrency = 1\n")?;
    reaper.images()?;
    reaper.arm()?;
    reaper.add_images(&["1.png", "2.png", "3.png"])?;
    reaper.db.run("DELETE FROM image")?;
    let first = server.request_after(0, wait::PATIENCE).map(|request| request.target).unwrap_or_default();
    ensure!(first.contains("png"), "{first}");
    // Two wait for their turn; now a row names them all again.
    reaper.add_images(&["1.png", "2.png", "3.png"])?;
    // What was checked a second ago is not believed any more.
    std::thread::park_timeout(Duration::from_millis(1100));
    server.release();
    reaper.until_drained()?;
    assert_eq!(server.requests().len(), 1);
    assert_eq!(reaper.tally()?, ["deleted|1", "kept|2"]);
    Ok(())
}

#[test]
fn another_backend_of_the_source_gets_what_was_captured_before() -> Result<()> {
    let (old, new) = (FaultServer::start()?, FaultServer::start()?);
    let mut reaper = Reaper::facing(&old, "")?;
    reaper.images()?;
    reaper.create_backend("new", "generic", &new.endpoint())?;
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image; SELECT storage_reaper.attach('image', 'url', backend => 'new')")?;
    assert_eq!(reaper.db.row("SELECT backend FROM storage_reaper.queue")?, "media");
    reaper.arm()?;
    reaper.until_drained()?;
    assert_eq!((old.requests().len(), new.requests().len()), (1, 0));
    Ok(())
}

#[test]
fn a_backend_on_trial_stops_the_others() -> Result<()> {
    let (hanging, healthy) = (FaultServer::start()?, FaultServer::start()?);
    hanging.answer_always(Some(Answer::error(503, "SlowDown")));
    let mut reaper = Reaper::facing(&hanging, "storage_reaper.request_timeout = '10min'\n")?;
    reaper.images()?;
    reaper.create_backend("healthy", "generic", &healthy.endpoint())?;
    reaper.db.run(
        "CREATE TABLE video (id serial PRIMARY KEY, url text); CREATE INDEX ON video (storage_reaper.fingerprint(url));
         SELECT storage_reaper.attach('video', 'url', backend => 'healthy')",
    )?;
    reaper.arm()?;
    reaper.db.run("INSERT INTO image (url) SELECT n || '.png' FROM generate_series(1, 5000) n; DELETE FROM image")?;
    reaper.until("the backend is held", "SELECT backends_held = 1 FROM storage_reaper.status")?;
    // The trial request hangs; meanwhile the other backend is served.
    hanging.hold();
    let seen = hanging.requests().len();
    ensure!(hanging.request_after(seen, wait::PATIENCE).is_some(), "no trial request");
    reaper.db.run("INSERT INTO video (url) VALUES ('v.mp4'); DELETE FROM video")?;
    ensure!(healthy.request_after(0, wait::PATIENCE).is_some(), "{}", reaper.picture());
    Ok(())
}

#[test]
fn a_damaged_segment_takes_its_objects_along() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.db.run(
        "DELETE FROM image; CREATE TABLE whole AS SELECT payload FROM storage_reaper.entry;
         UPDATE storage_reaper.entry SET payload = '\\xff'::bytea || payload",
    )?;
    reaper.arm()?;
    reaper.until("it is parked", "SELECT count(*) = 1 FROM storage_reaper.parked WHERE reason = 'damaged_segment'")?;
    // A version that can read it takes it up again.
    reaper.db.run(
        "UPDATE storage_reaper.parked_object SET payload = whole.payload FROM whole; SELECT storage_reaper.retry()",
    )?;
    reaper.until_drained()?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.history WHERE outcome = 'deleted'")?, 2);
    Ok(())
}

#[test]
fn objects_that_all_have_to_be_parked_jam_the_drain() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.db.run(
        "CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image SELECT n, n || '.png' FROM generate_series(1, 60000) n;
         SELECT storage_reaper.attach('image', 'url', allow_scan => true)",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.db.row("SELECT reason, count(*) FROM storage_reaper.parked GROUP BY 1")?, "no_backend|60000");
    Ok(())
}

#[test]
fn anybody_can_keep_the_worker_from_leading() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("CREATE ROLE nobody LOGIN")?;
    reaper.add_images(&["a.png"])?;
    let mut holder = reaper.cluster.database("shop")?;
    holder.run("SELECT pg_advisory_lock(1397900609, 1346720305), pg_advisory_lock(6004175498903306801)")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    // An owner's expression gives up the worker's locks in each check; the work goes on.
    reaper.db.run(
        "CREATE FUNCTION public.let_go(text) RETURNS text LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_catalog.pg_advisory_unlock_all(); RETURN $1; END $$;
         CREATE TABLE odd (id int PRIMARY KEY, url text); INSERT INTO odd VALUES (1, 'odd.png');
         SELECT storage_reaper.attach('odd', expression => 'public.let_go(url)', backend => 'media', allow_scan => true)",
    )?;
    reaper.add_images(&["b.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["deleted|2"]);
    Ok(())
}

#[test]
fn a_name_that_moves_between_two_tables_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run(
        "CREATE TABLE slow (id int PRIMARY KEY, url text); INSERT INTO slow VALUES (1, 'else.png');
         SELECT storage_reaper.attach('slow', expression => $$url || pg_catalog.pg_sleep(0.5)::text$$, backend => 'media', allow_scan => true);
         CREATE TABLE page (id int, url text); INSERT INTO page VALUES (1, 'a.png');
         SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
    )?;
    reaper.add_images(&["a.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    let checking = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'storage_reaper: guard source slow%' AND state = 'active'";
    reaper.until("the check runs", checking)?;
    // In every snapshot one of the two rows is there.
    reaper.db.run("BEGIN; INSERT INTO image (url) VALUES ('a.png'); DELETE FROM page; COMMIT")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept"]);
    assert_eq!(reaper.objects()?, ["a.png"]);
    Ok(())
}

#[test]
fn a_name_that_many_rows_share_hides_another() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    let keys: Vec<String> = (0..100).map(|number| format!("{number}.png")).collect();
    reaper.add_images(&keys)?;
    reaper.db.run(
        "CREATE TABLE profile (avatar text); CREATE INDEX ON profile (storage_reaper.fingerprint(avatar));
         INSERT INTO profile SELECT '7.png' FROM generate_series(1, 2000); INSERT INTO profile VALUES ('8.png'), ('99.png');
         SELECT storage_reaper.protect('profile', 'avatar', backend => 'media');
         CREATE TABLE gallery (files text[]); CREATE INDEX ON gallery USING gin (storage_reaper.fingerprints(files));
         INSERT INTO gallery SELECT ARRAY['17.png', '18.png'] FROM generate_series(1, 2000); INSERT INTO gallery VALUES (ARRAY['19.png', 'x']);
         SELECT storage_reaper.protect('gallery', 'files', backend => 'media')",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let kept = reaper.db.row("SELECT string_agg(locator, ' ' ORDER BY length(locator), locator) FROM storage_reaper.history WHERE outcome = 'kept'")?;
    assert_eq!(kept, "7.png 8.png 17.png 18.png 19.png 99.png");
    Ok(())
}
