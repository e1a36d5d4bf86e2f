//! A document that lies in storage and names objects: what it names, as fingerprints.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use sha2::Digest as _;

use super::embedded::{self, LONGEST_STRING};
use super::fold::fingerprint;
use super::object::Object;

/// How a document is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Strings, numbers and booleans of a JSON document, and URLs inside of its strings.
    Json,
    /// URLs inside of a text: HTML, Markdown, CSS, JSON.
    Text,
}

/// A name of no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format of a document; known are json and text")]
pub struct UnknownFormat;

impl Format {
    const ALL: [Format; 2] = [Format::Json, Format::Text];

    /// The name that SQL uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Text => "text",
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        Format::ALL.into_iter().find(|format| format.as_str() == text).ok_or(UnknownFormat)
    }
}

/// How the documents of one reference are read. What was read in another way does not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    pub format: Format,
    /// Only what stands under members of that name, at any depth.
    pub member: Option<String>,
    /// What was read once stays true.
    pub immutable: bool,
}

/// Tells documents apart by where they are, whoever chooses their names: SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of a place: the same key elsewhere is another document, and so it is for another backend, whose rights may differ.
    pub fn of(endpoint: &str, object: &Object) -> Self {
        let mut hasher = sha2::Sha256::new();
        hasher.update(object.backend.0.to_le_bytes());
        for part in [endpoint, &object.bucket, &object.key] {
            hasher.update(part.len().to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self(hasher.finalize().into())
    }

    /// As it is stored.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From what is stored; anything else is none.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let mut digest = [0; 32];
        if hex.len() != 2 * digest.len() || !hex.is_ascii() {
            return None;
        }
        for (place, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).ok()?;
        }
        Some(Self(digest))
    }
}

/// A document that cannot be read, so that nobody knows what it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is not encoded in UTF-8, or no text at all")]
    NotUtf8,
    #[error("it holds more texts that may be URLs than can be looked at")]
    TooManyUrls,
    /// The parser's own text would quote the document.
    #[error("it is not valid JSON of at most 127 levels (line {line}, column {column})")]
    NotJson { line: usize, column: usize },
}

/// Fingerprints of everything in the document that may name an object or a row, sorted, each once.
pub fn prints(content: &[u8], reading: &Reading) -> Result<Vec<i64>, Unreadable> {
    // UTF-16 passes for UTF-8 where all letters are ASCII.
    let text = std::str::from_utf8(content).ok().filter(|text| !text.contains('\0')).ok_or(Unreadable::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Found::default();
    match reading.format {
        Format::Text => found.note_urls(text),
        Format::Json => {
            let member = reading.member.as_deref();
            let mut document = serde_json::Deserializer::from_str(text);
            let values = Values { member, counts: member.is_none(), found: &mut found };
            values
                .deserialize(&mut document)
                .and_then(|()| document.end())
                .map_err(|error| Unreadable::NotJson { line: error.line(), column: error.column() })?;
        }
    }
    if found.is_cut { Err(Unreadable::TooManyUrls) } else { Ok(found.prints.into_iter().collect()) }
}

/// Of all texts in a document that may be URLs: some thousand links in prose have as many.
const MOST_URL_BYTES: usize = 64 << 20;

#[derive(Default)]
struct Found {
    prints: BTreeSet<i64>,
    /// Some readings were left out.
    is_cut: bool,
    url_bytes: usize,
}

impl Found {
    fn note_urls(&mut self, text: &str) {
        let urls = embedded::urls_within(text, MOST_URL_BYTES.saturating_sub(self.url_bytes));
        self.url_bytes += urls.bytes;
        self.is_cut |= urls.is_cut;
        self.prints.extend(urls.urls.iter().map(|url| fingerprint(url)));
    }
}

/// Reads a value without keeping it.
struct Values<'a> {
    member: Option<&'a str>,
    /// Whether what stands here counts.
    counts: bool,
    found: &'a mut Found,
}

impl Values<'_> {
    fn inside(&mut self, counts: bool) -> Values<'_> {
        Values { member: self.member, counts, found: self.found }
    }

    fn note(self, text: &str) {
        if !self.counts {
            return;
        }
        if text.len() <= LONGEST_STRING {
            self.found.prints.insert(fingerprint(text));
        }
        if embedded::may_hold_urls(text) {
            self.found.note_urls(text);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.note(text);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.note(&number.to_string());
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.note(&number.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.note(&number.to_string());
        Ok(())
    }

    fn visit_bool<E>(self, truth: bool) -> Result<(), E> {
        self.note(if truth { "true" } else { "false" });
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        let counts = self.counts;
        while elements.next_element_seed(self.inside(counts))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            let counts = self.counts || self.member == Some(name.as_str());
            // A manifest has its files for names.
            let is_within = self.counts;
            self.inside(is_within).note(&name);
            members.next_value_seed(self.inside(counts))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::backend::BackendId;

    fn json(member: Option<&str>) -> Reading {
        Reading { format: Format::Json, member: member.map(str::to_owned), immutable: false }
    }

    fn names(document: &str, reading: &Reading, text: &str) -> bool {
        prints(document.as_bytes(), reading).unwrap().contains(&fingerprint(text))
    }

    #[test]
    fn a_reference_in_a_document_is_missed() {
        let document =
            r#"{"a": [{"deep": {"src": "u/1.png"}}, 17, true], "html": "<img src=\"https://c.example.com/2.png\">"}"#;
        for text in ["u/1.png", "17", "true", "https://c.example.com/2.png"] {
            assert!(names(document, &json(None), text), "{text}");
        }
        assert!(names(document, &json(Some("a")), "u/1.png"), "below a member, at any depth");
        assert!(names(document, &json(Some("src")), "u/1.png"));
        assert!(!names(document, &json(Some("src")), "17"));
        assert!(names(document, &json(None), "html"), "names of members, too");
        let escaped = r#"["url=https%3A%2F%2Fc.example.com%2F4.png"]"#;
        assert!(names(escaped, &json(None), "https://c.example.com/4.png"));
        let page = Reading { format: Format::Text, ..json(None) };
        assert!(names("![x](https://c.example.com/3.png)", &page, "https://c.example.com/3.png"));
        assert!(names("\u{feff}[\"x.png\"]", &json(None), "x.png"), "with a byte order mark");
    }

    #[test]
    fn a_document_that_is_cut_names_nothing() {
        let whole = r#"{"a": ["u/1.png", {"b": "u/2.png"}]}"#;
        assert!(prints(whole.as_bytes(), &json(None)).is_ok());
        for end in 0..whole.len() {
            assert!(prints(&whole.as_bytes()[..end], &json(None)).is_err(), "{end}");
        }
        assert!(prints(format!("{whole} {whole}").as_bytes(), &json(None)).is_err());
        assert!(prints("[".repeat(100_000).as_bytes(), &json(None)).is_err());
        assert_eq!(prints(b"\"\xff\"", &json(None)), Err(Unreadable::NotUtf8));
        assert_eq!(prints(b"[\0]\0", &json(None)), Err(Unreadable::NotUtf8), "UTF-16");
    }

    #[test]
    fn a_document_of_many_links_names_the_last_ones_by_half() {
        let page = Reading { format: Format::Text, ..json(None) };
        let prose = "See https://c.example.com/some/page.html for more words, and then some; ".repeat(5_000);
        assert!(names(
            &format!("{prose}<img src=\"https://c.example.com/photo (1).png\">"),
            &page,
            "https://c.example.com/photo (1).png"
        ));
        let hostile = "//a/,".repeat(1_000_000);
        assert_eq!(prints(hostile.as_bytes(), &page), Err(Unreadable::TooManyUrls));
    }

    #[test]
    fn a_digest_is_lost_on_its_way_through_the_database() {
        let of = |endpoint: &str, bucket: &str, key: &str| {
            Digest::of(endpoint, &Object { backend: BackendId(1), bucket: bucket.into(), key: key.into() })
        };
        for key in ["", "u/1.json", "Д"] {
            assert_eq!(Digest::from_hex(&of("e", "b", key).to_hex()), Some(of("e", "b", key)));
        }
        assert_ne!(of("e", "b", "a"), of("e", "ba", ""));
        assert_ne!(of("e", "b", "a"), of("f", "b", "a"));
        assert_eq!((Digest::from_hex("00"), Digest::from_hex(&"é".repeat(32))), (None, None));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<String>().prop_map(Value::from), any::<i64>().prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn some_string_of_a_document_is_missed(value in values(), text in "[a-z/.]{1,12}") {
            let document = json!({"a": value, "b": [{"wanted": [text.clone()]}]}).to_string();
            prop_assert!(names(&document, &json(None), &text));
            prop_assert!(names(&document, &json(Some("wanted")), &text));
        }
    }
}
