//! An object in storage.

use std::fmt;

use super::backend::BackendId;

/// The most bytes a key has in S3.
pub const LONGEST_KEY: usize = 1024;

/// Whether a key is nothing but slashes. Servers and proxies that merge slashes would take a request for it for one that
/// is about its bucket.
pub fn is_slashes(key: &str) -> bool {
    key.bytes().all(|byte| byte == b'/')
}

/// Whether a key or path has segments that URLs and file systems take for steps.
pub fn has_steps(path: &str) -> bool {
    path.split('/').any(|segment| segment == "." || segment == "..")
}

/// Whether it has some, or segments that are steps once somebody drops the blanks around them.
pub fn has_steps_or_seems_to(path: &str) -> bool {
    let is_dropped = |letter: char| letter.is_whitespace() || letter.is_control();
    path.split('/').any(|segment| matches!(segment.trim_matches(is_dropped), "." | ".."))
}

/// A key in a bucket of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// Where requests about it go.
    pub backend: BackendId,
    /// The bucket that holds it.
    pub bucket: String,
    /// Its key, byte for byte.
    pub key: String,
}

impl Object {
    /// From what `Display` shows, at a backend.
    pub fn at(backend: BackendId, place: &str) -> Option<Self> {
        let (bucket, key) = place.strip_prefix("s3://")?.split_once('/')?;
        Some(Self { backend, bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}
