//! What is wrong with a request that failed as a whole.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};

use super::xml::StoreError;

/// What is wrong with a request as a whole, which is the backend's fault and no object's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    Throttled,
    Transient,
    Timeout,
    Auth,
    /// The credentials may not do this, here at least.
    Denied,
    Clock,
    Redirect,
    NoSuchBucket,
    /// The store has no DeleteObjects; the keys go one by one.
    BatchUnsupported,
    /// It takes no batch like this one; half of it may do.
    BatchRefused,
    /// It took a batch and named none of its keys.
    BatchSilent,
    Malformed,
    Credentials,
    /// Nothing was sent: it had waited too long.
    Stale,
}

/// What follows from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// A person has to do something: the backend is held, and tried with one request now and then.
    Hold,
    /// It may be over soon: nothing is sent for a while, and less at once then.
    Rest,
    /// The same objects are planned in another way.
    Replan,
}

impl FaultKind {
    /// What follows from it.
    pub const fn response(self) -> Response {
        match self {
            Self::Auth | Self::Clock | Self::Redirect | Self::NoSuchBucket | Self::Credentials => Response::Hold,
            Self::Throttled | Self::Transient | Self::Timeout | Self::Denied | Self::Malformed => Response::Rest,
            Self::BatchUnsupported | Self::BatchRefused | Self::BatchSilent | Self::Stale => Response::Replan,
        }
    }

    /// Whether a key may be what the store stumbled over, if the request named one only.
    pub const fn may_be_the_key(self) -> bool {
        matches!(self, Self::Auth | Self::Denied) || self.may_be_everybodys()
    }

    /// Whether another question, which needs no rights, can tell whether the store works.
    pub const fn may_be_everybodys(self) -> bool {
        matches!(self, Self::Transient | Self::Timeout | Self::Malformed)
    }
}

/// A request that failed as a whole. The message names no URL and no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// The request was not carried out, and will not be: it was not sent, or the store said why not.
    pub is_refusal: bool,
    /// The store answered another question at the same time.
    pub is_alone: bool,
}

impl Fault {
    /// A fault without a hint of when to come back.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, is_refusal: false, is_alone: false }
    }

    /// Nothing was sent, or it was refused for good.
    pub fn refusal(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { is_refusal: true, ..Self::new(kind, message) }
    }
}

/// Classifies a failure of the whole request by code, then by status.
pub(super) fn fault(status: u16, error: &StoreError, headers: &HeaderMap, is_batch: bool) -> Fault {
    let kind = kind(status, error, is_batch);
    let code = error.code.as_str();
    let said = if code.is_empty() {
        format!("HTTP {status}")
    } else {
        format!("HTTP {status} {}", describe(code, &error.message))
    };
    // Behind a gateway's own error the store may still be at work; an error of the store's has a code.
    let is_refusal =
        !code.is_empty() && code != "InternalError" && !matches!(kind, FaultKind::Transient | FaultKind::Timeout);
    let more = detail(kind, error, headers).map(|more| format!("; {more}")).unwrap_or_default();
    let retry_after = headers.get(RETRY_AFTER).and_then(wait);
    Fault { is_refusal, retry_after, ..Fault::new(kind, format!("{}: {said}{more}", advice(kind))) }
}

fn kind(status: u16, error: &StoreError, is_batch: bool) -> FaultKind {
    let is_about_digests = error.code == "InvalidRequest" && error.message.contains("Content-MD5");
    match (error.code.as_str(), status) {
        ("RequestTimeTooSkewed", _) => FaultKind::Clock,
        ("NoSuchBucket" | "InvalidBucketName", _) => FaultKind::NoSuchBucket,
        (
            "PermanentRedirect"
            | "TemporaryRedirect"
            | "AuthorizationHeaderMalformed"
            | "IncorrectEndpoint"
            | "InvalidRegionName"
            | "IllegalLocationConstraintException",
            _,
        )
        | (_, 300..=399) => FaultKind::Redirect,
        ("MalformedXML", _) if is_batch => FaultKind::BatchRefused,
        ("NotImplemented" | "MethodNotAllowed" | "MissingContentMD5" | "MissingArgument", _) | (_, 405 | 501)
            if is_batch =>
        {
            FaultKind::BatchUnsupported
        }
        ("InvalidArgument", 400) if is_batch => FaultKind::BatchUnsupported,
        _ if is_batch && is_about_digests => FaultKind::BatchUnsupported,
        (code, status) if is_throttling(code) || matches!(status, 429 | 503) => FaultKind::Throttled,
        ("RequestTimeout", _) | (_, 408 | 504) => FaultKind::Timeout,
        ("AccessDenied", _) => FaultKind::Denied,
        ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" | "InvalidAccessKeyId", _) | (_, 401 | 403) => {
            FaultKind::Auth
        }
        // A missing key has a name; without one it is the bucket, or something in front of the store.
        (_, 404) => FaultKind::NoSuchBucket,
        (_, 500..=599) => FaultKind::Transient,
        _ => FaultKind::Malformed,
    }
}

/// Whether the store asks to be asked for less.
pub(super) fn is_throttling(code: &str) -> bool {
    const CODES: [&str; 7] = [
        "SlowDown",
        "SlowDownRead",
        "SlowDownWrite",
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequests",
    ];
    CODES.contains(&code)
}

/// What a person should make of it.
fn advice(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Throttled => "the store asks to slow down",
        FaultKind::Transient => "the store has an internal error",
        FaultKind::Timeout => "the store took too long",
        FaultKind::Auth => "the store refuses the credentials",
        FaultKind::Denied => "the store does not allow it",
        FaultKind::Clock => "the clock of this server or of the store is wrong",
        FaultKind::Redirect => "the bucket is at another endpoint or in another region",
        FaultKind::NoSuchBucket => "the bucket does not exist at this endpoint",
        FaultKind::BatchUnsupported => "the store takes no batches",
        FaultKind::BatchRefused => "the store does not take this batch",
        FaultKind::BatchSilent => "the store names no key of a batch",
        FaultKind::Malformed => "the answer makes no sense",
        FaultKind::Credentials => "no credentials could be found",
        FaultKind::Stale => "nothing was sent",
    }
}

/// What the answer says of the way out.
fn detail(kind: FaultKind, error: &StoreError, headers: &HeaderMap) -> Option<String> {
    match kind {
        FaultKind::Redirect => {
            let named = headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
            let region = named.or(error.region.as_deref()).filter(|region| is_name(region));
            let endpoint = error.endpoint.as_deref().filter(|endpoint| is_name(endpoint));
            let region = region.map(|region| format!("alter_backend(…, region => '{region}')"));
            region.or_else(|| endpoint.map(|endpoint| format!("the store names the endpoint {endpoint}")))
        }
        FaultKind::Clock => {
            let theirs = headers.get(DATE)?.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok())?;
            Some(match SystemTime::now().duration_since(theirs) {
                Ok(ahead) => format!("this server is {} s ahead of the store", ahead.as_secs()),
                Err(behind) => format!("this server is {} s behind the store", behind.duration().as_secs()),
            })
        }
        _ => None,
    }
}

/// A region or host; what a store sends is not to be trusted with more.
fn is_name(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (1..=255).contains(&text.len()) && text.bytes().all(is_fine)
}

/// A store's own words, cut: they go into last_error and the log.
pub(super) fn describe(code: &str, message: &str) -> String {
    let message: String = message.chars().filter(|letter| !letter.is_control()).take(200).collect();
    if message.is_empty() { code.to_owned() } else { format!("{code}: {message}") }
}

/// No store's wish makes us wait longer.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Seconds, or a date.
pub(super) fn wait(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> StoreError {
        StoreError { code: code.into(), message: "m".into(), ..StoreError::default() }
    }

    fn headers(named: &[(&'static str, &str)]) -> HeaderMap {
        named.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn faults_of_the_whole_request_are_told_apart() {
        for (status, code, expected) in [
            (403, "SignatureDoesNotMatch", FaultKind::Auth),
            (403, "InvalidAccessKeyId", FaultKind::Auth),
            (403, "AccountProblem", FaultKind::Auth),
            (403, "AccessDenied", FaultKind::Denied),
            (400, "ExpiredToken", FaultKind::Auth),
            (400, "InvalidToken", FaultKind::Auth),
            (403, "RequestTimeTooSkewed", FaultKind::Clock),
            (301, "PermanentRedirect", FaultKind::Redirect),
            (400, "AuthorizationHeaderMalformed", FaultKind::Redirect),
            (400, "InvalidRegionName", FaultKind::Redirect),
            (400, "IllegalLocationConstraintException", FaultKind::Redirect),
            (404, "NoSuchBucket", FaultKind::NoSuchBucket),
            (404, "", FaultKind::NoSuchBucket),
            (503, "SlowDown", FaultKind::Throttled),
            (429, "", FaultKind::Throttled),
            (500, "InternalError", FaultKind::Transient),
            (504, "", FaultKind::Timeout),
            (501, "NotImplemented", FaultKind::BatchUnsupported),
            (400, "MissingContentMD5", FaultKind::BatchUnsupported),
            (405, "MethodNotAllowed", FaultKind::BatchUnsupported),
            (400, "MalformedXML", FaultKind::BatchRefused),
        ] {
            assert_eq!(fault(status, &error(code), &HeaderMap::new(), true).kind, expected, "{status} {code}");
        }
        assert_eq!(fault(501, &error("NotImplemented"), &HeaderMap::new(), false).kind, FaultKind::Transient);
    }

    #[test]
    fn the_right_region_and_the_wrong_clock_are_named() {
        let said = |kind: &str, status, named: &[(&'static str, &str)]| {
            fault(status, &error(kind), &headers(named), true).message
        };
        let region = said("PermanentRedirect", 301, &[("x-amz-bucket-region", "eu-west-1")]);
        assert!(region.ends_with("; alter_backend(…, region => 'eu-west-1')"), "{region}");
        let hostile = said("PermanentRedirect", 301, &[("x-amz-bucket-region", "x'); DROP TABLE image; --")]);
        assert!(!hostile.contains("DROP"), "{hostile}");
        let elsewhere =
            StoreError { endpoint: Some("b.s3.eu-west-1.amazonaws.com".into()), ..error("PermanentRedirect") };
        let elsewhere = fault(301, &elsewhere, &HeaderMap::new(), true).message;
        assert!(elsewhere.ends_with("the store names the endpoint b.s3.eu-west-1.amazonaws.com"), "{elsewhere}");
        let clock = said("RequestTimeTooSkewed", 403, &[("date", "Tue, 01 Jan 2030 00:00:00 GMT")]);
        assert!(clock.contains("s behind the store"), "{clock}");
    }

    #[test]
    fn a_store_that_asks_for_patience_gets_it_and_no_more() {
        let after = |value| fault(503, &error("SlowDown"), &headers(&[("retry-after", value)]), true).retry_after;
        assert_eq!(after("5"), Some(Duration::from_secs(5)));
        assert_eq!(after("99999999"), Some(LONGEST_RETRY_AFTER));
        assert_eq!(after("Sat, 01 Jan 2000 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }
}
