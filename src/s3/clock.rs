//! A store's clock, where it differs from this server's: signatures hold for some minutes of the store's time only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4::SigningParams;
use http::request::Parts;
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::hash::hex_sha256;
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, Error, Result, SignRequest};
use reqwest::header::{DATE, HeaderMap};

use crate::domain::backend::{Backend, BackendId};

use super::request::DIGEST;

/// A refusal under a time that differs by less, in seconds, has another reason: stores allow for 900.
const NOTABLE: i64 = 240;
/// What differs by less, in seconds, is right: a Date has no fractions, and answers take their time.
const NEGLIGIBLE: i64 = 60;

/// How a store names such a refusal.
const SKEWED: &[u8] = b"RequestTimeTooSkewed";

/// By how many seconds the clock of each store is ahead of ours, as far as a store minded; nothing holds for a backend that was
/// altered since.
#[derive(Debug, Default)]
pub struct Clocks(Mutex<HashMap<BackendId, (Arc<Backend>, i64)>>);

impl Clocks {
    fn known(&self) -> MutexGuard<'_, HashMap<BackendId, (Arc<Backend>, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of the store of one backend.
    pub fn of(&self, backend: &Arc<Backend>) -> i64 {
        self.known().get(&backend.id).filter(|(of, _)| of == backend).map_or(0, |(_, ahead)| *ahead)
    }

    /// Remembers it; says whether that is news.
    pub fn set(&self, backend: &Arc<Backend>, ahead: i64) -> bool {
        let before = self.of(backend);
        self.known().insert(backend.id, (Arc::clone(backend), ahead));
        before != ahead
    }
}

/// Whether the store says that it refuses the time of a signature.
pub fn is_skewed(body: &[u8]) -> bool {
    body.windows(SKEWED.len()).any(|part| part == SKEWED)
}

/// By how much the store's clock seems to be ahead, if at `now` it refused a request that was signed `signed` seconds ahead, and its
/// answer tells another time.
pub fn correction(status: u16, headers: &HeaderMap, now: SystemTime, signed: i64) -> Option<i64> {
    if status != 403 {
        return None;
    }
    let theirs = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let ahead = match theirs.duration_since(now) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => -seconds(behind.duration()),
    };
    let is_wrong = ahead.saturating_sub(signed).saturating_abs() >= NOTABLE;
    is_wrong.then_some(if ahead.saturating_abs() < NEGLIGIBLE { 0 } else { ahead })
}

/// By how many seconds ahead of our clock a request is signed: it travels with the request's head.
#[derive(Debug, Clone, Copy)]
pub struct Ahead(pub i64);

/// Signs for S3, by the store's time where that is another one: reqsign signs by this server's only.
#[derive(Debug)]
pub struct TimedSigner {
    region: String,
    here: RequestSigner,
}

impl TimedSigner {
    /// For a store in a region.
    pub fn new(region: &str) -> Self {
        Self { region: region.to_owned(), here: RequestSigner::new("s3", region) }
    }
}

impl SignRequest for TimedSigner {
    type Credential = Credential;

    fn required_valid_until(&self, credential: &Credential, expires_in: Option<Duration>) -> Timestamp {
        self.here.required_valid_until(credential, expires_in)
    }

    async fn sign_request(
        &self,
        context: &Context,
        parts: &mut Parts,
        credential: Option<&Credential>,
        expires_in: Option<Duration>,
    ) -> Result<()> {
        match (parts.extensions.get(), credential) {
            (None | Some(Ahead(0)), _) | (_, None) => {
                self.here.sign_request(context, parts, credential, expires_in).await
            }
            (Some(&Ahead(ahead)), Some(credential)) => {
                parts.headers = signed(parts, credential, &self.region, shifted(SystemTime::now(), ahead))?;
                Ok(())
            }
        }
    }
}

fn shifted(time: SystemTime, seconds: i64) -> SystemTime {
    let span = Duration::from_secs(seconds.unsigned_abs());
    let shifted = if seconds < 0 { time.checked_sub(span) } else { time.checked_add(span) };
    shifted.unwrap_or(time)
}

/// The headers with a signature of that time.
fn signed(parts: &Parts, credential: &Credential, region: &str, time: SystemTime) -> Result<HeaderMap> {
    let unsignable = || Error::request_invalid("the request cannot be signed");
    let mut settings = SigningSettings::default();
    // The path is signed as it is sent; the body's digest is a header already.
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::NoHeader;
    let (key, secret) = (credential.access_key_id.as_str(), credential.secret_access_key.as_str());
    let identity = Credentials::new(key, secret, credential.session_token.clone(), None, "storage_reaper").into();
    let params = SigningParams::builder().identity(&identity).region(region).name("s3").time(time).settings(settings);
    let params = params.build().map_err(|_| unsignable())?.into();
    let texts = parts.headers.iter().map(|(name, value)| value.to_str().map(|value| (name.as_str(), value)));
    let texts = texts.collect::<std::result::Result<Vec<_>, _>>().map_err(|_| unsignable())?;
    let digest = parts.headers.get(DIGEST).and_then(|digest| digest.to_str().ok());
    let body = SignableBody::Precomputed(digest.map_or_else(|| hex_sha256(b""), str::to_owned));
    let uri = parts.uri.to_string();
    let request =
        SignableRequest::new(parts.method.as_str(), uri, texts.into_iter(), body).map_err(|_| unsignable())?;
    let (instructions, _) = sign(request, &params).map_err(|_| unsignable())?.into_parts();
    let mut request = http::Request::new(());
    *request.headers_mut() = parts.headers.clone();
    instructions.apply_to_request_http1x(&mut request);
    Ok(std::mem::take(request.headers_mut()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(date: &str) -> HeaderMap {
        HeaderMap::from_iter([(DATE, date.parse().unwrap())])
    }

    #[test]
    fn only_a_refusal_under_another_time_moves_the_clock() {
        let now = httpdate::parse_http_date("Wed, 01 Jan 2025 12:00:00 GMT").unwrap();
        let at = |status, date: &str, known| correction(status, &answered(date), now, known);
        assert_eq!(at(403, "Wed, 01 Jan 2025 14:00:00 GMT", 0), Some(7200));
        assert_eq!(at(403, "Wed, 01 Jan 2025 11:00:00 GMT", 0), Some(-3600));
        assert_eq!(at(200, "Wed, 01 Jan 2025 14:00:00 GMT", 0), None, "it is accepted");
        assert_eq!(at(403, "Wed, 01 Jan 2025 14:00:00 GMT", 7190), None, "it is known: the refusal has another reason");
        assert_eq!(at(403, "Wed, 01 Jan 2025 12:03:00 GMT", 0), None, "stores allow for that");
        assert_eq!(at(403, "Wed, 01 Jan 2025 12:00:20 GMT", 7200), Some(0), "ours was put right");
        assert_eq!(at(403, "yesterday", 0), None);
        assert_eq!(correction(403, &HeaderMap::new(), now, 0), None);
    }

    /// Signed by the same clock, both signatures are the same: so the one that tells another time is right as well.
    #[test]
    fn a_signature_by_the_stores_time_is_another_ones_in_all_but_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let requests = [
            ("DELETE", "https://media.s3.eu-west-1.amazonaws.com/plain.png", vec![]),
            ("DELETE", "http://127.0.0.1:9000/media/a%20b%2B%25%3F%23/../%C3%A4//x", vec![("if-match", "\"e\"")]),
            ("DELETE", "http://127.0.0.1:9000/media/k?versionId=a.b%2Fc", vec![]),
            (
                "POST",
                "http://127.0.0.1:9000/media/?delete=",
                vec![("content-md5", "AAAA"), ("content-type", "application/xml")],
            ),
            ("GET", "http://127.0.0.1:9000/media/?encoding-type=url&prefix=a%2F%20b&versions=", vec![]),
        ];
        for (token, (method, uri, headers)) in
            [None, Some("token")].iter().flat_map(|token| requests.iter().map(move |request| (token, request)))
        {
            let credential = Credential {
                access_key_id: "AKIDEXAMPLE".to_owned(),
                secret_access_key: "secret".to_owned(),
                session_token: token.map(str::to_owned),
                ..Credential::default()
            };
            let mut request = http::Request::builder().method(*method).uri(*uri).header(DIGEST, hex_sha256(b""));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let mut theirs = parts.clone();
            let signer = TimedSigner::new("eu-west-1");
            runtime.block_on(signer.sign_request(&Context::new(), &mut theirs, Some(&credential), None)).unwrap();
            let date = theirs.headers["x-amz-date"].to_str().unwrap();
            let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date)
                .unwrap()
                .to_zoned(jiff::tz::TimeZone::UTC)
                .unwrap();
            let ours = signed(&parts, &credential, "eu-west-1", time.timestamp().into()).unwrap();
            assert_eq!(ours["authorization"], theirs.headers["authorization"], "{method} {uri}");
        }
    }
}
