//! Names of buckets.

/// Why a bucket's name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BucketNameError {
    /// Too short or too long.
    #[error("a bucket's name has 3 to 63 characters")]
    Length,
    /// A character that S3 does not allow.
    #[error("a bucket's name holds only lower-case letters, digits, '.' and '-'")]
    Character,
    /// A dot or hyphen at an end.
    #[error("a bucket's name starts and ends with a letter or digit")]
    Ends,
    /// `..`
    #[error("a bucket's name has no two dots in a row")]
    Dots,
    /// Four numbers.
    #[error("a bucket's name does not look like an IP address")]
    IpAddress,
}

/// Refuses a bucket name that S3 would refuse, notably one that would walk out of a path.
pub fn check_bucket_name(name: &str) -> Result<(), BucketNameError> {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !name.bytes().all(|byte| alphanumeric(byte) || byte == b'.' || byte == b'-') {
        return Err(BucketNameError::Character);
    }
    let (Some(first), Some(last), 3..=63) = (name.bytes().next(), name.bytes().next_back(), name.len()) else {
        return Err(BucketNameError::Length);
    };
    if !alphanumeric(first) || !alphanumeric(last) {
        return Err(BucketNameError::Ends);
    }
    if name.contains("..") {
        return Err(BucketNameError::Dots);
    }
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if name.split('.').count() == 4 && name.split('.').all(numeric) {
        return Err(BucketNameError::IpAddress);
    }
    Ok(())
}

/// Whether a provider's host already names the bucket, as in `media.s3.amazonaws.com`.
///
/// A host that merely starts like the bucket (`minio.example.com` and a bucket `minio`) is fine, so
/// what follows must be a storage service.
pub(super) fn is_in_host(host: &str, bucket: &str) -> bool {
    let Some(service) = host.strip_prefix(bucket).and_then(|rest| rest.strip_prefix('.')) else {
        return false;
    };
    let known =
        PROVIDERS.iter().any(|provider| service.strip_suffix(provider).is_some_and(|region| region.ends_with('.')));
    let first = service.split('.').next().unwrap_or(service);
    let storage = SERVICES
        .iter()
        .any(|name| first.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')));
    known || storage
}

const PROVIDERS: [&str; 16] = [
    "aliyuncs.com",
    "amazonaws.com",
    "amazonaws.com.cn",
    "backblazeb2.com",
    "cloudflarestorage.com",
    "contabostorage.com",
    "digitaloceanspaces.com",
    "exo.io",
    "googleapis.com",
    "linodeobjects.com",
    "myhuaweicloud.com",
    "myqcloud.com",
    "ovh.net",
    "scw.cloud",
    "vultrobjects.com",
    "wasabisys.com",
];

const SERVICES: [&str; 6] = ["s3", "oss", "cos", "obs", "r2", "storage"];
