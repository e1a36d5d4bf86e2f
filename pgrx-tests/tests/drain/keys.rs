//! Keys that URLs and XML make something else of: another object must never go instead.

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Reaper;

/// Keys that a careless address or body would turn into one of the bystanders.
const AWKWARD: [&str; 12] = [
    "sp ace.png",
    "pl+us.png",
    "scan?1.dcm",
    "seg#1.dcm",
    "r/100%.png",
    "a%2Fb",
    "a&amp;b",
    "a&b",
    "<i>'\"</i>",
    "Д/é.pdf",
    "..hidden",
    "x=1;y=2",
];

const BYSTANDERS: [&str; 6] = ["scan", "seg", "a/b", "pl us.png", "sp", "a"];

#[test]
fn an_awkward_key_takes_a_bystander() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&AWKWARD)?;
    // A key that is a folder to a file system cannot also be a file there.
    let bystanders: Vec<&str> = BYSTANDERS.into_iter().filter(|key| *key != "a").collect();
    reaper.bucket()?.put_all(&bystanders)?;
    reaper.arm()?;
    // One statement makes a batch; the others go one by one.
    reaper.db.run("DELETE FROM image WHERE id <= 6")?;
    for id in 7..=AWKWARD.len() {
        reaper.db.run(&format!("DELETE FROM image WHERE id = {id}"))?;
    }
    reaper.until_drained()?;
    let mut expected: Vec<&str> = bystanders;
    expected.sort_unstable();
    assert_eq!(reaper.objects()?, expected);
    assert_eq!(reaper.tally()?, [format!("deleted|{}", AWKWARD.len())]);
    Ok(())
}

#[test]
fn urls_with_escapes_and_signatures_name_another_object() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/m/', backend => 'media', key_prefix => 'media/')")?;
    let bucket = reaper.bucket()?;
    bucket.put_all(&["media/a b.png", "media/signed.png", "media/100%.png", "plain%20key", "media/keep.png"])?;
    let s3 = format!("s3://{}/media/signed.png", bucket.name());
    reaper.db.run(&format!(
        "INSERT INTO image (url) VALUES ('https://cdn.example.test/m/a%20b.png'), ('{s3}'),
            ('https://cdn.example.test/m/100%25.png?X-Amz-Signature=abc&X-Amz-Expires=60'), ('plain%20key')"
    ))?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["media/keep.png"]);
    Ok(())
}

#[test]
fn a_locator_of_somebody_else_is_sent_to_our_store() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    let bucket = reaper.bucket()?.name().to_owned();
    reaper.bucket()?.put("keep.png")?;
    reaper.db.run(&format!(
        "INSERT INTO image (url) VALUES
            ('https://elsewhere.example.test/{bucket}/keep.png'), ('s3://other-bucket/keep.png'), ('data:image/png;base64,AAAA'),
            ('file:///etc/passwd'), ('s3://{bucket}/'), ('https://elsewhere.example.test')"
    ))?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["keep.png"]);
    assert_eq!(
        reaper.db.number("SELECT count(*) FROM storage_reaper.history WHERE outcome IN ('deleted', 'absent')")?,
        0
    );
    let places = "SELECT count(*) FROM (SELECT locator FROM storage_reaper.parked UNION SELECT locator FROM storage_reaper.history) x";
    assert_eq!(reaper.db.number(places)?, 6);
    Ok(())
}

/// A key that is let go, and one that a row still names: one file, where keys are paths.
const PATHS: [(&str, &str); 9] = [
    ("p/a//b", "p/a/b"),
    ("/p/c", "p/c"),
    ("p\\d", "p/d"),
    ("p/e", "p//e"),
    ("p/./f", "p/f"),
    ("p/x/../g", "p/g"),
    ("p/cafe\u{301}", "p/caf\u{e9}"),
    ("p/h/", "p/h"),
    ("p/i", "//p/i"),
];

#[test]
fn a_store_that_keeps_files_takes_a_living_key_for_a_dead_one() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    let (dead, living): (Vec<&str>, Vec<&str>) = PATHS.into_iter().unzip();
    let stored: Vec<&str> = living.iter().copied().filter(|key| !key.contains("//")).collect();
    reaper.bucket()?.put_all(&stored)?;
    let rows = |keys: &[&str]| {
        keys.iter().map(|key| format!("(E'{}')", key.replace('\\', "\\\\"))).collect::<Vec<_>>().join(", ")
    };
    reaper.db.run(&format!("INSERT INTO image (url) VALUES {}", rows(&living)))?;
    reaper.db.run(&format!("INSERT INTO image (url) VALUES {}", rows(&dead)))?;
    reaper.arm()?;
    // Together, and one by one: what a batch names is read in another way than what an address names.
    reaper.db.run(&format!("DELETE FROM image WHERE id > {}", living.len()))?;
    reaper.until_drained()?;
    for key in &dead {
        reaper.db.run(&format!(
            "INSERT INTO image (url) VALUES {}; DELETE FROM image WHERE id > {}",
            rows(&[key]),
            living.len()
        ))?;
        reaper.until_drained()?;
    }
    assert_eq!(reaper.tally()?, [format!("kept|{}", 2 * dead.len())]);
    for key in stored {
        ensure!(reaper.bucket()?.exists(key)?, "{key} is gone");
    }
    Ok(())
}
