//! Where requests go: a validated URL that no row can change.

mod bucket;
mod host;

use std::fmt;
use std::str::FromStr;

use super::url::split_http;
use super::vendor;

pub use bucket::check_bucket_name;

/// How to reach a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// As written before `://`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that a URL need not name.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// A validated http or https URL of a storage service, without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    text: String,
    scheme: Scheme,
    host: String,
    port: Option<u16>,
    path: String,
}

/// Why an endpoint was refused. Never repeats the value, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Something other than http or https.
    #[error("an endpoint starts with http:// or https://")]
    Scheme,
    /// No host at all.
    #[error("the endpoint names no host")]
    EmptyHost,
    /// A host that no resolver would accept, or that two parsers would read differently.
    #[error("the endpoint's host is not valid; write an international name as punycode")]
    BadHost,
    /// A port that is not one.
    #[error("the endpoint's port is not a number from 1 to 65535")]
    BadPort,
    /// `user:password@`
    #[error("an endpoint carries no user information; credentials have their own setting")]
    UserInfo,
    /// `?` or `#`
    #[error("an endpoint has no query and no fragment")]
    QueryOrFragment,
    /// Characters or segments that change meaning on the way.
    #[error("the endpoint's path may hold letters, digits, '-', '.', '_' and '~' between single slashes")]
    BadPath,
    /// Signed requests must not reach a service that hands out credentials.
    #[error("the endpoint is a metadata or link-local address")]
    Metadata,
    /// The bucket would be named twice.
    #[error("the endpoint already contains the bucket; leave the bucket out of the endpoint")]
    CarriesBucket,
    /// Requests would reach the store's other API, and another bucket by it.
    #[error("the address of the bucket at this endpoint is that of another API")]
    IsOfApi,
}

impl Endpoint {
    /// Reads an endpoint as a person writes it.
    pub fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        let (scheme, rest) = split_http(text).ok_or(EndpointError::Scheme)?;
        if rest.contains(['?', '#']) {
            return Err(EndpointError::QueryOrFragment);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(EndpointError::UserInfo);
        }
        let (host, port) = host::split_port(authority)?;
        let host = host::normalize(host)?;
        if host::is_metadata(&host) {
            return Err(EndpointError::Metadata);
        }
        let port = port.filter(|port| *port != scheme.default_port());
        let path = clean_path(path)?;
        Ok(Endpoint { text: compose(scheme, &host, port, &path), scheme, host, port, path })
    }

    /// Refuses an endpoint that already names the bucket: requests would name it twice, and so
    /// reach another place.
    pub fn check_bucket(&self, bucket: &str) -> Result<(), EndpointError> {
        let in_path = self.path.rsplit('/').next() == Some(bucket) && !bucket.is_empty();
        if in_path || bucket::is_in_host(&self.host, bucket) {
            return Err(EndpointError::CarriesBucket);
        }
        if vendor::is_of_api(&self.host, &format!("{}/{bucket}/", self.path)) {
            return Err(EndpointError::IsOfApi);
        }
        Ok(())
    }

    /// The whole URL, without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How to reach the host.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host in lower case; an IPv6 address keeps its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Host and port, as they stand in a URL.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The port, unless it is the scheme's own.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path before the bucket, without a trailing slash; often empty.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the host is an address rather than a name.
    pub fn is_ip_address(&self) -> bool {
        host::is_ip_address(&self.host)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::parse(text)
    }
}

fn clean_path(path: &str) -> Result<String, EndpointError> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let fine = |segment: &str| {
        !segment.is_empty()
            && segment != "."
            && segment != ".."
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    if path.split('/').skip(1).all(fine) { Ok(path.to_owned()) } else { Err(EndpointError::BadPath) }
}

fn compose(scheme: Scheme, host: &str, port: Option<u16>, path: &str) -> String {
    let scheme = scheme.as_str();
    match port {
        Some(port) => format!("{scheme}://{host}:{port}{path}"),
        None => format!("{scheme}://{host}{path}"),
    }
}
