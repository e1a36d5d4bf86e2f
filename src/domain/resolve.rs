//! Locator → object, and object → every spelling that a row may hold.
//!
//! The raw text is split by hand: the usual URL parser drops tabs, turns backslashes, collapses dot segments and cuts
//! at an unescaped `?`, each of which names a different object. What could mean two things is not guessed.

mod forms;
#[cfg(test)]
mod tests;
mod url;

use std::borrow::Cow;

use super::backend::{Addressing, Backend, BackendId, Kind};
use super::fold;
use super::location::{Location, UrlBase};
use super::object::{LONGEST_KEY, Object, is_slashes};
use super::outcome::Reason;
use super::vendor;

pub use forms::{Prints, keys_may_mean, may_name, prints, url_under};
pub use url::without_signature;

/// Everything that a locator can name: the backends, and the locations that are declared or follow from them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    backends: Vec<Backend>,
    /// Buckets beside their backend's own that locations lead to, and the part of each that is declared.
    shares: Vec<Share>,
    /// Longest prefix first, so that the first match is the most specific; a declared one before an implied one.
    locations: Vec<Location>,
}

/// A part of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Share {
    backend: BackendId,
    bucket: String,
    key_prefix: String,
}

impl Namespace {
    /// Adds the addresses of each backend's own bucket, and of those that locations lead to, to the declared ones.
    pub fn new(backends: Vec<Backend>, declared: Vec<Location>) -> Self {
        let backend = |id| backends.iter().find(|backend: &&Backend| backend.id == id);
        let shares: Vec<Share> = declared
            .iter()
            .filter_map(|location| Some((location, backend(location.backend)?)))
            .filter(|(location, backend)| location.bucket != backend.bucket)
            .map(|(location, backend)| Share {
                backend: backend.id,
                bucket: location.bucket.clone(),
                key_prefix: backend.kind.canonical_key(&location.key_prefix).into_owned(),
            })
            .collect();
        let mut buckets: Vec<(BackendId, String)> =
            backends.iter().map(|backend| (backend.id, backend.bucket.clone())).collect();
        buckets.extend(shares.iter().map(|share| (share.backend, share.bucket.clone())));
        buckets.sort();
        buckets.dedup();
        let own = buckets.iter().filter_map(|(id, bucket)| Some(implied(backend(*id)?, bucket)));
        let own: Vec<Location> = own.flatten().collect();
        let mut locations = declared;
        locations.extend(own);
        locations.sort_by_key(|location| std::cmp::Reverse(location.base.prefix().len()));
        Self { backends, shares, locations }
    }

    /// Backends that have the bucket, as their own or by a location.
    fn backends_with<'a, 'b>(&'a self, bucket: &'b str) -> impl Iterator<Item = &'a Backend> + use<'a, 'b> {
        self.backends.iter().filter(move |backend| {
            backend.bucket == bucket
                || self.shares.iter().any(|share| share.backend == backend.id && share.bucket == bucket)
        })
    }

    /// Whether a key is in the backend's own bucket, or in a declared part of another one.
    fn has(&self, backend: &Backend, bucket: &str, key: &str) -> bool {
        backend.bucket == bucket
            || self.shares.iter().any(|share| {
                share.backend == backend.id && share.bucket == bucket && is_within(backend, key, &share.key_prefix)
            })
    }

    /// A backend by id.
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.backends.iter().find(|backend| backend.id == id)
    }

    /// All backends.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// The hosts, with ports, of all locations; large stores have further ones.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.locations.iter().map(|location| location.base.authority_and_path().0)
    }

    /// Whether two objects are one, or may be: two backends may have the same bucket, with other credentials, and their store
    /// may take two keys for one path.
    pub fn are_same(&self, a: &Object, b: &Object) -> bool {
        let keep_files = || self.may_keep_files(a.backend) || self.may_keep_files(b.backend);
        a.bucket == b.bucket
            && self.share_a_store(a.backend, b.backend)
            && (self.canonical_key(a.backend, &a.key) == self.canonical_key(a.backend, &b.key)
                || keep_files() && fold::path(&a.key) == fold::path(&b.key))
    }

    fn may_keep_files(&self, backend: BackendId) -> bool {
        self.backend(backend).is_some_and(|backend| backend.kind.profile().may_keep_files)
    }

    fn canonical_key<'a>(&self, backend: BackendId, key: &'a str) -> Cow<'a, str> {
        self.backend(backend).map_or(Cow::Borrowed(key), |backend| backend.kind.canonical_key(key))
    }

    fn share_a_store(&self, a: BackendId, b: BackendId) -> bool {
        let store = |id| {
            self.backend(id).map(|backend: &Backend| (backend.endpoint.authority(), backend.endpoint.path().to_owned()))
        };
        a == b || store(a).is_some_and(|a| store(b) == Some(a)) || {
            let site = |id| self.backend(id).and_then(|backend| vendor::read(backend.endpoint.host()));
            site(a).is_some_and(|a| site(b).is_some_and(|b| a.site == b.site))
        }
    }

    fn locations_of<'a>(&'a self, object: &'a Object) -> impl Iterator<Item = &'a Location> {
        self.locations
            .iter()
            .filter(|location| location.bucket == object.bucket && self.share_a_store(location.backend, object.backend))
    }
}

/// Whether a key is below a prefix as it is written and, where the store may take steps in it, where it leads.
fn is_within(backend: &Backend, key: &str, prefix: &str) -> bool {
    let leads_there = || {
        let (key, prefix) = (fold::path(key), fold::path(prefix));
        prefix.is_empty() || key.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with('/'))
    };
    key.starts_with(prefix) && (!backend.kind.profile().may_keep_files || leads_there())
}

/// Each addressing style that the endpoint can have, whichever the requests use: rows may hold any.
fn implied(backend: &Backend, bucket: &str) -> Vec<Location> {
    let endpoint = &backend.endpoint;
    let styles = [Addressing::Path, Addressing::Virtual];
    let is_possible = |style: &Addressing| *style == Addressing::Path || !endpoint.is_ip_address();
    let location = |addressing| {
        let base = match addressing {
            Addressing::Path => UrlBase::new(
                endpoint.scheme().as_str(),
                &endpoint.authority(),
                &format!("{}/{bucket}", endpoint.path()),
            ),
            Addressing::Virtual => {
                UrlBase::new(endpoint.scheme().as_str(), &format!("{bucket}.{}", endpoint.authority()), endpoint.path())
            }
        };
        Location { base, backend: backend.id, bucket: bucket.to_owned(), key_prefix: String::new() }
    };
    styles.into_iter().filter(is_possible).map(location).collect()
}

/// Schemes without `//` that columns for links hold, and that never name an object.
const FOREIGN_SCHEMES: [&str; 6] = ["data:", "blob:", "mailto:", "file:", "javascript:", "about:"];

/// Which object a raw locator names. A text without a scheme is a key of `default_backend`, byte for byte.
pub fn resolve(raw: &str, namespace: &Namespace, default_backend: Option<BackendId>) -> Result<Object, Reason> {
    if raw.trim().is_empty() {
        return Err(Reason::EmptyKey);
    }
    match scheme(raw) {
        Some(("s3", rest)) => bucket_and_key(rest, |_| true, namespace, default_backend),
        Some(("gs", rest)) => bucket_and_key(rest, Kind::may_be_googles, namespace, default_backend),
        Some((scheme @ ("http" | "https"), rest)) => url::resolve(scheme, rest, namespace, default_backend),
        Some(_) => Err(Reason::NotOwned),
        None if is_foreign(raw) => Err(Reason::NotOwned),
        None if is_hidden_url(raw) => Err(Reason::AmbiguousUrl),
        None => {
            let backend = default_backend.and_then(|id| namespace.backend(id)).ok_or(Reason::NoBackend)?;
            object(namespace, backend, &backend.bucket, raw.to_owned())
        }
    }
}

/// Splits `scheme://rest`; the scheme comes back in lower case for the ones that matter.
fn scheme(raw: &str) -> Option<(&'static str, &str)> {
    let (scheme, rest) = raw.split_once("://")?;
    let starts_well = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
    if !starts_well || !scheme.bytes().all(is_scheme) {
        return None;
    }
    let known = ["s3", "gs", "http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known));
    Some((known.unwrap_or("other"), rest))
}

fn is_foreign(raw: &str) -> bool {
    FOREIGN_SCHEMES.iter().any(|scheme| raw.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)))
}

/// A URL behind blanks, or one that leaves its scheme to the page it stands on.
fn is_hidden_url(raw: &str) -> bool {
    raw.starts_with("//") || scheme(raw.trim_start()).is_some()
}

/// `bucket/key`, not encoded, at a store of one of the kinds.
fn bucket_and_key(
    rest: &str,
    is_meant: fn(Kind) -> bool,
    namespace: &Namespace,
    default_backend: Option<BackendId>,
) -> Result<Object, Reason> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let owners = namespace.backends_with(bucket).filter(|backend| is_meant(backend.kind));
    let owner = the_one(owners, namespace, default_backend)?;
    if key.is_empty() {
        return Err(Reason::EmptyKey);
    }
    object(namespace, owner, bucket, key.to_owned())
}

/// The backend that is meant: the source's own, or the only store among them. With buckets of one name at two stores,
/// nothing says which.
fn the_one<'a>(
    owners: impl Iterator<Item = &'a Backend>,
    namespace: &Namespace,
    default_backend: Option<BackendId>,
) -> Result<&'a Backend, Reason> {
    let owners: Vec<_> = owners.collect();
    let first = owners.first().ok_or(Reason::NotOwned)?;
    if let Some(default) = owners.iter().find(|owner| Some(owner.id) == default_backend) {
        return Ok(default);
    }
    let is_one_store = owners.iter().all(|owner| namespace.share_a_store(owner.id, first.id));
    if is_one_store { Ok(first) } else { Err(Reason::AmbiguousUrl) }
}

/// The object in the form that its store compares.
fn object(namespace: &Namespace, backend: &Backend, bucket: &str, key: String) -> Result<Object, Reason> {
    let key = backend.kind.canonical_key(&key).into_owned();
    if is_slashes(&key) {
        return Err(Reason::EmptyKey);
    }
    if key.len() > LONGEST_KEY {
        return Err(Reason::KeyTooLong);
    }
    if backend.kind.profile().may_keep_files && fold::leads_out(&key) {
        // The store may take it for an object of another bucket.
        return Err(Reason::UnaddressableKey);
    }
    if backend.kind.profile().may_keep_files && fold::is_place(&fold::path(&key)) {
        // `http:/h/../x` is another file than the URL that it looks like: no index finds the rows that name it so.
        return Err(Reason::AmbiguousUrl);
    }
    if !namespace.has(backend, bucket, &key) {
        return Err(Reason::NotOwned);
    }
    Ok(Object { backend: backend.id, bucket: bucket.to_owned(), key })
}
