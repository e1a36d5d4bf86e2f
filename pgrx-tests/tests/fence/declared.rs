//! Fences that are put up and taken down, and what they cost others.

use super::*;

#[test]
fn a_fence_put_up_in_flight_lets_a_writer_through() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, PATIENT)?;
    reaper.images()?;
    reaper.arm()?;
    reaper.db.run("CREATE TABLE page (url text)")?;
    in_flight(&server, &mut reaper, "a.png")?;
    let protect = "SELECT storage_reaper.protect('page', 'url', backend => 'media', fence => true, allow_scan => true);
         INSERT INTO page VALUES ('b.png')";
    let declaring = write(&reaper, protect)?;
    waits(&mut reaper)?;
    server.release();
    let (_, refusal) = declaring.join().ok().context("the writer panicked")??;
    ensure!(refusal.is_none(), "{refusal:?}");
    reaper.until_drained()?;
    assert_eq!(server.requests().len(), 1);
    Ok(())
}

#[test]
fn a_reference_of_some_kind_is_not_fenced() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_timeout = '50ms'\n")?;
    reaper.db.run(
        r#"SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media');
           CREATE TABLE gallery (files text[]); CREATE TABLE doc (id int, meta jsonb, body text, deleted boolean);
           CREATE TABLE link (image_id int); CREATE TABLE part (id int, url text) PARTITION BY LIST (id);
           CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
           CREATE FUNCTION public.fails(text) RETURNS text LANGUAGE plpgsql IMMUTABLE
               AS $$ BEGIN IF $1 = 'broken' THEN RAISE 'no'; END IF; RETURN $1; END $$;
           CREATE TABLE odd (url text); CREATE TABLE paged (id int PRIMARY KEY, meta jsonb);
           CREATE TABLE coded (code char(5) PRIMARY KEY, url text); CREATE TABLE code_link (code char(5));
           SELECT storage_reaper.attach('coded', 'url', backend => 'media', allow_scan => true);
           SELECT storage_reaper.protect('code_link', 'code', row_of => 'coded.url', fence => true, allow_scan => true);
           SELECT storage_reaper.attach('paged', 'meta', path => '$.renditions[*].key', backend => 'media', fence => true, allow_scan => true);
           INSERT INTO coded VALUES ('abc', 'coded.png');
           SELECT storage_reaper.protect('gallery', 'files', backend => 'media', fence => true, allow_scan => true);
           SELECT storage_reaper.protect('doc', 'meta', fence => true, allow_scan => true);
           SELECT storage_reaper.protect('doc', 'body', embedded => true, filter => 'NOT deleted', fence => true, allow_scan => true);
           SELECT storage_reaper.protect('link', 'image_id', row_of => 'image.url', fence => true, allow_scan => true);
           SELECT storage_reaper.protect('part', 'url', backend => 'media', fence => true, allow_scan => true);
           SELECT storage_reaper.protect('odd', expression => 'public.fails(url)', backend => 'media', fence => true, allow_scan => true);
           CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2)"#,
    )?;
    reaper.db.run("ALTER SEQUENCE image_id_seq RESTART 500")?;
    reaper.db.run("SELECT storage_reaper.pause(); DELETE FROM coded")?;
    reaper.db.run("INSERT INTO image (url) VALUES ('a.png'); DELETE FROM image WHERE url = 'a.png'")?;
    server.hold();
    reaper.db.run("SELECT storage_reaper.resume()")?;
    server.request_after(0, wait::PATIENCE).context("no request came")?;
    for refused in [
        r#"INSERT INTO paged VALUES (2, '{"cover": "a.png", "renditions": []}')"#,
        "INSERT INTO code_link VALUES ('abc')",
        "INSERT INTO gallery VALUES (ARRAY['x', 's3://bucket/a.png'])",
        r#"INSERT INTO doc VALUES (1, '{"x": ["https://cdn.example.test/a.png?v=2"]}', NULL, false)"#,
        "INSERT INTO doc VALUES (1, NULL, '<img src=\"//cdn.example.test/a.png\">', false)",
        "INSERT INTO link VALUES (500)",
        "INSERT INTO part VALUES (1, 'a.png')",
        "INSERT INTO part_1 VALUES (1, 'a.png')",
        "INSERT INTO part_2 VALUES (2, 'a.png')",
        "COPY part FROM PROGRAM 'echo \"1,a.png\"' WITH (FORMAT csv)",
        "INSERT INTO odd VALUES ('broken')",
    ] {
        let refusal = reaper.db.refusal(refused)?;
        ensure!(refusal.code == "SRF01", "{refused}: {refusal}");
    }
    reaper.db.run(
        "INSERT INTO doc VALUES (1, NULL, '<img src=\"//cdn.example.test/a.png\">', true); INSERT INTO link VALUES (501);
         INSERT INTO odd VALUES ('fine'); INSERT INTO part VALUES (1, 'b.png')",
    )?;
    server.release();
    reaper.until_drained()
}

#[test]
fn a_fence_that_is_taken_down_still_stands() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_timeout = '50ms'\n")?;
    reaper.db.run("SELECT storage_reaper.attach('image', 'url', backend => 'media')")?;
    let triggers = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'storage_reaper%fence%'";
    assert_eq!(reaper.db.number(triggers)?, 0);
    in_flight(&server, &mut reaper, "a.png")?;
    reaper.db.run("INSERT INTO image (url) VALUES ('a.png')")?;
    server.release();
    reaper.until_drained()
}

#[test]
fn a_writer_that_holds_what_the_check_needs_is_told_of_a_deadlock() -> Result<()> {
    // With more WAL the lock would take a transaction id, and be waited for.
    let mut reaper = fenced("storage_reaper.fence_timeout = '20s'\nwal_level = minimal\nmax_wal_senders = 0\n")?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.db.run(
        "CREATE TABLE page (url text); SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
    )?;
    let mut writer = reaper.cluster.database("shop")?;
    writer.run("BEGIN; LOCK TABLE page IN ACCESS EXCLUSIVE MODE")?;
    reaper.db.run("DELETE FROM image")?;
    let closed =
        "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'userlock' AND mode = 'ExclusiveLock' AND objsubid = 3";
    reaper.until("a flight is closed", closed)?;
    writer.run("INSERT INTO image (url) VALUES ('a.png'); COMMIT")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|deleted"]);
    Ok(())
}

#[test]
fn flights_pile_up() -> Result<()> {
    let mut reaper = fenced("")?;
    let keys: Vec<String> = (0..300).map(|number| format!("{number}.png")).collect();
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    reaper.until("no flight is left", "SELECT count(*) = 0 FROM storage_reaper.flight")
}

#[test]
fn a_worker_that_is_ended_leaves_its_flights_closed() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_timeout = '60s'\n")?;
    in_flight(&server, &mut reaper, "a.png")?;
    let declaring = write(&reaper, "SELECT storage_reaper.attach('image', 'url', backend => 'media', fence => true)")?;
    waits(&mut reaper)?;
    let worker = reaper.worker()?;
    reaper.db.run(&format!("SELECT pg_terminate_backend({worker})"))?;
    let (_, refusal) = declaring.join().ok().context("the writer panicked")??;
    ensure!(refusal.is_none(), "{refusal:?}");
    server.release();
    reaper.until_drained()?;
    reaper.until("no lock is left", "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'userlock' AND objsubid = 3")
}

#[test]
fn a_common_object_stops_the_writers_of_its_table() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_timeout = '50ms'\n")?;
    reaper.add_images(&["default.png", "default.png", "default.png"])?;
    in_flight(&server, &mut reaper, "a.png")?;
    // One of its rows goes while others name it: it never flies.
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until("it is kept", "SELECT count(*) = 1 FROM storage_reaper.history WHERE outcome = 'kept'")?;
    reaper.db.run(
        "INSERT INTO image (url) VALUES ('default.png'); UPDATE image SET url = url; UPDATE image SET id = id + 1000",
    )?;
    // A row that named an object before does not name it anew.
    reaper.db.run("SELECT storage_reaper.pause(); INSERT INTO image (url) VALUES ('b.png')")?;
    server.release();
    reaper.db.run("SELECT storage_reaper.resume()")?;
    reaper.until_drained()
}

#[test]
fn a_change_of_what_rows_mean_overtakes_what_is_in_flight() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_timeout = '50ms'\n")?;
    reaper.db.run("CREATE TABLE page (url text); CREATE TABLE part (id int, url text) PARTITION BY LIST (id); SELECT storage_reaper.attach('part', 'url', backend => 'media', allow_scan => true)")?;
    in_flight(&server, &mut reaper, "a.png")?;
    for change in [
        "SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true)",
        "SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')",
        "SELECT storage_reaper.alter_backend('media', bucket => 'another')",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1)",
    ] {
        let refusal = reaper.db.refusal(change)?;
        ensure!(refusal.code == "55P03" && refusal.hint.contains("pause()"), "{change}: {refusal}");
    }
    server.release();
    reaper.until_drained()?;
    // What is declared and not committed keeps everything on the ground.
    let mut declaring = reaper.cluster.database("shop")?;
    declaring.run("BEGIN; SELECT storage_reaper.protect('page', 'url', backend => 'media', allow_scan => true); INSERT INTO page VALUES ('b.png')")?;
    reaper.db.run("INSERT INTO image (url) VALUES ('b.png'); DELETE FROM image WHERE url = 'b.png'")?;
    let seen = server.requests().len();
    wait::stays(Duration::from_millis(500), "nothing is sent", || Ok(server.requests().len() == seen))?;
    declaring.run("COMMIT")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|deleted", "b.png|kept"]);
    Ok(())
}
