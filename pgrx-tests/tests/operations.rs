//! What a person does: enqueue, cancel, retry, discard, explain, and a worker without preload.

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::cluster::{Cluster, SHOP};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::{Bed, Reaper, write_credentials};
use storage_reaper_tests::store::SECRET_KEY;
use storage_reaper_tests::wait;

#[test]
fn an_enqueued_object_is_not_deleted_or_not_guarded() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["owned.png"])?;
    reaper.bucket()?.put("loose.png")?;
    reaper.arm()?;
    let queued = "SELECT storage_reaper.enqueue(ARRAY['loose.png', 'owned.png', NULL, ' '], backend => 'media')";
    assert_eq!(reaper.db.number(queued)?, 2);
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["owned.png"]);
    assert_eq!(reaper.outcomes()?, ["loose.png|deleted", "owned.png|kept"]);
    Ok(())
}

#[test]
fn a_cancelled_object_is_deleted() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.attach('image', 'url', backend => 'media', grace => '1 hour', allow_scan => true)",
    )?;
    reaper.add_images(&["a.png", "b.png", "c.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    assert_eq!(reaper.db.number("SELECT storage_reaper.cancel(ARRAY['b.png', 'unknown'])")?, 1);
    assert_eq!(reaper.db.rows("SELECT locator, row_id FROM storage_reaper.queue ORDER BY 1")?, ["a.png|1", "c.png|3"]);
    assert_eq!(reaper.outcomes()?, ["b.png|cancelled"]);
    Ok(())
}

#[test]
fn parked_objects_cannot_be_brought_back_or_given_up() -> Result<()> {
    let server = FaultServer::start()?;
    let conf = "storage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '1s'\nstorage_reaper.max_attempts = 1\n";
    let mut reaper = Reaper::facing(&server, conf)?;
    reaper.images()?;
    reaper.arm()?;
    let failed =
        |key: &str| format!("<Error><Key>{key}</Key><Code>InternalError</Code><Message>scripted</Message></Error>");
    let all = ["a", "b", "c"].map(failed).concat();
    // In a batch, and one by one; the store answers others.
    server.answer_naming("<Delete", Answer::of(200, format!("<DeleteResult>{all}</DeleteResult>")));
    for key in ["a", "b", "c"] {
        server.answer_naming(&format!("/bucket/{key}"), Answer::error(500, "InternalError"));
    }
    reaper.add_images(&["a", "b", "c"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("all three are parked", "SELECT count(*) = 3 FROM storage_reaper.parked")?;
    assert_eq!(
        reaper.db.rows("SELECT locator, reason, row_id FROM storage_reaper.parked ORDER BY 1")?,
        ["a|attempts_exhausted|1", "b|attempts_exhausted|2", "c|attempts_exhausted|3"]
    );
    ensure!(reaper.db.holds("SELECT bool_and(last_error <> '') FROM storage_reaper.parked")?);

    server.answer_no_more_naming();
    let previewed = reaper.db.rows("SELECT locator FROM storage_reaper.retry(preview => true) ORDER BY 1")?;
    assert_eq!(previewed, ["a", "b", "c"]);
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.parked")?, 3);

    let one = "SELECT locator FROM storage_reaper.retry(ids => ARRAY(SELECT id FROM storage_reaper.parked WHERE locator = 'a'))";
    assert_eq!(reaper.db.rows(one)?, ["a"]);
    reaper.until_drained()?;
    let two = "SELECT locator FROM storage_reaper.discard(ids => ARRAY(SELECT id FROM storage_reaper.parked WHERE locator = 'b'))";
    assert_eq!(reaper.db.rows(two)?, ["b"]);
    assert_eq!(reaper.db.rows("SELECT locator FROM storage_reaper.retry(source => 'image.url')")?, ["c"]);
    reaper.until_drained()?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.parked")?, 0);
    let last =
        reaper.db.rows("SELECT locator, outcome FROM storage_reaper.history WHERE outcome <> 'parked' ORDER BY 1")?;
    assert_eq!(last, ["a|deleted", "b|discarded", "c|deleted"]);
    Ok(())
}

#[test]
fn explain_knows_less_than_the_worker() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["shared.png", "queued.png", "shared.png"])?;
    bed.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')")?;
    bed.db.run("DELETE FROM image WHERE id <= 2")?;
    let explain =
        |locator: &str| format!("SELECT object, state, source, detail FROM storage_reaper.explain('{locator}')");
    let queued = bed.db.rows(&explain("https://cdn.example.test/queued.png"))?.join("\n");
    ensure!(
        queued.contains("s3://media/queued.png") && queued.contains("image.url") && queued.contains("observed"),
        "{queued}"
    );
    let shared = bed.db.rows(&explain("shared.png"))?.join("\n");
    ensure!(shared.contains("referenced") && shared.contains("row 3 of public.image still names it"), "{shared}");
    // What stops it, and what comes next.
    let next = "SELECT detail FROM storage_reaper.explain('queued.png') WHERE state LIKE 'queue%'";
    for (change, told) in [
        ("SELECT storage_reaper.arm()", "is checked and deleted next"),
        (
            "UPDATE storage_reaper.entry SET attempts = 2, last_error = 'slow'",
            "is checked and deleted next; 2 attempts, the last one: slow",
        ),
        (
            "UPDATE storage_reaper.entry SET due_at = due_at + interval '1 hour', attempts = 0",
            "waits for the end of its grace",
        ),
        ("SELECT storage_reaper.pause()", "paused: see storage_reaper.resume()"),
    ] {
        bed.db.run(change)?;
        assert_eq!(bed.db.rows(next)?, [told], "{change}");
    }
    bed.db.run("SELECT storage_reaper.resume(); ALTER TABLE image RENAME COLUMN url TO link; ALTER TABLE image DROP COLUMN link")?;
    let doubt = bed.db.rows(&explain("queued.png"))?.join("\n");
    ensure!(doubt.contains("in doubt") && doubt.contains("does not exist"), "{doubt}");
    let foreign = bed.db.rows(&explain("https://elsewhere.example.test/x"))?.join("\n");
    ensure!(foreign.contains('∅'), "{foreign}");
    ensure!(!bed.db.rows(&explain("never-seen.png"))?.is_empty());
    Ok(())
}

#[test]
fn explain_mixes_up_two_backends() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["same.png"])?;
    bed.db.run(
        "SELECT storage_reaper.create_backend('other', kind => 'generic', endpoint => 'http://127.0.0.1:9', bucket => 'elsewhere');
         CREATE TABLE video (id int PRIMARY KEY, url text); INSERT INTO video VALUES (1, 'same.png'), (2, 'only.mp4');
         SELECT storage_reaper.attach('video', 'url', backend => 'other', allow_scan => true);
         DELETE FROM video WHERE id = 1",
    )?;
    let explain =
        |locator: &str| format!("SELECT object, state, source FROM storage_reaper.explain('{locator}') ORDER BY state");
    assert_eq!(
        bed.db.rows(&explain("same.png"))?,
        ["other: s3://elsewhere/same.png|queue: observed|video.url", "media: s3://media/same.png|referenced|image.url"]
    );
    assert_eq!(bed.db.rows(&explain("only.mp4"))?, ["other: s3://elsewhere/only.mp4|referenced|video.url"]);
    let unseen = bed.db.rows(&explain("unseen.png"))?;
    assert_eq!(unseen.len(), 2, "one line for each object that the key could name: {unseen:?}");
    Ok(())
}

#[test]
fn without_preload_nothing_works_and_nobody_says_so() -> Result<()> {
    let server = FaultServer::start()?;
    let cluster = Cluster::start("storage_reaper.credentials_file = '{directory}/credentials'")?;
    write_credentials(&cluster, SECRET_KEY)?;
    let mut db = cluster.database(SHOP)?;
    db.run("CREATE EXTENSION storage_reaper")?;
    db.run(&format!(
        "SELECT storage_reaper.create_backend('media', kind => 'generic', endpoint => '{}', bucket => 'bucket', credentials => 'profile:media');
         CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'a.png'), (2, 'b.png');
         SELECT storage_reaper.attach('image', 'url', backend => 'media', allow_scan => true);
         SELECT storage_reaper.arm();
         DELETE FROM image WHERE id = 1",
        server.endpoint()
    ))?;
    assert_eq!(db.row("SELECT preloaded, worker_pid, worker_kind FROM storage_reaper.status")?, "f|∅|∅");
    ensure!(db.row("SELECT worker_note FROM storage_reaper.status")?.contains("start_worker"));
    // Asking again, even at once, does not start a second one.
    let worker = db.number("SELECT storage_reaper.start_worker()")?;
    assert_eq!(db.number("SELECT storage_reaper.start_worker()")?, worker);
    let status = db.row("SELECT preloaded, worker_pid, worker_kind FROM storage_reaper.status")?;
    assert_eq!(status, format!("f|{worker}|dynamic"));
    wait::until_equal("the queue is empty", 0, || db.number("SELECT count(*) FROM storage_reaper.entry"))?;
    db.run("DELETE FROM image")?;
    wait::until_equal("the queue is empty again", 0, || db.number("SELECT count(*) FROM storage_reaper.entry"))?;
    assert_eq!(server.requests().len(), 2);
    assert_eq!(db.number("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'storage_reaper%'")?, 1);
    Ok(())
}

#[test]
fn a_dead_worker_stays_dead() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.arm()?;
    let worker = reaper.worker()?;
    reaper.db.run(&format!("SELECT pg_terminate_backend({worker})"))?;
    wait::until(wait::PATIENCE, "another worker serves the database", || {
        Ok((reaper.worker()? != worker).then_some(()))
    })?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()
}

#[test]
fn status_hides_what_waits() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.worker()?;
    reaper.db.run("DELETE FROM image")?;
    let status = "SELECT state, paused, preloaded, worker_kind, queue_objects, oldest_due IS NOT NULL, parked FROM storage_reaper.status";
    assert_eq!(reaper.db.row(status)?, "observe|f|t|static|2|t|0");
    reaper.arm()?;
    reaper.until_drained()?;
    assert_eq!(reaper.db.row(status)?, "armed|f|t|static|0|f|0");
    reaper.db.run("SELECT storage_reaper.disarm()")?;
    assert_eq!(reaper.db.row("SELECT state FROM storage_reaper.status")?, "observe");
    Ok(())
}

#[test]
fn looking_at_an_empty_queue_is_compiled_by_jit() -> Result<()> {
    let mut bed = Bed::new()?;
    for view in ["status", "queue", "parked", "history", "sources", "backends"] {
        let plan = bed.db.rows(&format!("EXPLAIN SELECT * FROM storage_reaper.{view}"))?.join("\n");
        let cost = plan.split_once("..").and_then(|(_, rest)| rest.split_once(' ')).context("a plan without a cost")?;
        // Above 100,000 PostgreSQL spends half a second on compiling the plan.
        ensure!(cost.0.parse::<f64>()? < 100_000.0, "{view}: {plan}");
    }
    Ok(())
}

#[test]
fn a_setting_changed_by_reload_is_ignored_by_the_worker() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.arm()?;
    reaper.cluster.reconfigure("storage_reaper.batch_size = 2")?;
    wait::until_equal("the session sees the new value", "2".to_owned(), || {
        reaper.db.row("SHOW storage_reaper.batch_size")
    })?;
    reaper.add_images(&["a", "b", "c", "d", "e"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    ensure!(server.requests().iter().all(|request| request.keys().len() <= 2), "{:?}", server.requests());
    Ok(())
}

#[test]
fn public_things_lack_a_comment() -> Result<()> {
    let mut bed = Bed::new()?;
    let silent = "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                  WHERE n.nspname = 'storage_reaper' AND obj_description(p.oid, 'pg_proc') IS NULL
                  UNION ALL
                  SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname = 'storage_reaper' AND c.relkind IN ('r', 'v') AND obj_description(c.oid, 'pg_class') IS NULL";
    assert_eq!(bed.db.rows(silent)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_whole_row_is_retried_as_if_it_were_a_key() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.attach('image', expression => 'url::int::text', backend => 'media', name => 'bad', allow_scan => true)",
    )?;
    reaper.db.run("SELECT storage_reaper.detach('image.url')")?;
    reaper.add_images(&["no number"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper
        .until("the row is parked", "SELECT count(*) = 1 FROM storage_reaper.parked WHERE reason = 'locator_failed'")?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.retry()")?, 0);
    ensure!(reaper.db.holds("SELECT count(*) = 1 FROM storage_reaper.parked")?);
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.discard()")?, 1);
    ensure!(server.requests().is_empty(), "{:?}", server.requests());
    Ok(())
}

#[test]
fn drop_database_is_blocked_by_the_worker() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.arm()?;
    reaper.worker()?;
    let mut postgres = reaper.cluster.database("postgres")?;
    reaper.db = reaper.cluster.database("postgres")?;
    for commands in [
        &[format!("CREATE DATABASE {SHOP}_copy TEMPLATE {SHOP}")][..],
        &[format!("ALTER DATABASE {SHOP} RENAME TO moved"), format!("ALTER DATABASE moved RENAME TO {SHOP}")],
        &[format!("DROP DATABASE {SHOP}")],
    ] {
        wait::until(wait::PATIENCE, "the worker serves the database", || {
            let serves = format!(
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '{SHOP}' AND backend_type LIKE 'storage_reaper%'"
            );
            Ok(postgres.holds(&serves)?.then_some(()))
        })?;
        for command in commands {
            postgres.run(command)?;
        }
    }
    Ok(())
}

#[test]
fn a_backend_that_moves_takes_its_queue_along_unnoticed() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    let warnings =
        |bed: &Bed| Ok::<usize, anyhow::Error>(bed.cluster.log()?.matches("2 objects in the queue or parked").count());
    let before = warnings(&bed)?;
    bed.db.run("SELECT storage_reaper.alter_backend('media', bucket => 'other'); SELECT storage_reaper.alter_backend('media', bucket => 'media'); DELETE FROM image")?;
    bed.db.run("SELECT storage_reaper.alter_backend('media', region => 'eu-west-1')")?;
    assert_eq!(warnings(&bed)?, before);
    bed.db.run("SELECT storage_reaper.alter_backend('media', bucket => 'other')")?;
    assert_eq!(warnings(&bed)?, before + 1);
    Ok(())
}

#[test]
fn an_endpoint_that_says_it_all_is_asked_for_kind_and_region() -> Result<()> {
    let mut bed = Bed::new()?;
    for (endpoint, told) in [
        ("https://s3.eu-west-1.amazonaws.com", "aws|eu-west-1|virtual"),
        ("https://account.r2.cloudflarestorage.com", "r2|auto|path"),
        ("https://s3.us-west-004.backblazeb2.com", "b2|us-west-004|path"),
        ("https://storage.googleapis.com", "gcs|auto|path"),
        ("https://minio.example.test", "generic|us-east-1|path"),
    ] {
        bed.db.run(&format!(
            "SELECT storage_reaper.create_backend('any', kind => 'auto', endpoint => '{endpoint}', bucket => 'media')"
        ))?;
        assert_eq!(
            bed.db.row("SELECT kind, region, addressing FROM storage_reaper.backends WHERE name = 'any'")?,
            told
        );
        bed.db.run("SELECT storage_reaper.drop_backend('any')")?;
    }
    Ok(())
}
