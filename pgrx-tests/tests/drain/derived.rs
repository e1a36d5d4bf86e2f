//! What goes with an object: thumbnails by a template, and all that lies below a prefix.

use anyhow::{Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer, Request};
use storage_reaper_tests::scenario::Reaper;

fn derive(reaper: &mut Reaper, arguments: &str) -> Result<()> {
    reaper.db.run(&format!("SELECT storage_reaper.derive('image.url', {arguments})"))
}

/// Outcomes of what went along, with the template.
fn along(reaper: &mut Reaper) -> Result<Vec<String>> {
    reaper.db.rows(
        "SELECT regexp_replace(locator, '^s3://[^/]*/', ''), outcome, reason FROM storage_reaper.history
         WHERE derived_by IS NOT NULL ORDER BY locator COLLATE \"C\", 2",
    )
}

#[test]
fn the_thumbnails_of_an_object_stay_behind() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    derive(&mut reaper, "'thumbs/{key}.webp'")?;
    derive(&mut reaper, r#"'{dir}/{stem}_{w}x{h}.{ext}', over => '[{"w": 100, "h": 50}, {"w": 2, "h": 2}]'"#)?;
    derive(&mut reaper, "'hls/{key}/'")?;
    reaper.arm()?;
    reaper.add_images(&["u/a b.jpg", "u/c.jpg", "u/d.jpg"])?;
    reaper.bucket()?.put_all(&[
        "thumbs/u/a b.jpg.webp",
        "thumbs/u/c.jpg.webp",
        "thumbs/u/d.jpg.webp",
        "u/a b_100x50.jpg",
        "u/a b_2x2.jpg",
        "u/a b_3x3.jpg",
        "hls/u/a b.jpg/1.ts",
        "hls/u/a b.jpg/deep/2+3%.ts",
        "hls/u/a b.jpg.ts",
        "hls/u/c.jpg/1.ts",
    ])?;
    // One is kept, and so is what goes with it.
    reaper.db.run("INSERT INTO image (url) VALUES ('u/c.jpg'); DELETE FROM image WHERE id IN (1, 2)")?;
    reaper.until_drained()?;
    assert_eq!(
        reaper.objects()?,
        [
            "hls/u/a b.jpg.ts",
            "hls/u/c.jpg/1.ts",
            "thumbs/u/c.jpg.webp",
            "thumbs/u/d.jpg.webp",
            "u/a b_3x3.jpg",
            "u/c.jpg",
            "u/d.jpg"
        ]
    );
    let found = along(&mut reaper)?;
    ensure!(found.iter().any(|line| line == "hls/u/a b.jpg/|expanded|2 objects below it were queued"), "{found:?}");
    ensure!(found.iter().any(|line| line == "hls/u/a b.jpg/deep/2+3%.ts|deleted|∅"), "{found:?}");
    let row = "SELECT DISTINCT row_id, source FROM storage_reaper.history WHERE derived_by LIKE 'hls%'";
    assert_eq!(reaper.db.rows(row)?, ["1|image.url"]);
    Ok(())
}

#[test]
fn a_row_names_a_thumbnail_and_loses_it() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    derive(&mut reaper, "'thumbs/{key}.webp'")?;
    derive(&mut reaper, "'hls/{key}/'")?;
    reaper.arm()?;
    reaper.add_images(&["a", "thumbs/a.webp", "hls/a/1.ts"])?;
    reaper.bucket()?.put_all(&["hls/a/2.ts"])?;
    reaper.db.run("DELETE FROM image WHERE url = 'a'")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["hls/a/1.ts", "thumbs/a.webp"]);
    // What goes along takes nothing along itself.
    reaper.bucket()?.put_all(&["thumbs/thumbs/a.webp.webp", "thumbs/hls/a/2.ts.webp"])?;
    reaper.db.run("DELETE FROM image WHERE url = 'thumbs/a.webp'")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["hls/a/1.ts", "thumbs/hls/a/2.ts.webp"]);
    Ok(())
}

#[test]
fn an_object_comes_back_and_its_thumbnail_goes() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.max_attempts = 1\n")?;
    reaper.images()?;
    derive(&mut reaper, "'thumbs/{key}.webp'")?;
    derive(&mut reaper, "'hls/{key}.d/'")?;
    reaper.arm()?;
    server.put("bucket", &["a", "thumbs/a.webp"]);
    server.answer_naming("thumbs/a.webp", Answer::error(400, "Refused"));
    server.answer_naming("hls%2F", Answer::error(400, "Refused"));
    reaper.add_images(&["a"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("both are parked", "SELECT parked = 2 FROM storage_reaper.status")?;
    // Weeks later.
    reaper.add_images(&["a"])?;
    server.answer_no_more_naming();
    let listing = "<ListBucketResult><Contents><Key>hls/a.d/1</Key></Contents></ListBucketResult>";
    server.answer_naming("hls%2F", Answer::of(200, listing));
    let before = server.requests().len();
    reaper.db.run("SELECT storage_reaper.retry()")?;
    reaper.until_drained()?;
    let kept = "SELECT count(*) FROM storage_reaper.history WHERE outcome = 'kept' AND derived_by IS NOT NULL";
    assert_eq!(reaper.db.row(kept)?, "2");
    let asked = server.requests().split_off(before);
    ensure!(asked.iter().all(|request| request.method == "GET"), "{asked:?}");
    Ok(())
}

#[test]
fn a_prefix_that_cannot_be_listed_slows_its_backend_down() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(
        &server,
        "storage_reaper.max_attempts = 2\nstorage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '1s'\n",
    )?;
    reaper.images()?;
    derive(&mut reaper, "'hls/{key}.d/'")?;
    reaper.arm()?;
    server.answer_naming("hls%2F", Answer::error(500, "InternalError"));
    let keys: Vec<String> = (0..300).map(|number| format!("k{number}")).collect();
    reaper.add_images(&["first"])?;
    reaper.db.run("DELETE FROM image")?;
    server.request_after(1, storage_reaper_tests::wait::PATIENCE);
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("all have gone", "SELECT count(*) = 301 FROM storage_reaper.history WHERE outcome = 'deleted'")?;
    let batches = server.requests().iter().map(|request| request.keys().len()).max();
    assert_eq!(batches, Some(300), "in one request");
    assert_eq!(reaper.db.row("SELECT count(*) FROM storage_reaper.backends WHERE held_since IS NOT NULL")?, "0");
    Ok(())
}

#[test]
fn a_prefix_that_cannot_be_listed_is_asked_for_for_ever() -> Result<()> {
    let server = FaultServer::start()?;
    let conf = "storage_reaper.max_attempts = 2\nstorage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '1s'\n";
    let mut reaper = Reaper::facing(&server, conf)?;
    reaper.images()?;
    derive(&mut reaper, "'hls/{key}.d/'")?;
    reaper.arm()?;
    // Nothing else is deleted that could tell whether the store works: it is asked.
    server.answer_naming("hls%2Fbroken", Answer::error(500, "InternalError"));
    reaper.add_images(&["broken"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper
        .until("it is parked", "SELECT count(*) = 1 FROM storage_reaper.parked WHERE reason = 'attempts_exhausted'")?;
    // What only a person can mend counts for nothing, and shows.
    server.answer_naming("hls%2Flocked", Answer::error(403, "InvalidAccessKeyId"));
    reaper.add_images(&["locked"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("the backend is held", "SELECT held_since IS NOT NULL FROM storage_reaper.backends")?;
    assert_eq!(reaper.db.row("SELECT max(attempts) FROM storage_reaper.queue")?, "0");
    server.answer_no_more_naming();
    server.answer_naming("hls%2F", Answer::of(200, "<ListBucketResult></ListBucketResult>"));
    reaper.db.run("SELECT pg_reload_conf()")?;
    reaper.until_drained()
}

#[test]
fn prefixes_of_many_objects_wait_for_each_other() -> Result<()> {
    const EACH: usize = 7000;
    let (server, mut reaper) = Reaper::armed_facing("")?;
    derive(&mut reaper, "'hls/{key}.d/'")?;
    let keys: Vec<String> = (0..8).map(|number| format!("k{number}")).collect();
    for key in &keys {
        let contents: String =
            (0..EACH).map(|number| format!("<Contents><Key>hls/{key}.d/{number}</Key></Contents>")).collect();
        let listing = format!("<ListBucketResult>{contents}</ListBucketResult>");
        server.answer_naming(&format!("hls%2F{key}.d%2F"), Answer::of(200, listing));
    }
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    let all = format!("SELECT count(*) = {} FROM storage_reaper.history WHERE outcome = 'deleted'", 8 * EACH + 8);
    reaper.until("all have gone", &all)
}

#[test]
fn a_key_of_dots_takes_the_bucket_along() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    derive(&mut reaper, "'hls/{stem}/'")?;
    derive(&mut reaper, "'{dir}/x/{name}/'")?;
    reaper.arm()?;
    reaper.bucket()?.put_all(&["hls/live/1.ts", "live"])?;
    reaper.db.run(
        "INSERT INTO image (url) VALUES ('...x'), ('u//..mp4'), ('hls\\'), ('a/'), ('/'), ('x/\\..\\..\\a.ts');
         DELETE FROM image",
    )?;
    // One store refuses a backslash.
    reaper.until(
        "all were tried",
        "SELECT count(*) = 0 FROM storage_reaper.queue WHERE attempts = 0 OR derived_by IS NOT NULL",
    )?;
    assert_eq!(reaper.objects()?, ["hls/live/1.ts", "live"]);
    let reasons =
        "SELECT DISTINCT reason FROM storage_reaper.history WHERE derived_by IS NOT NULL AND outcome = 'kept'";
    assert_eq!(reaper.db.rows(reasons)?, ["underivable"]);
    Ok(())
}

#[test]
fn a_prefix_that_holds_too_much_is_emptied_or_forgotten() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    derive(&mut reaper, "'must/{key}/', max_objects => 2")?;
    derive(&mut reaper, "'may/{key}/', max_objects => 2, required => false")?;
    reaper.arm()?;
    reaper.add_images(&["a"])?;
    let below = |prefix: &str| [1, 2, 3].map(|number| format!("{prefix}/a/{number}"));
    reaper.bucket()?.put_all(&below("must"))?;
    reaper.bucket()?.put_all(&below("may"))?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?.len(), 6);
    let parked = "SELECT derived_by, reason FROM storage_reaper.parked";
    assert_eq!(reaper.db.rows(parked)?, ["must/{key}/|prefix_too_large"]);
    ensure!(along(&mut reaper)?.contains(&"may/a/|discarded|prefix_too_large".to_owned()));
    // A person allows more.
    derive(&mut reaper, "'must/{key}/', max_objects => 3")?;
    reaper.db.run("SELECT storage_reaper.retry()")?;
    reaper.until(
        "what is below has gone",
        "SELECT count(*) = 3 FROM storage_reaper.history WHERE outcome = 'deleted' AND derived_by LIKE 'must%'",
    )?;
    assert_eq!(reaper.objects()?, below("may"));
    Ok(())
}

#[test]
fn more_than_a_page_lies_below_a_prefix() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    derive(&mut reaper, "'hls/{key}/'")?;
    reaper.arm()?;
    reaper.add_images(&["a"])?;
    let segments: Vec<String> = (0..1203).map(|number| format!("hls/a/{number}.ts")).collect();
    reaper.bucket()?.put_all(&segments)?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_crash_between_an_object_and_its_thumbnail_leaves_that_behind() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.max_attempts = 1\n")?;
    reaper.images()?;
    derive(&mut reaper, "'thumbs/{key}.webp'")?;
    derive(&mut reaper, "'may/{key}', required => false")?;
    server.answer_naming("may/a", Answer::error(500, "InternalError"));
    reaper.arm()?;
    server.put("bucket", &["a", "thumbs/a.webp"]);
    reaper.add_images(&["a"])?;
    server.hold();
    reaper.db.run("DELETE FROM image")?;
    let request = server.request_after(0, storage_reaper_tests::wait::PATIENCE);
    ensure!(request.is_some(), "nothing was asked for");
    let worker = reaper.worker()?;
    reaper.db.run(&format!("SELECT pg_terminate_backend({worker})"))?;
    server.release();
    reaper.until(
        "both have gone",
        "SELECT count(*) = 2 FROM storage_reaper.history WHERE outcome IN ('deleted', 'absent')",
    )?;
    assert_eq!(server.survivors("bucket"), Vec::<String>::new());
    // Nobody waits for what may stay.
    reaper.until(
        "it is given up",
        "SELECT count(*) = 1 FROM storage_reaper.history WHERE outcome = 'discarded' AND reason = 'attempts_exhausted'",
    )?;
    assert_eq!(reaper.db.rows("SELECT * FROM storage_reaper.parked")?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_listing_that_fails_empties_the_wrong_prefix_or_holds_everything() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.max_attempts = 1\n")?;
    reaper.images()?;
    derive(&mut reaper, "'hls/{key}/'")?;
    reaper.arm()?;
    let listing = |keys: &str| Answer::of(200, format!("<ListBucketResult>{keys}</ListBucketResult>"));
    let page = |key: &str, next: &str| {
        let more = format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>");
        listing(&format!("<Contents><Key>hls/{key}/{next}</Key></Contents>{more}"))
    };
    for (key, answer) in [
        ("foreign", listing("<Contents><Key>hls/other/1.ts</Key></Contents>")),
        ("cut", Answer::of(200, "<ListBucketResult><Contents><Key>hls/cut/1")),
        ("denied", Answer::error(403, "AccessDenied")),
        ("endless", listing("<IsTruncated>true</IsTruncated>")),
        ("noise", Answer::of(200, "<html></html>")),
        ("nothing", Answer::of(200, "")),
        ("mistaken", Answer::error(200, "InternalError")),
        ("circle", page("circle", "round")),
    ] {
        server.answer_naming(&format!("hls%2F{key}"), answer);
    }
    // The seventh page cannot be had.
    for number in 1..6 {
        server.answer_naming(&format!("token=p{number}&"), page("paged", &format!("p{}", number + 1)));
    }
    server.answer_naming("token=p6&", Answer::error(500, "InternalError"));
    server.answer_naming("hls%2Fpaged", page("paged", "p1"));
    let keys = ["foreign", "cut", "denied", "endless", "noise", "nothing", "mistaken", "circle", "paged", "whole"];
    server.put("bucket", &keys);
    server.put("bucket", &["hls/circle/round", "hls/other/1.ts", "hls/cut/1", "hls/paged/p1", "hls/whole/1"]);
    server.answer_naming("hls%2Fwhole", listing("<Contents><Key>hls/whole/1</Key></Contents>"));
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("all are settled", "SELECT count(*) = 0 FROM storage_reaper.entry")?;
    assert_eq!(server.survivors("bucket"), ["hls/circle/round", "hls/cut/1", "hls/other/1.ts", "hls/paged/p1"]);
    let parked = "SELECT reason, count(*) FROM storage_reaper.parked GROUP BY reason ORDER BY reason";
    assert_eq!(reaper.db.rows(parked)?, ["access_denied|1", "attempts_exhausted|8"]);
    let asked = |request: &Request| request.method == "GET" && request.target.contains("list-type=2");
    ensure!(server.requests().iter().filter(|request| asked(request)).count() >= keys.len());
    Ok(())
}

#[test]
fn somebody_else_declares_what_goes_along() -> Result<()> {
    let mut bed = storage_reaper_tests::scenario::Bed::new()?;
    bed.images(&["a"])?;
    let role = bed.role(
        "GRANT USAGE ON SCHEMA storage_reaper TO {role};
         GRANT EXECUTE ON FUNCTION storage_reaper.derive, storage_reaper.underive TO {role}",
    )?;
    let mut somebody = bed.connect_as(&role)?;
    let refused = somebody.refusal("SELECT storage_reaper.derive('image.url', 'x/{key}')")?;
    assert_eq!(refused.code, "42501");
    for (arguments, code) in [
        ("'nobody', 'x/{key}'", "42704"),
        ("'image.url', '{key}'", "22023"),
        ("'image.url', '{dir}/'", "22023"),
        ("'image.url', 'x/{nope}{key}'", "22023"),
        ("'image.url', 'x/{key}{w}', over => '[]'", "22023"),
        ("'image.url', 'x/{key}', max_objects => 0", "22023"),
        ("'image.url', NULL", "22004"),
    ] {
        let refused = bed.db.refusal(&format!("SELECT storage_reaper.derive({arguments})"))?;
        assert_eq!(refused.code, code, "{arguments}: {refused}");
    }
    bed.db.run("SELECT storage_reaper.derive('image.url', 'x/{key}'); SELECT storage_reaper.derive('image.url', 'x/{key}', required => false)")?;
    assert_eq!(bed.db.rows("SELECT * FROM storage_reaper.derivations")?, ["image.url|x/{key}|∅|f|10000"]);
    bed.db.run("SELECT storage_reaper.underive('image.url', 'x/{key}')")?;
    let refused = bed.db.refusal("SELECT storage_reaper.underive('image.url', 'x/{key}')")?;
    assert_eq!(refused.code, "42704");
    Ok(())
}
