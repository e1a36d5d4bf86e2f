//! Addresses and bodies of requests, and a second look at them before they leave.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quick_xml::escape::escape;
use reqwest::{Method, Url};
use rusty_s3::{Bucket, UrlStyle};

use crate::domain::backend::{Addressing, Backend};
use crate::domain::batch::{Request, Target};
use crate::domain::object::is_slashes;
use crate::domain::probe::absent_key;
use crate::domain::versions::Mark;

use super::fault::{Fault, FaultKind};

/// The header with the SHA-256 of the body, which is part of what is signed.
pub const DIGEST: &str = "x-amz-content-sha256";
/// What signatures leave as it is in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request that is ready to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsigned {
    pub method: Method,
    pub url: Url,
    pub body: String,
    /// Most stores refuse DeleteObjects without it.
    pub content_md5: Option<String>,
    /// On which version of the object it depends.
    pub condition: Option<Condition>,
}

/// A condition on the object's version, by its ETag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Delete this version only.
    Is(String),
    /// Send it only if it is another one.
    IsNot(String),
}

/// Builds a request and checks that its address is what was meant.
pub fn build(backend: &Backend, request: &Request) -> Result<Unsigned, Fault> {
    let bucket = request.bucket();
    let place = place(backend, bucket)?;
    let base = base_path(backend, bucket);
    match request {
        Request::Single { key, .. } => {
            let url = place.object_url(&key.key);
            check(backend, bucket, &url, &format!("{base}{}", key.key)).map_err(refuse)?;
            if is_slashes(&key.key) {
                return Err(refuse("the key is empty"));
            }
            Ok(Unsigned { method: Method::DELETE, url, body: String::new(), content_md5: None, condition: None })
        }
        Request::Batch { keys, .. } => {
            let mut url = place.base_url().clone();
            check(backend, bucket, &url, &base).map_err(refuse)?;
            if keys.is_empty() || keys.iter().any(|target| is_slashes(&target.key)) {
                return Err(refuse("a key is empty"));
            }
            if keys.iter().any(|target| target.key.contains(is_lost_in_xml)) {
                return Err(refuse("a key cannot be written in a batch"));
            }
            url.set_query(Some("delete="));
            let body = body(keys);
            let content_md5 = Some(STANDARD.encode(Md5::digest(body.as_bytes())));
            Ok(Unsigned { method: Method::POST, url, body, content_md5, condition: None })
        }
    }
}

fn place(backend: &Backend, bucket: &str) -> Result<Bucket, Fault> {
    let endpoint = Url::parse(backend.endpoint.as_str()).map_err(|_| refuse("the endpoint is no URL"))?;
    let style = match backend.addressing {
        Addressing::Path => UrlStyle::Path,
        Addressing::Virtual => UrlStyle::VirtualHost,
    };
    Bucket::new(endpoint, style, bucket.to_owned(), backend.region.clone())
        .map_err(|_| refuse("the bucket cannot be addressed"))
}

fn refuse(what: &str) -> Fault {
    Fault::refusal(FaultKind::Malformed, format!("the request was not sent: {what}"))
}

/// What a bucket lists of a key beside the object itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Versions,
    Uploads,
}

impl Kept {
    /// The name of the listing, of what one line is deleted by, and of where a page begins.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Versions => ("versions", "versionId", "version-id-marker"),
            Self::Uploads => ("uploads", "uploadId", "upload-id-marker"),
        }
    }
}

/// Lists what is kept under keys that begin with `key`, from a place on.
pub fn list(backend: &Backend, bucket: &str, key: &str, kept: Kept, from: Option<&Mark>) -> Result<Unsigned, Fault> {
    let mut url = place(backend, bucket)?.base_url().clone();
    check(backend, bucket, &url, &base_path(backend, bucket)).map_err(refuse)?;
    let (listing, _, id_marker) = kept.names();
    let text = |text: &'_ str| utf8_percent_encode(text, QUERY).to_string();
    // Sorted by name, as the signature wants it.
    let mut query = vec!["encoding-type=url".to_owned(), format!("prefix={}", text(key)), format!("{listing}=")];
    if let Some(Mark { key, id }) = from {
        query.extend([format!("key-marker={}", text(key)), format!("{id_marker}={}", text(id))]);
        query.sort_unstable();
    }
    url.set_query(Some(&query.join("&")));
    Ok(Unsigned { method: Method::GET, url, body: String::new(), content_md5: None, condition: None })
}

/// Lists the objects whose keys begin with a prefix, from a place on.
pub fn list_below(backend: &Backend, bucket: &str, prefix: &str, from: Option<&str>) -> Result<Unsigned, Fault> {
    let mut url = place(backend, bucket)?.base_url().clone();
    check(backend, bucket, &url, &base_path(backend, bucket)).map_err(refuse)?;
    if !prefix.ends_with('/') || is_slashes(prefix) {
        return Err(refuse("the prefix is none"));
    }
    let text = |text: &'_ str| utf8_percent_encode(text, QUERY).to_string();
    // Sorted by name, as the signature wants it.
    let from = from.map(|from| format!("continuation-token={}", text(from)));
    let listing = ["encoding-type=url".to_owned(), "list-type=2".to_owned(), format!("prefix={}", text(prefix))];
    let query: Vec<String> = from.into_iter().chain(listing).collect();
    url.set_query(Some(&query.join("&")));
    Ok(Unsigned { method: Method::GET, url, body: String::new(), content_md5: None, condition: None })
}

/// The same request about one version or upload of the object: it is the one that is meant, and no store takes a condition
/// beside it.
pub fn about(unsigned: &Unsigned, kept: Kept, id: &str) -> Unsigned {
    let mut unsigned = Unsigned { condition: None, ..unsigned.clone() };
    unsigned.url.set_query(Some(&format!("{}={}", kept.names().1, utf8_percent_encode(id, QUERY))));
    unsigned
}

/// A question about what the request would delete, whatever version that is.
pub fn head(unsigned: &Unsigned) -> Unsigned {
    Unsigned { method: Method::HEAD, condition: None, ..unsigned.clone() }
}

/// Deletes a key that cannot be there, next to the object's: it changes nothing.
pub fn probe(
    backend: &Backend,
    request: &Request,
    chance: u128,
    condition: Option<Condition>,
) -> Result<Unsigned, Fault> {
    let Some(Target { key, .. }) = request.targets().first() else {
        return Err(Fault::refusal(FaultKind::Malformed, "the request names no key"));
    };
    // The right to delete may end at a prefix.
    let folder = key.rfind('/').map_or("", |slash| &key[..=slash]);
    let key = Target { key: absent_key(folder, chance), objects: Vec::new() };
    let single = Request::Single { backend: backend.id, bucket: request.bucket().to_owned(), key };
    Ok(Unsigned { condition, ..build(backend, &single)? })
}

/// Asks whether the backend's bucket keeps versions.
pub fn versioning(backend: &Backend) -> Result<Unsigned, Fault> {
    let mut url = place(backend, &backend.bucket)?.base_url().clone();
    check(backend, &backend.bucket, &url, &base_path(backend, &backend.bucket)).map_err(refuse)?;
    url.set_query(Some("versioning="));
    Ok(Unsigned { method: Method::GET, url, body: String::new(), content_md5: None, condition: None })
}

/// Asks for an object; only for another version than the one of that ETag, if there is one.
pub fn get(backend: &Backend, bucket: &str, key: &str, etag: Option<String>) -> Result<Unsigned, Fault> {
    let key = Target { key: key.to_owned(), objects: Vec::new() };
    let unsigned = build(backend, &Request::Single { backend: backend.id, bucket: bucket.to_owned(), key })?;
    Ok(Unsigned { method: Method::GET, condition: etag.map(Condition::IsNot), ..unsigned })
}

/// What stands before the key, decoded.
fn base_path(backend: &Backend, bucket: &str) -> String {
    match backend.addressing {
        Addressing::Path => format!("{}/{bucket}/", backend.endpoint.path()),
        Addressing::Virtual => format!("{}/", backend.endpoint.path()),
    }
}

/// The address must decode to exactly the path that was meant, at exactly the host that was declared: a URL library
/// that joins, collapses or drops anything would reach another object.
fn check(backend: &Backend, bucket: &str, url: &Url, path: &str) -> Result<(), &'static str> {
    let host = match backend.addressing {
        Addressing::Path => Cow::Borrowed(backend.endpoint.host()),
        Addressing::Virtual => Cow::Owned(format!("{bucket}.{}", backend.endpoint.host())),
    };
    if url.host_str() != Some(&host) || url.port() != backend.endpoint.port() {
        return Err("its address would be another host");
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err("its address has more than a path");
    }
    if percent_decode_str(url.path()).collect::<Vec<u8>>() != path.as_bytes() {
        return Err("its address would be another path");
    }
    Ok(())
}

/// What XML cannot carry, or gives back as something else: a carriage return becomes a line feed.
fn is_lost_in_xml(letter: char) -> bool {
    letter < ' ' && !"\t\n".contains(letter) || matches!(letter, '\u{FFFE}' | '\u{FFFF}')
}

/// The body of DeleteObjects. With the namespace, which strict stores want; never quiet, since only a key that the
/// answer names is done.
fn body(keys: &[Target]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    );
    for target in keys {
        xml.push_str("<Object><Key>");
        xml.push_str(&escape(target.key.as_str()));
        xml.push_str("</Key></Object>");
    }
    xml.push_str("<Quiet>false</Quiet></Delete>");
    xml
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::backend::{BackendId, Kind};
    use crate::domain::credentials::CredentialName;
    use crate::domain::endpoint::Endpoint;

    fn backend(addressing: Addressing) -> Backend {
        Backend {
            id: BackendId(1),
            name: "media".into(),
            kind: Kind::Generic,
            endpoint: Endpoint::parse("https://h.example.com:9000/base").unwrap(),
            region: "us-east-1".into(),
            bucket: "media".into(),
            addressing,
            credentials: CredentialName::Environment,
            verify: crate::domain::verify::Verify::None,
            versions: crate::domain::versions::Versions::Current,
            batch_size: None,
            rate_limit: None,
            takes_batches: None,
            keeps_versions: None,
        }
    }

    fn single(key: &str) -> Request {
        Request::Single {
            backend: BackendId(1),
            bucket: "media".into(),
            key: Target { key: key.into(), objects: vec![0] },
        }
    }

    #[test]
    fn a_key_that_would_leave_the_bucket_is_never_sent() {
        for key in ["", "/", "//", ".", "..", "../other/x", "a/../b", "a/./b", "x/.."] {
            assert!(build(&backend(Addressing::Path), &single(key)).is_err(), "{key}");
        }
        for key in ["/foo", "..backup", "a//b", "scan?1.dcm", "a#b", "a%b", "100%25.png", "p/\u{10}x", "Д", "a b+c"] {
            assert!(build(&backend(Addressing::Path), &single(key)).is_ok(), "{key}");
            assert!(build(&backend(Addressing::Virtual), &single(key)).is_ok(), "{key}");
        }
    }

    #[test]
    fn a_batch_names_every_key_once_escaped() {
        let keys = ["a<b", "a&amp;b", "]]>", "q\"q"].map(|key| Target { key: key.into(), objects: vec![0] }).to_vec();
        let request = Request::Batch { backend: BackendId(1), bucket: "media".into(), keys };
        let unsigned = build(&backend(Addressing::Path), &request).unwrap();
        assert_eq!(unsigned.url.as_str(), "https://h.example.com:9000/base/media/?delete=");
        assert!(unsigned.body.contains("<Key>a&lt;b</Key>") && unsigned.body.contains("<Key>a&amp;amp;b</Key>"));
        assert!(unsigned.content_md5.is_some());
    }

    #[test]
    fn a_batch_carries_a_key_that_comes_out_as_another() {
        for key in ["a\rb", "a\u{1}b", "\0", "a\u{1f}", "n\u{fffe}", "n\u{ffff}", "", "/", "//"] {
            let keys = ["fine", key].map(|key| Target { key: key.into(), objects: vec![0] }).to_vec();
            let request = Request::Batch { backend: BackendId(1), bucket: "media".into(), keys };
            assert!(build(&backend(Addressing::Path), &request).is_err(), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn every_address_decodes_to_its_key(key in any::<String>()) {
            if let Ok(unsigned) = build(&backend(Addressing::Path), &single(&key)) {
                let path: Vec<u8> = percent_decode_str(unsigned.url.path()).collect();
                prop_assert_eq!(path, format!("/base/media/{key}").into_bytes());
                prop_assert!(!key.is_empty());
            }
        }
    }
}
