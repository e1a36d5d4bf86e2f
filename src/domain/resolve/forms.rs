//! Finding the rows that may name an object, and telling which of them do.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Namespace, resolve};
use crate::domain::backend::BackendId;
use crate::domain::fold::{self, Head, fingerprint, plain, trimmed};
use crate::domain::object::{Object, has_steps};
use crate::domain::outcome::Reason;

/// What RFC 3986 leaves as it is in a path.
const STRICT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The fingerprints under which a row may name the object: one for each way to say where it is. Every text that
/// `resolve` takes for the object has one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prints {
    /// Of the plain key; it counts only where plain keys may mean this object.
    pub key: i64,
    /// Of bucket and key, and of URLs.
    pub placed: Vec<i64>,
}

impl Prints {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = i64> {
        self.placed.iter().copied().chain([self.key])
    }
}

/// Fingerprints of an object.
pub fn prints(object: &Object, namespace: &Namespace) -> Prints {
    let mut placed = placed(object, &object.key, namespace, |prefix| prefix);
    if namespace.may_keep_files(object.backend) {
        let path = fold::path(&object.key);
        // A key with two slashes in front reads like a host.
        let behind_blanks = path.trim_start_matches(is_nothing);
        placed.push(fingerprint(&format!("//{path}")));
        if behind_blanks != path {
            placed.push(fingerprint(&format!("//{behind_blanks}")));
        }
        if path != object.key || namespace.locations_of(object).any(|location| !location.key_prefix.is_empty()) {
            placed.extend((path != object.key).then(|| fingerprint(&path)));
            placed.extend(self::placed(object, &path, namespace, |prefix| match fold::path(&prefix) {
                path if path.is_empty() => Cow::Owned(path),
                path => Cow::Owned(path + "/"),
            }));
        }
    }
    placed.sort_unstable();
    placed.dedup();
    Prints { key: fingerprint(&object.key), placed }
}

/// Of bucket and key, and of URLs; `read` says how a location's prefix is compared with the key.
fn placed(
    object: &Object,
    key: &str,
    namespace: &Namespace,
    read: impl for<'a> Fn(Cow<'a, str>) -> Cow<'a, str>,
) -> Vec<i64> {
    let in_bucket = || format!("s3://{}/{key}", object.bucket);
    let mut placed = vec![Head::of_bucket(&object.bucket).fingerprint(key, in_bucket)];
    if object.bucket.contains('.') {
        // It may be a host that stands for the bucket.
        placed.push(fingerprint(&format!("https://{}/{}", object.bucket, utf8_percent_encode(key, STRICT))));
    }
    for location in namespace.locations_of(object) {
        let prefix = read(namespace.canonical_key(object.backend, &location.key_prefix));
        if let Some(rest) = key.strip_prefix(prefix.as_ref()) {
            let url = || format!("https://{}{}", location.base.prefix(), utf8_percent_encode(rest, STRICT));
            placed.push(location.base.head().fingerprint(rest, url));
        }
    }
    placed
}

/// Under which URL the object is found that begins with a declared base.
pub fn url_under(base: &str, object: &Object, namespace: &Namespace) -> Option<String> {
    let location = namespace.locations_of(object).find(|location| location.base.as_str() == base)?;
    let rest = object.key.strip_prefix(&*namespace.canonical_key(object.backend, &location.key_prefix))?;
    // Clients take steps before they ask.
    if has_steps(rest) {
        return None;
    }
    Some(format!("{base}{}", utf8_percent_encode(rest, STRICT)))
}

/// Whether plain keys of a source may mean the object. Where nothing says which store they are of, they may.
pub fn keys_may_mean(object: &Object, namespace: &Namespace, default_backend: Option<BackendId>) -> bool {
    let Some(backend) = default_backend.and_then(|id| namespace.backend(id)) else { return true };
    let there = Object { backend: backend.id, bucket: backend.bucket.clone(), key: object.key.clone() };
    namespace.are_same(&there, object)
}

/// Whether a text that shares a fingerprint with the object names it. What can be read in more than one way does.
pub fn may_name(raw: &str, object: &Object, namespace: &Namespace, default_backend: Option<BackendId>) -> bool {
    if raw == object.key && keys_may_mean(object, namespace, default_backend) {
        return true;
    }
    // As the fold has it, which minds neither users, dots, steps, backslashes nor who else has the bucket.
    let is_its_place = || {
        let (prints, print) = (prints(object, namespace), fingerprint(raw));
        prints.placed.contains(&print) || prints.key == print && keys_may_mean(object, namespace, default_backend)
    };
    // Two stores may have a bucket of one name, and the text does not say which.
    let is_there = || {
        let there = || resolve(raw, namespace, Some(object.backend));
        matches!(super::scheme(raw), Some(("s3" | "gs", _)))
            && there().is_ok_and(|named| namespace.are_same(&named, object))
    };
    match resolve(raw, namespace, default_backend) {
        Ok(named) if namespace.are_same(&named, object) => true,
        Ok(_) => is_there() || is_read_otherwise(raw, object, namespace) && is_its_place(),
        // A key that ends with a slash, or is blank, looks like none.
        Err(Reason::EmptyKey) => object.key.ends_with('/') || object.key.trim().is_empty(),
        Err(Reason::NotOwned) => is_its_place(),
        Err(_) => true,
    }
}

/// More marks than that may be read in too many ways to look at each.
const MOST_MARKS: usize = 16;

/// Whether a text that names no place may have been written for the object. Who cuts something off reads the rest as loosely as the
/// fold does; a text that nothing can be cut off from stands for itself.
fn may_be_read_as(raw: &str, object: &Object, namespace: &Namespace) -> bool {
    if raw.matches(['?', '#']).count() > MOST_MARKS {
        return true;
    }
    let readings = readings(raw);
    let there = |key: &str| Object { key: key.to_owned(), ..object.clone() };
    let (root, path) = loosely(&object.key);
    readings.iter().any(|key| namespace.are_same(&there(key), object))
        || readings.iter().any(|key| key != raw) && readings.iter().any(|key| loosely(key) == (root, path.clone()))
}

/// The text as it stands, and without what URL parsers drop; cut at what looks like a query; without what counts for nothing around
/// it; as a path from the root.
fn readings(raw: &str) -> Vec<String> {
    let mut readings = Vec::new();
    for text in [raw, &*plain(raw)] {
        let ends = text.match_indices(['?', '#']).map(|(end, _)| end).chain([text.len()]);
        for cut in ends.map(|end| &text[..end]) {
            let trimmed = trimmed(cut);
            let from_root = [cut, trimmed].map(|text| text.strip_prefix('/').unwrap_or(text));
            readings.extend([cut, trimmed, trimmed.trim_start_matches(is_nothing)].map(str::to_owned));
            readings.extend(from_root.map(str::to_owned));
        }
    }
    readings
}

/// What may stand in front of a path from the root.
fn is_nothing(letter: char) -> bool {
    letter == '/' || fold::is_blank(letter) || letter.is_control()
}

/// How many slashes it begins with, and what follows: slashes merged, steps taken, composed, blanks for plus signs, and one spelling
/// for ids.
fn loosely(key: &str) -> (usize, String) {
    let path = fold::path(&key.replace('+', " "));
    (key.len() - key.trim_start_matches('/').len(), fold::row_id(&path).into_owned())
}

/// Whether somebody may read the text otherwise than it is written: with what is around it cut off, without a query, as a path
/// from the root, as a URL although it has no scheme, or as a URL as it is understood loosely.
fn is_read_otherwise(raw: &str, object: &Object, namespace: &Namespace) -> bool {
    let has_query = |text: &str| text.contains(['?', '#']);
    if !fold::is_place(raw) {
        return may_be_read_as(raw, object, namespace);
    }
    let is_cut = plain(raw) != raw || has_query(raw) && !has_query(&object.key) || raw.starts_with('/');
    let is_read_loosely =
        |scheme: &str, rest: &str| scheme.starts_with("http") && (rest.contains("//") || rest.contains('+'));
    is_cut || super::scheme(raw).is_none_or(|(scheme, rest)| is_read_loosely(scheme, rest))
}
