//! What is declared, and, written by hand beside it, where that may lead.

use unicode_normalization::UnicodeNormalization;

use crate::domain::backend::{Addressing, Backend, BackendId, Kind};
use crate::domain::credentials::CredentialName;
use crate::domain::endpoint::Endpoint;
use crate::domain::location::{Location, UrlBase};
use crate::domain::object::Object;
use crate::domain::resolve::Namespace;

/// A set of declarations that texts are read against.
pub struct Ground {
    pub name: &'static str,
    pub namespace: Namespace,
    pub stores: Vec<Store>,
    /// Declared and implied ones.
    pub bases: Vec<Base>,
}

/// A backend.
pub struct Store {
    pub backend: Backend,
    /// The buckets that requests may be for, its own first.
    pub reaches: &'static [Reach],
    /// Ends of hosts, with a dot in front, that serve its bucket beside its own.
    pub hosts: &'static [&'static str],
}

/// A bucket, what requests for it begin with, and what keys in it begin with.
pub struct Reach {
    pub bucket: &'static str,
    pub url: &'static str,
    pub key_prefix: &'static str,
}

/// What URLs of some objects begin with, after the scheme.
pub struct Base {
    pub url: &'static str,
    pub backend: BackendId,
    pub bucket: &'static str,
    pub key_prefix: &'static str,
}

impl Store {
    pub fn reach(&self, bucket: &str) -> Option<&'static Reach> {
        self.reaches.iter().find(|reach| reach.bucket == bucket)
    }

    /// The key as the store keeps it.
    pub fn canonical(&self, key: &str) -> String {
        if self.backend.kind == Kind::R2 { key.nfc().collect() } else { key.to_owned() }
    }
}

impl Ground {
    pub fn store(&self, id: BackendId) -> &Store {
        self.stores.iter().find(|store| store.backend.id == id).expect("ids are of this ground")
    }

    /// Whether requests for both would be the same: two backends may be declared for one store.
    pub fn are_one(&self, a: &Object, b: &Object) -> bool {
        let place = |object: &Object| {
            (self.store(object.backend).reach(&object.bucket).map(|reach| reach.url), object.key.clone())
        };
        place(a) == place(b)
    }

    /// Texts that name the object, if any does: as a store's address, and as the store's own URL.
    pub fn renderings(&self, object: &Object) -> Vec<String> {
        let key = &object.key;
        let reach = self.store(object.backend).reach(&object.bucket).expect("objects are within reach").url;
        let mut texts = vec![format!("s3://{}/{key}", object.bucket)];
        // No URL names a key with such a segment: those who read it may drop the segment.
        let drops = |letter: char| letter.is_whitespace() || letter.is_control();
        if !key.split('/').map(|segment| segment.trim_matches(drops)).any(|segment| segment == "." || segment == "..") {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
            let daring = |byte: u8| byte.is_ascii_graphic() && !b"%?#\\+".contains(&byte);
            texts.push(format!("{reach}{}", escaped(key, plain)));
            texts.push(format!("{reach}{}", escaped(key, daring)));
        }
        texts
    }
}

/// Percent-escapes all bytes but those that may stay.
fn escaped(key: &str, stays: impl Fn(u8) -> bool) -> String {
    let escape = |byte: u8| if stays(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    key.bytes().map(escape).collect()
}

const fn reach(bucket: &'static str, url: &'static str) -> Reach {
    Reach { bucket, url, key_prefix: "" }
}

const PATH: Addressing = Addressing::Path;
const VIRTUAL: Addressing = Addressing::Virtual;

/// Every kind of declaration: addressing, ports, paths, prefixes, buckets of locations, vendors, twins.
pub fn all() -> Vec<Ground> {
    vec![paths(), hosts(), vendors(), twins()]
}

fn paths() -> Ground {
    const MEDIA: &[Reach] = &[
        reach("media", "https://s3.example.com:9000/storage/v1/media/"),
        Reach { bucket: "thumbs", url: "https://s3.example.com:9000/storage/v1/thumbs/", key_prefix: "small/" },
    ];
    const DOCS: &[Reach] = &[reach("docs", "http://127.0.0.1:9100/docs/")];
    let stores = vec![
        store(1, Kind::Generic, "https://s3.example.com:9000/storage/v1", PATH, MEDIA, &[]),
        store(2, Kind::Minio, "http://127.0.0.1:9100", PATH, DOCS, &[]),
    ];
    let declared = [
        base("cdn.example.com/", 1, "media", ""),
        base("cdn.example.com/pub/", 1, "media", "public/"),
        base("cdn.example.com/t/", 1, "thumbs", "small/"),
        base("files.example.test/s3/docs/", 2, "docs", "d/"),
    ];
    let implied = [
        base("s3.example.com:9000/storage/v1/media/", 1, "media", ""),
        base("media.s3.example.com:9000/storage/v1/", 1, "media", ""),
        base("s3.example.com:9000/storage/v1/thumbs/", 1, "thumbs", ""),
        base("thumbs.s3.example.com:9000/storage/v1/", 1, "thumbs", ""),
        base("127.0.0.1:9100/docs/", 2, "docs", ""),
    ];
    ground("paths", stores, declared, implied)
}

fn hosts() -> Ground {
    const AWS: &[Reach] = &[reach("media", "https://media.s3.eu-west-1.amazonaws.com/")];
    const DOTTED: &[Reach] = &[reach("dotted.media", "http://dotted.media.h.example.test:8080/base/")];
    let stores = vec![
        store(1, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", VIRTUAL, AWS, &[".amazonaws.com"]),
        store(2, Kind::Ceph, "http://h.example.test:8080/base", VIRTUAL, DOTTED, &[]),
    ];
    let declared = [base("cdn.example.com/", 2, "dotted.media", "x/y/")];
    let implied = [
        base("s3.eu-west-1.amazonaws.com/media/", 1, "media", ""),
        base("media.s3.eu-west-1.amazonaws.com/", 1, "media", ""),
        base("h.example.test:8080/base/dotted.media/", 2, "dotted.media", ""),
        base("dotted.media.h.example.test:8080/base/", 2, "dotted.media", ""),
    ];
    ground("hosts", stores, declared, implied)
}

fn vendors() -> Ground {
    const R2: &[Reach] = &[reach("media", "https://acct.r2.cloudflarestorage.com/media/")];
    const B2: &[Reach] = &[reach("media", "https://media.s3.us-west-004.backblazeb2.com/")];
    const GCS: &[Reach] = &[reach("gmedia", "https://storage.googleapis.com/gmedia/")];
    const R2_HOSTS: &[&str] = &[
        ".acct.r2.cloudflarestorage.com",
        ".acct.eu.r2.cloudflarestorage.com",
        ".acct.fedramp.r2.cloudflarestorage.com",
    ];
    const GCS_HOSTS: &[&str] =
        &[".storage.googleapis.com", ".storage.cloud.google.com", ".commondatastorage.googleapis.com"];
    let stores = vec![
        store(1, Kind::R2, "https://acct.r2.cloudflarestorage.com", PATH, R2, R2_HOSTS),
        store(2, Kind::B2, "https://s3.us-west-004.backblazeb2.com", VIRTUAL, B2, &[".backblazeb2.com"]),
        store(3, Kind::Gcs, "https://storage.googleapis.com", PATH, GCS, GCS_HOSTS),
    ];
    let declared =
        [base("cdn.example.com/", 1, "media", "cafe\u{301}/"), base("cdn.example.com/pub/", 3, "gmedia", "public/")];
    let implied = [
        base("acct.r2.cloudflarestorage.com/media/", 1, "media", ""),
        base("media.acct.r2.cloudflarestorage.com/", 1, "media", ""),
        base("s3.us-west-004.backblazeb2.com/media/", 2, "media", ""),
        base("media.s3.us-west-004.backblazeb2.com/", 2, "media", ""),
        base("storage.googleapis.com/gmedia/", 3, "gmedia", ""),
        base("gmedia.storage.googleapis.com/", 3, "gmedia", ""),
    ];
    ground("vendors", stores, declared, implied)
}

fn twins() -> Ground {
    const V6: &[Reach] = &[reach("media", "http://[::1]:9000/media/")];
    let stores = vec![
        store(1, Kind::Generic, "http://[::1]:9000", PATH, V6, &[]),
        store(2, Kind::Generic, "http://[::1]:9000/", PATH, V6, &[]),
    ];
    let declared = [base("cdn.example.com/", 2, "media", "")];
    let implied = [1, 2].map(|id| base("[::1]:9000/media/", id, "media", ""));
    ground("twins", stores, declared, implied)
}

fn store(
    id: i32,
    kind: Kind,
    endpoint: &str,
    addressing: Addressing,
    reaches: &'static [Reach],
    hosts: &'static [&'static str],
) -> Store {
    let backend = Backend {
        id: BackendId(id),
        name: format!("b{id}"),
        kind,
        endpoint: Endpoint::parse(endpoint).expect("a sound endpoint"),
        region: "us-east-1".to_owned(),
        bucket: reaches[0].bucket.to_owned(),
        addressing,
        credentials: CredentialName::Environment,
        verify: crate::domain::verify::Verify::None,
        versions: crate::domain::versions::Versions::Current,
        batch_size: None,
        rate_limit: None,
        takes_batches: None,
        keeps_versions: None,
    };
    Store { backend, reaches, hosts }
}

fn base(url: &'static str, backend: i32, bucket: &'static str, key_prefix: &'static str) -> Base {
    Base { url, backend: BackendId(backend), bucket, key_prefix }
}

fn ground<const D: usize, const I: usize>(
    name: &'static str,
    stores: Vec<Store>,
    declared: [Base; D],
    implied: [Base; I],
) -> Ground {
    let location = |base: &Base| Location {
        base: UrlBase::parse(&format!("https://{}", base.url)).expect("a sound base"),
        backend: base.backend,
        bucket: base.bucket.to_owned(),
        key_prefix: base.key_prefix.to_owned(),
    };
    let namespace = Namespace::new(
        stores.iter().map(|store| store.backend.clone()).collect(),
        declared.iter().map(location).collect(),
    );
    Ground { name, namespace, stores, bases: declared.into_iter().chain(implied).collect() }
}
