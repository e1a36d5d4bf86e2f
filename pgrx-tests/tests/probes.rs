//! probe_backend(): a store is asked what it can do before anything depends on it, and nothing of anybody's goes.

use anyhow::Result;
use storage_reaper_tests::fault::{Answer, FaultServer, Request};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::store::SECRET_KEY;
use storage_reaper_tests::wait;

const ASKED: &str = "SELECT probed_at IS NOT NULL FROM storage_reaper.backends WHERE name = 'media'";
const FOUND: &str = "SELECT takes_batches, keeps_versions, honours_if_match, probe_error FROM storage_reaper.backends WHERE name = 'media'";

fn facing(answers: impl IntoIterator<Item = Answer>) -> Result<(FaultServer, Reaper)> {
    let server = FaultServer::start()?;
    let reaper = Reaper::facing(&server, "")?;
    answers.into_iter().for_each(|answer| server.answer_next(answer));
    Ok((server, reaper))
}

fn versioning(status: &str) -> Answer {
    Answer::of(200, format!("<VersioningConfiguration>{status}</VersioningConfiguration>"))
}

/// What is asked for, without the part of each key that is chance.
fn asked(server: &FaultServer) -> Vec<String> {
    let plain = |request: Request| {
        let (target, keys) = (request.target.clone(), request.keys());
        let names = [target].into_iter().chain(keys).map(|name| match name.split_once("-probe-") {
            Some((before, chance)) => format!("{before}{}", &chance[32..]),
            None => name,
        });
        format!("{} {}", request.method, names.collect::<Vec<_>>().join(" "))
    };
    server.requests().into_iter().map(plain).collect()
}

#[test]
fn what_a_store_can_do_is_found_out_by_the_first_object() -> Result<()> {
    let (server, mut reaper) = facing([versioning(""), Answer::error(501, "NotImplemented"), Answer::of(204, "")])?;
    reaper.db.run("SELECT storage_reaper.probe_backend('media', prefix => 'users/')")?;
    reaper.until("the store was asked", ASKED)?;
    assert_eq!(reaper.db.row(FOUND)?, "f|f|∅|∅");
    // Nobody has armed this database.
    assert_eq!(
        asked(&server),
        [
            "GET /bucket/?versioning=",
            "POST /bucket/?delete= users/storage_reaper",
            "DELETE /bucket/users/storage_reaper",
        ]
    );
    Ok(())
}

#[test]
fn a_condition_that_counts_is_found_out_by_the_first_object() -> Result<()> {
    let denied = || Answer::error(403, "AccessDenied");
    let (server, mut reaper) = facing([
        denied(),
        Answer::result("<Deleted><Key>x</Key></Deleted>"),
        Answer::of(204, ""),
        Answer::error(412, "PreconditionFailed"),
    ])?;
    reaper.db.run(
        "SELECT storage_reaper.alter_backend('media', verify => 'if-match');
         SELECT storage_reaper.probe_backend('media')",
    )?;
    reaper.until("the store was asked", ASKED)?;
    // An answer about another key than the one that was asked for says nothing of batches.
    assert_eq!(reaper.db.row(FOUND)?, "∅|∅|t|∅");
    assert_eq!(server.requests().len(), 4);
    Ok(())
}

#[test]
fn a_right_that_is_missing_shows_when_it_is_needed() -> Result<()> {
    let (server, mut reaper) = facing([])?;
    server.answer_naming("storage_reaper-probe", Answer::error(403, "AccessDenied"));
    reaper.db.run("SELECT storage_reaper.probe_backend('media')")?;
    reaper.until("the store was asked", ASKED)?;
    let fault = reaper.db.row("SELECT probe_error FROM storage_reaper.backends")?;
    assert!(fault.contains("AccessDenied"), "{fault}");
    let findings = reaper.db.rows("SELECT finding FROM storage_reaper.doctor() WHERE subject = 'backend media'")?;
    assert_eq!(findings, [format!("did not let a probe delete: {fault}")]);
    // Nothing else would fail: the backend is not held.
    assert!(reaper.db.holds("SELECT held_since IS NULL FROM storage_reaper.backends")?);
    server.answer_no_more_naming();
    reaper.db.run("SELECT storage_reaper.probe_backend('media')")?;
    reaper.until("the store lets us delete", "SELECT probe_error IS NULL FROM storage_reaper.backends")?;
    Ok(())
}

#[test]
fn a_wrong_secret_shows_when_objects_are_due() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.write_secret("no such secret")?;
    reaper.db.run("SELECT storage_reaper.probe_backend('media')")?;
    reaper.until("the store was asked", ASKED)?;
    let held = "SELECT held_since IS NOT NULL AND held_reason = probe_error FROM storage_reaper.backends";
    assert!(reaper.db.holds(held)?, "{}", reaper.picture());
    // A worker that began later has to let it go, too.
    let before = reaper.worker()?;
    reaper.db.run(&format!("SELECT pg_terminate_backend({before})"))?;
    reaper.until(
        "another worker serves",
        &format!("SELECT worker_pid IS NOT NULL AND worker_pid <> {before} FROM storage_reaper.status"),
    )?;
    reaper.write_secret(SECRET_KEY)?;
    reaper.db.run("SELECT storage_reaper.probe_backend('media')")?;
    reaper.until(
        "the backend is let go",
        "SELECT held_since IS NULL AND probe_error IS NULL FROM storage_reaper.backends",
    )?;
    Ok(())
}

#[test]
fn a_pause_does_not_stop_a_probe() -> Result<()> {
    let (server, mut reaper) = facing([])?;
    reaper.db.run("SELECT storage_reaper.pause(backend => 'media'); SELECT storage_reaper.probe_backend('media')")?;
    // Another one that is asked later was looked for by the same worker.
    reaper.create_backend("other", "ceph", &server.endpoint())?;
    reaper.db.run("SELECT storage_reaper.probe_backend('other')")?;
    reaper.until(
        "the other store was asked",
        "SELECT probed_at IS NOT NULL FROM storage_reaper.backends WHERE name = 'other'",
    )?;
    assert!(!reaper.db.holds(ASKED)?);
    reaper.db.run("SELECT storage_reaper.resume(backend => 'media')")?;
    reaper.until("the store was asked", ASKED)
}

#[test]
fn an_answer_counts_for_a_backend_that_was_altered_meanwhile() -> Result<()> {
    let (server, mut reaper) = facing([])?;
    server.hold();
    reaper.db.run("SELECT storage_reaper.probe_backend('media')")?;
    assert!(server.request_after(0, wait::PATIENCE).is_some());
    reaper.db.run("SELECT storage_reaper.alter_backend('media', region => 'eu-west-1')")?;
    server.release();
    reaper.until("the store was asked", ASKED)?;
    let signed: Vec<bool> = server
        .requests()
        .iter()
        .filter_map(|request| request.header("authorization").map(|signed| signed.contains("/eu-west-1/")))
        .collect();
    assert!(!signed[0] && signed.contains(&true), "the altered one was not asked: {signed:?}");
    Ok(())
}

#[test]
fn a_copy_asks_the_store_of_its_original() -> Result<()> {
    let (server, mut reaper) = facing([])?;
    reaper.db.run(
        "UPDATE storage_reaper.backend SET probe_prefix = '', probe_wanted = '1/1/' || now();
         SELECT storage_reaper.wake()",
    )?;
    reaper.create_backend("own", "ceph", &server.endpoint())?;
    reaper.db.run("SELECT storage_reaper.probe_backend('own')")?;
    let asked = "SELECT probed_at IS NOT NULL FROM storage_reaper.backends WHERE name = 'own'";
    reaper.until("the other store was asked", asked)?;
    assert!(!reaper.db.holds(ASKED)?);
    Ok(())
}

#[test]
fn a_right_to_versions_shows_when_they_are_to_go() -> Result<()> {
    let (server, mut reaper) = facing([])?;
    server.answer_naming("versions=", Answer::error(403, "AccessDenied"));
    reaper.db.run("SELECT storage_reaper.alter_backend('media', versions => 'captured')")?;
    reaper.db.run("SELECT storage_reaper.probe_backend('media')")?;
    reaper.until("the store was asked", ASKED)?;
    let told = "SELECT probe_error LIKE '%AccessDenied%' AND takes_batches FROM storage_reaper.backends";
    assert!(reaper.db.holds(told)?, "{}", reaper.picture());
    Ok(())
}

#[test]
fn a_store_that_nobody_knows_is_not_asked() -> Result<()> {
    let (server, mut reaper) = facing([])?;
    reaper.create_backend("unknown", "auto", &server.endpoint())?;
    let asked = "SELECT probed_at IS NOT NULL FROM storage_reaper.backends WHERE name = 'unknown'";
    reaper.until("the store was asked", asked)?;
    assert!(server.request_after(0, wait::PATIENCE).is_some());
    Ok(())
}

#[test]
fn a_probe_of_nothing_is_taken() -> Result<()> {
    let (_server, mut reaper) = facing([])?;
    for prefix in ["users", "/", "a/../b/", "./"] {
        let refusal =
            reaper.db.refusal(&format!("SELECT storage_reaper.probe_backend('media', prefix => '{prefix}')"))?;
        assert_eq!(refusal.code, "22023", "{prefix}");
    }
    assert_eq!(reaper.db.refusal("SELECT storage_reaper.probe_backend('nobody')")?.code, "42704");
    Ok(())
}
