//! The fence: no interleaving deletes an object that a committed row names.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::database::{Database, Refusal};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::process;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// So that a machine that stands still for a while refuses nobody; a later line wins.
const PATIENT: &str = "storage_reaper.fence_timeout = '60s'\n";

/// A fenced table `image` in front of a scripted server.
fn facing(conf: &str) -> Result<(FaultServer, Reaper)> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, &format!("{PATIENT}{conf}"))?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.attach('image', 'url', backend => 'media', fence => true); CREATE TABLE other (id int)",
    )?;
    reaper.arm()?;
    Ok((server, reaper))
}

fn fenced(conf: &str) -> Result<Reaper> {
    let mut reaper = Reaper::with(&format!("{PATIENT}{conf}"))?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.attach('image', 'url', backend => 'media', fence => true); CREATE TABLE other (id int)",
    )?;
    reaper.arm()?;
    Ok(reaper)
}

/// Waits until the deletion of the only object is on the wire.
fn in_flight(server: &FaultServer, reaper: &mut Reaper, key: &str) -> Result<()> {
    let seen = server.requests().len();
    server.hold();
    reaper.db.run(&format!("INSERT INTO image (url) VALUES ('{key}'); DELETE FROM image WHERE url = '{key}'"))?;
    server.request_after(seen, wait::PATIENCE).context("no request came")?;
    Ok(())
}

type Writer = JoinHandle<Result<(Database, Option<Refusal>)>>;

/// Runs a statement on a connection of its own, and says how it ended.
fn write(reaper: &Reaper, sql: &str) -> Result<Writer> {
    let mut writer = reaper.cluster.database("shop")?;
    let sql = sql.to_owned();
    Ok(thread::spawn(move || match writer.run(&sql) {
        Ok(()) => Ok((writer, None)),
        Err(_) => {
            writer.run("ROLLBACK")?;
            let refusal = writer.refusal(&sql)?;
            Ok((writer, Some(refusal)))
        }
    }))
}

fn waits(reaper: &mut Reaper) -> Result<()> {
    reaper.until("a writer waits", "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'userlock' AND NOT granted")
}

#[test]
fn a_writer_commits_a_row_that_names_an_object_in_flight() -> Result<()> {
    for level in LEVELS {
        let (server, mut reaper) = facing("")?;
        in_flight(&server, &mut reaper, "a.png")?;
        let mut writer = reaper.cluster.database("shop")?;
        writer.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM other"))?;
        let writing = thread::spawn(move || {
            let refusal = writer.refusal("INSERT INTO image (url) VALUES ('s3://bucket/a.png')");
            (writer, refusal)
        });
        waits(&mut reaper)?;
        server.release();
        let (mut writer, refusal) = writing.join().ok().context("the writer panicked")?;
        let refusal = refusal?;
        ensure!(refusal.code == "SRF01" && refusal.hint.contains("again"), "{level}: {refusal}");
        writer.run("ROLLBACK")?;
        // Once it is gone, a row may name it anew.
        reaper.until_drained()?;
        writer.run("INSERT INTO image (url) VALUES ('a.png')")?;
    }
    Ok(())
}

#[test]
fn a_writer_waits_longer_than_it_was_told() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_timeout = '50ms'\n")?;
    in_flight(&server, &mut reaper, "a.png")?;
    for write in [
        "INSERT INTO image (url) VALUES ('a.png')",
        "INSERT INTO image VALUES (77, 'b.png'); UPDATE image SET url = 'a.png' WHERE id = 77",
        "INSERT INTO image VALUES (78, 'b.png') ON CONFLICT (id) DO UPDATE SET url = excluded.url; INSERT INTO image VALUES (78, 'a.png') ON CONFLICT (id) DO UPDATE SET url = excluded.url",
        "WITH written AS (INSERT INTO image (url) VALUES ('a.png') RETURNING id) SELECT count(*) FROM written",
    ] {
        let refusal = reaper.db.refusal(write)?;
        ensure!(refusal.code == "SRF01" && refusal.message.contains("is being deleted"), "{write}: {refusal}");
    }
    // Others are not in its way.
    reaper.db.run("INSERT INTO image (url) VALUES ('c.png')")?;
    server.release();
    reaper.until_drained()?;
    Ok(())
}

#[test]
fn the_same_key_in_another_store_is_taken_for_the_one_in_flight() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_timeout = '50ms'\n")?;
    reaper.create_backend("elsewhere", "generic", "http://127.0.0.1:9")?;
    reaper.db.run(
        "CREATE TABLE copy (url text);
         SELECT storage_reaper.protect('copy', 'url', backend => 'elsewhere', fence => true, allow_scan => true)",
    )?;
    in_flight(&server, &mut reaper, "a.png")?;
    reaper.db.run("INSERT INTO copy VALUES ('a.png')")?;
    server.release();
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|deleted"]);
    Ok(())
}

#[test]
fn a_deletion_that_did_not_happen_fails_the_writer() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '1s'\n")?;
    server.answer_next(Answer::error(403, "AccessDenied"));
    in_flight(&server, &mut reaper, "a.png")?;
    let writer = write(&reaper, "INSERT INTO image (url) VALUES ('a.png')")?;
    waits(&mut reaper)?;
    server.release();
    let (_, refusal) = writer.join().ok().context("the writer panicked")??;
    ensure!(refusal.is_none(), "{refusal:?}");
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept"]);
    Ok(())
}

#[test]
fn a_writer_that_is_older_than_the_mark_loses_its_object() -> Result<()> {
    for (end, kept) in [("COMMIT", true), ("ROLLBACK", false), ("ROLLBACK TO s; COMMIT", false)] {
        let mut reaper = fenced("")?;
        reaper.add_images(&["a.png"])?;
        reaper.db.run("SELECT storage_reaper.pause(); DELETE FROM image")?;
        // It begins after the capture, and its row is there before the mark.
        let mut writer = reaper.cluster.database("shop")?;
        writer.run("BEGIN; INSERT INTO other VALUES (1); SAVEPOINT s; INSERT INTO image (url) VALUES ('a.png')")?;
        reaper.db.run("SELECT storage_reaper.resume()")?;
        reaper
            .until("the object is marked", "SELECT count(*) = 1 FROM storage_reaper.flight WHERE ended_at IS NULL")?;
        wait::stays(Duration::from_millis(300), "the object is there", || reaper.bucket()?.exists("a.png"))?;
        writer.run(end)?;
        reaper.until_drained()?;
        assert_eq!(reaper.outcomes()?, [if kept { "a.png|kept" } else { "a.png|deleted" }], "{end}");
    }
    Ok(())
}

#[test]
fn a_writer_between_mark_and_check_loses_its_object() -> Result<()> {
    for level in LEVELS {
        for end in ["COMMIT", "PREPARE TRANSACTION 'p'"] {
            let mut reaper = fenced("max_prepared_transactions = 4\n")?;
            reaper.add_images(&["a.png"])?;
            reaper.db.run("SELECT storage_reaper.pause(); DELETE FROM image")?;
            let mut older = reaper.cluster.database("shop")?;
            older.run("BEGIN; INSERT INTO other VALUES (1)")?;
            reaper.db.run("SELECT storage_reaper.resume()")?;
            reaper.until("it is marked", "SELECT count(*) = 1 FROM storage_reaper.flight WHERE ended_at IS NULL")?;
            // The object waits for the older writer; this one does not wait for the object.
            let mut writer = reaper.cluster.database("shop")?;
            writer.run(&format!("BEGIN ISOLATION LEVEL {level}; INSERT INTO image (url) VALUES ('a.png')"))?;
            if end == "COMMIT" {
                writer.run("COMMIT")?;
                older.run("COMMIT")?;
            } else {
                writer.run(end)?;
                older.run("COMMIT")?;
                wait::stays(Duration::from_millis(500), "the object is there", || reaper.bucket()?.exists("a.png"))?;
                writer.run("COMMIT PREPARED 'p'")?;
            }
            reaper.until_drained()?;
            assert_eq!(reaper.outcomes()?, ["a.png|kept"], "{level} {end}");
        }
    }
    Ok(())
}

#[test]
fn a_request_of_a_worker_that_died_takes_a_new_object() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_linger = '3s'\n")?;
    in_flight(&server, &mut reaper, "a.png")?;
    let worker = reaper.worker()?;
    process::signal(worker, libc::SIGKILL)?;
    wait::until(wait::PATIENCE, "the server noticed", || Ok(reaper.db.run("SELECT 1").is_err().then_some(())))?;
    reaper.db = wait::until(wait::PATIENCE, "the server is back", || Ok(reaper.cluster.database("shop").ok()))?;
    // Whether a new worker has come or not: the old request may still arrive.
    let refusal = reaper.db.refusal("INSERT INTO image (url) VALUES ('a.png')")?;
    ensure!(refusal.code == "SRF01", "{refusal}");
    server.release();
    reaper.until_drained()?;
    wait::until(wait::PATIENCE, "no old request can come any more", || {
        Ok(reaper.db.run("INSERT INTO image (url) VALUES ('a.png')").is_ok().then_some(()))
    })
}

#[test]
fn a_request_without_an_answer_takes_a_new_object() -> Result<()> {
    let (server, mut reaper) = facing("storage_reaper.fence_linger = '3s'\nstorage_reaper.retry_base = '1s'\n")?;
    server.answer_next(Answer::hang_up());
    in_flight(&server, &mut reaper, "a.png")?;
    let writer = write(&reaper, "INSERT INTO image (url) VALUES ('a.png')")?;
    waits(&mut reaper)?;
    server.release();
    let (_, refusal) = writer.join().ok().context("the writer panicked")??;
    ensure!(refusal.is_some_and(|refusal| refusal.code == "SRF01"), "the writer went on");
    reaper.until_drained()?;
    wait::until(wait::PATIENCE, "no old request can come any more", || {
        Ok(reaper.db.run("INSERT INTO image (url) VALUES ('a.png')").is_ok().then_some(()))
    })
}

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
