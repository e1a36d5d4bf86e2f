//! The drain in front of a server that misbehaves by script: whose fault is it, and what is settled on which evidence.

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

const IMPATIENT: &str =
    "storage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '1s'\nstorage_reaper.max_attempts = 2\n";

#[test]
fn requests_carry_secrets_in_the_url_or_checksums_that_stores_refuse() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    reaper.add_images(&["a", "b", "c d"])?;
    reaper.db.run("DELETE FROM image WHERE id < 3")?;
    reaper.until_drained()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let requests = server.requests();
    let batch = requests.iter().find(|request| request.method == "POST").context("no batch came")?;
    assert_eq!(batch.keys(), ["a", "b"]);
    ensure!(
        batch.header("content-md5").is_some() && batch.body.contains("http://s3.amazonaws.com/doc/2006-03-01/"),
        "{batch:?}"
    );
    let single = requests.iter().find(|request| request.method == "DELETE").context("no single DELETE came")?;
    assert_eq!(single.target, "/bucket/c%20d");
    for request in &requests {
        ensure!(
            request.header("authorization").is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256")),
            "{request:?}"
        );
        ensure!(
            !request.target.contains("X-Amz-") && !request.head.iter().any(|line| line.starts_with("x-amz-checksum")),
            "{request:?}"
        );
    }
    Ok(())
}

#[test]
fn an_empty_key_becomes_a_request_for_the_bucket() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let doubtful = ["/", "s3://bucket", "s3://bucket/", "..", ".", "../bucket", "a/../..", "\u{1}", "\u{1}/.."];
    reaper.add_images(&doubtful)?;
    reaper.db.run("INSERT INTO image (url) VALUES (NULL), (''), ('  '); DELETE FROM image")?;
    reaper.until_drained()?;
    for request in server.requests() {
        let path = request.target.split('?').next().unwrap_or_default();
        let harmless = request.method == "POST" || !["", "/", "/bucket", "/bucket/"].contains(&path);
        ensure!(harmless && !request.body.contains("<Key></Key>") && !request.body.contains("<Key/>"), "{request:?}");
    }
    Ok(())
}

#[test]
fn a_key_that_the_answer_does_not_name_is_taken_for_done() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["named", "unnamed"])?;
    server.answer_next(Answer::result("<Deleted><Key>named</Key></Deleted>"));
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["named|deleted", "unnamed|deleted"]);
    assert_eq!(server.requests().len(), 2);
    Ok(())
}

#[test]
fn an_answer_that_breaks_off_is_taken_for_done() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["a", "b"])?;
    server.answer_next(Answer::of(200, "<DeleteResult><Deleted><Key>a</Key></Deleted><Deleted><Key>b</Key></Deleted>"));
    server.answer_next(Answer::of(200, "<html><body>Welcome to the hotel's network</body></html>"));
    server.answer_next(Answer::error(200, "InternalError"));
    server.answer_next(Answer::hang_up());
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    ensure!(server.requests().len() >= 5, "settled after {} requests", server.requests().len());
    assert_eq!(reaper.tally()?, ["deleted|2"]);
    Ok(())
}

#[test]
fn one_refused_key_stops_its_batch_or_is_lost() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["good", "locked", "fine"])?;
    let refused = "<Error><Key>locked</Key><Code>AccessDenied</Code><Message>not yours</Message></Error>";
    server.answer_next(Answer::result(&format!(
        "<Deleted><Key>good</Key></Deleted>{refused}<Deleted><Key>fine</Key></Deleted>"
    )));
    server.answer_always(Some(Answer::error(403, "AccessDenied")));
    reaper.db.run("DELETE FROM image")?;
    reaper
        .until("the others are settled", "SELECT count(*) = 2 FROM storage_reaper.history WHERE outcome = 'deleted'")?;
    let waiting = "SELECT count(*) FROM (SELECT locator FROM storage_reaper.queue UNION SELECT locator FROM storage_reaper.parked) x";
    assert_eq!(reaper.db.number(waiting)?, 1);
    Ok(())
}

#[test]
fn throttling_uses_up_attempts() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["a", "b"])?;
    for _ in 0..4 {
        server.answer_next(Answer::error(503, "SlowDown"));
    }
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["deleted|2"]);
    Ok(())
}

#[test]
fn a_missing_bucket_is_taken_for_missing_objects() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["a"])?;
    server.answer_always(Some(Answer::error(404, "NoSuchBucket")));
    reaper.db.run("DELETE FROM image")?;
    reaper.until("the backend is held", "SELECT held_since IS NOT NULL FROM storage_reaper.backends")?;
    assert_eq!(reaper.db.row("SELECT attempts FROM storage_reaper.queue")?, "0");
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.history")?, 0);
    server.answer_always(None);
    reaper.until_drained()
}

#[test]
fn a_missing_object_is_taken_for_an_error() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["a"])?;
    server.answer_next(Answer::error(404, "NoSuchKey"));
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a|absent"]);
    Ok(())
}

#[test]
fn a_redirect_takes_the_signature_elsewhere() -> Result<()> {
    let elsewhere = FaultServer::start()?;
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["a"])?;
    let location = format!("Location: {}/bucket/a", elsewhere.endpoint());
    server.answer_always(Some(Answer { headers: vec![location], ..Answer::error(307, "TemporaryRedirect") }));
    reaper.db.run("DELETE FROM image")?;
    reaper.until("the backend is held", "SELECT held_since IS NOT NULL FROM storage_reaper.backends")?;
    ensure!(elsewhere.requests().is_empty(), "followed to {:?}", elsewhere.requests());
    Ok(())
}

#[test]
fn a_poisoned_object_is_tried_for_ever_and_blocks_the_others() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["poison"])?;
    server.answer_always(Some(Answer::result(
        "<Error><Key>poison</Key><Code>InternalError</Code><Message>no</Message></Error>",
    )));
    // Alone it would go as a single DELETE, so it gets a companion of the same name.
    reaper.db.run("INSERT INTO image (url) VALUES ('companion'); DELETE FROM image")?;
    reaper.until("it is parked", "SELECT count(*) > 0 FROM storage_reaper.parked")?;
    server.answer_always(None);
    reaper.add_images(&["healthy"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until(
        "others go on",
        "SELECT count(*) > 0 FROM storage_reaper.history WHERE locator = 'healthy' AND outcome = 'deleted'",
    )
}

#[test]
fn a_slow_store_holds_a_transaction_open_or_blocks_the_cluster() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("storage_reaper.request_timeout = '10min'\n")?;
    reaper.add_images(&["a"])?;
    server.hold();
    reaper.db.run("DELETE FROM image")?;
    server.request_after(0, wait::PATIENCE).context("no request came")?;
    let worker = reaper.worker()?;
    let idle = format!("SELECT xact_start IS NULL AND backend_xmin IS NULL FROM pg_stat_activity WHERE pid = {worker}");
    wait::until_equal("the worker holds no transaction", true, || reaper.db.holds(&idle))?;
    // What waits for the worker, and it for the store, would wait until this runs out.
    let mut postgres = reaper.cluster.database("postgres")?;
    postgres.run("SET statement_timeout = '60s'")?;
    postgres.run("CREATE DATABASE passing")?;
    postgres.run("DROP DATABASE passing")?;
    ensure!(reaper.db.holds("SELECT count(*) = 1 FROM storage_reaper.entry")?, "the request is answered already");
    server.release();
    reaper.until_drained()
}

#[test]
fn statements_that_wake_the_worker_wait_for_the_store() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("storage_reaper.request_timeout = '10min'\n")?;
    reaper.add_images(&["a", "b"])?;
    server.hold();
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    server.request_after(0, wait::PATIENCE).context("no request came")?;
    reaper.db.run("SET statement_timeout = '60s'; DELETE FROM image WHERE id = 2; RESET statement_timeout")?;
    server.request_after(1, wait::PATIENCE).context("one request without an answer stops all others")?;
    server.release();
    reaper.until_drained()
}

#[test]
fn a_store_that_takes_no_batches_is_asked_for_one_each_time() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.add_images(&["a", "b"])?;
    server.answer_next(Answer::error(501, "NotImplemented"));
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.db.row("SELECT takes_batches FROM storage_reaper.backends")?, "f");
    // Another worker knows it, too.
    let first = reaper.worker()?;
    reaper.db.run(&format!("SELECT pg_terminate_backend({first})"))?;
    reaper.until("another worker leads", &format!("SELECT worker_pid <> {first} FROM storage_reaper.status"))?;
    reaper.add_images(&["c", "d"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let methods: Vec<String> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["POST", "DELETE", "DELETE", "DELETE", "DELETE"]);
    // Whoever alters the backend wants it to be asked again.
    reaper.db.run("SELECT storage_reaper.alter_backend('media')")?;
    reaper.add_images(&["e", "f"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(server.requests().last().map(|request| request.method.clone()).as_deref(), Some("POST"));
    assert_eq!(reaper.db.row("SELECT takes_batches FROM storage_reaper.backends")?, "t");
    Ok(())
}

#[test]
fn a_store_gets_more_at_once_than_it_was_promised() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(IMPATIENT)?;
    reaper.db.run("SELECT storage_reaper.alter_backend('media', rate_limit => 2)")?;
    reaper.add_images(&["a", "b", "c", "d", "e"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let requests = server.requests();
    let sizes: Vec<usize> = requests.iter().map(|request| request.keys().len().max(1)).collect();
    assert_eq!(sizes, [2, 2, 1]);
    // Half a second is left for the way of the first one.
    let gaps = requests.windows(2).map(|two| two[1].at.duration_since(two[0].at));
    ensure!(gaps.into_iter().all(|gap| gap > std::time::Duration::from_millis(500)), "{requests:?}");
    reaper.db.run("SELECT storage_reaper.alter_backend('media', rate_limit => 0, batch_size => 3)")?;
    reaper.add_images(&["f", "g", "h", "i"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let sizes: Vec<usize> = server.requests()[3..].iter().map(|request| request.keys().len().max(1)).collect();
    // In whichever lots they were claimed.
    assert_eq!(sizes.iter().sum::<usize>(), 4);
    ensure!(sizes.iter().all(|size| *size <= 3), "{sizes:?}");
    Ok(())
}
