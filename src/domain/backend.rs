//! A backend: one endpoint and bucket, with how to address and sign its requests.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use unicode_normalization::UnicodeNormalization;

use super::credentials::CredentialName;
use super::endpoint::{Endpoint, Scheme};
use super::verify::Verify;
use super::versions::Versions;

/// Identifies a backend within its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub i32);

/// The kind of store behind a backend: its abilities and its quirks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Amazon S3.
    Aws,
    /// Cloudflare R2.
    R2,
    /// Backblaze B2.
    B2,
    /// Google Cloud Storage by its XML API.
    Gcs,
    /// MinIO and its descendants.
    Minio,
    /// Ceph's RADOS gateway.
    Ceph,
    /// SeaweedFS.
    SeaweedFs,
    /// Garage.
    Garage,
    /// Wasabi.
    Wasabi,
    /// DigitalOcean Spaces.
    Spaces,
    /// Any other store that speaks S3.
    Generic,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Aws,
        Kind::R2,
        Kind::B2,
        Kind::Gcs,
        Kind::Minio,
        Kind::Ceph,
        Kind::SeaweedFs,
        Kind::Garage,
        Kind::Wasabi,
        Kind::Spaces,
        Kind::Generic,
    ];

    /// The name that SQL uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Aws => "aws",
            Kind::R2 => "r2",
            Kind::B2 => "b2",
            Kind::Gcs => "gcs",
            Kind::Minio => "minio",
            Kind::Ceph => "ceph",
            Kind::SeaweedFs => "seaweedfs",
            Kind::Garage => "garage",
            Kind::Wasabi => "wasabi",
            Kind::Spaces => "spaces",
            Kind::Generic => "generic",
        }
    }

    /// Whether one request may name many keys: Google's XML API knows no DeleteObjects.
    pub const fn deletes_batches(self) -> bool {
        !matches!(self, Kind::Gcs)
    }

    /// The spelling under which the store keeps a key.
    ///
    /// R2 normalises keys to NFC, so that two spellings are one object there; everybody else
    /// compares bytes.
    pub fn canonical_key(self, key: &str) -> Cow<'_, str> {
        if self == Kind::R2 && !key.is_ascii() { Cow::Owned(key.nfc().collect()) } else { Cow::Borrowed(key) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A kind of store that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown kind of backend; known are aws, r2, b2, gcs, minio, ceph, seaweedfs, garage, wasabi, spaces and generic"
)]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Kind, UnknownKind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownKind)
    }
}

/// Where a request names the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addressing {
    /// `https://endpoint/bucket/key`
    Path,
    /// `https://bucket.endpoint/key`
    Virtual,
}

impl Addressing {
    /// The name that SQL uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Addressing::Path => "path",
            Addressing::Virtual => "virtual",
        }
    }

    /// What `auto` means for this endpoint and bucket.
    ///
    /// A wildcard certificate covers one label, so a dotted bucket under https only works by path.
    pub fn choose(kind: Kind, endpoint: &Endpoint, bucket: &str) -> Addressing {
        let possible = Addressing::Virtual.check(endpoint, bucket).is_ok();
        if kind == Kind::Aws && possible { Addressing::Virtual } else { Addressing::Path }
    }

    /// Refuses a style that cannot work with this endpoint and bucket.
    pub fn check(self, endpoint: &Endpoint, bucket: &str) -> Result<(), AddressingError> {
        if self == Addressing::Path {
            return Ok(());
        }
        if endpoint.is_ip_address() {
            return Err(AddressingError::IpAddress);
        }
        if endpoint.scheme() == Scheme::Https && bucket.contains('.') {
            return Err(AddressingError::DottedBucket);
        }
        Ok(())
    }
}

/// Why an addressing style was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressingError {
    /// Not the name of a style.
    #[error("unknown addressing style; use 'path', 'virtual' or 'auto'")]
    Unknown,
    /// TLS would fail for every request.
    #[error(
        "a bucket with dots in its name cannot be addressed as a host over https, since no wildcard certificate covers it; use addressing 'path'"
    )]
    DottedBucket,
    /// An IP address has no sub-domains.
    #[error("an endpoint that is an IP address has no virtual hosts; use addressing 'path'")]
    IpAddress,
}

impl FromStr for Addressing {
    type Err = AddressingError;

    fn from_str(text: &str) -> Result<Addressing, AddressingError> {
        match text {
            "path" => Ok(Addressing::Path),
            "virtual" => Ok(Addressing::Virtual),
            _ => Err(AddressingError::Unknown),
        }
    }
}

/// One endpoint and bucket, with how to address and sign its requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backend {
    /// Identifies the backend.
    pub id: BackendId,
    /// Its name in SQL.
    pub name: String,
    /// The kind of store.
    pub kind: Kind,
    /// The only host that requests go to.
    pub endpoint: Endpoint,
    /// The region that signatures name.
    pub region: String,
    /// The bucket of values that name none.
    pub bucket: String,
    /// Where requests name the bucket.
    pub addressing: Addressing,
    /// Where to find credentials; never the credentials themselves.
    pub credentials: CredentialName,
    /// What is asked before a deletion.
    pub verify: Verify,
    /// What goes where the bucket keeps versions.
    pub versions: Versions,
    /// Keys in one request, at most; else as the setting says.
    pub batch_size: Option<u32>,
    /// Objects a second, at most.
    pub rate_limit: Option<u32>,
    /// Whether it takes DeleteObjects, as requests have found out.
    pub takes_batches: Option<bool>,
}

impl Backend {
    /// Whether objects may go together: what is asked of each by itself does not travel in a batch.
    pub fn sends_batches(&self) -> bool {
        self.kind.deletes_batches()
            && self.takes_batches != Some(false)
            && self.verify == Verify::None
            && self.versions == Versions::Current
    }
}

#[cfg(test)]
mod tests;
