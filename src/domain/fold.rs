//! The coarse form of a locator: equal for all texts that anybody could read as one object.
//!
//! An index over fingerprints finds the rows that may name an object; `resolve` then says which of them do. So a fold
//! may be equal for texts that name different objects, but never different for two spellings of one, as any store has it:
//! those that keep objects in a file system take `a//b` for `a/b`.
//!
//! Indexes of users hold fingerprints: a change here is a change of the extension's version that asks for REINDEX.

use std::borrow::Cow;
use std::collections::VecDeque;

use percent_encoding::percent_decode_str;
use unicode_normalization::{UnicodeNormalization, is_nfc};
use xxhash_rust::xxh3::xxh3_64;

use super::object::has_steps;
use super::vendor;

/// The fingerprint of a locator's fold.
pub fn fingerprint(raw: &str) -> i64 {
    if is_clear(raw) { of_fold(&row_id(raw)) } else { of_fold(&fold(raw)) }
}

/// The fingerprint of what is folded already.
fn of_fold(folded: &str) -> i64 {
    xxh3_64(folded.as_bytes()).cast_signed()
}

/// Whether a path is one that every reader takes as it is written: it stands so in the fold of whatever ends with it.
fn is_clear(path: &str) -> bool {
    let is_clear = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.bytes().all(is_clear) && path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

/// What the fold of a URL or of bucket and key begins with, up to a path that is clear: so that the most common ones
/// need not be folded each by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Head(Option<String>);

impl Head {
    /// Of a bucket.
    pub fn of_bucket(bucket: &str) -> Self {
        Self((is_clear(bucket) && !bucket.contains('/')).then(|| format!("s3:{bucket}/")))
    }

    /// Of what stands in front of the path, which ends with a slash.
    pub fn of(base: &str) -> Self {
        let folded = fold(&format!("{base}x"));
        Self(folded.strip_suffix("/x").map(|head| format!("{head}/")))
    }

    /// The fingerprint of what it is the head of, and a path, which is written by `whole` if it is not clear.
    pub fn fingerprint(&self, path: &str, whole: impl FnOnce() -> String) -> i64 {
        match &self.0 {
            Some(head) if is_clear(path) => of_fold(&[head, path].concat()),
            _ => fingerprint(&whole()),
        }
    }
}

/// The coarse form of a raw locator. Scheme, case of the host, user, default ports, percent escapes, query, fragment,
/// dot segments, control characters and Unicode composition make no difference, nor whether a blank is a plus sign.
pub fn fold(raw: &str) -> String {
    let raw = composed(raw);
    let raw = blank(&raw);
    let text = plain(&raw);
    let folded = match split(&text) {
        Split::Store { place } => {
            // Steps never leave the bucket.
            let (bucket, key) = place.split_once('/').unwrap_or((place, ""));
            format!("s3:{bucket}/{}", steps(key))
        }
        Split::Web { authority, path } => web(authority, before_query(path)),
        Split::Either { text } => {
            let text = steps_of_files(text);
            match at_path(&text) {
                (authority, path) if authority.trim().is_empty() => key(path),
                (authority, path) => web(authority, before_query(path)),
            }
        }
        Split::Key => key(&text),
    };
    composed(&folded).into_owned()
}

/// One spelling for the ids of rows that documents spell in several: a uuid in either case, with hyphens or without, and a
/// number with a fraction of nothing. Other texts stay.
pub fn row_id(text: &str) -> Cow<'_, str> {
    if let Some((whole, fraction)) = text.split_once('.') {
        let digits = whole.strip_prefix('-').unwrap_or(whole);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_nothing = !fraction.is_empty() && fraction.bytes().all(|byte| byte == b'0');
        return Cow::Borrowed(if is_whole && is_nothing { whole } else { text });
    }
    let is_long_enough = matches!(text.len(), 32 | 36);
    if !is_long_enough || !text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Cow::Borrowed(text);
    }
    let digits: String = text.chars().filter(|letter| *letter != '-').collect::<String>().to_ascii_lowercase();
    if digits.len() != 32 {
        return Cow::Borrowed(text);
    }
    Cow::Owned([&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-"))
}

fn key(text: &str) -> String {
    row_id(&steps(text)).into_owned()
}

/// A key that no URL is: a file system merges slashes before it takes steps, and knows no query. Blanks at the ends count for
/// nothing, and without them there may be further steps.
fn steps(key: &str) -> String {
    let plain = slashes(before_query(key));
    if !has_steps(key) && !has_steps(&plain) {
        return plain.into_owned();
    }
    let text = without_steps(key.split('/').filter(|segment| !segment.is_empty()), 0);
    let mut left: VecDeque<&str> = before_query(&text).split('/').collect();
    while let Some(first) = left.front_mut() {
        *first = first.trim_start_matches(is_blank);
        if !matches!(*first, "" | "." | "..") {
            break;
        }
        left.pop_front();
    }
    while let Some(last) = left.back_mut() {
        *last = last.trim_end_matches(is_blank);
        match *last {
            "" | "." => drop(left.pop_back()),
            ".." => {
                left.pop_back();
                left.pop_back();
            }
            _ => break,
        }
    }
    // Of the only one that is left, both ends count.
    Vec::from(left).join("/").trim_matches(is_blank).to_owned()
}

/// What stands behind two slashes, as a file system reads it where it takes steps: they may lead out of what looks like a
/// host. With a scheme it is a URL, and is read as the standard has it.
fn steps_of_files(text: &str) -> Cow<'_, str> {
    if !has_steps(text) {
        return Cow::Borrowed(text);
    }
    let end = if text.ends_with('/') { "/" } else { "" };
    Cow::Owned(without_steps(text.split('/').filter(|segment| !segment.is_empty()), 0) + end)
}

/// Authority and the rest.
fn at_path(text: &str) -> (&str, &str) {
    text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()))
}

/// As some stores keep it. Whether it was makes no difference to what is read then: a mark behind `%7e` takes its letter, and
/// leaves no escape; a Kelvin sign becomes a letter that has another case.
fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// Whether composition takes letters of escapes.
pub fn has_marked_escapes(text: &str) -> bool {
    // Each is two bytes longer than what it stands for.
    let escapes = |text: &str| (text.len() - percent_decode_str(text).count()) / 2;
    escapes(text) != escapes(&composed(text))
}

/// With blanks for plus signs, which Amazon takes for them.
fn blank(text: &str) -> Cow<'_, str> {
    if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) }
}

/// What counts for nothing at the ends of a text: a byte order mark comes with some files that tables are filled from.
pub(super) fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter == '\u{feff}'
}

/// Without what counts for nothing at the ends.
pub(super) fn trimmed(raw: &str) -> &str {
    raw.trim_matches(|letter: char| is_blank(letter) || letter.is_control())
}

/// Without what URL parsers drop, and with the slashes that they make.
pub(super) fn plain(raw: &str) -> Cow<'_, str> {
    let text = trimmed(raw);
    if text.contains(|letter: char| letter.is_control() || letter == '\\') {
        let kept = text.chars().filter(|letter| !letter.is_control());
        return Cow::Owned(kept.map(|letter| if letter == '\\' { '/' } else { letter }).collect());
    }
    Cow::Borrowed(text)
}

/// What stands in front of `bucket/key`.
const STORE_SCHEMES: [&str; 3] = ["s3://", "gs://", "gcs://"];

enum Split<'a> {
    /// `s3://bucket/key` or Amazon's name of it, nothing decoded.
    Store { place: &'a str },
    /// `http://` or `https://`.
    Web { authority: &'a str, path: &'a str },
    /// What follows `//`: a URL without its scheme, or a key that begins so.
    Either { text: &'a str },
    /// Anything else.
    Key,
}

fn split(text: &str) -> Split<'_> {
    let starts_with = |scheme: &str| text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    if let Some(scheme) = STORE_SCHEMES.iter().find(|scheme| starts_with(scheme)) {
        return Split::Store { place: &text[scheme.len()..] };
    }
    if starts_with("arn:aws")
        && let Some((_, place)) = text.split_once(":s3:::")
    {
        return Split::Store { place };
    }
    if let Some(text) = text.strip_prefix("//") {
        return Split::Either { text };
    }
    match ["https:", "http:"].iter().find(|scheme| starts_with(scheme)) {
        // Browsers mind neither one slash nor three.
        Some(scheme) => {
            let (authority, path) = at_path(text[scheme.len()..].trim_start_matches('/'));
            Split::Web { authority, path }
        }
        None => Split::Key,
    }
}

/// Whether some reader takes the text for a URL, or for bucket and key.
pub fn is_place(raw: &str) -> bool {
    !matches!(split(&plain(raw)), Split::Key)
}

fn web(authority: &str, path: &str) -> String {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let authority = percent_decode_str(authority).decode_utf8_lossy().to_ascii_lowercase();
    let authority = to_ascii(&authority);
    let authority = without_default_port(authority.trim());
    let authority = authority.strip_suffix('.').unwrap_or(authority).trim();
    // Steps are taken before anything else is decoded, and once more in what stood in an escape.
    let whole = percent_decode_str(path).decode_utf8_lossy();
    let path = percent_decode_str(&url_steps(path)).decode_utf8_lossy().into_owned();
    let path = blank(&path);
    let path = plain(&path);
    let path = before_query(&take_steps(&path, usize::from(path.starts_with('/')))).to_owned();
    if let Some(host) = vendor::read(authority) {
        if let Some((bucket, key)) = host.split(&path) {
            return format!("s3:{bucket}/{}", slashes(key));
        }
        // Steps that a blank was hiding have led out of the bucket.
        if host.split(&whole).is_some() {
            return "s3:/".to_owned();
        }
    }
    format!("//{authority}/{}", slashes(&path))
}

/// Names have at most 253 letters, each of up to four bytes, and a port of six.
const LONGEST_HOST: usize = 4 * 253 + 6;

/// An international name as it is asked for.
fn to_ascii(authority: &str) -> Cow<'_, str> {
    if authority.is_ascii() || authority.len() > LONGEST_HOST {
        return Cow::Borrowed(authority);
    }
    let (host, port) = authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    match (idna::domain_to_ascii(host.trim()), port) {
        (Ok(host), None) => Cow::Owned(host),
        (Ok(host), Some(port)) => Cow::Owned(format!("{host}:{port}")),
        (Err(_), _) => Cow::Borrowed(authority),
    }
}

/// Whatever the scheme, which makes no difference. A port may be empty or begin with zeros.
fn without_default_port(authority: &str) -> &str {
    let Some((host, port)) = authority.rsplit_once(':') else { return authority };
    let is_default = port.is_empty() || matches!(port.parse::<u32>(), Ok(80 | 443));
    if is_default { host } else { authority }
}

/// A path of a URL without its steps, whose dots may be escaped.
fn url_steps(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return take_steps(path, usize::from(path.starts_with('/')));
    }
    let is_dots = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    };
    let plain = path.split('/').map(|segment| match is_dots(segment) {
        true => segment.to_ascii_lowercase().replace("%2e", "."),
        false => segment.to_owned(),
    });
    let plain = plain.collect::<Vec<_>>().join("/");
    Cow::Owned(take_steps(&plain, usize::from(path.starts_with('/'))).into_owned())
}

/// Whether its steps lead before its beginning.
pub fn leads_out(key: &str) -> bool {
    let mut depth = 0_usize;
    let plain = key.replace('\\', "/");
    plain.split('/').filter(|segment| !segment.is_empty()).any(|segment| {
        match segment {
            "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
        false
    })
}

/// The key as a file system reads it: what two keys have in common that name one file.
pub fn path(key: &str) -> String {
    let plain = key.replace('\\', "/");
    let segments = plain.split('/').filter(|segment| !segment.is_empty());
    without_steps(segments, 0).nfc().collect()
}

/// With one slash for several, and none at the ends; nor blanks, which were dropped there before.
fn slashes(path: &str) -> Cow<'_, str> {
    let path = path.trim_matches(|letter: char| letter == '/' || is_blank(letter));
    if !path.contains("//") {
        return Cow::Borrowed(path);
    }
    Cow::Owned(path.split('/').filter(|segment| !segment.is_empty()).collect::<Vec<_>>().join("/"))
}

/// Cut at a query or fragment.
fn before_query(path: &str) -> &str {
    path[..path.find(['?', '#']).unwrap_or(path.len())].trim_end_matches(is_blank)
}

/// The path without dot segments.
fn take_steps(path: &str, fixed: usize) -> Cow<'_, str> {
    if has_steps(path) { Cow::Owned(without_steps(path.split('/'), fixed)) } else { Cow::Borrowed(path) }
}

/// The segments without those that are steps, which never lead before the first `fixed` ones.
fn without_steps<'a>(segments: impl Iterator<Item = &'a str>, fixed: usize) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in segments {
        match segment {
            "." => {}
            ".." if kept.len() > fixed => drop(kept.pop()),
            ".." => {}
            segment => kept.push(segment),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn the_short_way_leads_elsewhere(
            base in "(https?://[a-zA-Z0-9.-]{1,9}(:(80|443|9000))?|https://(b\\.)?s3\\.amazonaws\\.com|s3://[a-z.]{1,4})(/[a-z.%2eF]{1,4}){0,2}/",
            path in "([a-zA-Z0-9._~-]{1,4}|[0-9a-f]{32}|7\\.0)(/{1,2}[a-zé?.%+ -]{1,4}|/[a-z.~]{1,4}){0,3}",
        ) {
            let whole = format!("{base}{path}");
            prop_assert_eq!(Head::of(&base).fingerprint(&path, || whole.clone()), of_fold(&fold(&whole)));
            prop_assert_eq!(fingerprint(&path), of_fold(&fold(&path)));
            if let Some(bucket) = base.strip_prefix("s3://") {
                let bucket = bucket.trim_end_matches('/');
                prop_assert_eq!(Head::of_bucket(bucket).fingerprint(&path, || whole.clone()), of_fold(&fold(&whole)));
            }
        }
    }
}
