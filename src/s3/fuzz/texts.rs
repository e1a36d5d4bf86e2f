//! Hostile texts: what people have found in columns, put together and bent.

use fastrand::Rng;

use super::ground::Base;

/// Where a text may say that its object is.
const FRONTS: [&str; 53] = [
    "",
    "",
    "/",
    "//",
    " ",
    "s3://media/",
    "S3://media/",
    "s3://media",
    "s3://docs/",
    "s3://thumbs/small/",
    "s3://other/",
    "s3:///",
    "s3://media//",
    "gs://gmedia/",
    "gs://media/",
    "https://cdn.example.com/",
    "HTTPS://CDN.example.com:443/pub/",
    "http://cdn.example.com/t/",
    "http://cdn.example.com:80/",
    "https://cdn.example.com",
    "https://cdn.example.com./",
    "https://cdn.example.com//",
    "https://cdn.example.com\\",
    "https://cdn.example.com:80/",
    "https://user@cdn.example.com/",
    "https://cdn.example.com@evil.example.org/",
    "//cdn.example.com/",
    " https://cdn.example.com/",
    "https:/cdn.example.com/",
    "https:///cdn.example.com/",
    "http://files.example.test/s3/docs/",
    "https://s3.example.com:9000/storage/v1/media/",
    "https://media.s3.example.com:9000/storage/v1/",
    "http://127.0.0.1:9100/docs/",
    "http://127.1:9100/docs/",
    "http://[::1]:9000/media/",
    "https://s3.eu-west-1.amazonaws.com/media/",
    "https://media.s3-us-west-2.amazonaws.com/",
    "https://media.s3.dualstack.eu-west-1.amazonaws.com/",
    "https://media.bucket.vpce-1a-2b.s3.us-east-1.vpce.amazonaws.com/",
    "https://media.s3-website-us-east-1.amazonaws.com/",
    "http://dotted.media.h.example.test:8080/base/",
    "http://h.example.test:8080/base/dotted.media/",
    "https://acct.r2.cloudflarestorage.com/media/",
    "https://acct.eu.r2.cloudflarestorage.com/media/",
    "https://other.r2.cloudflarestorage.com/media/",
    "https://f001.backblazeb2.com/file/media/",
    "https://media.s3.us-west-004.backblazeb2.com/",
    "https://storage.googleapis.com/gmedia/",
    "https://gmedia.storage.googleapis.com/",
    "https://storage.cloud.google.com/gmedia/",
    "https://evil.example.org/media/",
    "data:image/png;base64,",
];

/// What may follow.
const TAILS: [&str; 48] = [
    "",
    " ",
    "/",
    ".",
    "..",
    "a/b.png",
    "../other-bucket/secret.png",
    "a/./b",
    "a/../b",
    "x/..",
    "..backup",
    ".hidden",
    "a/...",
    "a\tb.png",
    "x\\y.png",
    "d/../keep.png",
    "d/%2E%2E/keep.png",
    "d/.%2e/keep.png",
    "what?.png",
    "scan#1.dcm",
    "scan?1.dcm",
    "r/100%25.png",
    "r/%D0%94.pdf",
    "a%252Fb",
    "a%2Fb",
    "100%.png",
    "%ff%fe",
    "%00",
    "/foo",
    "k?X-Amz-Signature=aaa&X-Amz-Expires=60",
    "k?v=3",
    "k?versionId=3",
    "k?delete",
    "caf\u{e9}.png",
    "cafe\u{301}.png",
    "caf%C3%A9.png",
    "a<b",
    "a&b",
    "a&amp;b",
    "a>b",
    "q\"q",
    "it's",
    "]]>",
    "</Key></Object><Object><Key>b",
    "pub/x",
    "t/x",
    "p/\u{10}x",
    "a\r\nb",
];

/// What a mutation puts in: everything that some reader treats in its own way.
const PIECES: [&str; 48] = [
    "/",
    "//",
    ".",
    "..",
    "/../",
    "/./",
    "\\",
    "%",
    "%2e",
    "%2F",
    "%5c",
    "%00",
    "%0d%0a",
    "%25",
    "%c3%a9",
    "%ff",
    "?",
    "#",
    "@",
    ":",
    "://",
    ":443",
    "&",
    ";",
    "=",
    "+",
    " ",
    "\t",
    "\n",
    "\r",
    "\0",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "\u{202e}",
    "\u{feff}",
    "\u{fffe}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{e9}",
    "e\u{301}",
    "\u{212b}",
    "\u{ff0f}",
    "<",
    ">",
    "]]>",
    "😀",
];

/// A text that a row may hold, every other time under one of these bases.
pub fn locator(rng: &mut Rng, bases: &[Base]) -> String {
    let front = match rng.choice(bases) {
        Some(base) if rng.bool() => format!("{}{}", pick(rng, &["https://", "http://", "HTTP://"]), base.url),
        _ => pick(rng, &FRONTS).to_owned(),
    };
    let tail = if rng.u8(..4) == 0 { key(rng) } else { pick(rng, &TAILS).to_owned() };
    let mut text = format!("{front}{tail}");
    for _ in 0..*rng.choice(&[0, 0, 1, 1, 2, 3, 6]).expect("there are counts") {
        text = bent(rng, &text);
    }
    text
}

/// Any Unicode at all, sometimes about as long as a key may be.
pub fn key(rng: &mut Rng) -> String {
    let length = match rng.u8(..32) {
        0 => rng.usize(200..1100),
        _ => rng.usize(..12),
    };
    (0..length).map(|_| letter(rng)).collect()
}

fn letter(rng: &mut Rng) -> String {
    match rng.u8(..8) {
        0 => rng.char(..).to_string(),
        1 => rng.char('\0'..='\u{ff}').to_string(),
        2 => pick(rng, &PIECES).to_owned(),
        3 => rng.char(' '..='~').to_string(),
        _ => rng.alphanumeric().to_string(),
    }
}

/// The text with something put in, left out, doubled, escaped or in another case.
fn bent(rng: &mut Rng, text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let start = rng.usize(..=letters.len());
    let end = (start + rng.usize(..=4)).min(letters.len());
    let piece: String = letters[start..end].iter().collect();
    let piece = match rng.u8(..7) {
        0 => String::new(),
        1 => piece.repeat(2),
        2 => piece.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        3 => piece.to_uppercase(),
        4 => format!("{piece}{}", letter(rng)),
        5 => pick(rng, &PIECES).to_owned(),
        _ => format!("{}{piece}", pick(rng, &PIECES)),
    };
    let (front, back): (String, String) = (letters[..start].iter().collect(), letters[end..].iter().collect());
    format!("{front}{piece}{back}")
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    rng.choice(from).copied().unwrap_or_default()
}
