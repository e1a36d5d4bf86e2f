//! Copies, switches, rights and secrets.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::cluster::{Cluster, PRELOADED, SHOP};
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::process;
use storage_reaper_tests::scenario::{Bed, Reaper, write_credentials};
use storage_reaper_tests::store::SECRET_KEY;
use storage_reaper_tests::wait;

#[test]
fn a_restored_dump_deletes_production_objects() -> Result<()> {
    let server = FaultServer::start()?;
    let mut original = Reaper::facing(&server, "")?;
    original.images()?;
    original.arm()?;
    original.db.run("SELECT storage_reaper.pause()")?;
    original.add_images(&["deleted before the dump", "deleted after it"])?;
    original.db.run("DELETE FROM image WHERE id = 1")?;
    let dump = process::run(original.cluster.client_program("pg_dump").arg(SHOP))?;
    ensure!(!dump.contains(SECRET_KEY), "the dump holds the secret");

    let copy = Cluster::start_elsewhere(PRELOADED)?;
    write_credentials(&copy, SECRET_KEY)?;
    let script = copy.directory().join("dump.sql");
    std::fs::write(&script, dump)?;
    process::run(copy.client_program("psql").args(["-qX", "-v", "ON_ERROR_STOP=1", "-d", SHOP, "-f"]).arg(&script))?;
    let mut db = copy.database(SHOP)?;
    assert_eq!(db.row("SELECT state FROM storage_reaper.status")?, "disarmed");
    // The worker waited for its database to be created.
    let says_it = || Ok(copy.log()?.lines().filter(|line| line.contains("a copy of the one that was armed")).count());
    wait::until_equal("the log says why nothing is deleted", 1, says_it)?;
    db.run("SELECT storage_reaper.resume(); DELETE FROM image; SELECT storage_reaper.wake()")?;
    wait::stays(Duration::from_secs(1), "nothing is sent", || Ok(server.requests().is_empty()))?;
    assert_eq!(
        db.rows("SELECT locator FROM storage_reaper.queue ORDER BY captured_at")?,
        ["deleted before the dump", "deleted after it"]
    );
    let said = says_it()?;
    ensure!(said == 1, "the log says it {said} times");
    // A person decides that the copy is now the real one.
    db.run("SELECT storage_reaper.arm()")?;
    wait::until_equal("the copy deletes once it is armed", 0, || db.number("SELECT count(*) FROM storage_reaper.entry"))
}

#[test]
fn a_renamed_database_goes_on_deleting() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.db.run("SELECT storage_reaper.arm()")?;
    assert_eq!(bed.db.row("SELECT state FROM storage_reaper.status")?, "armed");
    let (old, new) = (bed.name.clone(), format!("{}_renamed", bed.name));
    bed.db = bed.cluster.database("postgres")?;
    wait::until(wait::PATIENCE, "nobody uses the database", || {
        Ok(bed.db.run(&format!("ALTER DATABASE {old} RENAME TO {new}")).ok())
    })?;
    let mut renamed = bed.cluster.database(&new)?;
    assert_eq!(renamed.row("SELECT state FROM storage_reaper.status")?, "disarmed");
    renamed.run("SELECT storage_reaper.disarm()")?;
    assert_eq!(renamed.row("SELECT state FROM storage_reaper.status")?, "observe");
    Ok(())
}

#[test]
fn a_database_made_from_an_armed_one_is_armed() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("SELECT storage_reaper.arm()")?;
    let (name, copy) = (bed.name.clone(), format!("{}_copy", bed.name));
    bed.db = bed.cluster.database("postgres")?;
    wait::until(wait::PATIENCE, "nobody uses the template", || {
        Ok(bed.db.run(&format!("CREATE DATABASE {copy} TEMPLATE {name}")).ok())
    })?;
    assert_eq!(bed.cluster.database(&copy)?.row("SELECT state FROM storage_reaper.status")?, "disarmed");
    Ok(())
}

#[test]
fn a_pause_is_noticed_after_the_objects_are_gone() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.arm()?;
    for (pause, resume) in [
        ("pause()", "resume()"),
        ("pause(source => 'image.url')", "resume(source => 'image.url')"),
        ("pause(backend => 'media')", "resume(backend => 'media')"),
    ] {
        reaper.db.run(&format!("SELECT storage_reaper.{pause}"))?;
        let before = server.requests().len();
        reaper.add_images(&["a"])?;
        reaper.db.run("DELETE FROM image")?;
        assert_eq!(reaper.db.row("SELECT state FROM storage_reaper.queue")?, "paused", "{pause}");
        wait::stays(Duration::from_millis(500), "nothing is sent", || Ok(server.requests().len() == before))?;
        reaper.db.run(&format!("SELECT storage_reaper.{resume}"))?;
        reaper.until_drained()?;
    }
    assert_eq!(server.requests().len(), 3);
    Ok(())
}

#[test]
fn a_pause_mid_drain_takes_longer_than_a_second() -> Result<()> {
    let server = FaultServer::start()?;
    let slow = storage_reaper_tests::fault::Answer::of(204, "").after(Duration::from_millis(50));
    server.answer_always(Some(slow));
    let mut reaper = Reaper::facing(&server, "storage_reaper.batch_size = 1\nstorage_reaper.concurrency = 2\n")?;
    reaper.images()?;
    reaper.arm()?;
    let keys: Vec<String> = (0..2000).map(|n| format!("k{n}")).collect();
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    wait::until(wait::PATIENCE, "the drain is under way", || Ok((server.requests().len() > 10).then_some(())))?;
    reaper.db.run("SELECT storage_reaper.pause()")?;
    let at_pause = server.requests().len();
    let mut seen = at_pause;
    while server.request_after(seen, Duration::from_millis(400)).is_some() {
        seen = server.requests().len();
        // Of two at a time and 50 ms each, forty take a second.
        ensure!(seen - at_pause <= 40, "{} requests came after the pause", seen - at_pause);
    }
    ensure!(seen < 2000, "the drain was over before the pause");
    // Nothing that was claimed is lost or settled without a request.
    server.answer_always(None);
    reaper.db.run("SELECT storage_reaper.resume()")?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["deleted|2000"]);
    Ok(())
}

#[test]
fn a_secret_shows_up_in_the_log_the_settings_or_a_view() -> Result<()> {
    let mut reaper =
        Reaper::with("log_statement = 'all'\nlog_min_messages = debug1\nstorage_reaper.retry_base = '1s'\n")?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until_drained()?;
    reaper.write_secret("another-SECRETthatMustNotLeak")?;
    reaper.cluster.reconfigure("")?;
    reaper.db.run("SELECT storage_reaper.alter_backend('media', region => 'eu-west-1'); DELETE FROM image")?;
    wait::until(wait::PATIENCE, "the second object is done or held", || {
        let done = "SELECT (SELECT count(*) = 2 FROM storage_reaper.history) OR (SELECT bool_or(held_since IS NOT NULL) FROM storage_reaper.backends)";
        Ok(reaper.db.holds(done)?.then_some(()))
    })?;
    let mut seen = reaper.cluster.log()?;
    for view in ["backends", "sources", "queue", "history", "parked", "status"] {
        seen += &reaper.db.rows(&format!("SELECT x::text FROM storage_reaper.{view} x"))?.join("\n");
    }
    seen += &process::run(reaper.cluster.client_program("pg_dump").arg(SHOP))?;
    for mark in ["SECRETthatMustNotLeak", "X-Amz-Signature", "Signature="] {
        let line = seen.lines().find(|line| line.contains(mark));
        ensure!(line.is_none(), "found {mark} in: {line:?}");
    }
    reaper.db.run("CREATE ROLE reader LOGIN")?;
    let mut reader = storage_reaper_tests::database::Database::over(reaper.cluster.connect_as(SHOP, "reader")?);
    assert_eq!(reader.number("SELECT count(*) FROM pg_settings WHERE setting LIKE '%credentials%'")?, 0);
    assert_eq!(reader.refusal("SHOW storage_reaper.credentials_file")?.code, "42501");
    Ok(())
}

#[test]
fn an_ordinary_role_may_look_or_touch() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    let role = bed.role("GRANT ALL ON image TO {role}")?;
    let mut app = bed.connect_as(&role)?;
    for call in [
        "arm()",
        "disarm()",
        "pause()",
        "resume()",
        "wake()",
        "start_worker()",
        "enqueue(ARRAY['x'])",
        "cancel(ARRAY['x'])",
        "retry()",
        "discard()",
        "explain('x')",
        "attach('image', 'url')",
        "detach('image.url')",
        "protect('image', 'url')",
        "unprotect('x')",
        "drop_backend('media')",
        "alter_backend('media', region => 'x')",
        "drop_location('https://x/')",
        "create_location('https://x/', 'media')",
        "create_backend('b', 'generic', 'https://s3.example.test', 'bucket')",
    ] {
        let refusal = app.refusal(&format!("SELECT * FROM storage_reaper.{call}"))?;
        assert_eq!(refusal.code, "42501", "{call}: {refusal}");
    }
    for view in ["status", "queue", "parked", "history", "sources", "backends", "locations", "entry", "backend"] {
        assert_eq!(app.refusal(&format!("SELECT * FROM storage_reaper.{view}"))?.code, "42501", "{view}");
    }
    // A trigger function runs only as a trigger; nobody can hand it rows.
    app.run("CREATE TEMP TABLE t (url text)")?;
    let trigger = "CREATE TRIGGER t AFTER DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION storage_reaper.capture('1')";
    assert_eq!(app.refusal(trigger)?.code, "42501");
    Ok(())
}

#[test]
fn monitoring_cannot_read_or_can_change() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    bed.db.run("DELETE FROM image")?;
    let role = bed.role("GRANT pg_monitor TO {role}")?;
    let mut monitor = bed.connect_as(&role)?;
    for view in ["status", "queue", "parked", "history", "sources", "backends", "locations"] {
        monitor.rows(&format!("SELECT * FROM storage_reaper.{view}"))?;
    }
    assert_eq!(monitor.row("SELECT locator FROM storage_reaper.queue")?, "a.png");
    assert_eq!(monitor.refusal("SELECT storage_reaper.arm()")?.code, "42501");
    assert_eq!(monitor.refusal("DELETE FROM storage_reaper.entry")?.code, "42501");
    Ok(())
}

#[test]
fn an_idle_worker_polls() -> Result<()> {
    let mut reaper = Reaper::with("autovacuum = off\n")?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let worker = reaper.worker()?;
    // Seen from another database, so that looking does not count.
    drop(std::mem::replace(&mut reaper.db, reaper.cluster.database("postgres")?));
    let transactions = format!("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{SHOP}'");
    let quiet = |reaper: &mut Reaper| Ok::<_, anyhow::Error>((reaper.db.number(&transactions)?, switches(worker)?));
    let (mut last, mut next) = (quiet(&mut reaper)?, quiet(&mut reaper)?);
    let rested = wait::until(wait::PATIENCE, "the worker rests for five seconds", || {
        last = next;
        std::thread::park_timeout(Duration::from_secs(5));
        next = quiet(&mut reaper)?;
        // One that polls has no such five seconds.
        Ok((next.0 == last.0 && next.1 - last.1 <= 2).then_some(()))
    });
    rested.with_context(|| format!("transactions and wakings: {last:?}, {next:?}"))
}

/// How often any thread of a process has gone to sleep.
fn switches(pid: i32) -> Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(task?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.unwrap_or("0").trim().parse::<u64>()?;
    }
    Ok(sum)
}

#[test]
fn dropping_the_extension_kills_the_worker() -> Result<()> {
    let mut reaper = Reaper::new()?;
    let worker = reaper.worker()?;
    reaper.db.run("DROP EXTENSION storage_reaper CASCADE")?;
    reaper.db.run("CREATE EXTENSION storage_reaper")?;
    assert_eq!(reaper.worker()?, worker);
    Ok(())
}

#[test]
fn a_paused_backend_is_reached_through_an_entry_of_another() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.db.run(&format!(
        "SELECT storage_reaper.create_backend('other', 'generic', '{}', 'other', credentials => 'profile:media');
         SELECT storage_reaper.pause(backend => 'other')",
        server.endpoint()
    ))?;
    reaper.arm()?;
    reaper.db.run("SELECT storage_reaper.enqueue(ARRAY['s3://other/x', 's3://bucket/y'], backend => 'media')")?;
    reaper.until("the other object is gone", "SELECT count(*) = 1 FROM storage_reaper.history")?;
    wait::stays(Duration::from_secs(1), "only one request", || Ok(server.requests().len() == 1))?;
    reaper.db.run("SELECT storage_reaper.resume(backend => 'other')")?;
    reaper.until("the paused object is gone too", "SELECT count(*) = 2 FROM storage_reaper.history")
}
