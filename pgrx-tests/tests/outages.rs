//! Bad days of a store that last: the queue gets through, or waits, and nothing of it is used up.

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_reaper_tests::fault::Answer;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

#[test]
fn a_batch_that_takes_too_long_is_sent_again_and_again() -> Result<()> {
    // A thousand keys take six seconds, and the worker waits for one.
    let (server, mut reaper) =
        Reaper::armed_facing("storage_reaper.max_attempts = 1\nstorage_reaper.request_timeout = '1s'\n")?;
    server.take_its_time(Duration::from_millis(6));
    let keys: Vec<String> = (0..1000).map(|number| format!("k{number}")).collect();
    server.put("bucket", &keys);
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["deleted|1000"]);
    ensure!(server.survivors("bucket").is_empty());
    let sizes: Vec<usize> = server.requests().iter().map(|request| request.keys().len()).collect();
    ensure!(sizes.first() == Some(&1000) && sizes.last().is_some_and(|size| *size <= 250), "{sizes:?}");
    Ok(())
}

#[test]
fn an_outage_of_credentials_uses_up_a_long_queue() -> Result<()> {
    for (status, code) in
        [(403, "InvalidAccessKeyId"), (400, "ExpiredToken"), (403, "SignatureDoesNotMatch"), (403, "AccountProblem")]
    {
        let (server, mut reaper) =
            Reaper::armed_facing("storage_reaper.max_attempts = 1\nstorage_reaper.breaker_objects = -1\n")?;
        server.answer_always(Some(Answer::error(status, code)));
        reaper.db.run("INSERT INTO image (url) SELECT 'k' || n FROM generate_series(1, 10000) n; DELETE FROM image")?;
        reaper.until("the backend is held", "SELECT held_since IS NOT NULL FROM storage_reaper.backends")?;
        // What was in flight together has failed together.
        let tried = server.requests().len();
        ensure!(tried <= 32, "{code}: {tried} requests");
        assert_eq!(reaper.db.row("SELECT max(attempts), count(*) FROM storage_reaper.queue")?, "0|10000", "{code}");
        server.answer_always(None);
        reaper.db.run("SELECT pg_reload_conf()")?;
        reaper.until_drained()?;
        assert_eq!(reaper.tally()?, ["deleted|10000"], "{code}");
    }
    Ok(())
}

#[test]
fn a_store_that_asks_to_slow_down_for_long_is_pressed_or_given_up() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("storage_reaper.max_attempts = 1\n")?;
    let keys: Vec<String> = (0..3000).map(|number| format!("k{number}")).collect();
    server.put("bucket", &keys);
    server.answer_always(Some(Answer::error(503, "SlowDown").with("Retry-After: 1")));
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    // It goes on asking, and less each time.
    wait::until(wait::PATIENCE, "it was asked to slow down again and again", || {
        Ok((server.requests().len() >= 6).then_some(()))
    })?;
    assert_eq!(reaper.db.row("SELECT max(attempts), count(*) FROM storage_reaper.queue")?, "0|3000");
    let (first, last) = (server.requests()[0].at, server.requests()[5].at);
    ensure!(last - first >= Duration::from_secs(1), "Retry-After is not heeded: {:?}", last - first);
    server.answer_always(None);
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["deleted|3000"]);
    ensure!(server.survivors("bucket").is_empty());
    Ok(())
}
