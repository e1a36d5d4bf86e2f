//! A backend: one endpoint and bucket, with how to address and sign its requests.

use std::str::FromStr;

use super::credentials::CredentialName;
use super::endpoint::{Endpoint, Scheme};
pub use super::profile::Kind;
use super::verify::Verify;
use super::versions::Versions;

/// Identifies a backend within its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(pub i32);

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
        if kind.profile().has_virtual_hosts && possible { Addressing::Virtual } else { Addressing::Path }
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
    /// Whether its bucket keeps versions, as answers have shown.
    pub keeps_versions: Option<bool>,
}

impl Backend {
    /// Whether objects may go together: what is asked of each by itself does not travel in a batch.
    pub fn sends_batches(&self) -> bool {
        self.kind.profile().takes_batches
            && self.takes_batches != Some(false)
            && self.verify == Verify::None
            && self.versions == Versions::Current
    }
}

#[cfg(test)]
mod tests;
