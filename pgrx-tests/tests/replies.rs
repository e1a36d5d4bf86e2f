//! A table of replies that stores were seen to send, each to a backend of its own, and what has to come of them: by key, or
//! for the backend as a whole.

use anyhow::{Result, ensure};
use storage_reaper_tests::cluster::SHOP;
use storage_reaper_tests::fault::{Answer, FaultServer, Flaw};
use storage_reaper_tests::process;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::store::SECRET_KEY;
use storage_reaper_tests::wait;

/// The first failure of an object by itself parks it: whoever is deleted in the end has failed by nobody's fault but the
/// store's.
const ONE_ATTEMPT: &str = "storage_reaper.max_attempts = 1\nstorage_reaper.request_timeout = '3s'\n";

/// What a store says, and what becomes of the objects: a letter each, with what history says of it.
struct Case {
    name: &'static str,
    replies: Vec<Answer>,
    outcomes: &'static [(&'static str, &'static str)],
}

const GONE: &[(&str, &str)] = &[("a", "deleted"), ("b", "deleted"), ("c", "deleted")];
const ONE_GONE: &[(&str, &str)] = &[("a", "deleted")];

fn case(name: &'static str, replies: Vec<Answer>, outcomes: &'static [(&'static str, &'static str)]) -> Case {
    Case { name, replies, outcomes }
}

fn batches() -> Vec<Case> {
    let cut = "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Deleted><Key>a</Key></Deleted>";
    let all = "<Deleted><Key>a</Key></Deleted><Deleted><Key>b</Key></Deleted><Deleted><Key>c</Key></Deleted>";
    let error =
        |key: &str, code: &str| format!("<Error><Key>{key}</Key><Code>{code}</Code><Message>m</Message></Error>");
    let create = "<Error><Code>InvalidArgument</Code><Details>Cannot create buckets using a POST.</Details></Error>";
    let digest = "<Error><Code>InvalidRequest</Code><Message>Missing required header: Content-MD5</Message></Error>";
    let marked = "<Deleted><Key>a</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>v9</DeleteMarkerVersionId></Deleted>";
    let anonymous = "<Error><Key></Key><Code>ServiceUnavailable</Code><Message/></Error>";
    let folder = "<Error><Key>a</Key><Code></Code><Message>non-empty folder</Message></Error>";
    vec![
        case("error-in-200", vec![Answer::error(200, "SlowDown")], GONE),
        case("document-cut", vec![Answer::of(200, cut)], GONE),
        case("connection-cut", vec![Answer { flaw: Flaw::Short(400), ..Answer::of(200, cut) }], GONE),
        case("nothing-named", vec![Answer::result("")], GONE),
        case("empty-body", vec![Answer::of(200, "")], GONE),
        case("declaration-only", vec![Answer::of(200, "<?xml version=\"1.0\"?>")], GONE),
        case("login-page", vec![Answer::of(200, "<html><body>sign in</body></html>")], GONE),
        case("no-namespace", vec![Answer::of(200, format!("<DeleteResult>{all}</DeleteResult>")).done()], GONE),
        case(
            "errors-by-key",
            vec![Answer::result(&format!(
                "<Deleted><Key>a</Key></Deleted>{}{}",
                error("b", "AccessDenied"),
                error("c", "InternalError")
            ))],
            &[("a", "deleted"), ("b", "parked access_denied"), ("c", "parked attempts_exhausted")],
        ),
        case(
            "absent-keys",
            vec![Answer::result(&format!(
                "<Deleted><Key>a</Key></Deleted>{}{}",
                error("b", "NoSuchKey"),
                error("c", "NoSuchVersion")
            ))],
            &[("a", "deleted"), ("b", "absent"), ("c", "absent")],
        ),
        case(
            "throttled-keys",
            vec![Answer::result(&format!(
                "<Deleted><Key>a</Key></Deleted>{}{}",
                error("b", "SlowDown"),
                error("c", "SlowDown")
            ))],
            GONE,
        ),
        case(
            "errors-without-words",
            vec![Answer::result(&format!(
                "{folder}<Deleted><Key>b</Key></Deleted><Error><Key>c</Key><Code>AccessDenied</Code></Error>"
            ))],
            &[("a", "parked attempts_exhausted"), ("b", "deleted"), ("c", "parked access_denied")],
        ),
        case("error-without-key", vec![Answer::result(anonymous)], GONE),
        case(
            "all-keys-denied",
            vec![Answer::result(&["a", "b", "c"].map(|key| error(key, "AccessDenied")).concat())],
            GONE,
        ),
        case(
            "markers",
            vec![Answer::result(&format!("{marked}<Deleted><Key>b</Key></Deleted><Deleted><Key>c</Key></Deleted>"))],
            &[("a", "delete_marker"), ("b", "deleted"), ("c", "deleted")],
        ),
        case("no-batches-501", vec![Answer::error(501, "NotImplemented")], GONE),
        case("no-batches-405", vec![Answer::error(405, "MethodNotAllowed")], GONE),
        case("no-batches-400", vec![Answer::of(400, create)], GONE),
        case("no-batches-code", vec![Answer::error(400, "NotImplemented")], GONE),
        case("digest-code", vec![Answer::error(400, "MissingContentMD5")], GONE),
        case("digest-words", vec![Answer::of(400, digest)], GONE),
        case("digest-argument", vec![Answer::error(400, "MissingArgument")], GONE),
        case("malformed", vec![Answer::error(400, "MalformedXML")], GONE),
        case("throttled", vec![Answer::error(503, "SlowDown"); 3], GONE),
        case("internal", vec![Answer::error(500, "InternalError")], GONE),
        case("patience", vec![Answer::error(429, "TooManyRequests").with("Retry-After: 2")], GONE),
        case("reset", vec![Answer::broken(Flaw::Reset)], GONE),
        case("reset-when-done", vec![Answer::broken(Flaw::Reset).done()], GONE),
        case("silence", vec![Answer::broken(Flaw::Silence)], GONE),
        case("slow-head", vec![Answer::broken(Flaw::SlowHead)], GONE),
        case("slow-body", vec![Answer::broken(Flaw::SlowBody)], GONE),
        case("endless", vec![Answer::broken(Flaw::Endless)], GONE),
        case("many-headers", vec![Answer::broken(Flaw::Headers(100_000))], GONE),
    ]
}

fn singles() -> Vec<Case> {
    let lock = |until| Answer::of(200, "").with(&format!("x-amz-object-lock-{until}"));
    vec![
        case("one-absent", vec![Answer::error(404, "NoSuchKey")], &[("a", "absent")]),
        case(
            "one-marker",
            vec![Answer::of(204, "").with("x-amz-delete-marker: true").with("x-amz-version-id: v9")],
            &[("a", "delete_marker")],
        ),
        case("one-error-in-200", vec![Answer::error(200, "InternalError")], ONE_GONE),
        case("one-reset-when-done", vec![Answer::broken(Flaw::Reset).done()], ONE_GONE),
        case("one-bad-gateway", vec![Answer::of(502, "<html>bad gateway</html>"); 2], ONE_GONE),
        case("one-denied", vec![Answer::error(403, "AccessDenied")], ONE_GONE),
        case(
            "one-on-hold",
            vec![Answer::error(403, "AccessDenied"), lock("legal-hold: ON")],
            &[("a", "parked locked")],
        ),
    ]
}

/// Answers about a whole backend, and what its reason has to say.
fn held() -> Vec<(&'static str, Answer, &'static str)> {
    let region = "x-amz-bucket-region: eu-west-1";
    let place = "<Error><Code>PermanentRedirect</Code><Endpoint>b.s3.eu-west-1.amazonaws.com</Endpoint></Error>";
    let signed =
        "<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-1</Region></Error>";
    vec![
        ("region", Answer::error(301, "PermanentRedirect").with(region), "region => 'eu-west-1'"),
        ("endpoint", Answer::of(301, place), "b.s3.eu-west-1.amazonaws.com"),
        ("signed-for", Answer::of(400, signed), "region => 'eu-west-1'"),
        ("region-name", Answer::error(400, "InvalidRegionName"), "in another region"),
        ("no-bucket", Answer::error(404, "NoSuchBucket"), "NoSuchBucket"),
        ("not-found-page", Answer::of(404, "<html>not found</html>"), "HTTP 404"),
        ("not-found", Answer::of(404, ""), "HTTP 404"),
        ("unknown-key-id", Answer::error(403, "InvalidAccessKeyId"), "InvalidAccessKeyId"),
        ("signature", Answer::error(403, "SignatureDoesNotMatch"), "SignatureDoesNotMatch"),
        ("expired", Answer::error(400, "ExpiredToken"), "ExpiredToken"),
        ("account", Answer::error(403, "AccountProblem"), "AccountProblem"),
        ("denied-to-all", Answer::error(403, "AccessDenied"), "AccessDenied"),
        (
            "clock",
            Answer::error(403, "RequestTimeTooSkewed").with("Date: Tue, 01 Jan 2030 00:00:00 GMT"),
            "s behind the store",
        ),
        ("outage", Answer::error(503, "ServiceUnavailable"), "HTTP 503"),
    ]
}

/// A backend and bucket of each name, with objects of these keys and rows that name them.
fn declare(reaper: &mut Reaper, server: &FaultServer, name: &str, keys: &[&str]) -> Result<()> {
    let endpoint = server.endpoint();
    reaper.db.run(&format!(
        "SELECT storage_reaper.create_backend('{name}', kind => 'generic', endpoint => '{endpoint}', bucket => '{name}', credentials => 'profile:media')"
    ))?;
    server.put(name, keys);
    let rows: Vec<String> = keys.iter().map(|key| format!("('s3://{name}/{key}')")).collect();
    reaper.db.run(&format!("INSERT INTO image (url) VALUES {}", rows.join(", ")))
}

fn play(cases: &[Case]) -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(ONE_ATTEMPT)?;
    for Case { name, replies, outcomes } in cases {
        let keys: Vec<&str> = outcomes.iter().map(|(key, _)| *key).collect();
        declare(&mut reaper, &server, name, &keys)?;
        server.answer_about(name, replies.iter().cloned());
    }
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    for Case { name, outcomes, .. } in cases {
        let history =
            "SELECT substr(locator, length(locator)), concat_ws(' ', outcome, reason) FROM storage_reaper.history";
        let found = reaper.db.rows(&format!("{history} WHERE locator LIKE 's3://{name}/%' ORDER BY locator"))?;
        let expected: Vec<String> = outcomes.iter().map(|(key, outcome)| format!("{key}|{outcome}")).collect();
        assert_eq!(found, expected, "{name}");
    }
    tells_no_secret(&mut reaper)
}

/// In nothing that people read is a secret, or an address that is one.
fn tells_no_secret(reaper: &mut Reaper) -> Result<()> {
    let rows = ["backends", "queue", "parked", "history", "status"].map(|view| {
        reaper.db.rows(&format!("SELECT v::text FROM storage_reaper.{view} v")).map(|rows| rows.join("\n"))
    });
    let activity = reaper.db.rows("SELECT a::text FROM pg_stat_activity a WHERE pid <> pg_backend_pid()")?.join("\n");
    let dump = process::run(reaper.cluster.client_program("pg_dump").arg(SHOP))?;
    let mut told = vec![reaper.cluster.log()?, activity, dump];
    told.extend(rows.into_iter().collect::<Result<Vec<_>>>()?);
    for text in told {
        for secret in [SECRET_KEY, "X-Amz-Signature", "Signature=", "AWS4-HMAC"] {
            ensure!(!text.contains(secret), "{secret} stands in {text}");
        }
    }
    Ok(())
}

#[test]
fn a_reply_to_a_batch_settles_what_it_does_not_say() -> Result<()> {
    play(&batches())
}

#[test]
fn a_reply_to_a_single_deletion_settles_what_it_does_not_say() -> Result<()> {
    play(&singles())
}

#[test]
fn what_only_a_person_can_mend_uses_up_attempts() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(ONE_ATTEMPT)?;
    let elsewhere = FaultServer::start()?;
    let led = |status| Answer::of(status, "").with(&format!("Location: {}/b?delete", elsewhere.endpoint()));
    let mut cases = held();
    cases.extend([302, 307, 308].map(|status| ("led-away", led(status), "at another endpoint")));
    // Each in answer to a batch, and to the deletion of one key.
    let played: Vec<_> = cases
        .into_iter()
        .enumerate()
        .flat_map(|(number, (name, answer, told))| {
            [&["a", "b"][..], &["a"]]
                .map(|keys| (format!("{name}-{number}-{}", keys.len()), keys, answer.clone(), told))
        })
        .collect();
    for (name, keys, answer, _) in &played {
        declare(&mut reaper, &server, name, keys)?;
        server.answer_always_about(name, Some(answer.clone()));
    }
    reaper.db.run("DELETE FROM image")?;
    reaper
        .until("all are held", "SELECT count(*) FILTER (WHERE held_since IS NULL) = 1 FROM storage_reaper.backends")?;
    for (name, keys, _, told) in &played {
        let reason =
            reaper.db.row(&format!("SELECT held_reason FROM storage_reaper.backends WHERE name = '{name}'"))?;
        ensure!(reason.contains(told), "{name}: {reason}");
        assert_eq!(server.survivors(name), *keys, "{name}");
    }
    ensure!(elsewhere.requests().is_empty(), "a redirect was followed: {:?}", elsewhere.requests());
    let objects: usize = played.iter().map(|(_, keys, ..)| keys.len()).sum();
    assert_eq!(reaper.db.row("SELECT max(attempts), count(*) FROM storage_reaper.queue")?, format!("0|{objects}"));
    tells_no_secret(&mut reaper)?;
    played.iter().for_each(|(name, ..)| server.answer_always_about(name, None));
    reaper.db.run("SELECT pg_reload_conf()")?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, [format!("deleted|{objects}")]);
    tells_no_secret(&mut reaper)
}

#[test]
fn a_lock_with_an_end_uses_up_attempts() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(ONE_ATTEMPT)?;
    declare(&mut reaper, &server, "archive", &["a"])?;
    let until = Answer::of(200, "").with("x-amz-object-lock-retain-until-date: 2999-01-01T00:00:00Z");
    server.answer_about("archive", [Answer::error(403, "AccessDenied"), until]);
    reaper.db.run("DELETE FROM image")?;
    let waits = "SELECT count(*) = 1 FROM storage_reaper.queue WHERE due_at BETWEEN '2998-12-31' AND '2999-01-02'";
    reaper.until("it waits until then", waits)?;
    assert_eq!(reaper.db.row("SELECT attempts, state FROM storage_reaper.queue")?, "0|waiting");
    Ok(())
}

#[test]
fn an_object_that_the_store_stumbles_over_stops_all_others() -> Result<()> {
    for (status, code) in [(500, "InternalError"), (200, "InternalError"), (400, "MalformedXML")] {
        let (server, mut reaper) = Reaper::armed_facing(ONE_ATTEMPT)?;
        server.answer_naming("cursed", Answer::error(status, code));
        declare(&mut reaper, &server, "shelf", &["a", "b", "c", "cursed", "d", "e", "f"])?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until("it is parked", "SELECT count(*) = 1 FROM storage_reaper.parked WHERE locator LIKE '%cursed'")?;
        reaper.until_drained()?;
        assert_eq!(server.survivors("shelf"), ["cursed"]);
        assert_eq!(reaper.tally()?, ["deleted|6", "parked|1"]);
    }
    Ok(())
}

#[test]
fn an_object_that_the_store_stumbles_over_holds_a_quiet_backend_for_ever() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(ONE_ATTEMPT)?;
    server.answer_naming("cursed", Answer::error(500, "InternalError"));
    declare(&mut reaper, &server, "shelf", &["cursed"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("it is parked", "SELECT count(*) = 1 FROM storage_reaper.parked WHERE locator LIKE '%cursed'")?;
    // A mere outage fails for everybody.
    server.answer_always_about("attic", Some(Answer::error(500, "InternalError")));
    declare(&mut reaper, &server, "attic", &["a"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until(
        "the backend is held",
        "SELECT held_since IS NOT NULL FROM storage_reaper.backends WHERE name = 'attic'",
    )?;
    assert_eq!(reaper.db.row("SELECT attempts FROM storage_reaper.queue")?, "0");
    Ok(())
}

#[test]
fn a_store_that_does_not_answer_stops_the_others() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing(
        "storage_reaper.request_timeout = '10min'\nstorage_reaper.batch_size = 1\nstorage_reaper.concurrency = 4\n",
    )?;
    let keys: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    declare(&mut reaper, &server, "dead", &keys)?;
    declare(&mut reaper, &server, "alive", &keys)?;
    server.answer_always_about("dead", Some(Answer::broken(Flaw::Silence)));
    // As many requests as may be in flight hang, and more wait behind them.
    reaper.db.run("DELETE FROM image WHERE url LIKE 's3://dead/%'")?;
    wait::until(wait::PATIENCE, "as many hang as may", || Ok((server.requests().len() == 4).then_some(())))?;
    reaper.db.run("DELETE FROM image")?;
    reaper
        .until("the others are gone", "SELECT count(*) = 200 FROM storage_reaper.history WHERE outcome = 'deleted'")?;
    ensure!(server.survivors("alive").is_empty() && server.survivors("dead").len() == 200, "{}", reaper.picture());
    Ok(())
}
