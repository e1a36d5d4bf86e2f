//! Locations: URL bases under which rows name objects.

use super::backend::BackendId;
use super::endpoint::{Endpoint, EndpointError};
use super::fold::Head;

/// A URL that objects' URLs begin with. http and https count as the same place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UrlBase {
    text: String,
    prefix_start: usize,
    head: Head,
}

/// A base and what stands behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub base: UrlBase,
    pub backend: BackendId,
    pub bucket: String,
    /// Goes in front of what follows the base.
    pub key_prefix: String,
}

impl UrlBase {
    /// Checks and normalises: scheme and host in lower case, default port dropped, one slash at the end.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::parse(text)?;
        Ok(Self::new(endpoint.scheme().as_str(), &endpoint.authority(), endpoint.path()))
    }

    /// How a text stands among declared bases; one that is no base stands for itself.
    pub fn normal(text: &str) -> String {
        Self::parse(text).map_or_else(|_| text.to_owned(), |base| base.text)
    }

    /// From checked parts; `path` is empty or begins with a slash and ends without one.
    pub(super) fn new(scheme: &str, authority: &str, path: &str) -> Self {
        let authority = without_default_port(scheme, authority);
        let (text, prefix_start) = (format!("{scheme}://{authority}{path}/"), scheme.len() + "://".len());
        Self { head: Head::of(&text), text, prefix_start }
    }

    /// What the folds of URLs below it begin with.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The normalised base.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host, port and path, without the scheme.
    pub fn prefix(&self) -> &str {
        &self.text[self.prefix_start..]
    }

    /// The prefix as host with port, and path, which begins and ends with a slash.
    pub fn authority_and_path(&self) -> (&str, &str) {
        let prefix = self.prefix();
        prefix.split_at(prefix.find('/').unwrap_or(prefix.len()))
    }
}

/// The host and port of a URL as bases have it.
pub(super) fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = if scheme == "https" { ":443" } else { ":80" };
    // `host:9000:443` is no authority at all, and must not become one.
    let is_host = |host: &&str| !host[host.rfind(']').unwrap_or(0)..].contains(':');
    authority.strip_suffix(port).filter(is_host).unwrap_or(authority)
}
