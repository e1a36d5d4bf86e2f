//! A clock that is wrong: a store refuses what is signed by another time than its own.

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::Reaper;

/// What a store says whose clock is so much ahead, as an interval.
fn refusal(reaper: &mut Reaper, ahead: &str) -> Result<Answer> {
    let date = format!(
        "SELECT to_char((now() + interval '{ahead}') AT TIME ZONE 'UTC', 'Dy, DD Mon YYYY HH24:MI:SS \"GMT\"')"
    );
    Ok(Answer::error(403, "RequestTimeTooSkewed").with(&format!("Date: {}", reaper.db.row(&date)?)))
}

/// By how many hours the last request was signed ahead of this server's clock.
fn hours_ahead(reaper: &mut Reaper, server: &FaultServer) -> Result<String> {
    let requests = server.requests();
    let date = requests.last().and_then(|request| request.header("x-amz-date")).context("nothing was signed")?;
    let ahead = format!("to_timestamp('{date}', 'YYYYMMDD\"T\"HH24MISS\"Z\"') - now()");
    reaper.db.row(&format!("SET TimeZone = 'UTC'; SELECT round(extract(epoch FROM {ahead}) / 3600)"))
}

#[test]
fn a_clock_that_is_wrong_stops_all_deletions() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("storage_reaper.max_attempts = 1\n")?;
    for (ahead, hours, told) in [
        ("2 hours", "2", "s behind that of backend \"media\", by which its requests are signed now"),
        ("-3 hours", "-3", "s ahead of that of backend \"media\", by which its requests are signed now"),
        ("0", "0", "the clock of backend \"media\" is this server's again"),
    ] {
        server.put("bucket", &["a", "b"]);
        let answer = refusal(&mut reaper, ahead)?;
        server.answer_next(answer);
        reaper.db.run("INSERT INTO image (url) VALUES ('a'), ('b'); DELETE FROM image")?;
        reaper.until_drained()?;
        ensure!(server.survivors("bucket").is_empty(), "{ahead}: {}", reaper.picture());
        assert_eq!(hours_ahead(&mut reaper, &server)?, hours);
        let clock = "round(extract(epoch FROM clock_ahead) / 3600)";
        let is_shown = format!("SELECT coalesce({clock}, 0) = {hours} FROM storage_reaper.backends");
        reaper.until("the clock is shown", &is_shown)?;
        let finding = "SELECT count(*) FROM storage_reaper.doctor() WHERE finding LIKE 'its clock is %'";
        assert_eq!(reaper.db.number(finding)?, i64::from(hours != "0"));
        ensure!(reaper.cluster.log()?.contains(told), "{}", reaper.picture());
    }
    assert_eq!(reaper.tally()?, ["deleted|6"]);
    Ok(())
}

#[test]
fn what_was_found_out_of_a_clock_outlives_it() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    server.put("bucket", &["a"]);
    let answer = refusal(&mut reaper, "2 hours")?;
    server.answer_next(answer);
    reaper.add_images(&["a"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("the clock is shown", "SELECT clock_ahead IS NOT NULL FROM storage_reaper.backends")?;
    reaper.cluster.crash_and_restart()?;
    reaper.db = reaper.cluster.database("shop")?;
    reaper.until("the clock is unknown", "SELECT clock_ahead IS NULL FROM storage_reaper.backends")
}

#[test]
fn a_wrong_date_on_another_refusal_moves_the_clock() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let date = refusal(&mut reaper, "2 hours")?.headers;
    // Something between adds it; the store refuses what it is asked, by whatever time that is signed.
    server.answer_always(Some(date.iter().fold(Answer::error(403, "AccessDenied"), |answer, line| answer.with(line))));
    reaper.add_images(&["a"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("it is held", "SELECT held_reason LIKE '%AccessDenied%' FROM storage_reaper.backends")?;
    server.answer_always(None);
    reaper.db.run("SELECT pg_reload_conf()")?;
    reaper.until_drained()?;
    assert_eq!(hours_ahead(&mut reaper, &server)?, "0");
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.backends WHERE clock_ahead IS NOT NULL")?, 0);
    Ok(())
}
