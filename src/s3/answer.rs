//! What an answer means: for each key, or for the request as a whole.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{DATE, ETAG, HeaderMap, LAST_MODIFIED};

use crate::domain::batch::Request;
use crate::domain::verify::is_newer;

use super::xml::{self, Xml};

/// What became of one key of a request; `index` is its place in the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAnswer {
    pub index: usize,
    pub verdict: Verdict,
}

/// The answer for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The store says so, by name.
    Deleted,
    /// The store says that there was no such key.
    Absent,
    /// It was written again since its row let it go.
    Superseded,
    /// The store says why not.
    Failed { message: String, is_refusal: bool },
    /// A complete answer that does not name the key.
    Unnamed,
}

/// What is wrong with a request as a whole, which is the backend's fault and no object's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    Throttled,
    Transient,
    Timeout,
    Auth,
    Clock,
    Redirect,
    NoSuchBucket,
    /// The store has no DeleteObjects; the keys go one by one.
    BatchUnsupported,
    Malformed,
    Credentials,
    /// Nothing was sent: it had waited too long.
    Stale,
}

/// A request that failed as a whole. The message names no URL and no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// The request was not carried out, and will not be: it was not sent, or the store said why not.
    pub is_refusal: bool,
}

impl Fault {
    /// A fault without a hint of when to come back.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, is_refusal: false }
    }

    /// Nothing was sent, or it was refused for good.
    pub fn refusal(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { is_refusal: true, ..Self::new(kind, message) }
    }
}

/// What the store says of an object that is there, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    Absent,
    /// Written before it was captured.
    Same {
        etag: Option<String>,
    },
    /// Written since, or nobody can tell.
    Newer,
    /// The store does not say.
    Dateless,
}

/// Reads the head of an answer about an object that was captured `since_us` microseconds ago.
pub fn look(headers: &HeaderMap, since_us: i64) -> Look {
    let date =
        |name| headers.get(name)?.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok()).map(micros);
    let Some(written) = date(LAST_MODIFIED) else { return Look::Dateless };
    let age_us = date(DATE).unwrap_or_else(now_us).saturating_sub(written);
    if is_newer(age_us, since_us) {
        return Look::Newer;
    }
    Look::Same { etag: headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned) }
}

/// The time, in microseconds of the epoch.
pub fn now_us() -> i64 {
    micros(SystemTime::now())
}

fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Reads the answer to a request.
pub fn read(request: &Request, status: u16, body: &[u8]) -> Result<Vec<KeyAnswer>, Fault> {
    match request {
        Request::Single { .. } => single(status, body).map(|verdict| vec![KeyAnswer { index: 0, verdict }]),
        Request::Batch { .. } => batch(request, status, body),
    }
}

fn single(status: u16, body: &[u8]) -> Result<Verdict, Fault> {
    match (status, xml::parse(body)) {
        // Some stores answer 200 with an error inside.
        (200..=299, Ok(Xml::Error { code, message })) => Err(fault(503, &code, &message, false)),
        (204, _) => Ok(Verdict::Deleted),
        (200, _) if body.trim_ascii().is_empty() => Ok(Verdict::Deleted),
        (404, Ok(Xml::Error { code, .. })) if code == "NoSuchKey" || code == "NoSuchVersion" => Ok(Verdict::Absent),
        (412, _) => Ok(Verdict::Superseded),
        // One key that may not be deleted must not stop the others.
        (403, Ok(Xml::Error { code, message })) if code == "AccessDenied" => {
            Ok(Verdict::Failed { message: describe(&code, &message), is_refusal: true })
        }
        (400, Ok(Xml::Error { code, message })) if is_about_the_key(&code) => {
            Ok(Verdict::Failed { message: describe(&code, &message), is_refusal: true })
        }
        (status, Ok(Xml::Error { code, message })) => Err(fault(status, &code, &message, false)),
        (status, _) => Err(fault(status, "", "", false)),
    }
}

fn batch(request: &Request, status: u16, body: &[u8]) -> Result<Vec<KeyAnswer>, Fault> {
    let (deleted, errors) = match (status, xml::parse(body)) {
        (200, Ok(Xml::DeleteResult { deleted, errors })) => (deleted, errors),
        (200, Ok(Xml::Error { code, message })) => return Err(fault(503, &code, &message, true)),
        (200, _) => return Err(Fault::new(FaultKind::Malformed, "the answer is not a complete DeleteResult")),
        (status, Ok(Xml::Error { code, message })) => return Err(fault(status, &code, &message, true)),
        (status, _) => return Err(fault(status, "", "", true)),
    };
    let deleted: HashSet<_> = deleted.into_iter().collect();
    let errors: HashMap<_, _> = errors.into_iter().map(|error| (error.key.clone(), error)).collect();
    let verdict = |key: &str| match (errors.get(key), deleted.contains(key)) {
        (Some(error), _) if error.code == "NoSuchKey" => Verdict::Absent,
        (Some(error), _) => Verdict::Failed {
            message: describe(&error.code, &error.message),
            is_refusal: !is_about_the_store(&error.code),
        },
        (None, true) => Verdict::Deleted,
        (None, false) => Verdict::Unnamed,
    };
    let targets = request.targets().iter().enumerate();
    Ok(targets.map(|(index, target)| KeyAnswer { index, verdict: verdict(&target.key) }).collect())
}

/// Errors behind which the store may have done it, or may still.
fn is_about_the_store(code: &str) -> bool {
    matches!(code, "InternalError" | "ServiceUnavailable" | "SlowDown" | "RequestTimeout" | "OperationAborted" | "")
}

fn is_about_the_key(code: &str) -> bool {
    matches!(code, "KeyTooLongError" | "InvalidObjectName" | "InvalidURI" | "XMinioInvalidObjectName")
}

/// A store's own words, cut: they go into last_error and the log.
fn describe(code: &str, message: &str) -> String {
    let message: String = message.chars().filter(|letter| !letter.is_control()).take(200).collect();
    if message.is_empty() { code.to_owned() } else { format!("{code}: {message}") }
}

/// Classifies a failure of the whole request by code, then by status.
pub(super) fn fault(status: u16, code: &str, message: &str, is_batch: bool) -> Fault {
    let kind = match (code, status) {
        ("RequestTimeTooSkewed", _) => FaultKind::Clock,
        ("NoSuchBucket", _) => FaultKind::NoSuchBucket,
        ("PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed" | "IncorrectEndpoint", _)
        | (_, 300..=399) => FaultKind::Redirect,
        ("NotImplemented" | "MethodNotAllowed" | "MissingContentMD5" | "MissingArgument" | "MalformedXML", _)
        | (_, 405 | 501)
            if is_batch =>
        {
            FaultKind::BatchUnsupported
        }
        ("InvalidArgument", 400) if is_batch => FaultKind::BatchUnsupported,
        ("SlowDown" | "Throttling" | "ThrottlingException" | "RequestLimitExceeded" | "TooManyRequests", _)
        | (_, 429 | 503) => FaultKind::Throttled,
        ("RequestTimeout", _) | (_, 408 | 504) => FaultKind::Timeout,
        ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" | "InvalidAccessKeyId", _) | (_, 401 | 403) => {
            FaultKind::Auth
        }
        (_, 500..=599) => FaultKind::Transient,
        _ => FaultKind::Malformed,
    };
    let said =
        if code.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status} {}", describe(code, message)) };
    // Behind a gateway's own error the store may still be at work; an error of the store's has a code.
    let is_refusal =
        !code.is_empty() && code != "InternalError" && !matches!(kind, FaultKind::Transient | FaultKind::Timeout);
    Fault { is_refusal, ..Fault::new(kind, format!("{}: {said}", advice(kind))) }
}

/// What a person should make of it.
fn advice(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Throttled => "the store asks to slow down",
        FaultKind::Transient => "the store has an internal error",
        FaultKind::Timeout => "the store took too long",
        FaultKind::Auth => "the store refuses the credentials",
        FaultKind::Clock => "the clock of this server or of the store is wrong",
        FaultKind::Redirect => "the bucket is at another endpoint or in another region",
        FaultKind::NoSuchBucket => "the bucket does not exist at this endpoint",
        FaultKind::BatchUnsupported => "the store takes no batches",
        FaultKind::Malformed => "the answer makes no sense",
        FaultKind::Credentials => "no credentials could be found",
        FaultKind::Stale => "nothing was sent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::backend::BackendId;
    use crate::domain::batch::Target;

    fn target(key: &str) -> Target {
        Target { key: key.into(), objects: vec![0] }
    }

    fn many(keys: &[&str]) -> Request {
        Request::Batch {
            backend: BackendId(1),
            bucket: "media".into(),
            keys: keys.iter().map(|key| target(key)).collect(),
        }
    }

    fn one() -> Request {
        Request::Single { backend: BackendId(1), bucket: "media".into(), key: target("k") }
    }

    fn kind(request: &Request, status: u16, body: &str) -> FaultKind {
        read(request, status, body.as_bytes()).unwrap_err().kind
    }

    fn error(code: &str) -> String {
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>")
    }

    #[test]
    fn each_key_has_its_own_answer() {
        let body = "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>AccessDenied</Code><Message>no</Message></Error><Error><Key>c</Key><Code>NoSuchKey</Code></Error></DeleteResult>";
        let verdicts: Vec<_> = read(&many(&["a", "b", "c", "d"]), 200, body.as_bytes())
            .unwrap()
            .into_iter()
            .map(|answer| answer.verdict)
            .collect();
        let expected = [
            Verdict::Deleted,
            Verdict::Failed { message: "AccessDenied: no".into(), is_refusal: true },
            Verdict::Absent,
            Verdict::Unnamed,
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn a_200_that_is_no_success_settles_nothing() {
        for body in
            ["", "<?xml version=\"1.0\"?>", "<DeleteResult><Deleted><Key>a</Key></Deleted>", "<html></html>", "not xml"]
        {
            assert_eq!(kind(&many(&["a", "b"]), 200, body), FaultKind::Malformed, "{body}");
        }
        assert_eq!(kind(&many(&["a", "b"]), 200, &error("SlowDown")), FaultKind::Throttled);
        assert_eq!(kind(&one(), 200, &error("InternalError")), FaultKind::Throttled);
        let verdicts = read(&many(&["a", "b"]), 200, b"<DeleteResult/>").unwrap();
        assert!(verdicts.iter().all(|answer| answer.verdict == Verdict::Unnamed));
    }

    #[test]
    fn only_a_named_missing_key_is_absent() {
        assert_eq!(read(&one(), 404, error("NoSuchKey").as_bytes()).unwrap()[0].verdict, Verdict::Absent);
        assert_eq!(kind(&one(), 404, &error("NoSuchBucket")), FaultKind::NoSuchBucket);
        assert_eq!(kind(&one(), 404, "<html></html>"), FaultKind::Malformed);
        assert_eq!(kind(&one(), 404, ""), FaultKind::Malformed);
    }

    #[test]
    fn faults_of_the_whole_request_are_told_apart() {
        for (status, code, expected) in [
            (403, "SignatureDoesNotMatch", FaultKind::Auth),
            (403, "InvalidAccessKeyId", FaultKind::Auth),
            (400, "ExpiredToken", FaultKind::Auth),
            (400, "InvalidToken", FaultKind::Auth),
            (403, "RequestTimeTooSkewed", FaultKind::Clock),
            (301, "PermanentRedirect", FaultKind::Redirect),
            (400, "AuthorizationHeaderMalformed", FaultKind::Redirect),
            (503, "SlowDown", FaultKind::Throttled),
            (500, "InternalError", FaultKind::Transient),
            (501, "NotImplemented", FaultKind::BatchUnsupported),
            (400, "MissingContentMD5", FaultKind::BatchUnsupported),
            (405, "MethodNotAllowed", FaultKind::BatchUnsupported),
        ] {
            assert_eq!(kind(&many(&["a", "b"]), status, &error(code)), expected, "{code}");
        }
        assert_eq!(kind(&one(), 501, &error("NotImplemented")), FaultKind::Transient);
    }
}
