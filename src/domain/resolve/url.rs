//! http and https URLs.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::{Namespace, fold, object};
use crate::domain::backend::{Backend, BackendId};
use crate::domain::location::{Location, without_default_port};
use crate::domain::object::{Object, has_steps_or_seems_to};
use crate::domain::outcome::Reason;
use crate::domain::vendor::{self, Site};

/// Query names of signatures and caches, which change nothing about the object.
const DROPPED: [&str; 12] = [
    "awsaccesskeyid",
    "signature",
    "expires",
    "googleaccessid",
    "token",
    "v",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];
const DROPPED_PREFIXES: [&str; 2] = ["x-amz-", "x-goog-"];

/// Resolves what follows `scheme://`.
pub(super) fn resolve(
    scheme: &str,
    rest: &str,
    namespace: &Namespace,
    default_backend: Option<BackendId>,
) -> Result<Object, Reason> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = authority.to_ascii_lowercase();
    let authority = without_default_port(scheme, &authority);
    let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
    let prefix = format!("{authority}{path}");
    let place = place(namespace, authority, path, &prefix, default_backend)?;
    let is_fine = |query: &str| query.split('&').all(|pair| is_dropped(pair) || place.is_api && pair == "alt=media");
    if is_ambiguous(tail) || fold::has_marked_escapes(tail) || !query.is_none_or(is_fine) {
        return Err(Reason::AmbiguousUrl);
    }
    if place.rest.is_empty() {
        return Err(Reason::EmptyKey);
    }
    // Whether a blank or the sign is meant, nobody can tell.
    if place.backend.kind.profile().reads_plus_as_blank && place.rest.contains('+') {
        return Err(Reason::AmbiguousUrl);
    }
    let key = decode(place.rest)?;
    if path.contains('%') && base(namespace, &format!("{authority}{}", decode(path)?)) != base(namespace, &prefix) {
        // A server that decodes before it looks at the path takes it for another location's.
        return Err(Reason::AmbiguousUrl);
    }
    if has_steps_or_seems_to(&key) {
        return Err(Reason::AmbiguousUrl);
    }
    object(namespace, place.backend, &place.bucket, format!("{}{key}", place.key_prefix))
}

/// Where a URL leads: what follows the base, and what the base stands for.
struct Place<'a> {
    backend: &'a Backend,
    bucket: String,
    key_prefix: &'a str,
    rest: &'a str,
    /// `alt` says what is shown of it.
    is_api: bool,
}

/// The location with the longest base that the text begins with.
fn base<'a>(namespace: &'a Namespace, text: &str) -> Option<&'a Location> {
    namespace.locations.iter().find(|location| text.starts_with(location.base.prefix()))
}

/// The longest declared or implied base wins; then the other hosts of a large store.
fn place<'a>(
    namespace: &'a Namespace,
    authority: &str,
    path: &'a str,
    prefix: &'a str,
    default_backend: Option<BackendId>,
) -> Result<Place<'a>, Reason> {
    if let Some(location) = base(namespace, prefix) {
        return Ok(Place {
            backend: namespace.backend(location.backend).ok_or(Reason::NotOwned)?,
            bucket: location.bucket.clone(),
            key_prefix: &location.key_prefix,
            rest: &prefix[location.base.prefix().len()..],
            is_api: false,
        });
    }
    // The bucket's own address without the slash names no key; any other place is not ours.
    if namespace.locations.iter().any(|location| location.base.prefix().trim_end_matches('/') == prefix) {
        return Err(Reason::EmptyKey);
    }
    let host = vendor::read(authority).filter(|host| !host.is_website).ok_or(Reason::NotOwned)?;
    let (bucket, rest) = host.split(path).ok_or(Reason::NotOwned)?;
    let sites = namespace.backends_with(bucket).filter_map(|backend| vendor::read(backend.endpoint.host()));
    let sites: Vec<Site> = sites.map(|own| own.site).collect();
    if !sites.contains(&host.site) && sites.iter().any(|site| site.is_beside(&host.site)) {
        return Err(Reason::AmbiguousUrl);
    }
    let is_there = |backend: &&Backend| vendor::read(backend.endpoint.host()).is_some_and(|own| own.site == host.site);
    let backends = namespace.backends_with(bucket).filter(is_there);
    let backend = super::the_one(backends, namespace, default_backend)?;
    let rest = &path[path.len() - rest.len()..];
    Ok(Place { backend, bucket: bucket.to_owned(), key_prefix: "", rest, is_api: host.is_api(path) })
}

/// What URL parsers drop, turn or cut: readers of the URL may have meant another object.
fn is_ambiguous(tail: &str) -> bool {
    tail.contains(|letter: char| letter.is_control() || letter == '\\' || letter == '#') || tail.ends_with(' ')
}

/// The locator without what its query lends to its reader: a signed URL is a credential, and would lie in the queue and in
/// history. What else is in the query stays.
pub fn without_signature(raw: &str) -> Cow<'_, str> {
    // Of a statement's million locators, most end here.
    if !raw.as_bytes().contains(&b'?') {
        return Cow::Borrowed(raw);
    }
    let is_url = raw.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("http"));
    let Some((place, query)) = raw.split_once('?').filter(|_| is_url) else { return Cow::Borrowed(raw) };
    let (query, fragment) = query.split_at(query.find('#').unwrap_or(query.len()));
    if !query.split('&').any(is_dropped) {
        return Cow::Borrowed(raw);
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_dropped(pair)).collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    Cow::Owned(format!("{place}{mark}{}{fragment}", kept.join("&")))
}

fn is_dropped(query: &str) -> bool {
    query.split('&').all(|pair| {
        let name = pair.split('=').next().unwrap_or_default().to_ascii_lowercase();
        DROPPED.contains(&name.as_str()) || DROPPED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Decodes percent escapes once.
fn decode(text: &str) -> Result<String, Reason> {
    let bytes = text.as_bytes();
    let is_whole =
        |place: usize| bytes.get(place + 1..place + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if bytes.iter().enumerate().any(|(place, byte)| *byte == b'%' && !is_whole(place)) {
        return Err(Reason::BadEscape);
    }
    percent_decode_str(text).decode_utf8().map(|key| key.into_owned()).map_err(|_| Reason::BadEscape)
}
