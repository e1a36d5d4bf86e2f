//! Credentials that come from a service and end after a while.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::Reaper;

const SECRET: &str = "wJalrSECREToftheservice";

/// What the service says, in the manner of a container's endpoint.
fn lent(id: &str, seconds: u64) -> Answer {
    let end = SystemTime::now() + Duration::from_secs(seconds);
    let since = end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    // It knows the calendar.
    let end =
        std::process::Command::new("date").args(["-u", "-d", &format!("@{since}"), "+%Y-%m-%dT%H:%M:%SZ"]).output();
    let end = end.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    Answer::of(
        200,
        format!(
            r#"{{"AccessKeyId": "{id}", "SecretAccessKey": "{SECRET}", "Token": "token-of-{id}", "Expiration": "{end}"}}"#
        ),
    )
}

/// A store, a service that lends credentials, and a cluster whose backend uses them.
fn facing() -> Result<(FaultServer, FaultServer, Reaper)> {
    let (store, service) = (FaultServer::start()?, FaultServer::start()?);
    service.is_no_store();
    let mut reaper = Reaper::facing(&store, "storage_reaper.max_attempts = 1\n")?;
    reaper.cluster.restart_with("AWS_CONTAINER_CREDENTIALS_FULL_URI", &format!("{}/lend", service.endpoint()))?;
    reaper.db = reaper.cluster.database("shop")?;
    reaper.db.run("SELECT storage_reaper.alter_backend('media', credentials => 'instance')")?;
    reaper.images()?;
    reaper.arm()?;
    Ok((store, service, reaper))
}

#[test]
fn credentials_are_used_beyond_their_end() -> Result<()> {
    let (store, service, mut reaper) = facing()?;
    service.answer_next(lent("FIRST", 30));
    service.answer_always(Some(lent("SECOND", 3600)));
    for key in ["a", "b", "c"] {
        reaper.add_images(&[key])?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until_drained()?;
    }
    let signed: Vec<String> = store
        .requests()
        .iter()
        .map(|request| {
            let signed = request.header("authorization").and_then(|value| value.split_once("Credential="));
            let id = signed.and_then(|(_, rest)| rest.split('/').next()).context("no credential")?;
            Ok(format!("{id} {}", request.header("x-amz-security-token").unwrap_or_default()))
        })
        .collect::<Result<_>>()?;
    assert_eq!(signed, ["FIRST token-of-FIRST", "SECOND token-of-SECOND", "SECOND token-of-SECOND"]);
    assert_eq!(service.requests().len(), 2, "asked again before the end, and only then");
    ensure!(!reaper.cluster.log()?.contains("SECRET"), "{}", reaper.picture());
    Ok(())
}

#[test]
fn an_outage_of_the_service_that_lends_credentials_uses_up_attempts() -> Result<()> {
    let (store, service, mut reaper) = facing()?;
    service.answer_always(Some(Answer::of(500, format!("<html>{SECRET}</html>"))));
    reaper.add_images(&["a", "b"])?;
    reaper.db.run("DELETE FROM image")?;
    let held = "SELECT held_reason LIKE '%no usable credentials under \"instance\"%' FROM storage_reaper.backends";
    reaper.until("the backend is held", held)?;
    assert_eq!(reaper.db.row("SELECT max(attempts), count(*) FROM storage_reaper.queue")?, "0|2");
    ensure!(store.requests().is_empty(), "{:?}", store.requests());
    service.answer_always(Some(lent("AGAIN", 3600)));
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["deleted|2"]);
    ensure!(!reaper.cluster.log()?.contains(SECRET), "{}", reaper.picture());
    Ok(())
}
