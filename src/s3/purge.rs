//! Telling caches that URLs mean nothing any more.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ini::Ini;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Request, Url};

use crate::domain::purge::{Call, Purge, TokenHeader};

use super::client::{Client, Limit};
use super::fault::wait;
use super::io::{PurgeJob, Settings};

/// Under what name a profile keeps a token.
const TOKEN: &str = "api_token";

/// Why a service was not told. The message names no URL and no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub message: String,
    pub retry_after: Option<Duration>,
    /// The service listens, but not to this.
    pub is_its_own: bool,
}

impl Untold {
    pub(super) fn of(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_after: None, is_its_own: false }
    }
}

impl Client {
    /// Tells a service of URLs, one request after the other where it takes one URL.
    pub(super) async fn purge(&self, job: &PurgeJob) -> Result<(), Untold> {
        let token = job.purge.secret.as_deref().map(|profile| token(profile, &self.settings)).transpose()?;
        for call in job.purge.calls(&job.urls) {
            let request = request(&job.purge, &call, token.as_ref())?;
            let answer = self.transmit(request, call.body.unwrap_or_default(), Limit::of_one()).await;
            let answer = answer.map_err(|fault| Untold::of(fault.message.replace("the store", "the service")))?;
            let is_done = (200..300).contains(&answer.status) && job.purge.is_done(&answer.body);
            if !is_done {
                return Err(refused(answer.status, &answer.headers));
            }
        }
        Ok(())
    }
}

fn refused(status: u16, headers: &HeaderMap) -> Untold {
    // What it says besides may repeat what it was sent.
    Untold {
        message: format!("the service answered HTTP {status}"),
        retry_after: headers.get(RETRY_AFTER).and_then(wait),
        is_its_own: matches!(status, 200..300 | 400 | 404 | 413 | 414 | 422),
    }
}

fn request(purge: &Purge, call: &Call, token: Option<&HeaderValue>) -> Result<Request, Untold> {
    let url =
        Url::parse(&call.url).ok().filter(|url| url.as_str().trim_end_matches('/') == call.url.trim_end_matches('/'));
    let of_its_own =
        Untold { is_its_own: true, ..Untold::of("the request was not sent: its address would be another") };
    let mut request = Request::new(Method::POST, url.ok_or(of_its_own)?);
    let headers = request.headers_mut();
    if call.body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some(token) = token {
        let (name, value) = match purge.token_header() {
            TokenHeader::Named(name) => (HeaderName::from_bytes(name.as_bytes()).ok(), Some(token.clone())),
            TokenHeader::Bearer => {
                let value = [b"Bearer ", token.as_bytes()].concat();
                (Some(AUTHORIZATION), HeaderValue::from_bytes(&value).ok())
            }
        };
        let (Some(name), Some(mut value)) = (name, value) else { return Err(no_token()) };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(request)
}

fn no_token() -> Untold {
    Untold::of(format!("the profile holds no usable {TOKEN}"))
}

/// The token of a profile. The file is read for each request: a token that was replaced counts at once.
fn token(profile: &str, settings: &Settings) -> Result<HeaderValue, Untold> {
    let path = credentials_file(settings).ok_or_else(|| Untold::of("there is no credentials file"))?;
    let file = read(&path)?;
    let section = file.section(Some(profile)).or_else(|| file.section(Some(format!("profile {profile}"))));
    let token = section.and_then(|section| section.get(TOKEN)).filter(|token| !token.is_empty());
    token.and_then(|token| HeaderValue::from_str(token).ok()).ok_or_else(no_token)
}

fn read(path: &Path) -> Result<Ini, Untold> {
    // The error's own text may quote a line of the file.
    let broken = |what: &str| Untold::of(format!("the credentials file {what}"));
    let text = std::fs::read_to_string(path).map_err(|error| broken(&format!("cannot be read: {}", error.kind())))?;
    Ini::load_from_str_noescape(&text).map_err(|_| broken("is not of the usual form"))
}

/// The same that credentials of stores come from.
fn credentials_file(settings: &Settings) -> Option<PathBuf> {
    let of_home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".aws/credentials"));
    let of_environment = || std::env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    settings.credentials_file.clone().or_else(of_environment).or_else(of_home)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::endpoint::Endpoint;
    use crate::domain::purge::Service;

    #[test]
    fn a_key_of_steps_asks_a_service_for_something_else() {
        let purge = Purge {
            id: 1,
            url_base: "https://cdn.example.com/".into(),
            service: Service::Fastly,
            address: Endpoint::parse("https://api.fastly.com").unwrap(),
            zone: None,
            body: None,
            secret: Some("cdn".into()),
            batch_size: 1,
        };
        let token = HeaderValue::from_static("secret");
        let asked = |url: &str| request(&purge, &purge.calls(&[url.to_owned()])[0], Some(&token));
        let sent = asked("https://cdn.example.com/a%20b%3Fc").unwrap();
        assert_eq!(sent.url().as_str(), "https://api.fastly.com/purge/cdn.example.com/a%20b%3Fc");
        assert!(sent.headers()["fastly-key"].is_sensitive());
        for url in ["https://cdn.example.com/../../service/x/purge_all", "https://cdn.example.com/%2e%2e/%2E%2E/x"] {
            assert!(asked(url).unwrap_err().is_its_own, "{url}");
        }
    }
}
