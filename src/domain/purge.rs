//! Telling a cache that URLs mean nothing any more: what is asked of which service.

use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::endpoint::{Endpoint, Scheme};

/// What a path leaves as it is, beside slashes.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'%');
/// In the body of a request, for the list of URLs.
const URLS: &str = "{urls}";

/// A service that forgets URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Whatever takes a POST with the URLs in its body.
    Http,
    Cloudflare,
    Fastly,
}

/// A name of no service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of purge; known are http, cloudflare and fastly")]
pub struct UnknownService;

impl Service {
    const ALL: [Service; 3] = [Service::Http, Service::Cloudflare, Service::Fastly];

    /// The name that SQL uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Service::Http => "http",
            Service::Cloudflare => "cloudflare",
            Service::Fastly => "fastly",
        }
    }

    /// Where its interface is.
    pub const fn address(self) -> Option<&'static str> {
        match self {
            Service::Http => None,
            Service::Cloudflare => Some("https://api.cloudflare.com"),
            Service::Fastly => Some("https://api.fastly.com"),
        }
    }

    /// URLs that are told together, unless somebody says otherwise. Cloudflare takes 30 in one request on every plan; Fastly
    /// takes one, and they follow each other.
    pub const fn batch_size(self) -> u16 {
        match self {
            Service::Cloudflare => 30,
            Service::Http | Service::Fastly => 100,
        }
    }
}

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(text: &str) -> Result<Self, UnknownService> {
        Self::ALL.into_iter().find(|service| service.as_str() == text).ok_or(UnknownService)
    }
}

/// A declared purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    pub id: i32,
    /// URLs that begin so are told.
    pub url_base: String,
    pub service: Service,
    pub address: Endpoint,
    /// Cloudflare's name for the site.
    pub zone: Option<String>,
    pub body: Option<String>,
    /// The profile that holds the token.
    pub secret: Option<String>,
    pub batch_size: u16,
}

/// Why a purge is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PurgeError {
    #[error("A zone has 32 letters and digits, and only cloudflare has one.")]
    Zone,
    #[error("It is not JSON once {{urls}} is replaced by a list of texts, or only http takes one.")]
    Body,
    #[error("The service takes a token.")]
    NoSecret,
    #[error("The token would travel in the clear.")]
    Clear,
    #[error("The address is missing.")]
    NoAddress,
}

/// A request, without its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub url: String,
    pub body: Option<String>,
}

/// How the token travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenHeader {
    Bearer,
    Named(&'static str),
}

impl Purge {
    /// Whether its parts fit together.
    pub fn check(&self) -> Result<(), PurgeError> {
        let is_zone = |zone: &String| zone.len() == 32 && zone.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_cloudflare = self.service == Service::Cloudflare;
        if self.zone.as_ref().is_some_and(is_zone) != is_cloudflare || self.zone.is_some() != is_cloudflare {
            return Err(PurgeError::Zone);
        }
        if self.secret.is_none() && self.service != Service::Http {
            return Err(PurgeError::NoSecret);
        }
        let host = self.address.host();
        let is_near = host == "localhost" || host == "[::1]" || host.starts_with("127.");
        if self.secret.is_some() && self.address.scheme() == Scheme::Http && !is_near {
            return Err(PurgeError::Clear);
        }
        let is_body = |body: &String| {
            self.service == Service::Http
                && body.contains(URLS)
                && serde_json::from_str::<serde_json::Value>(&body.replace(URLS, "[]")).is_ok()
        };
        if self.body.as_ref().is_some_and(|body| !is_body(body)) {
            return Err(PurgeError::Body);
        }
        Ok(())
    }

    /// The requests that tell the service of these URLs, in their order.
    pub fn calls(&self, urls: &[String]) -> Vec<Call> {
        let address = self.address.as_str();
        match self.service {
            Service::Http => {
                let list = serde_json::Value::from(urls.to_vec()).to_string();
                let body = self.body.as_deref().unwrap_or("{\"urls\": {urls}}").replace(URLS, &list);
                vec![Call { url: address.to_owned(), body: Some(body) }]
            }
            Service::Cloudflare => {
                let zone = self.zone.as_deref().unwrap_or_default();
                let body = serde_json::json!({ "files": urls }).to_string();
                vec![Call { url: format!("{address}/client/v4/zones/{zone}/purge_cache"), body: Some(body) }]
            }
            // The URL without its scheme is the path, escapes and all.
            Service::Fastly => {
                let place = |url: &String| url.split_once("://").map_or(url.clone(), |(_, place)| place.to_owned());
                let call = |url| Call {
                    url: format!("{address}/purge/{}", utf8_percent_encode(&place(url), PATH)),
                    body: None,
                };
                urls.iter().map(call).collect()
            }
        }
    }

    /// How the token travels.
    pub const fn token_header(&self) -> TokenHeader {
        match self.service {
            Service::Fastly => TokenHeader::Named("Fastly-Key"),
            Service::Http | Service::Cloudflare => TokenHeader::Bearer,
        }
    }

    /// Whether a 2xx answer says that it was done.
    pub fn is_done(&self, body: &[u8]) -> bool {
        let says = |name: &str| {
            serde_json::from_slice::<serde_json::Value>(body).ok().and_then(|answer| answer.get(name).cloned())
        };
        match self.service {
            Service::Http => true,
            Service::Cloudflare => says("success") == Some(true.into()),
            Service::Fastly => says("status") == Some("ok".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purge(service: Service, address: &str) -> Purge {
        let is_cloudflare = service == Service::Cloudflare;
        Purge {
            id: 1,
            url_base: "https://cdn.example.com/".into(),
            service,
            address: Endpoint::parse(address).unwrap(),
            zone: is_cloudflare.then(|| "0123456789abcdef0123456789abcdef".into()),
            body: None,
            secret: Some("cdn".into()),
            batch_size: service.batch_size(),
        }
    }

    #[test]
    fn a_service_is_asked_for_something_else() {
        let urls = ["https://cdn.example.com/a%20b.png".to_owned(), "https://cdn.example.com/\"}.png".to_owned()];
        let http = purge(Service::Http, "https://hooks.example.com/purge");
        let call = |purge: &Purge| purge.calls(&urls).remove(0);
        assert_eq!(call(&http).url, "https://hooks.example.com/purge");
        assert_eq!(
            call(&http).body.as_deref(),
            Some(r#"{"urls": ["https://cdn.example.com/a%20b.png","https://cdn.example.com/\"}.png"]}"#)
        );
        let own = Purge { body: Some(r#"{"objects": {urls}, "from": 1}"#.into()), ..http };
        assert!(call(&own).body.unwrap().ends_with(r#"\"}.png"], "from": 1}"#) && own.check().is_ok());
        let cloudflare = purge(Service::Cloudflare, "https://api.cloudflare.com");
        assert_eq!(
            call(&cloudflare).url,
            "https://api.cloudflare.com/client/v4/zones/0123456789abcdef0123456789abcdef/purge_cache"
        );
        assert_eq!(
            call(&cloudflare).body.as_deref(),
            Some(r#"{"files":["https://cdn.example.com/a%20b.png","https://cdn.example.com/\"}.png"]}"#)
        );
        let fastly = purge(Service::Fastly, "https://api.fastly.com").calls(&urls);
        assert_eq!(fastly[0].url, "https://api.fastly.com/purge/cdn.example.com/a%20b.png");
        assert_eq!(fastly[1].url, "https://api.fastly.com/purge/cdn.example.com/%22%7D.png");
    }

    #[test]
    fn a_refusal_with_a_good_status_counts_as_done() {
        let cloudflare = purge(Service::Cloudflare, "https://api.cloudflare.com");
        assert!(cloudflare.is_done(br#"{"success": true}"#));
        for body in ["", "{}", r#"{"success": false}"#, r#"{"success": "true"}"#, "<html>", r#"[{"success": true}]"#] {
            assert!(!cloudflare.is_done(body.as_bytes()), "{body}");
        }
        let fastly = purge(Service::Fastly, "https://api.fastly.com");
        assert!(fastly.is_done(br#"{"status": "ok", "id": "1"}"#) && !fastly.is_done(b"{}"));
        assert!(purge(Service::Http, "https://hooks.example.com").is_done(b""));
    }

    #[test]
    fn parts_that_do_not_fit_are_stored() {
        let cloudflare = purge(Service::Cloudflare, "https://api.cloudflare.com");
        let http = purge(Service::Http, "https://hooks.example.com");
        assert_eq!(Purge { zone: None, ..cloudflare.clone() }.check(), Err(PurgeError::Zone));
        assert_eq!(Purge { zone: Some("../x".into()), ..cloudflare.clone() }.check(), Err(PurgeError::Zone));
        assert_eq!(Purge { zone: cloudflare.zone.clone(), ..http.clone() }.check(), Err(PurgeError::Zone));
        assert_eq!(Purge { secret: None, ..cloudflare.clone() }.check(), Err(PurgeError::NoSecret));
        assert!(Purge { secret: None, ..http.clone() }.check().is_ok());
        let at = |address: &str| Purge { address: Endpoint::parse(address).unwrap(), ..http.clone() };
        assert_eq!(at("http://hooks.example.com").check(), Err(PurgeError::Clear));
        assert!(at("http://127.0.0.1:80").check().is_ok());
        assert!(Purge { secret: None, ..at("http://hooks.example.com") }.check().is_ok());
        for body in ["{\"urls\": []}", "{urls", "{\"urls\": \"{urls}\"", "{urls}}"] {
            assert_eq!(Purge { body: Some(body.into()), ..http.clone() }.check(), Err(PurgeError::Body), "{body}");
        }
        assert_eq!(Purge { body: Some("{urls}".into()), ..cloudflare }.check(), Err(PurgeError::Body));
        for service in Service::ALL {
            assert_eq!(service.as_str().parse(), Ok(service));
        }
    }
}
