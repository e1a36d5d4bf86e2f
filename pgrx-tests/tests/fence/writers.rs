//! Writers that meet objects in flight.

use super::*;

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
