//! Keys: every one reaches the store byte for byte, or not at all.

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::fault::{FaultServer, Request};
use storage_reaper_tests::scenario::Reaper;

/// Deletes each key with a statement of its own, so that each travels alone.
fn delete_one_by_one(reaper: &mut Reaper, keys: &[&str]) -> Result<()> {
    reaper.add_images(keys)?;
    for key in keys {
        reaper.db.client().execute("DELETE FROM image WHERE url = $1", &[key])?;
        reaper.until_drained()?;
    }
    Ok(())
}

fn targets(server: &FaultServer) -> Vec<String> {
    server.requests().into_iter().filter(|request| request.method == "DELETE").map(|request| request.target).collect()
}

/// The keys of all batches, without XML's escapes.
fn batched(server: &FaultServer) -> Vec<String> {
    let unescape = |key: String| {
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
            .into_iter()
            .fold(key, |key, (escaped, letter)| key.replace(escaped, letter))
    };
    let mut keys: Vec<String> = server.requests().iter().flat_map(Request::keys).map(unescape).collect();
    keys.sort();
    keys
}

fn parked(reaper: &mut Reaper) -> Result<Vec<String>> {
    reaper.db.rows("SELECT DISTINCT reason, count(*) FROM storage_reaper.parked GROUP BY 1 ORDER BY 1")
}

#[test]
fn a_value_without_a_key_is_sent() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    reaper.db.run(
        "SELECT storage_reaper.create_backend('amazon', 'aws', 'https://s3.us-east-1.amazonaws.com', 'pictures');
         SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media');
         INSERT INTO image (url) VALUES (NULL), (''), ('   '), (E'\\t\\n')",
    )?;
    reaper.add_images(&[
        "/",
        "//",
        "s3://bucket",
        "s3://bucket/",
        "s3://bucket//",
        "https://pictures.s3.us-east-1.amazonaws.com/",
        "https://pictures.s3.us-east-1.amazonaws.com",
        "https://cdn.example.test",
        "https://cdn.example.test/",
        "https://cdn.example.test//",
        "https://cdn.example.test/?v=1",
        "https://cdn.example.test/%2F",
    ])?;
    let endpoint = server.endpoint();
    reaper.add_images(&[
        format!("{endpoint}/bucket"),
        format!("{endpoint}/bucket/"),
        format!("{endpoint}/bucket//"),
    ])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    ensure!(server.requests().is_empty(), "{:?}", server.requests());
    // Two slashes begin a URL without its scheme.
    assert_eq!(parked(&mut reaper)?, ["ambiguous_url|1", "empty_key|14"]);
    Ok(())
}

#[test]
fn a_dot_segment_walks_out_of_the_bucket() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let walking = ["../other-bucket/secret.png", ".", "..", "a/./b", "a/../b", "x/..", "./x", "../"];
    delete_one_by_one(&mut reaper, &walking)?;
    ensure!(targets(&server).is_empty(), "{:?}", targets(&server));
    let mut expected = walking.map(str::to_owned);
    expected.sort();
    assert_eq!(batched(&server), expected);
    delete_one_by_one(&mut reaper, &["..backup", ".hidden", "a/...", "%2e%2e/x"])?;
    let expected = ["/bucket/..backup", "/bucket/.hidden", "/bucket/a/...", "/bucket/%252e%252e/x"];
    assert_eq!(targets(&server), expected);
    Ok(())
}

#[test]
fn a_key_in_a_path_loses_or_gains_letters() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let keys = [
        ("scan?1.dcm", "/bucket/scan%3F1.dcm"),
        ("seg#1.dcm", "/bucket/seg%231.dcm"),
        ("a%b", "/bucket/a%25b"),
        ("r/100%25.png", "/bucket/r/100%2525.png"),
        ("/foo", "/bucket//foo"),
        ("a//b", "/bucket/a//b"),
        ("a/", "/bucket/a/"),
        (" lead and trail ", "/bucket/%20lead%20and%20trail%20"),
        ("a\tb", "/bucket/a%09b"),
        ("back\\slash", "/bucket/back%5Cslash"),
        ("caf\u{e9}.png", "/bucket/caf%C3%A9.png"),
        ("cafe\u{301}.png", "/bucket/cafe%CC%81.png"),
        ("a+b c", "/bucket/a%2Bb%20c"),
        ("p/\u{10}\u{10}foo.jpg", "/bucket/p/%10%10foo.jpg"),
    ];
    delete_one_by_one(&mut reaper, &keys.map(|(key, _)| key))?;
    assert_eq!(targets(&server), keys.map(|(_, target)| target));
    assert_eq!(server.requests().len(), keys.len());
    Ok(())
}

#[test]
fn a_url_in_path_style_loses_a_slash() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let url = format!("{}/bucket//foo", server.endpoint());
    delete_one_by_one(&mut reaper, &[&url])?;
    assert_eq!(targets(&server), ["/bucket//foo"]);
    // The two are two objects, although a row that begins with a slash keeps both.
    reaper.add_images(&["/foo", "foo"])?;
    reaper.db.run("DELETE FROM image WHERE url = 'foo'")?;
    reaper.until_drained()?;
    assert_eq!(targets(&server), ["/bucket//foo"]);
    reaper.add_images(&["foo"])?;
    reaper.db.run("DELETE FROM image WHERE url = '/foo'")?;
    reaper.until_drained()?;
    reaper.db.run("DELETE FROM image WHERE url = 'foo'")?;
    reaper.until_drained()?;
    assert_eq!(targets(&server), ["/bucket//foo", "/bucket//foo", "/bucket/foo"]);
    Ok(())
}

#[test]
fn a_character_of_xml_breaks_a_batch_or_mixes_up_its_answer() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let keys = ["\"q\"", "&lt;", "<Key></Key>", "]]>", "a&amp;b", "a&b", "a<b", "a>b", "it's", "q\"q"];
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(batched(&server), keys);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(reaper.tally()?, ["deleted|10"]);
    let batch = server.requests().pop().context("no request")?;
    ensure!(batch.body.contains("<Key>a&amp;amp;b</Key>"), "{}", batch.body);
    Ok(())
}

#[test]
fn a_key_that_is_too_long_takes_its_batch_along() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let (longest, too_long) = ("😀".repeat(256), "😀".repeat(257));
    reaper.add_images(&[longest.as_str(), too_long.as_str(), "mate.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(batched(&server), ["mate.png".to_owned(), longest]);
    assert_eq!(parked(&mut reaper)?, ["key_too_long|1"]);
    assert_eq!(reaper.tally()?, ["deleted|2", "parked|1"]);
    Ok(())
}

#[test]
fn two_spellings_of_a_letter_are_one_object_or_two() -> Result<()> {
    let (composed, decomposed) = ("caf\u{e9}.png", "cafe\u{301}.png");
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&[composed, decomposed])?;
    reaper.arm()?;
    reaper.db.client().execute("DELETE FROM image WHERE url = $1", &[&composed])?;
    reaper.until_drained()?;
    // Nobody knows how this one compares, and a row names the other.
    assert_eq!(reaper.objects()?, [decomposed, composed]);
    assert_eq!(reaper.tally()?, ["kept|1"]);

    let (server, mut reaper) = Reaper::armed_facing("")?;
    reaper.db.run(
        "SELECT storage_reaper.create_backend('composing', 'r2', 'http://127.0.0.1:9', 'other', credentials => 'profile:media');
         SELECT storage_reaper.attach('image', 'url', backend => 'composing')",
    )?;
    reaper.add_images(&[composed, decomposed])?;
    reaper.db.client().execute("DELETE FROM image WHERE url = $1", &[&decomposed])?;
    reaper.until_drained()?;
    assert_eq!(reaper.tally()?, ["kept|1"]);
    ensure!(server.requests().is_empty());
    Ok(())
}

#[test]
fn a_store_without_batches_gets_one() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let endpoint = server.endpoint();
    reaper.db.run(&format!(
        "SELECT storage_reaper.create_backend('google', 'gcs', '{endpoint}', 'other', credentials => 'profile:media');
         SELECT storage_reaper.attach('image', 'url', backend => 'google')"
    ))?;
    reaper.add_images(&["a", "b", "gs://other/c", "x/../y"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let mut sent = targets(&server);
    sent.sort();
    assert_eq!(sent, ["/other/a", "/other/b", "/other/c"]);
    assert_eq!(server.requests().len(), 3);
    assert_eq!(parked(&mut reaper)?, ["unaddressable_key|1"]);
    Ok(())
}

#[test]
fn a_control_character_poisons_a_thousand_others() -> Result<()> {
    let (server, mut reaper) = Reaper::armed_facing("")?;
    let mut keys: Vec<String> = (0..998).map(|number| format!("k{number}")).collect();
    keys.extend(["p/\u{10}\u{10}foo.jpg".to_owned(), "n\u{fffe}".to_owned()]);
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let mut alone = targets(&server);
    alone.sort();
    assert_eq!(alone, ["/bucket/n%EF%BF%BE", "/bucket/p/%10%10foo.jpg"]);
    assert_eq!(batched(&server).len(), 998);
    assert_eq!(server.requests().len(), 3);
    Ok(())
}
