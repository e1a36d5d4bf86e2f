//! Objects that were put back under the same key: verify => 'head' and 'if-match'.

use anyhow::Result;
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::Reaper;

#[test]
fn an_object_that_was_put_back_is_deleted() -> Result<()> {
    for verify in ["head", "if-match"] {
        let mut reaper = Reaper::new()?;
        reaper.images()?;
        reaper.add_images(&["again.png", "old.png"])?;
        reaper.db.run(&format!("SELECT storage_reaper.alter_backend('media', verify => '{verify}')"))?;
        reaper.arm()?;
        // The one row went long before its object was written, the other will have gone long after.
        reaper.db.run(
            "SELECT storage_reaper.pause(); DELETE FROM image WHERE id = 1; DELETE FROM image;
             UPDATE storage_reaper.entry e SET captured_at = e.captured_at
                 + CASE q.locator WHEN 'old.png' THEN interval '1 hour' ELSE interval '-1 hour' END
             FROM storage_reaper.queue q WHERE q.entry_id = e.id;
             SELECT storage_reaper.enqueue(ARRAY['missing.png'], 'media'); SELECT storage_reaper.resume()",
        )?;
        reaper.until_drained()?;
        let outcomes = reaper.outcomes()?;
        assert_eq!(&outcomes[..1], ["again.png|superseded"], "{verify}");
        assert!(outcomes.contains(&"old.png|deleted".to_owned()), "{verify}: {outcomes:?}");
        assert_eq!(reaper.objects()?, ["again.png"], "{verify}");
    }
    Ok(())
}

fn dated(written: &str, now: &str) -> Answer {
    let headers = vec![format!("Last-Modified: {written}"), format!("Date: {now}"), "ETag: \"tag\"".to_owned()];
    Answer { headers, ..Answer::of(200, "") }
}

#[test]
fn a_store_whose_clock_is_wrong_has_new_objects_deleted() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.alter_backend('media', verify => 'if-match')")?;
    reaper.arm()?;
    // It is asked to delete a version of what is not there.
    server.answer_next(Answer::error(412, "PreconditionFailed"));
    // By the store's clock, of another century: an hour ago, and a second ago.
    let now = "Sat, 01 Jan 2000 12:00:00 GMT";
    server.answer_next(dated("Sat, 01 Jan 2000 11:00:00 GMT", now));
    reaper.add_images(&["old.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    server.answer_next(dated("Sat, 01 Jan 2000 11:59:59 GMT", now));
    reaper.add_images(&["new.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    // It was written between the look and the deletion.
    server.answer_next(dated("Sat, 01 Jan 2000 11:00:00 GMT", now));
    server.answer_next(Answer::error(412, "PreconditionFailed"));
    reaper.add_images(&["replaced.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["new.png|superseded", "old.png|deleted", "replaced.png|superseded"]);
    let requests = server.requests();
    let methods: Vec<_> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["DELETE", "HEAD", "DELETE", "HEAD", "HEAD", "DELETE"]);
    assert_eq!(requests[2].header("if-match"), Some("\"tag\""));
    assert_eq!(reaper.db.row("SELECT honours_if_match::text FROM storage_reaper.backends")?, "true");
    Ok(())
}

#[test]
fn a_store_that_ignores_a_condition_is_trusted_with_it() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.arm()?;
    let now = "Sat, 01 Jan 2000 12:00:00 GMT";
    let old = || dated("Sat, 01 Jan 2000 11:00:00 GMT", now);
    let healthy = || Answer::of(204, "");
    // What it answers to the probe, and then whether a deletion depends on the version.
    let absent = || Answer::error(404, "NoSuchKey");
    for (probe, honours) in [
        (vec![healthy()], "false"),
        (vec![Answer::error(501, "NotImplemented")], "false"),
        (vec![absent(), absent()], "false"),
        (vec![absent(), healthy()], "true"),
        (vec![Answer::error(412, "PreconditionFailed")], "true"),
        (vec![Answer::error(400, "ExpiredToken")], ""),
        (vec![Answer::error(404, "NoSuchBucket")], ""),
    ] {
        reaper.db.run("SELECT storage_reaper.alter_backend('media', verify => 'if-match')")?;
        let (seen, probes) = (server.requests().len(), probe.len());
        probe.into_iter().for_each(|answer| server.answer_next(answer));
        server.answer_next(old());
        reaper.add_images(&["u/a.png"])?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until_drained()?;
        assert_eq!(reaper.db.row("SELECT coalesce(honours_if_match::text, '') FROM storage_reaper.backends")?, honours);
        let requests = server.requests().split_off(seen);
        let [probed @ .., look, deletion] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!((probed.len(), look.method.as_str()), (probes, "HEAD"));
        for probe in probed {
            assert_eq!(probe.method, "DELETE");
            assert!(probe.target.starts_with("/bucket/u/storage"), "{}", probe.target);
        }
        assert_eq!(deletion.header("if-match").is_some(), honours == "true", "{honours}");
        // It is probed once, or once a minute where it does not tell.
        server.answer_next(old());
        reaper.add_images(&["u/b.png"])?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until_drained()?;
        assert_eq!(server.requests().len() - seen - requests.len(), 2, "{honours}");
        // Another backend, as far as probes are concerned.
        let region = format!("region-{}", server.requests().len());
        reaper.db.run(&format!("SELECT storage_reaper.alter_backend('media', region => '{region}')"))?;
    }
    Ok(())
}

#[test]
fn a_store_that_gives_no_date_has_new_objects_deleted() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.max_attempts = 1\n")?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.alter_backend('media', verify => 'head')")?;
    reaper.arm()?;
    server.answer_next(Answer::of(200, ""));
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|parked"]);
    assert_eq!(server.requests().len(), 1);
    let counted = "SELECT outcome, reason, objects FROM storage_reaper.outcomes";
    assert_eq!(reaper.db.rows(counted)?, ["parked|attempts_exhausted|1"]);
    Ok(())
}
