//! Hostile keys, and what a server makes of each of them.

use std::collections::BTreeSet;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::scenario::unique;
use storage_reaper_tests::store::{Contents, Store};

/// What a careless address or body would make of one of the hostile keys.
pub const BYSTANDERS: [&str; 16] = [
    "scan",
    "seg",
    "a/b",
    "pl us.png",
    "sp",
    "b",
    "x",
    "foo",
    "c/d",
    "lead and trail",
    "back/slash",
    "caf\u{e9}x.png",
    "r/100",
    "B.png",
    "k",
    "hidden",
];

/// Keys that URLs, XML, file systems or patterns make something else of.
pub fn hostile_keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "sp ace.png",
        "pl+us.png",
        "scan?1.dcm",
        "scan?",
        "seg#1.dcm",
        "r/100%.png",
        "r/100%25",
        "a%2Fb",
        "a&amp;b",
        "a&b",
        "a<b",
        "it's",
        "\"q\"",
        "]]>",
        "<i>'\"</i>",
        "</Key><Key>b",
        "&lt;",
        "Д/é.pdf",
        "..hidden",
        "a/...",
        "x=1;y=2",
        "%2e%2e/x",
        "*",
        "c/*",
        "c",
        "b ",
        " lead and trail ",
        "a\tb",
        "b\n",
        "b\r",
        "back\\slash",
        "cafe\u{301}x.png",
        "b.png",
        "p/\u{10}\u{10}foo.jpg",
        "n\u{fffe}",
        "../b",
        "..",
        "a/../b",
        "./x",
        "c/./d",
        "x/..",
        "/foo",
        "a//b",
        "a/",
        "versioning?delete",
    ]
    .map(str::to_owned)
    .to_vec();
    // As long as a key may be, in few letters and in many, and in segments that a file system can hold.
    keys.extend(["😀".repeat(256), "k".repeat(1024), ["l"; 512].join("/")]);
    keys
}

/// The hostile keys by what the server makes of them.
#[derive(Clone, Default)]
pub struct Sorted {
    /// It keeps an object of its own under such a key.
    pub kept: Vec<String>,
    /// It refuses to keep one, and touches no other.
    pub refused: Vec<String>,
    /// It takes such a key for another one's name, or harms other objects over it. So our own client does harm as well.
    pub confused: Vec<String>,
}

/// Asks the server that the test binary shares, once.
pub fn sorted() -> Result<Sorted> {
    static SORTED: Mutex<Option<Sorted>> = Mutex::new(None);
    let mut sorted = SORTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if sorted.is_none() {
        let found = sort(&*Store::shared()?)?;
        eprintln!("refused: {:?}\nconfused: {:?}", shown(&found.refused), shown(&found.confused));
        *sorted = Some(found);
    }
    let sorted = sorted.clone().context("nothing was sorted")?;
    let all = hostile_keys().len();
    ensure!(sorted.kept.len() * 2 >= all, "only {} of {all} hostile keys can be tried", sorted.kept.len());
    Ok(sorted)
}

fn shown(keys: &[String]) -> Vec<String> {
    keys.iter().map(|key| key.chars().take(20).collect()).collect()
}

fn sort(store: &Store) -> Result<Sorted> {
    let mut sorted = Sorted::default();
    let mut ground = ground(store)?;
    for key in hostile_keys() {
        let place = match ask(&ground, &key)? {
            Nature::Kept => &mut sorted.kept,
            Nature::Refused => &mut sorted.refused,
            Nature::Confused => &mut sorted.confused,
        };
        place.push(key);
        if !lists(&ground, None) {
            ground = self::ground(store)?;
        }
    }
    Ok(sorted)
}

/// A bucket to be spoilt.
fn ground(store: &Store) -> Result<Contents<'_>> {
    let bucket = store.create_bucket(&unique("ground"))?;
    bucket.put_all(&BYSTANDERS)?;
    ensure!(lists(&bucket, None), "the server does not list the bystanders: {:?}", bucket.list()?);
    Ok(bucket)
}

enum Nature {
    Kept,
    Refused,
    Confused,
}

fn ask(bucket: &Contents<'_>, key: &str) -> Result<Nature> {
    if bucket.knows(key)? {
        return Ok(Nature::Confused);
    }
    if bucket.takes(key)? {
        let is_kept = lists(bucket, Some(key)) && bucket.knows(key)?;
        if is_kept {
            bucket.remove(key)?;
        }
        return Ok(if is_kept { Nature::Kept } else { Nature::Confused });
    }
    // A deletion can be confused as well, and in a batch, too.
    bucket.erase(&[key, "another"])?;
    Ok(if lists(bucket, None) { Nature::Refused } else { Nature::Confused })
}

/// Whether the server lists the bystanders, and this key, and nothing else. One that cannot list any more does not.
fn lists(bucket: &Contents<'_>, key: Option<&str>) -> bool {
    let expected: BTreeSet<String> = BYSTANDERS.into_iter().chain(key).map(str::to_owned).collect();
    bucket.list().is_ok_and(|listed| listed == expected)
}
