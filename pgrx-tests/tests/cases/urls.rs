//! URLs: what a row holds names the object that its writer meant, or waits for a person.

use anyhow::{Result, ensure};
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::scenario::{Bed, Reaper};

/// What `explain` takes each locator for.
fn objects_of(bed: &mut Bed, locators: &[&str]) -> Result<Vec<String>> {
    let object = |locator: &&str| {
        let rows = bed.db.client().query("SELECT object FROM storage_reaper.explain($1) LIMIT 1", &[locator])?;
        let object = rows.first().and_then(|row| row.get::<_, Option<String>>(0));
        Ok(object.unwrap_or_else(|| "nobody's".to_owned()))
    };
    locators.iter().map(object).collect()
}

fn all_name(bed: &mut Bed, locators: &[&str], expected: &str) -> Result<()> {
    for (locator, object) in locators.iter().zip(objects_of(bed, locators)?) {
        ensure!(object == expected, "{locator} names {object}");
    }
    Ok(())
}

#[test]
fn a_url_that_parsers_change_takes_another_object() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.create_location('https://h.example.test/b/', backend => 'media')")?;
    let bystanders = ["a.png", "ab.png", "d/keep.png", "keep.png", "scan", "what", "x/y.png"];
    reaper.bucket()?.put_all(&bystanders)?;
    let changed = [
        "https://h.example.test/b/a\tb.png",
        "https://h.example.test/b/a\nb.png",
        "https://h.example.test/b/x\\y.png",
        "https://h.example.test/b/d/../keep.png",
        "https://h.example.test/b/d/%2E%2E/keep.png",
        "https://h.example.test/b/d/.%2e/keep.png",
        "https://h.example.test/b/./keep.png",
        "https://h.example.test/b/what?.png",
        "https://h.example.test/b/scan#1.dcm",
        " https://h.example.test/b/a.png ",
        "https://h.example.test/b/a.png ",
    ];
    for url in changed {
        reaper.db.client().execute("INSERT INTO image (url) VALUES ($1)", &[&url])?;
    }
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, bystanders);
    assert_eq!(
        reaper.db.rows("SELECT reason, count(*) FROM storage_reaper.parked GROUP BY 1")?,
        [format!("ambiguous_url|{}", changed.len())]
    );
    Ok(())
}

#[test]
fn an_escape_is_decoded_twice_or_not_at_all() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.create_location('https://h.example.test/b/', backend => 'media')")?;
    let gone = ["r/100%.png", "r/Д.pdf", "a%2Fb", "k/100%25.png", "s/100%25.png"];
    let bystanders = ["100%.png", "a/b", "k/100%.png", "r/%D0%94.pdf", "s/100%.png"];
    reaper.bucket()?.put_all(&gone)?;
    reaper.bucket()?.put_all(&bystanders)?;
    let bucket = reaper.bucket_name().to_owned();
    reaper.db.run(&format!(
        "INSERT INTO image (url) VALUES ('https://h.example.test/b/r/100%25.png'), ('https://h.example.test/b/r/%D0%94.pdf'),
             ('https://h.example.test/b/a%252Fb'), ('k/100%25.png'), ('s3://{bucket}/s/100%25.png'),
             ('https://h.example.test/b/100%.png'), ('https://h.example.test/b/100%2.png'), ('https://h.example.test/b/%ff%fe')"
    ))?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    // Not by a listing: its reader decodes what looks like an escape.
    for key in bystanders {
        ensure!(reaper.bucket()?.exists(key)?, "{key} is gone");
    }
    for key in gone {
        ensure!(!reaper.bucket()?.exists(key)?, "{key} is there");
    }
    let parked = "SELECT reason, count(*) FROM storage_reaper.parked GROUP BY 1";
    assert_eq!(reaper.db.rows(parked)?, ["bad_escape|3"]);
    Ok(())
}

#[test]
fn a_host_of_amazon_is_cut_at_the_wrong_place() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "SELECT storage_reaper.create_backend('pics', 'aws', 'https://s3.eu-west-1.amazonaws.com', 'pics');
         SELECT storage_reaper.create_backend('site', 'aws', 'https://s3.eu-west-1.amazonaws.com', 'www.site.test');
         SELECT storage_reaper.create_backend('china', 'aws', 'https://s3.cn-north-1.amazonaws.com.cn', 'chin')",
    )?;
    all_name(
        &mut bed,
        &[
            "https://pics.s3.amazonaws.com/k",
            "https://s3.amazonaws.com/pics/k",
            "https://pics.s3-us-west-2.amazonaws.com/k",
            "https://s3-us-west-2.amazonaws.com/pics/k",
            "https://pics.s3.eu-west-1.amazonaws.com/k",
            "https://s3.dualstack.eu-west-1.amazonaws.com/pics/k",
            "https://pics.s3.dualstack.eu-west-1.amazonaws.com/k",
            "https://pics.s3-accelerate.amazonaws.com/k",
            "https://pics.s3-accelerate.dualstack.amazonaws.com/k",
            "https://pics.bucket.vpce-1a-2b.s3.us-east-1.vpce.amazonaws.com/k",
            "https://bucket.vpce-1a-2b.s3.us-east-1.vpce.amazonaws.com/pics/k",
        ],
        "pics: s3://pics/k",
    )?;
    let dotted = ["https://www.site.test.s3.amazonaws.com/k", "https://s3.amazonaws.com/www.site.test/k"];
    all_name(&mut bed, &dotted, "site: s3://www.site.test/k")?;
    all_name(&mut bed, &["https://chin.s3.cn-north-1.amazonaws.com.cn/k"], "china: s3://chin/k")?;
    all_name(
        &mut bed,
        &[
            "https://pics.s3-website-us-east-1.amazonaws.com/k",
            "https://pics.s3-website.eu-central-1.amazonaws.com/k",
            "https://pics-1234.s3-accesspoint.us-east-1.amazonaws.com/k",
            "https://pics.s3.cn-north-1.amazonaws.com.cn/k",
            "https://chin.s3.amazonaws.com/k",
            "https://site.test.s3.amazonaws.com/k",
            "https://pics.s3.unknown.amazonaws.com/k",
        ],
        "nobody's",
    )
}

#[test]
fn a_store_of_another_vendor_is_not_known_by_its_hosts() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "SELECT storage_reaper.create_backend('cloud', 'r2', 'https://acct.eu.r2.cloudflarestorage.com', 'clips');
         SELECT storage_reaper.create_backend('google', 'gcs', 'https://storage.googleapis.com', 'goods');
         SELECT storage_reaper.create_location('https://p.supabase.co/storage/v1/object/' || part || '/avatars/', 'google')
         FROM unnest(ARRAY['public', 'sign', 'authenticated']) part;
         SELECT storage_reaper.create_location('https://p.supabase.co/storage/v1/render/image/public/avatars/', 'google')",
    )?;
    let clips =
        ["https://acct.eu.r2.cloudflarestorage.com/clips/k", "https://clips.acct.eu.r2.cloudflarestorage.com/k"];
    all_name(&mut bed, &clips, "cloud: s3://clips/k")?;
    let goods = [
        "https://storage.googleapis.com/goods/u/1.png",
        "https://goods.storage.googleapis.com/u/1.png",
        "https://storage.cloud.google.com/goods/u/1.png",
        "gs://goods/u/1.png",
        "https://p.supabase.co/storage/v1/object/public/avatars/u/1.png",
        "https://p.supabase.co/storage/v1/object/sign/avatars/u/1.png?token=x",
        "https://p.supabase.co/storage/v1/object/authenticated/avatars/u/1.png",
        "https://p.supabase.co/storage/v1/render/image/public/avatars/u/1.png",
    ];
    all_name(&mut bed, &goods, "google: s3://goods/u/1.png")?;
    let foreign = [
        "https://p.supabase.co/storage/v1/object/public/others/u/1.png",
        "https://acct2.r2.cloudflarestorage.com/clips/k",
    ];
    all_name(&mut bed, &foreign, "nobody's")?;
    // Another jurisdiction of the account: a bucket of that name may be there, or its host was mistaken.
    let beside =
        ["https://acct.r2.cloudflarestorage.com/clips/k", "https://clips.acct.fedramp.r2.cloudflarestorage.com/k"];
    all_name(&mut bed, &beside, "nobody's")
}

#[test]
fn a_public_address_is_sent_requests() -> Result<()> {
    let (server, public) = (FaultServer::start()?, FaultServer::start()?);
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    let endpoint = format!("{}/storage/v1/s3", server.endpoint());
    reaper.create_backend("deep", "generic", &endpoint)?;
    let base = format!("{}/s3/media", public.endpoint());
    reaper.db.run(&format!(
        "SELECT storage_reaper.create_location('{base}/', 'deep'), storage_reaper.create_location('{base}/thumbs/', 'deep', key_prefix => 't/')"
    ))?;
    reaper.add_images(&[format!("{base}/u/1.png")])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    reaper.add_images(&[format!("{base}/thumbs/2.png")])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let targets: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/storage/v1/s3/bucket/u/1.png", "/storage/v1/s3/bucket/t/2.png"]);
    ensure!(public.requests().is_empty(), "{:?}", public.requests());
    // An endpoint that carries the bucket already would send requests to a bucket in the bucket.
    for endpoint in ["https://media.oss-x.example.test", "https://oss-x.example.test/media"] {
        let call = format!("SELECT storage_reaper.create_backend('twice', 'generic', '{endpoint}', 'media')");
        let refusal = reaper.db.refusal(&call)?;
        ensure!(refusal.code == "22023" && !refusal.hint.is_empty(), "{refusal}");
    }
    Ok(())
}

#[test]
fn a_bucket_with_dots_breaks_tls() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "SELECT storage_reaper.create_backend('dotted', 'aws', 'https://s3.eu-west-1.amazonaws.com', 'my.dotted.bucket')",
    )?;
    let addressing = "SELECT addressing FROM storage_reaper.backends WHERE name = 'dotted'";
    assert_eq!(bed.db.row(addressing)?, "path");
    let refusal = bed.db.refusal("SELECT storage_reaper.alter_backend('dotted', addressing => 'virtual')")?;
    ensure!(refusal.code == "22023" && !refusal.hint.is_empty(), "{refusal}");
    Ok(())
}

#[test]
fn a_signed_link_hides_that_two_rows_name_one_object() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.create_location('https://h.example.test/b/', backend => 'media')")?;
    reaper.bucket()?.put("k")?;
    reaper.db.run(
        "INSERT INTO image (url) VALUES ('https://h.example.test/b/k?X-Amz-Signature=aaa&X-Amz-Expires=60'),
             ('https://h.example.test/b/k?X-Amz-Signature=bbb')",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["kept|1"]);
    ensure!(reaper.bucket()?.exists("k")?);
    let stored = "SELECT count(*) FROM storage_reaper.history WHERE locator LIKE '%X-Amz%'";
    assert_eq!(reaper.db.number(stored)?, 0);
    let log = reaper.cluster.log()?;
    ensure!(!log.contains("X-Amz-Signature"), "the log has a signature");
    Ok(())
}

#[test]
fn a_value_that_is_no_link_is_stored_or_sent() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.db.run(
        "CREATE TABLE person (id int PRIMARY KEY, avatar text); CREATE INDEX ON person (storage_reaper.fingerprint(avatar));
         SELECT storage_reaper.attach('person', 'avatar');
         INSERT INTO person VALUES (1, 'data:image/png;base64,' || repeat('A', 5000000)), (2, 'data:image/png;base64,AAAA'),
             (3, 'blob:https://x'), (4, 'file:///etc/passwd'), (5, 'mailto:a@example.test'), (6, '/webapi/user/avatar/7/a.png'),
             (7, '../../foo.jpg'), (8, 'javascript:void(0)'), (9, 'about:blank')",
    )?;
    reaper.arm()?;
    // Milliseconds, unless every letter is looked at more than a few times.
    reaper.db.run(
        "SET statement_timeout = '60s'; UPDATE person SET avatar = avatar || ' ' WHERE id = 1; DELETE FROM person",
    )?;
    reaper.until_drained()?;
    ensure!(server.requests().is_empty(), "{:?}", server.requests());
    let kept = "SELECT reason, count(*), max(length(locator)) < 100 FROM storage_reaper.history WHERE outcome = 'kept' GROUP BY 1";
    assert_eq!(reaper.db.rows(kept)?, ["not_owned|6|t"]);
    let parked = "SELECT reason, locator FROM storage_reaper.parked ORDER BY locator COLLATE \"C\"";
    assert_eq!(reaper.db.rows(parked)?, ["no_backend|../../foo.jpg", "no_backend|/webapi/user/avatar/7/a.png"]);
    Ok(())
}
