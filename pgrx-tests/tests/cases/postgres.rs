//! What PostgreSQL does with triggers, locks, rights and workers, and what captured objects make of it.

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::cluster::{Cluster, PRELOADED, SHOP};
use storage_reaper_tests::database::Database;
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::process;
use storage_reaper_tests::scenario::{Bed, Reaper};
use storage_reaper_tests::wait;

#[test]
fn a_partition_that_is_named_made_detached_or_dropped_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE p (id int, url text) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (10) TO (20); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (20) TO (30);
         INSERT INTO p VALUES (10, 'a'), (11, 'b'), (20, 'c'), (21, 'd')",
    )?;
    bed.attach("'p', 'url'")?;
    bed.db.run("DELETE FROM p1 WHERE id = 10; DELETE FROM p WHERE id = 11")?;
    assert_eq!(bed.captured()?, ["a", "b"]);
    bed.db.run(
        "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (30) TO (40); INSERT INTO p VALUES (30, 'e'), (31, 'f');
         DELETE FROM p3 WHERE id = 30; DELETE FROM p WHERE id = 31",
    )?;
    bed.db.run("ALTER TABLE p DETACH PARTITION p2; DELETE FROM p2 WHERE id = 20; DROP TABLE p2")?;
    assert_eq!(bed.captured()?, ["a", "b", "c", "d", "e", "f"]);
    Ok(())
}

#[test]
fn a_cascade_from_several_parents_is_captured_in_part_or_twice() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE parent (id int PRIMARY KEY);
         CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, url text);
         CREATE TABLE note (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE SET NULL, url text);
         INSERT INTO parent SELECT generate_series(1, 4);
         INSERT INTO child SELECT n, (n + 1) / 2, n || '.png' FROM generate_series(1, 6) n; INSERT INTO note VALUES (1, 1, 'note.png')",
    )?;
    bed.attach("'child', 'url'")?;
    bed.attach("'note', 'url'")?;
    bed.db.run("DELETE FROM parent WHERE id = 77; DELETE FROM parent WHERE id = 4")?;
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.entry")?, 0);
    bed.db.run("DELETE FROM parent")?;
    assert_eq!(bed.captured()?, ["1.png", "2.png", "3.png", "4.png", "5.png", "6.png"]);
    Ok(())
}

#[test]
fn a_tree_whose_root_and_grandchild_go_is_captured_twice() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE tr (id int PRIMARY KEY, pid int REFERENCES tr ON DELETE CASCADE, url text);
         INSERT INTO tr VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 3, 'd'), (5, 4, 'e'), (6, NULL, 'stays')",
    )?;
    bed.attach("'tr', 'url'")?;
    bed.db.run("DELETE FROM tr WHERE id IN (1, 4)")?;
    assert_eq!(bed.captured()?, ["a", "b", "c", "d", "e"]);
    Ok(())
}

#[test]
fn triggers_that_were_off_for_a_while_stay_off() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png"])?;
    bed.db.run(
        "ALTER TABLE image DISABLE TRIGGER ALL; DELETE FROM image WHERE id = 1; ALTER TABLE image ENABLE TRIGGER ALL;
         SET session_replication_role = replica; DELETE FROM image WHERE id = 2; RESET session_replication_role;
         DELETE FROM image",
    )?;
    assert_eq!(bed.captured()?, ["c.png"]);
    Ok(())
}

#[test]
fn a_subscriber_captures_what_it_applies_or_stops_applying() -> Result<()> {
    let cluster = Cluster::start(&format!("{PRELOADED}wal_level = logical\n"))?;
    let mut postgres = cluster.database("postgres")?;
    postgres.run("CREATE DATABASE subscriber")?;
    let (mut from, mut to) = (cluster.database(SHOP)?, cluster.database("subscriber")?);
    let table = "CREATE TABLE image (id int PRIMARY KEY, url text); CREATE TABLE thumb (image int REFERENCES image ON DELETE CASCADE, url text);
                 INSERT INTO image VALUES (1, 'a.png'), (2, 'b.png'); CREATE EXTENSION storage_reaper;
                 SELECT storage_reaper.create_backend('media', 'generic', 'https://s3.example.test', 'media');
                 SELECT storage_reaper.attach('image', 'url', backend => 'media', allow_scan => true, fence => true);
                 SELECT storage_reaper.attach('thumb', expression => 'thumb.url', backend => 'media', allow_scan => true)";
    from.run(table)?;
    to.run(table)?;
    to.run("INSERT INTO thumb VALUES (1, 'thumb.png')")?;
    from.run("CREATE PUBLICATION pub FOR TABLE image")?;
    from.run("SELECT pg_create_logical_replication_slot('slot', 'pgoutput')")?;
    to.run(&format!(
        "CREATE SUBSCRIPTION sub CONNECTION 'host={} dbname={SHOP} user=postgres' PUBLICATION pub
             WITH (create_slot = false, slot_name = 'slot', copy_data = false)",
        cluster.directory().display()
    ))?;
    from.run("DELETE FROM image WHERE id = 1; UPDATE image SET url = 'c.png' WHERE id = 2; INSERT INTO image VALUES (3, 'd.png')")?;
    wait::until_equal("all is applied", "c.png,d.png".to_owned(), || {
        to.row("SELECT string_agg(url, ',' ORDER BY id) FROM image")
    })?;
    assert_eq!(to.number("SELECT count(*) FROM storage_reaper.entry")?, 0);
    assert_eq!(from.number("SELECT count(*) FROM storage_reaper.queue")?, 2);
    to.run("DELETE FROM image WHERE id = 3")?;
    assert_eq!(to.rows("SELECT locator FROM storage_reaper.queue")?, ["d.png"]);
    to.run("ALTER SUBSCRIPTION sub DISABLE; ALTER SUBSCRIPTION sub SET (slot_name = NONE)")?;
    to.run("DROP SUBSCRIPTION sub")
}

#[test]
fn a_column_that_becomes_a_document_breaks_deletes() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int PRIMARY KEY, url text); INSERT INTO image VALUES (1, 'a.png'), (2, 'b.png'), (3, 'c.png')")?;
    bed.attach("'image', 'url'")?;
    bed.db.run("ALTER TABLE image RENAME COLUMN url TO link; DELETE FROM image WHERE id = 1")?;
    bed.db
        .run("ALTER TABLE image ALTER COLUMN link TYPE jsonb USING to_jsonb(link); DELETE FROM image WHERE id = 2")?;
    bed.db.run("ALTER TABLE image DROP COLUMN link; DELETE FROM image")?;
    let captured = bed.db.rows("SELECT locator, last_error IS NULL FROM storage_reaper.queue ORDER BY entry_id")?;
    assert_eq!(captured[..2], ["a.png|t", "\"b.png\"|t"]);
    ensure!(captured.len() == 3 && captured[2].ends_with("|f"), "{captured:?}");
    Ok(())
}

#[test]
fn a_dropped_database_leaves_a_worker_that_crashes_or_shouts() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.arm()?;
    reaper.worker()?;
    reaper.db = reaper.cluster.database("postgres")?;
    let postmaster = "SELECT pg_postmaster_start_time()";
    let begun = reaper.db.row(postmaster)?;
    reaper.db.run(&format!("DROP DATABASE {SHOP} WITH (FORCE)"))?;
    let misses = |reaper: &Reaper| Ok::<_, anyhow::Error>(reaper.cluster.log()?.matches("does not exist").count());
    wait::until(wait::PATIENCE, "the worker misses its database", || Ok((misses(&reaper)? >= 2).then_some(())))?;
    ensure!(misses(&reaper)? < 6, "{}", reaper.cluster.log()?);
    reaper.db.run(&format!("CREATE DATABASE {SHOP}"))?;
    let serves = format!(
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '{SHOP}' AND backend_type LIKE 'storage_reaper%'"
    );
    wait::until(wait::PATIENCE, "the worker is back", || Ok(reaper.db.holds(&serves)?.then_some(())))?;
    assert_eq!(reaper.db.row(postmaster)?, begun, "the server crashed");
    Ok(())
}

#[test]
fn a_server_cannot_stop_while_a_request_hangs() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.request_timeout = '10min'\n")?;
    reaper.images()?;
    reaper.arm()?;
    server.hold();
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image")?;
    server.request_after(0, wait::PATIENCE).context("no request came")?;
    for _ in 0..100 {
        reaper.db.run("SELECT pg_reload_conf()")?;
    }
    let worker = reaper.worker()?;
    reaper.db.run(&format!("SELECT pg_terminate_backend({worker})"))?;
    wait::until(wait::PATIENCE, "another worker comes", || Ok((reaper.worker()? != worker).then_some(())))?;
    let lock = reaper.cluster.directory().join("data/postmaster.pid");
    process::signal(reaper.cluster.pid().context("no postmaster")?, libc::SIGINT)?;
    // The request would hang for much longer.
    wait::until(wait::PATIENCE, "the server has stopped", || Ok((!lock.exists()).then_some(())))?;
    let log = reaper.cluster.log()?;
    ensure!(!log.contains("terminated by signal") && !log.contains("panicked"), "{log}");
    Ok(())
}

#[test]
fn a_hanging_request_keeps_the_queue_from_being_vacuumed() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.arm()?;
    server.hold();
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image")?;
    server.request_after(0, wait::PATIENCE).context("no request came")?;
    for table in ["storage_reaper.entry", "image"] {
        reaper.db.run("SET lock_timeout = '30s'")?;
        reaper.db.run(&format!("VACUUM FULL {table}"))?;
    }
    reaper.db.run("TRUNCATE image")?;
    server.release();
    reaper.until_drained()
}

#[test]
fn two_deleters_in_opposite_order_deadlock() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE image (id int PRIMARY KEY, url text);
         INSERT INTO image VALUES (1, 'u1'), (2, 'u2'), (11, 'u1'), (12, 'u2'), (20, 'u3'), (30, 'u3')",
    )?;
    bed.attach("'image', 'url', fence => true")?;
    let (mut one, mut two) = (bed.connect()?, bed.connect()?);
    one.run("SET lock_timeout = '30s'; BEGIN; DELETE FROM image WHERE id = 1")?;
    two.run("SET lock_timeout = '30s'; BEGIN; DELETE FROM image WHERE id = 2")?;
    one.run("DELETE FROM image WHERE id = 12; UPDATE image SET url = 'u2' WHERE id = 20")?;
    two.run("DELETE FROM image WHERE id = 11; UPDATE image SET url = 'u1' WHERE id = 30; INSERT INTO image VALUES (40, 'u2')")?;
    one.run("COMMIT")?;
    two.run("COMMIT")?;
    assert_eq!(bed.captured()?, ["u1", "u1", "u2", "u2", "u3", "u3"]);
    Ok(())
}

#[test]
fn a_later_commit_with_an_earlier_number_is_skipped() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png", "c.png"])?;
    reaper.arm()?;
    reaper.db.run("BEGIN; DELETE FROM image WHERE id = 1; PREPARE TRANSACTION 'x'")?;
    reaper.db.run("DELETE FROM image WHERE id = 2")?;
    reaper.db.run("BEGIN; DELETE FROM image WHERE id = 3; PREPARE TRANSACTION 'y'")?;
    reaper.db.run("COMMIT PREPARED 'x'")?;
    reaper.db.run("ROLLBACK PREPARED 'y'")?;
    reaper.until("both are gone", "SELECT count(*) = 2 FROM storage_reaper.history")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["c.png"]);
    Ok(())
}

#[test]
fn a_locator_in_another_type_is_missed() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        r#"CREATE DOMAIN link AS text; CREATE DOMAIN short AS varchar(50); CREATE DOMAIN links AS text[];
           CREATE TYPE place AS (host text, url text);
           CREATE TABLE t (id int PRIMARY KEY, a link, b short, c varchar(50), d char(8), e links, f varchar[], g place, h jsonb);
           INSERT INTO t VALUES (1, 'a', 'b', 'c', 'd', '{e,NULL,"",e2,e}', '{f,f2,f}', ROW('x', 'g'),
                '{"img": "h", "list": ["h1", 1, null, "h1"], "n": {"u": "h2"}}'),
               (2, NULL, '', ' ', '', '{}', NULL, NULL, '{"img": {"u": 1}, "list": "h3", "n": []}')"#,
    )?;
    // The indexes that the messages ask for, on the columns as they are.
    for (column, index) in [
        ("a", "(storage_reaper.fingerprint(a))"),
        ("b", "(storage_reaper.fingerprint(b))"),
        ("c", "(storage_reaper.fingerprint(c))"),
        ("f", "USING gin (storage_reaper.fingerprints(f))"),
    ] {
        bed.db.run(&format!(
            "CREATE INDEX ON t {index}; SELECT storage_reaper.attach('t', '{column}', backend => 'media')"
        ))?;
    }
    bed.attach("'t', 'd'")?;
    let refusal = bed.db.refusal("SELECT storage_reaper.attach('t', 'e', backend => 'media', allow_scan => true)")?;
    ensure!(refusal.code == "42804" && refusal.hint.contains("expression"), "{refusal}");
    bed.attach("'t', expression => 'e::text[]', name => 'e'")?;
    bed.attach("'t', expression => '(t.g).url', name => 'g'")?;
    for (name, path) in [("h0", "$.img"), ("h1", "$.list[*]"), ("h2", "$.n.u")] {
        bed.attach(&format!("'t', 'h', path => '{path}', name => '{name}'"))?;
    }
    bed.db.run("UPDATE t SET e = '{e2,e}', f = '{f}' WHERE id = 1")?;
    assert_eq!(bed.captured()?, ["f2"]);
    bed.db.run("UPDATE t SET e = '{e2}' WHERE id = 1; DELETE FROM t")?;
    let distinct = "SELECT locator FROM storage_reaper.queue GROUP BY locator ORDER BY locator COLLATE \"C\"";
    assert_eq!(bed.db.rows(distinct)?, ["1", "a", "b", "c", "d", "e", "e2", "f", "f2", "g", "h", "h1", "h2", "h3"]);
    Ok(())
}

#[test]
fn two_workers_send_a_key_twice() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.batch_size = 50\n")?;
    reaper.images()?;
    reaper.db.run("INSERT INTO image (url) SELECT n || '.png' FROM generate_series(1, 5000) n; ANALYZE image")?;
    let worker = reaper.worker()?;
    assert_eq!(reaper.db.number("SELECT storage_reaper.start_worker()")?, i64::from(worker));
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id % 2 = 0; DELETE FROM image")?;
    let mut other = reaper.cluster.database(SHOP)?;
    other.run("SELECT storage_reaper.start_worker(), storage_reaper.wake()")?;
    reaper.until_drained()?;
    let mut keys: Vec<String> = server.requests().iter().flat_map(|request| request.keys()).collect();
    keys.sort();
    let all = keys.len();
    keys.dedup();
    assert_eq!((keys.len(), all), (5000, 5000));
    Ok(())
}

#[test]
fn the_queue_is_written_by_whoever_may_delete() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    let role = bed.role("GRANT DELETE, SELECT ON image TO {role}")?;
    let mut app: Database = bed.connect_as(&role)?;
    app.run("DELETE FROM image WHERE id = 1")?;
    for touch in [
        "SELECT * FROM storage_reaper.queue",
        "SELECT * FROM storage_reaper.entry",
        "INSERT INTO storage_reaper.entry SELECT * FROM storage_reaper.entry",
        "UPDATE storage_reaper.entry SET due_at = now()",
        "DELETE FROM storage_reaper.entry",
        "TRUNCATE storage_reaper.entry",
        "SELECT storage_reaper.attach('image', 'url', backend => 'media', allow_scan => true)",
    ] {
        assert_eq!(app.refusal(touch)?.code, "42501", "{touch}");
    }
    assert_eq!(bed.captured()?, ["a.png"]);
    Ok(())
}

#[test]
fn a_database_of_unknown_encoding_gets_the_extension() -> Result<()> {
    let mut bed = Bed::bare()?;
    let name = format!("{}_ascii", bed.name);
    bed.db
        .run(&format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"))?;
    let mut ascii = bed.cluster.database(&name)?;
    assert_eq!(ascii.refusal("CREATE EXTENSION storage_reaper")?.code, "0A000");
    // Text that is no UTF-8 goes on being deleted.
    ascii.run("CREATE TABLE image (url text); INSERT INTO image VALUES (E'caf\\xe9.png'), (E'\\xff\\xfe.png'); DELETE FROM image")
}
