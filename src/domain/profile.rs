//! What each kind of store can do, and how it differs from the others: one table.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use unicode_normalization::UnicodeNormalization;

use super::vendor;

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

/// What is known of a kind before the first request; what a request finds out counts for its backend.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    pub kind: Kind,
    /// The name that SQL uses.
    pub name: &'static str,
    /// The region that signatures name where the endpoint's host names none.
    pub region: &'static str,
    /// Whether one request may name many keys.
    pub takes_batches: bool,
    /// How many at most. All who document it say 1000, as Amazon does; more than a store takes shows by its refusal.
    pub batch_size: usize,
    /// Whether buckets are addressed as hosts where that can work.
    pub has_virtual_hosts: bool,
    /// Whether two spellings of a key are one object: keys are kept in NFC. Everybody else compares bytes.
    pub composes_keys: bool,
    /// Whether keys may be paths of a file system: `a//b`, `/a/b` and `a/./b` are the same file there. What is referenced by one of
    /// them is then referenced by all. A store of which nothing is known may be such a one.
    pub may_keep_files: bool,
    /// Whether a plus sign in the path of a URL is read as a blank; most writers of URLs mean the sign.
    pub reads_plus_as_blank: bool,
    /// Whether buckets keep versions unless they are told otherwise.
    pub keeps_versions: bool,
    // Whether a deletion may depend on a version is nothing to believe: it is probed before it counts.
}

/// A store of which nothing is known but that it speaks S3.
const GENERIC: Profile = Profile {
    kind: Kind::Generic,
    name: "generic",
    region: "us-east-1",
    takes_batches: true,
    batch_size: 1000,
    has_virtual_hosts: false,
    composes_keys: false,
    may_keep_files: true,
    reads_plus_as_blank: false,
    keeps_versions: false,
};

/// One that compares keys byte for byte.
const EXACT: Profile = Profile { may_keep_files: false, ..GENERIC };

/// In the order of the kinds.
const PROFILES: [Profile; 11] = [
    Profile { kind: Kind::Aws, name: "aws", has_virtual_hosts: true, reads_plus_as_blank: true, ..EXACT },
    Profile { kind: Kind::R2, name: "r2", region: "auto", composes_keys: true, ..EXACT },
    Profile { kind: Kind::B2, name: "b2", reads_plus_as_blank: true, keeps_versions: true, ..EXACT },
    // Its XML API knows no DeleteObjects.
    Profile { kind: Kind::Gcs, name: "gcs", region: "auto", takes_batches: false, ..EXACT },
    // It drops slashes in front, and merges them and takes steps behind one.
    Profile { kind: Kind::Minio, name: "minio", ..GENERIC },
    Profile { kind: Kind::Ceph, name: "ceph", ..EXACT },
    // Its filer takes keys for paths.
    Profile { kind: Kind::SeaweedFs, name: "seaweedfs", ..GENERIC },
    // It checks the region's name, and this is how its own guide calls it.
    Profile { kind: Kind::Garage, name: "garage", region: "garage", ..EXACT },
    Profile { kind: Kind::Wasabi, name: "wasabi", ..EXACT },
    Profile { kind: Kind::Spaces, name: "spaces", ..EXACT },
    GENERIC,
];

impl Kind {
    /// What is known of it.
    pub const fn profile(self) -> &'static Profile {
        &PROFILES[self as usize]
    }

    /// The name that SQL uses.
    pub const fn as_str(self) -> &'static str {
        self.profile().name
    }

    /// The kind of a vendor's host; any other store is generic, and shows by its answers what it can do.
    pub fn of_host(host: &str) -> Kind {
        vendor::read(host).map_or(Kind::Generic, |host| host.kind())
    }

    /// All names, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().map(|profile| profile.name)
    }

    /// Whether `gs://` may lead there.
    pub fn may_be_googles(self) -> bool {
        matches!(self, Kind::Gcs | Kind::Generic)
    }

    /// The spelling under which the store keeps a key.
    pub fn canonical_key(self, key: &str) -> Cow<'_, str> {
        let is_composed = self.profile().composes_keys && !key.is_ascii();
        if is_composed { Cow::Owned(key.nfc().collect()) } else { Cow::Borrowed(key) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A kind of store that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of backend")]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Kind, UnknownKind> {
        PROFILES.iter().find(|profile| profile.name == text).map(|profile| profile.kind).ok_or(UnknownKind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips_and_others_are_refused() {
        for profile in &PROFILES {
            assert_eq!(profile.kind.profile(), profile, "the table is in another order than the kinds");
            assert_eq!(profile.name.parse(), Ok(profile.kind));
        }
        assert_eq!("AWS".parse::<Kind>(), Err(UnknownKind));
        assert_eq!("".parse::<Kind>(), Err(UnknownKind));
    }

    #[test]
    fn only_r2_sees_two_spellings_as_one_object() {
        assert_eq!(Kind::R2.canonical_key("cafe\u{301}.png"), "caf\u{e9}.png");
        assert_eq!(Kind::Aws.canonical_key("cafe\u{301}.png"), "cafe\u{301}.png");
    }

    #[test]
    fn a_host_of_a_vendor_is_taken_for_any_store() {
        for (host, kind) in [
            ("s3.eu-west-1.amazonaws.com", Kind::Aws),
            ("account.eu.r2.cloudflarestorage.com", Kind::R2),
            ("s3.us-west-004.backblazeb2.com", Kind::B2),
            ("storage.googleapis.com", Kind::Gcs),
            ("nyc3.digitaloceanspaces.com", Kind::Spaces),
            ("s3.eu-central-1.wasabisys.com", Kind::Wasabi),
            ("s3.amazonaws.com.attacker.test", Kind::Generic),
            ("127.0.0.1", Kind::Generic),
        ] {
            assert_eq!(Kind::of_host(host), kind, "{host}");
        }
    }
}
