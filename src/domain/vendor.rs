//! Hosts of the large stores, which name a bucket in more than one way.

use super::profile::Kind;

/// A set of buckets with one name each: two hosts of a site and one bucket's name mean one bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    vendor: Vendor,
    /// The partition, account or region within which a bucket's name is unique.
    scope: String,
}

impl Site {
    /// Whether it is another part of the same account, in which a bucket of that name may or may not be the one that is meant.
    pub fn is_beside(&self, other: &Site) -> bool {
        let account = |site: &Site| site.scope.split('.').next().unwrap_or_default().to_owned();
        self != other && self.vendor == Vendor::R2 && other.vendor == Vendor::R2 && account(self) == account(other)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vendor {
    Aws,
    R2,
    B2,
    Gcs,
    Spaces,
    Wasabi,
}

/// What a host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub site: Site,
    /// Where the host names the bucket; else the path begins with it.
    pub bucket: Option<String>,
    /// What stands in front of the bucket in the path.
    pub before_bucket: &'static str,
    /// What stands in front of the bucket where the path is one of an API, in which `/o/` stands between bucket and key.
    apis: &'static [&'static str],
    /// It shows objects as a website: its URLs keep them, and are no way to ask for a deletion.
    pub is_website: bool,
}

impl Host {
    fn new(vendor: Vendor, scope: &str, bucket: &str) -> Option<Self> {
        let bucket = (!bucket.is_empty()).then(|| bucket.to_owned());
        let site = Site { vendor, scope: scope.to_owned() };
        Some(Self { site, bucket, before_bucket: "/", apis: &[], is_website: false })
    }

    /// The kind of store that it is.
    pub fn kind(&self) -> Kind {
        match self.site.vendor {
            Vendor::Aws => Kind::Aws,
            Vendor::R2 => Kind::R2,
            Vendor::B2 => Kind::B2,
            Vendor::Gcs => Kind::Gcs,
            Vendor::Spaces => Kind::Spaces,
            Vendor::Wasabi => Kind::Wasabi,
        }
    }

    /// The bucket and what follows it, of a path as it stands in a URL.
    pub fn split<'a>(&'a self, path: &'a str) -> Option<(&'a str, &'a str)> {
        match &self.bucket {
            Some(bucket) => Some((bucket, path.strip_prefix('/').unwrap_or(path))),
            None => match self.below_api(path) {
                Some(rest) => rest.split_once("/o/"),
                None => {
                    let rest = path.strip_prefix(self.before_bucket)?;
                    Some(rest.split_once('/').unwrap_or((rest, "")))
                }
            },
        }
    }

    /// What follows the API's own part of a path.
    fn below_api<'a>(&self, path: &'a str) -> Option<&'a str> {
        self.apis.iter().find_map(|before| path.strip_prefix(before))
    }

    /// Whether the path is one of an API, which lets `alt` say what is to be shown of the object.
    pub fn is_api(&self, path: &str) -> bool {
        self.bucket.is_none() && self.below_api(path).is_some()
    }
}

/// Google's JSON API.
const GOOGLES_API: &[&str] = &["/storage/v1/b/", "/download/storage/v1/b/"];
/// No path begins so: the host serves nothing but an API.
const NOWHERE: &str = "//";

/// Reads a host in lower case, without a port. A host of a vendor that serves something else (access points) is nobody's.
pub fn read(host: &str) -> Option<Host> {
    // A user before an `@`, or a letter that a resolver maps to another one, would make it another host.
    if !host.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte)) {
        return None;
    }
    match host {
        "storage.cloud.google.com" | "commondatastorage.googleapis.com" => return Host::new(Vendor::Gcs, "", ""),
        "storage.googleapis.com"
        | "storage.mtls.googleapis.com"
        | "storage-download.googleapis.com"
        | "content-storage.googleapis.com" => {
            return Host::new(Vendor::Gcs, "", "").map(|host| Host { apis: GOOGLES_API, ..host });
        }
        "www.googleapis.com" => {
            return Host::new(Vendor::Gcs, "", "").map(|host| Host {
                apis: GOOGLES_API,
                before_bucket: NOWHERE,
                ..host
            });
        }
        "firebasestorage.googleapis.com" => {
            return Host::new(Vendor::Gcs, "", "").map(|host| Host {
                apis: &["/v0/b/"],
                before_bucket: NOWHERE,
                ..host
            });
        }
        _ => {}
    }
    let of_gcs = [".storage.googleapis.com", ".commondatastorage.googleapis.com"];
    if let Some(bucket) = of_gcs.iter().find_map(|suffix| host.strip_suffix(suffix)) {
        return Host::new(Vendor::Gcs, "", bucket);
    }
    let left = |suffix| host.strip_suffix(suffix);
    if let Some(left) = left(".amazonaws.com") {
        return aws("aws", left);
    }
    if let Some(left) = left(".amazonaws.com.cn") {
        return aws("aws-cn", left);
    }
    if let Some(left) = left(".r2.cloudflarestorage.com") {
        return r2(left);
    }
    if let Some(left) = left(".backblazeb2.com") {
        return b2(left);
    }
    if let Some(left) = left(".digitaloceanspaces.com") {
        return spaces(left);
    }
    if let Some(left) = left(".wasabisys.com") {
        return service_and_region(left).and_then(|bucket| Host::new(Vendor::Wasabi, "", bucket));
    }
    None
}

/// Whether a path at the host, which ends with a slash, is part of an API's, or an API's is part of it: what follows it is read in
/// another way than below a bucket.
pub fn is_of_api(host: &str, path: &str) -> bool {
    let is_of = |api: &&str| api.starts_with(path) || path.starts_with(*api);
    read(host).is_some_and(|host| host.apis.iter().any(is_of))
}

/// The region that a host in lower case names, if it is a vendor's and names one.
pub fn region(host: &str) -> Option<&str> {
    let known = read(host)?;
    let mut labels = host.split('.').rev();
    match known.site.vendor {
        Vendor::Spaces => labels.filter(|label| *label != "cdn").nth(2),
        _ => labels.find_map(|label| {
            let label = ["s3-fips-", "s3-"].iter().find_map(|prefix| label.strip_prefix(prefix)).unwrap_or(label);
            is_region(label).then_some(label)
        }),
    }
}

/// `[bucket.]s3`, `[bucket.]s3-REGION`, `[bucket.]s3[.dualstack].REGION`, accelerated and VPC endpoints.
fn aws(partition: &str, left: &str) -> Option<Host> {
    let place = |bucket: &str| Host::new(Vendor::Aws, partition, bucket);
    if let Some(rest) = left.strip_suffix(".vpce") {
        let rest = rest.rsplit_once(".s3.").filter(|(_, region)| is_region(region))?.0;
        let (front, id) = rest.rsplit_once('.').unwrap_or(("", rest));
        if !id.starts_with("vpce-") {
            return None;
        }
        return front.strip_suffix("bucket").and_then(|bucket| match bucket.strip_suffix('.') {
            Some(bucket) => place(bucket),
            None if bucket.is_empty() => place(""),
            None => None,
        });
    }
    let accelerated = left.strip_suffix(".dualstack").unwrap_or(left);
    if let Some(bucket) = accelerated.strip_suffix(".s3-accelerate") {
        return place(bucket);
    }
    if let Some((bucket, _)) = website(left) {
        return place(bucket).map(|host| Host { is_website: true, ..host });
    }
    service_and_region(left).and_then(place)
}

/// `BUCKET.s3-website-REGION` or `BUCKET.s3-website.REGION`.
fn website(left: &str) -> Option<(&str, &str)> {
    let halves = left.rsplit_once(".s3-website-").or_else(|| left.rsplit_once(".s3-website."));
    halves.filter(|(bucket, region)| !bucket.is_empty() && is_region(region))
}

/// What stands before `s3`, `s3-REGION`, `s3.REGION`, `s3.dualstack.REGION` or the same with `s3-fips`.
fn service_and_region(left: &str) -> Option<&str> {
    let (front, last) = left.rsplit_once('.').unwrap_or(("", left));
    let of_region = |prefix: &str| last.strip_prefix(prefix).is_some_and(is_region);
    if last == "s3" || last == "s3-external-1" || of_region("s3-") || of_region("s3-fips-") {
        return Some(front);
    }
    if !is_region(last) {
        return None;
    }
    let front = front.strip_suffix(".dualstack").unwrap_or(front);
    ["s3", "s3-fips"].iter().find_map(|service| match front.strip_suffix(service)? {
        "" => Some(""),
        bucket => bucket.strip_suffix('.'),
    })
}

/// `us-east-1`, `us-gov-west-1`, `eu-central-003`; Wasabi also has `nl-1`.
fn is_region(label: &str) -> bool {
    let mut parts = label.split('-');
    let first = parts.next().is_some_and(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_lowercase()));
    let rest: Vec<_> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    first
        && middle.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase()))
        && !last.is_empty()
        && last.bytes().all(|byte| byte.is_ascii_digit())
}

/// `[bucket.]ACCOUNT[.eu|.fedramp|.us]`: a bucket is reached through the host of its jurisdiction only.
fn r2(left: &str) -> Option<Host> {
    let plain =
        [".eu", ".fedramp", ".us"].iter().find_map(|jurisdiction| left.strip_suffix(jurisdiction)).unwrap_or(left);
    let bucket = plain.rsplit_once('.').map_or("", |(bucket, _)| bucket);
    let scope = left[bucket.len()..].trim_start_matches('.');
    Host::new(Vendor::R2, scope, bucket)
}

/// `fNNN` serves `/file/BUCKET/…`; the S3 hosts are like Amazon's.
fn b2(left: &str) -> Option<Host> {
    let is_download = left
        .strip_prefix('f')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    if is_download {
        let mut host = Host::new(Vendor::B2, "", "")?;
        host.before_bucket = "/file/";
        return Some(host);
    }
    service_and_region(left).and_then(|bucket| Host::new(Vendor::B2, "", bucket))
}

/// `[bucket.]REGION[.cdn]`.
fn spaces(left: &str) -> Option<Host> {
    let left = left.strip_suffix(".cdn").unwrap_or(left);
    let (bucket, region) = left.rsplit_once('.').unwrap_or(("", left));
    Host::new(Vendor::Spaces, region, bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket_and_key(host: &str, path: &str) -> Option<(String, String)> {
        let host = read(host)?;
        host.split(path).map(|(bucket, key)| (bucket.to_owned(), key.to_owned()))
    }

    #[test]
    fn a_bucket_or_base_is_part_of_another_api() {
        for path in ["/", "/storage/", "/download/", "/storage/v1/b/g/o/"] {
            assert!(is_of_api("storage.googleapis.com", path), "{path}");
        }
        assert!(is_of_api("firebasestorage.googleapis.com", "/v0/b/g/o/"));
        for (host, path) in
            [("storage.googleapis.com", "/media/"), ("storage.googleapis.com", "/storage2/"), ("cdn.example.com", "/")]
        {
            assert!(!is_of_api(host, path), "{host}{path}");
        }
    }

    #[test]
    fn every_shape_of_a_host_names_its_bucket() {
        for (host, path) in [
            ("b.s3.amazonaws.com", "/k"),
            ("s3.amazonaws.com", "/b/k"),
            ("b.s3-us-west-2.amazonaws.com", "/k"),
            ("s3-us-west-2.amazonaws.com", "/b/k"),
            ("b.s3.eu-west-1.amazonaws.com", "/k"),
            ("s3.dualstack.eu-west-1.amazonaws.com", "/b/k"),
            ("b.s3.dualstack.eu-west-1.amazonaws.com", "/k"),
            ("b.s3-accelerate.amazonaws.com", "/k"),
            ("b.s3-accelerate.dualstack.amazonaws.com", "/k"),
            ("b.s3.cn-north-1.amazonaws.com.cn", "/k"),
            ("b.s3-fips.us-gov-west-1.amazonaws.com", "/k"),
            ("b.bucket.vpce-1a-2b.s3.us-east-1.vpce.amazonaws.com", "/k"),
            ("bucket.vpce-1a-2b.s3.us-east-1.vpce.amazonaws.com", "/b/k"),
            ("acct.r2.cloudflarestorage.com", "/b/k"),
            ("acct.eu.r2.cloudflarestorage.com", "/b/k"),
            ("b.acct.fedramp.r2.cloudflarestorage.com", "/k"),
            ("f001.backblazeb2.com", "/file/b/k"),
            ("b.s3.us-west-004.backblazeb2.com", "/k"),
            ("s3.us-west-004.backblazeb2.com", "/b/k"),
            ("storage.googleapis.com", "/b/k"),
            ("b.storage.googleapis.com", "/k"),
            ("storage.cloud.google.com", "/b/k"),
            ("storage.googleapis.com", "/storage/v1/b/b/o/k"),
            ("www.googleapis.com", "/download/storage/v1/b/b/o/k"),
            ("firebasestorage.googleapis.com", "/v0/b/b/o/k"),
            ("b.nyc3.digitaloceanspaces.com", "/k"),
            ("b.nyc3.cdn.digitaloceanspaces.com", "/k"),
            ("nyc3.digitaloceanspaces.com", "/b/k"),
            ("s3.eu-central-1.wasabisys.com", "/b/k"),
            ("b.s3.wasabisys.com", "/k"),
            ("b.s3.nl-1.wasabisys.com", "/k"),
            ("s3.nl-1.wasabisys.com", "/b/k"),
            ("acct.us.r2.cloudflarestorage.com", "/b/k"),
        ] {
            assert_eq!(bucket_and_key(host, path), Some(("b".into(), "k".into())), "{host}");
        }
        for path in ["/b/k", "/v0/b/b/k", "/v0/b/b", "/v0/b/b/o"] {
            assert_eq!(bucket_and_key("firebasestorage.googleapis.com", path), None, "{path}");
        }
        let dotted = bucket_and_key("www.site.test.s3.amazonaws.com", "/k");
        assert_eq!(dotted, Some(("www.site.test".into(), "k".into())));
    }

    #[test]
    fn a_host_that_names_its_region_is_signed_for_another() {
        for (host, expected) in [
            ("s3.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("s3-us-west-2.amazonaws.com", Some("us-west-2")),
            ("s3.dualstack.eu-central-1.amazonaws.com", Some("eu-central-1")),
            ("s3-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("s3.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("bucket.vpce-1a-2b.s3.us-east-1.vpce.amazonaws.com", Some("us-east-1")),
            ("s3.us-west-004.backblazeb2.com", Some("us-west-004")),
            ("s3.eu-central-1.wasabisys.com", Some("eu-central-1")),
            ("nyc3.digitaloceanspaces.com", Some("nyc3")),
            ("s3.amazonaws.com", None),
            ("acct.r2.cloudflarestorage.com", None),
            ("storage.googleapis.com", None),
            ("s3.eu-west-1.example.com", None),
        ] {
            assert_eq!(region(host), expected, "{host}");
        }
    }

    #[test]
    fn what_serves_something_else_is_nobodys() {
        for host in [
            "s3-website-us-east-1.amazonaws.com",
            "ap-1234.s3-accesspoint.us-east-1.amazonaws.com",
            "ec2.us-east-1.amazonaws.com",
            "s3.amazonaws.com.attacker.test",
            "api001.backblazeb2.com",
            "b.bucket.vpce-1@evil.s3.us-east-1.vpce.amazonaws.com",
            "b.bucket.vpce-\u{202e}.s3.us-east-1.vpce.amazonaws.com",
            "cdn.example.com",
        ] {
            assert_eq!(read(host), None, "{host}");
        }
    }

    #[test]
    fn a_website_of_a_bucket_is_another_place() {
        for host in ["b.c.s3-website-us-east-1.amazonaws.com", "b.c.s3-website.eu-central-1.amazonaws.com"] {
            let known = read(host).unwrap();
            assert_eq!((known.bucket.as_deref(), known.is_website), (Some("b.c"), true), "{host}");
        }
        for host in ["b.s3-external-1.amazonaws.com", "b.s3-fips-us-gov-west-1.amazonaws.com"] {
            assert_eq!(read(host).unwrap().bucket.as_deref(), Some("b"), "{host}");
        }
    }

    #[test]
    fn another_partition_account_or_region_is_another_site() {
        let site = |host| read(host).unwrap().site;
        assert_eq!(site("s3.eu-west-1.amazonaws.com"), site("s3-us-west-2.amazonaws.com"));
        assert_ne!(site("s3.eu-west-1.amazonaws.com"), site("s3.cn-north-1.amazonaws.com.cn"));
        assert_ne!(site("a.r2.cloudflarestorage.com"), site("b.r2.cloudflarestorage.com"));
        assert_ne!(site("a.r2.cloudflarestorage.com"), site("a.eu.r2.cloudflarestorage.com"));
        assert!(site("a.r2.cloudflarestorage.com").is_beside(&site("a.eu.r2.cloudflarestorage.com")));
        assert!(!site("a.r2.cloudflarestorage.com").is_beside(&site("b.r2.cloudflarestorage.com")));
        assert_eq!(site("b.a.eu.r2.cloudflarestorage.com"), site("a.eu.r2.cloudflarestorage.com"));
        assert_ne!(site("nyc3.digitaloceanspaces.com"), site("ams3.digitaloceanspaces.com"));
    }
}
