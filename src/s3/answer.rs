//! What an answer means: for each key, or for the request as a whole.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::header::{DATE, ETAG, HeaderMap, LAST_MODIFIED};

use crate::domain::batch::Request;
use crate::domain::verify::is_newer;

use super::fault::{Fault, FaultKind, describe, fault, is_throttling};
use super::xml::{self, KeyError, StoreError, Xml};

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
    /// A marker hides it now; its bytes are still there.
    Marked,
    /// The store says that there was no such key.
    Absent,
    /// It was written again since its row let it go.
    Superseded,
    /// The store asks to slow down.
    Throttled { message: String },
    /// Not with these credentials, or not yet.
    Denied { message: String },
    /// The same, but others are locked, and it was not asked whether this one is.
    Unasked { message: String },
    /// A lock keeps it; until when, in microseconds of the epoch, if it has an end.
    Locked { until_us: Option<i64> },
    /// The store says why not.
    Failed { message: String, is_refusal: bool },
    /// A complete answer that does not name the key.
    Unnamed,
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
pub fn read(request: &Request, status: u16, headers: &HeaderMap, body: &[u8]) -> Result<Vec<KeyAnswer>, Fault> {
    match request {
        Request::Single { .. } => single(status, headers, body).map(|verdict| vec![KeyAnswer { index: 0, verdict }]),
        Request::Batch { .. } => batch(request, status, headers, body),
    }
}

/// Reads the answer to a DELETE.
pub(super) fn single(status: u16, headers: &HeaderMap, body: &[u8]) -> Result<Verdict, Fault> {
    let is_marked = headers.get("x-amz-delete-marker").is_some_and(|value| value.as_bytes() == b"true");
    let done = if is_marked { Verdict::Marked } else { Verdict::Deleted };
    match (status, xml::parse(body)) {
        // Some stores answer 200 with an error inside.
        (200..=299, Ok(Xml::Error(error))) => Err(Fault { is_refusal: false, ..fault(500, &error, headers, false) }),
        (204, _) => Ok(done),
        (200, _) if body.trim_ascii().is_empty() => Ok(done),
        (404, Ok(Xml::Error(error))) if is_absent(&error.code) => Ok(Verdict::Absent),
        (412, _) => Ok(Verdict::Superseded),
        (400, Ok(Xml::Error(error))) if is_about_the_key(&error.code) => {
            Ok(Verdict::Failed { message: describe(&error.code, &error.message), is_refusal: true })
        }
        (status, Ok(Xml::Error(error))) => Err(fault(status, &error, headers, false)),
        (status, _) => Err(fault(status, &StoreError::default(), headers, false)),
    }
}

fn batch(request: &Request, status: u16, headers: &HeaderMap, body: &[u8]) -> Result<Vec<KeyAnswer>, Fault> {
    let (deleted, errors) = match (status, xml::parse(body)) {
        (200, Ok(Xml::DeleteResult { deleted, errors })) => (deleted, errors),
        // It may have begun.
        (200, Ok(Xml::Error(error))) => return Err(Fault { is_refusal: false, ..fault(500, &error, headers, true) }),
        (200, _) => return Err(Fault::new(FaultKind::Malformed, "the answer is not a complete DeleteResult")),
        (status, Ok(Xml::Error(error))) => return Err(fault(status, &error, headers, true)),
        (status, _) => return Err(fault(status, &StoreError::default(), headers, true)),
    };
    let deleted: HashMap<_, _> = deleted.into_iter().map(|deleted| (deleted.key, deleted.is_marked)).collect();
    let errors: HashMap<_, _> = errors.into_iter().map(|error| (error.key.clone(), error)).collect();
    let verdict = |key: &str| match (errors.get(key), deleted.get(key)) {
        (Some(error), _) => refused(error),
        (None, Some(true)) => Verdict::Marked,
        (None, Some(false)) => Verdict::Deleted,
        (None, None) => Verdict::Unnamed,
    };
    let targets = request.targets().iter().enumerate();
    let answers: Vec<_> = targets.map(|(index, target)| KeyAnswer { index, verdict: verdict(&target.key) }).collect();
    if answers.iter().all(|answer| answer.verdict == Verdict::Unnamed) {
        // Some stores report a failure of the whole as one of a key without a name.
        return Err(match errors.get("") {
            Some(KeyError { code, message, .. }) => {
                let error = StoreError { code: code.clone(), message: message.clone(), ..StoreError::default() };
                Fault { is_refusal: false, ..fault(500, &error, headers, true) }
            }
            None => Fault::new(FaultKind::BatchSilent, "the answer to a batch named none of its keys"),
        });
    }
    // What happens to all of several keys is the store's affair.
    match answers.as_slice() {
        [KeyAnswer { verdict: Verdict::Failed { message, is_refusal: false }, .. }, _, ..]
            if answers.iter().all(|answer| matches!(answer.verdict, Verdict::Failed { is_refusal: false, .. })) =>
        {
            Err(Fault::new(FaultKind::Transient, format!("the store has an internal error for every key: {message}")))
        }
        _ => Ok(answers),
    }
}

/// What an error says of its key.
fn refused(error: &KeyError) -> Verdict {
    let message = describe(&error.code, &error.message);
    match error.code.as_str() {
        code if is_absent(code) => Verdict::Absent,
        code if is_throttling(code) => Verdict::Throttled { message },
        "AccessDenied" => Verdict::Denied { message },
        code => Verdict::Failed { message, is_refusal: !is_about_the_store(code) },
    }
}

fn is_absent(code: &str) -> bool {
    matches!(code, "NoSuchKey" | "NoSuchVersion" | "NoSuchUpload")
}

/// Errors behind which the store may have done it, or may still.
fn is_about_the_store(code: &str) -> bool {
    matches!(code, "InternalError" | "ServiceUnavailable" | "RequestTimeout" | "OperationAborted" | "")
}

fn is_about_the_key(code: &str) -> bool {
    matches!(code, "KeyTooLongError" | "InvalidObjectName" | "InvalidURI" | "XMinioInvalidObjectName")
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
        read(request, status, &HeaderMap::new(), body.as_bytes()).unwrap_err().kind
    }

    fn error(code: &str) -> String {
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message></Error>")
    }

    #[test]
    fn each_key_has_its_own_answer() {
        let body = "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>AccessDenied</Code><Message>no</Message></Error><Error><Key>c</Key><Code>NoSuchKey</Code></Error></DeleteResult>";
        let verdicts: Vec<_> = read(&many(&["a", "b", "c", "d"]), 200, &HeaderMap::new(), body.as_bytes())
            .unwrap()
            .into_iter()
            .map(|answer| answer.verdict)
            .collect();
        let expected = [
            Verdict::Deleted,
            Verdict::Denied { message: "AccessDenied: no".into() },
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
        assert_eq!(kind(&one(), 200, &error("InternalError")), FaultKind::Transient);
        assert_eq!(kind(&many(&["a", "b"]), 200, "<DeleteResult/>"), FaultKind::BatchSilent);
    }

    #[test]
    fn only_a_named_missing_key_is_absent() {
        assert_eq!(
            read(&one(), 404, &HeaderMap::new(), error("NoSuchKey").as_bytes()).unwrap()[0].verdict,
            Verdict::Absent
        );
        assert_eq!(kind(&one(), 404, &error("NoSuchBucket")), FaultKind::NoSuchBucket);
        assert_eq!(kind(&one(), 404, "<html></html>"), FaultKind::NoSuchBucket);
        assert_eq!(kind(&one(), 404, ""), FaultKind::NoSuchBucket);
    }
}
