//! Buckets that keep versions, in front of a scripted store: which of them go, and what a listing that cannot be believed does.

use anyhow::{Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer, Request};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

const ONE_ATTEMPT: &str = "storage_reaper.max_attempts = 1\n";
const OLD: &str = "2020-01-01T00:00:00.000Z";
const NEW: &str = "2999-01-01T00:00:00.000Z";

fn listing(lines: &str, more: &str) -> Answer {
    let open = "<ListVersionsResult><EncodingType>url</EncodingType>";
    Answer::of(200, format!("{open}{lines}{more}</ListVersionsResult>")).with("Date: Thu, 01 Jan 2026 00:00:00 GMT")
}

fn version(key: &str, id: &str, written: &str) -> String {
    format!("<Version><Key>{key}</Key><VersionId>{id}</VersionId><LastModified>{written}</LastModified></Version>")
}

fn marker(key: &str, id: &str) -> String {
    format!("<DeleteMarker><Key>{key}</Key><VersionId>{id}</VersionId></DeleteMarker>")
}

fn uploads(lines: &str) -> Answer {
    Answer::of(200, format!("<ListMultipartUploadsResult>{lines}</ListMultipartUploadsResult>"))
}

fn facing(versions: &str, answers: Vec<Answer>) -> Result<(FaultServer, Reaper)> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, ONE_ATTEMPT)?;
    reaper.images()?;
    reaper.db.run(&format!("SELECT storage_reaper.alter_backend('media', versions => '{versions}')"))?;
    reaper.arm()?;
    answers.into_iter().for_each(|answer| server.answer_next(answer));
    reaper.add_images(&["a b"])?;
    reaper.db.run("DELETE FROM image")?;
    Ok((server, reaper))
}

fn deletions(server: &FaultServer) -> Vec<String> {
    let is_deletion = |request: &Request| request.method == "DELETE";
    server.requests().into_iter().filter(is_deletion).map(|request| request.target).collect()
}

#[test]
fn a_version_stays_or_one_of_another_key_goes() -> Result<()> {
    let latest = version("a+b", "v/1", OLD).replace("</Key>", "</Key><IsLatest>true</IsLatest>");
    let first = latest + &version("a+b", "v2", NEW);
    let second = marker("a+b", "m1") + &version("a+b.png", "v3", OLD);
    let upload = |key: &str, id: &str| format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>");
    let (done, more) = (
        || Answer::of(204, ""),
        "<IsTruncated>true</IsTruncated><NextKeyMarker>a+b</NextKeyMarker><NextVersionIdMarker>v2</NextVersionIdMarker>",
    );
    let answers = vec![
        listing(&first, more),
        done(),
        listing(&second, more),
        done().with("x-amz-delete-marker: true"),
        done(),
        uploads(&(upload("a b", "u1") + &upload("a b.png", "u2"))),
        done(),
    ];
    let (server, mut reaper) = facing("all", answers)?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a b|deleted"]);
    // Page by page, and what the key means now last.
    let expected = ["versionId=v2", "versionId=m1", "versionId=v%2F1", "uploadId=u1"];
    assert_eq!(deletions(&server), expected.map(|query| format!("/bucket/a%20b?{query}")));
    let listed: Vec<String> =
        server.requests().into_iter().filter(|request| request.method == "GET").map(|request| request.target).collect();
    assert_eq!(
        listed,
        [
            "/bucket/?encoding-type=url&prefix=a%20b&versions=",
            "/bucket/?encoding-type=url&key-marker=a%20b&prefix=a%20b&version-id-marker=v2&versions=",
            "/bucket/?encoding-type=url&prefix=a%20b&uploads=",
        ]
    );
    Ok(())
}

#[test]
fn a_version_that_was_written_since_goes() -> Result<()> {
    let both = version("a+b", "v1", OLD) + &version("a+b", "v2", NEW);
    let (server, mut reaper) = facing("captured", vec![listing(&both, ""), Answer::of(204, ""), uploads("")])?;
    reaper.until_drained()?;
    assert_eq!(
        (reaper.outcomes()?, deletions(&server)),
        (vec!["a b|deleted".into()], vec!["/bucket/a%20b?versionId=v1".into()])
    );
    let (server, mut reaper) = facing("captured", vec![listing(&version("a+b", "v2", NEW), ""), uploads("")])?;
    reaper.until_drained()?;
    assert_eq!((reaper.outcomes()?, deletions(&server)), (vec!["a b|superseded".into()], vec![]));
    Ok(())
}

#[test]
fn a_listing_that_cannot_be_believed_names_versions_or_none() -> Result<()> {
    let line = version("a+b", "v1", OLD);
    let again = "<IsTruncated>true</IsTruncated><NextKeyMarker>a+b</NextKeyMarker><NextVersionIdMarker>v1</NextVersionIdMarker>";
    for (answers, asked) in [
        (vec![listing(&line, "<IsTruncated>true</IsTruncated>")], 0),
        // The same place for ever.
        (vec![listing("", again), listing("", again)], 0),
        (vec![listing(&line, again), Answer::error(500, "InternalError")], 0),
        (vec![listing(&line, ""), Answer::error(500, "InternalError")], 1),
        (vec![Answer::of(200, "<html>sign in</html>")], 0),
        (vec![Answer::error(200, "InternalError")], 0),
        (vec![Answer::of(200, "")], 0),
        (vec![Answer::of(200, format!("<ListVersionsResult>{line}"))], 0),
    ] {
        let (told, scripted) = (format!("{answers:?}"), answers.len());
        let (server, mut reaper) = facing("all", answers)?;
        ensure!(server.request_after(scripted, wait::PATIENCE).is_some(), "it is not tried again: {told}");
        assert_eq!(reaper.db.row("SELECT attempts FROM storage_reaper.queue")?, "0", "{told}");
        ensure!(deletions(&server).len() == asked, "{told}: {:?}", deletions(&server));
    }
    Ok(())
}

#[test]
fn a_store_without_versions_keeps_objects_whose_versions_should_go() -> Result<()> {
    let answers = vec![Answer::error(501, "NotImplemented"), Answer::of(204, ""), Answer::error(501, "NotImplemented")];
    let (server, mut reaper) = facing("all", answers)?;
    reaper.until_drained()?;
    assert_eq!((reaper.outcomes()?, deletions(&server)), (vec!["a b|deleted".into()], vec!["/bucket/a%20b".into()]));
    Ok(())
}

#[test]
fn a_locked_version_is_tried_for_ever() -> Result<()> {
    let answers = vec![
        listing(&version("a+b", "v1", OLD), ""),
        Answer::error(403, "AccessDenied"),
        Answer::of(200, "").with("x-amz-object-lock-retain-until-date: 2999-01-01T00:00:00Z"),
    ];
    let (server, mut reaper) = facing("all", answers)?;
    reaper.until("it waits", "SELECT count(*) = 1 FROM storage_reaper.queue WHERE due_at > '2998-12-31'")?;
    let asked =
        server.requests().into_iter().map(|request| format!("{} {}", request.method, request.target)).next_back();
    assert_eq!(asked.as_deref(), Some("HEAD /bucket/a%20b?versionId=v1"));
    Ok(())
}

#[test]
fn an_object_that_no_listing_shows_is_called_absent() -> Result<()> {
    let answers = vec![listing("", ""), Answer::of(200, ""), Answer::of(204, ""), uploads("")];
    let (server, mut reaper) = facing("all", answers)?;
    reaper.until_drained()?;
    assert_eq!((reaper.outcomes()?, deletions(&server)), (vec!["a b|deleted".into()], vec!["/bucket/a%20b".into()]));
    let (server, mut reaper) = facing("all", vec![listing("", ""), Answer::of(404, ""), uploads("")])?;
    reaper.until_drained()?;
    assert_eq!((reaper.outcomes()?, deletions(&server)), (vec!["a b|absent".into()], vec![]));
    Ok(())
}
