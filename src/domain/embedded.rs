//! URLs inside of text: HTML, Markdown, CSS, JSON that is kept as text.
//!
//! What is found decides what is kept, so a text that is no URL costs nothing but a look, and one that is missed costs
//! an object. Wherever writers of such text differ in where a URL ends, each reading is found.

use std::borrow::Cow;
use std::collections::BTreeSet;

use html_escape::decode_html_entities;
use percent_encoding::percent_decode_str;
use unicode_normalization::char::is_combining_mark;

/// A scheme of ours; a URL may also leave it out.
const SCHEMES: [&str; 4] = ["https:", "http:", "s3:", "gs:"];
/// Behind these, slashes go on with a URL instead of beginning one.
const IN_URLS: &[char] = &[':', '/', '.', '-', '_', '%', '~'];
/// What ends a URL for everybody.
const ALWAYS: &[char] = &['"', '<', '>', '`', '\n', '\r', '\t'];
/// What ends it for some: blanks, and what Markdown, BBCode, CSS and srcset put behind it, and typographers of any language.
fn may_end(letter: char) -> bool {
    const ASCII: &[char] = &[' ', '\'', '(', ')', '[', ']', '{', '}', ',', ';', '|', '\\', '^', '$', '*', '&'];
    if letter.is_ascii() { ASCII.contains(&letter) } else { !letter.is_alphanumeric() && !is_combining_mark(letter) }
}
/// What is looked at first, where there are too many readings.
const OFTEN: &[char] = &[' ', '\'', ')', ']', '}', ',', ';', '|', '\\'];
/// What a sentence puts behind it.
const TRAILING: &[char] = &['.', ',', ';', ':', '!', '?', '\'', ')', ']', '}', '*', '_', '~', '='];

/// No URL of an object is longer: a key of 1024 bytes, all of it escaped, behind its base.
const LONGEST: usize = 3 * 1024 + 512;
/// A raw blank ends a URL for everybody but a quoted attribute, whose end is the quote: few can be part of one.
const MOST_BLANKS: usize = 8;
/// Of a text with more readings than this, only the shortest of each URL is taken: whoever indexes it must not fail.
const MOST_BYTES: usize = 4 << 20;
/// Longer strings name no object by themselves: keys have at most 1024 bytes.
pub const LONGEST_STRING: usize = 8192;
/// JSON as a string inside of JSON, inside of JSON; a URL inside of one, inside of one.
const MOST_NESTED: usize = 3;
/// What is escaped of a URL inside of another one: a colon, a slash, what escapes the next level, and JSON's backslash.
const ESCAPED: [&str; 7] = ["%3A", "%3a", "%2F", "%2f", "%25", "%5C", "%5c"];
/// What some writers leave as it is, and others do not.
const NOT_ESCAPED: &[char] = &['/', ':', '\\'];

/// Whether a string of a document is worth a look: slashes may hide behind escapes of documents inside of documents.
pub fn may_hold_urls(text: &str) -> bool {
    text.contains("//") || text.contains(['\\', '&', '%'])
}

/// Every text that may be meant as a URL.
pub fn urls(text: &str) -> Vec<String> {
    find(text, Found { most_bytes: MOST_BYTES, ..Found::default() }).urls
}

/// What the strings of a JSON document may name: themselves, and the URLs inside of them.
pub struct Named {
    texts: Vec<String>,
    /// Bytes that readings of URLs may still have, in all strings together.
    left: usize,
}

impl Default for Named {
    fn default() -> Self {
        Self { texts: Vec::new(), left: MOST_BYTES }
    }
}

impl Named {
    /// Takes note of a string.
    pub fn note(&mut self, text: &str) {
        if text.len() <= LONGEST_STRING {
            self.texts.push(text.to_owned());
        }
        if may_hold_urls(text) {
            let found = find(text, Found { most_bytes: self.left, ..Found::default() });
            self.left = self.left.saturating_sub(found.bytes);
            self.texts.extend(found.urls.into_iter().filter(|url| url != text));
        }
    }

    /// All of them.
    pub fn texts(self) -> Vec<String> {
        self.texts
    }
}

/// Texts that may be meant as URLs.
pub struct Urls {
    pub urls: Vec<String>,
    /// How long they are together, as often as they were found.
    pub bytes: usize,
    /// There were more.
    pub is_cut: bool,
}

/// The same, until they are so many bytes.
pub fn urls_within(text: &str, most_bytes: usize) -> Urls {
    find(text, Found { most_bytes, stops: true, ..Found::default() })
}

fn find(text: &str, mut found: Found) -> Urls {
    let mut unescaped = vec![Cow::Borrowed(text)];
    while let Some(last) = unescaped.last().filter(|last| last.contains('\\') && unescaped.len() <= MOST_NESTED) {
        let plain = without_backslashes(last);
        unescaped.push(Cow::Owned(plain));
    }
    for text in unescaped {
        collect(&text, &mut found);
        if text.contains('%') {
            let is_value = |letter: char| letter.is_ascii_alphanumeric() || "%-._~!'()*/:\\".contains(letter);
            text.split(|letter| !is_value(letter)).for_each(|value| collect_escaped(value, MOST_NESTED, &mut found));
        }
        if text.contains('&') {
            collect(&decode_html_entities(text.as_ref()), &mut found);
        }
    }
    Urls { bytes: found.bytes, is_cut: found.is_full(), urls: found.urls.into_iter().collect() }
}

/// A URL in the query or path of another one, which may be in another one itself. What follows it unescaped may belong to it, or to
/// the one around it.
fn collect_escaped(value: &str, levels: usize, found: &mut Found) {
    if levels == 0 || !ESCAPED.iter().any(|escape| value.contains(escape)) {
        return;
    }
    if value.contains(NOT_ESCAPED) {
        value.split(NOT_ESCAPED).for_each(|part| collect_escaped(part, levels, found));
    }
    let plain = percent_decode_str(value).decode_utf8_lossy();
    if plain.contains("//") {
        collect(&plain, found);
    }
    if plain.contains('\\') {
        collect(&without_backslashes(&plain), found);
    }
    collect_escaped(&plain, levels - 1, found);
}

#[derive(Default)]
struct Found {
    urls: BTreeSet<String>,
    bytes: usize,
    most_bytes: usize,
    /// Nothing more is looked for once there are so many; else only what is shortest.
    stops: bool,
}

impl Found {
    fn is_full(&self) -> bool {
        self.bytes > self.most_bytes
    }

    /// Adds a URL, and what is left of it without what a sentence puts behind it.
    fn add_trimmed(&mut self, mut url: &str) {
        self.add(url);
        while let Some(shorter) = url.strip_suffix(TRAILING) {
            if self.is_full() {
                return self.add(url.trim_end_matches(TRAILING));
            }
            url = shorter;
            self.add(url);
        }
    }

    fn add(&mut self, url: &str) {
        let has_path = url.split_once("//").is_some_and(|(_, rest)| {
            rest.find('/').is_some_and(|end| !rest[..end].is_empty() && !rest[..end].contains(char::is_whitespace))
        });
        // What is found again counts as well: it took its time.
        self.bytes += url.len();
        if has_path && url.contains('&') {
            // A delimiter that is written as an entity is none.
            self.urls.insert(decode_html_entities(url).into_owned());
        }
        if has_path && !self.urls.contains(url) {
            // Alone, a text that takes steps could be a key.
            if url.starts_with("//") && url.contains("..") {
                self.urls.insert(format!("https:{url}"));
            }
            self.urls.insert(url.to_owned());
        }
    }
}

fn collect(text: &str, found: &mut Found) {
    let starts = starts(text);
    for (place, &start) in starts.iter().enumerate() {
        if found.is_full() && found.stops {
            return;
        }
        // What no URL can reach is not looked at, or long lines would cost their length for each URL.
        let mut reach = (start + LONGEST).min(text.len());
        if found.is_full() {
            // All of them together are then no longer than the text.
            reach = starts.get(place + 1).map_or(reach, |next| reach.min(*next));
        }
        let near = &text[start..floor(text, reach)];
        let whole = &near[..near.find(ALWAYS).unwrap_or(near.len())];
        let scheme = whole.find("//").map_or(0, |slashes| slashes + "//".len());
        if let Some(quoted) = quoted(text, start, near) {
            found.add(quoted);
        }
        if found.is_full() {
            let ends = [whole[scheme..].find(may_end), whole[scheme..].find(OFTEN)];
            for end in ends {
                found.add_trimmed(&whole[..end.map_or(whole.len(), |at| scheme + at)]);
            }
            continue;
        }
        for at in turns(whole).filter(|at| *at > scheme).take(MOST_BLANKS) {
            found.add_trimmed(&whole[..at]);
        }
        let mut blanks = 0;
        for (at, separator) in whole[scheme..].match_indices(may_end) {
            blanks += usize::from(separator == " " || !separator.is_ascii());
            if blanks > MOST_BLANKS || found.is_full() {
                break;
            }
            found.add_trimmed(&whole[..scheme + at]);
        }
        found.add_trimmed(whole);
    }
}

/// Where letters of another script follow: there, words are not set apart by blanks.
fn turns(text: &str) -> impl Iterator<Item = usize> {
    let pairs = text.char_indices().zip(text.char_indices().skip(1));
    pairs.filter(|((_, a), (_, b))| a.is_ascii() && !b.is_ascii() && b.is_alphanumeric()).map(|(_, (at, _))| at)
}

/// What stands between quotes, if the URL begins behind one: blanks and other quotes are a part of it.
fn quoted<'a>(text: &str, start: usize, near: &'a str) -> Option<&'a str> {
    let quote = text[..start].chars().next_back().filter(|letter| ['"', '\'', '`'].contains(letter))?;
    near.split_once(quote).map(|(quoted, _)| quoted)
}

/// The last place at or before `at` where a letter begins.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Where a URL may begin: at a scheme of ours, or at slashes with nothing of a URL in front of them.
fn starts(text: &str) -> Vec<usize> {
    let found = text.match_indices("//").filter_map(|(slashes, _)| {
        let before = &text[..slashes];
        let ends_with = |scheme: &&str| {
            before.len() >= scheme.len()
                && before.get(before.len() - scheme.len()..).is_some_and(|end| end.eq_ignore_ascii_case(scheme))
        };
        match SCHEMES.iter().find(|scheme| ends_with(scheme)) {
            Some(scheme) => Some(slashes - scheme.len()),
            None if before.ends_with(|letter: char| letter.is_alphanumeric() || IN_URLS.contains(&letter)) => None,
            None => Some(slashes),
        }
    });
    found.collect()
}

/// As JSON and JavaScript write a text: `\/`, `\u00e9`, `\"`.
fn without_backslashes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match code_unit(rest) {
            Some(high @ 0xd800..0xdc00) => {
                let low = rest.get(5..).and_then(|rest| rest.strip_prefix('\\')).and_then(code_unit);
                let pair = low.map(|low| char::decode_utf16([high, low]).next());
                if let Some(Some(Ok(letter))) = pair {
                    plain.push(letter);
                    rest = &rest[11..];
                } else {
                    rest = &rest[5..];
                }
            }
            Some(unit) => {
                plain.extend(char::from_u32(u32::from(unit)));
                rest = &rest[5..];
            }
            None => {
                let letter = rest.chars().next();
                match letter {
                    Some('n' | 'r' | 't' | 'b' | 'f') => plain.push('\n'),
                    Some(letter) => plain.push(letter),
                    None => {}
                }
                rest = &rest[letter.map_or(0, char::len_utf8)..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// `uXXXX` at the start.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests;
