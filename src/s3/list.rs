//! What lies below a prefix, page by page.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use reqwest::header::HeaderMap;

use crate::domain::backend::Backend;
use crate::domain::batch::{Request, Target};

use super::client::{Client, Exchanged, Limit};
use super::fault::{Fault, FaultKind, fault};
use super::io::ListJob;
use super::request::{self, Unsigned};
use super::xml::{self, Listing, StoreError, Xml};

/// A page has up to 1000 lines.
const LINES: usize = 1000;
/// Some stores send pages that hold nothing and go on; a listing of more of them does not end.
const MOST_EMPTY: usize = 1000;

/// What lies below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    Keys(Vec<String>),
    /// More than was asked for.
    TooMany,
}

impl Client {
    /// Lists every key that begins with the prefix. If that fails, it is found out whether the store works otherwise.
    pub(super) async fn list(&self, job: &ListJob) -> Result<Listed, Fault> {
        match self.list_all(job).await {
            Err(fault) if fault.kind.may_be_everybodys() => {
                let ListJob { backend, prefix, .. } = job;
                let key = Target { key: prefix.key.clone(), objects: Vec::new() };
                let about = Request::Single { backend: backend.id, bucket: prefix.bucket.clone(), key };
                Err(Fault { is_alone: self.answers_others(backend, &about).await, ..fault })
            }
            result => result,
        }
    }

    async fn list_all(&self, job: &ListJob) -> Result<Listed, Fault> {
        let ListJob { backend, prefix, most, .. } = job;
        let (mut keys, mut from, mut empty): (Vec<String>, Option<String>, usize) = (Vec::new(), None, 0);
        loop {
            let unsigned = request::list_below(backend, &prefix.bucket, &prefix.key, from.as_deref())?;
            let (listing, _) = self.listing(backend, unsigned).await.map_err(|unlisted| unlisted.fault)?;
            empty += usize::from(listing.lines.is_empty());
            let next = listing.is_truncated.then(|| listing.next_key.clone());
            keys.extend(keys_of(listing, &prefix.key)?);
            if keys.len() > *most {
                return Ok(Listed::TooMany);
            }
            match next {
                None => return Ok(Listed::Keys(keys)),
                Some(Some(next)) if empty < MOST_EMPTY && from.as_ref() != Some(&next) => from = Some(next),
                Some(_) => return Err(malformed("goes on, but not from where")),
            }
        }
    }

    /// Asks for a page of any listing. A question changes nothing, whatever became of it.
    pub(super) async fn listing(
        &self,
        backend: &Arc<Backend>,
        unsigned: Unsigned,
    ) -> Result<(Listing, HeaderMap), Unlisted> {
        let limit = Limit::of_lines(LINES);
        let Exchanged { status, headers, body, .. } = self.exchange(backend, unsigned, limit, None).await?;
        let refused = |status, error: &StoreError| Fault { is_refusal: true, ..fault(status, error, &headers, false) };
        let error = match (status, xml::parse(&body)) {
            (200, Ok(Xml::Listing(listing))) => return Ok((listing, headers)),
            (200, Ok(Xml::Error(error))) => return Err(refused(500, &error).into()),
            (200, _) => {
                return Err(Fault::refusal(FaultKind::Malformed, "the answer is not a complete listing").into());
            }
            (_, Ok(Xml::Error(error))) => error,
            (_, _) => StoreError::default(),
        };
        let is_unsupported = matches!(error.code.as_str(), "NotImplemented" | "MethodNotAllowed");
        Err(Unlisted { fault: refused(status, &error), is_unsupported })
    }
}

/// Why there is no page.
pub(super) struct Unlisted {
    pub fault: Fault,
    /// The store has no such listing.
    pub is_unsupported: bool,
}

impl From<Fault> for Unlisted {
    fn from(fault: Fault) -> Self {
        Self { fault, is_unsupported: false }
    }
}

fn malformed(what: &str) -> Fault {
    Fault::refusal(FaultKind::Malformed, format!("the store's listing of a prefix {what}"))
}

/// The keys of a page, all of which have to be below the prefix.
fn keys_of(listing: Listing, prefix: &str) -> Result<Vec<String>, Fault> {
    let Listing { lines, is_encoded, .. } = listing;
    let has = |part: &str| lines.iter().any(|line| line.key.to_ascii_uppercase().contains(part));
    // Most stores write a blank as a plus sign, and some leave a plus as it is.
    let (is_blank, is_plus) = (has("%2B"), has("%20") || has(" "));
    let mut keys = Vec::with_capacity(lines.len());
    for line in &lines {
        let mut readings = Vec::with_capacity(2);
        if !is_encoded {
            readings.push(line.key.clone());
        } else {
            if !line.key.contains('+') || !is_blank {
                readings.push(decoded(&line.key)?);
            }
            if line.key.contains('+') && !is_plus {
                readings.push(decoded(&line.key.replace('+', " "))?);
            }
        }
        if readings.is_empty() || !readings.iter().all(|key| key.starts_with(prefix)) {
            return Err(malformed("names what was not asked for"));
        }
        keys.extend(readings);
    }
    Ok(keys)
}

fn decoded(key: &str) -> Result<String, Fault> {
    let text = percent_decode_str(key).decode_utf8();
    text.map(|key| key.into_owned()).map_err(|_| malformed("holds a key that is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prefix: &str, keys: &[&str], is_encoded: bool) -> Result<Vec<String>, Fault> {
        let lines = keys.iter().map(|key| format!("<Contents><Key>{key}</Key></Contents>")).collect::<String>();
        let encoding = if is_encoded { "<EncodingType>url</EncodingType>" } else { "" };
        let body = format!("<ListBucketResult><IsTruncated>false</IsTruncated>{encoding}{lines}</ListBucketResult>");
        match xml::parse(body.as_bytes()) {
            Ok(Xml::Listing(listing)) => keys_of(listing, prefix),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_listing_names_a_bystander() {
        assert_eq!(read("hls/a/", &["hls/a/1.ts", "hls/a/2.ts"], false).unwrap(), ["hls/a/1.ts", "hls/a/2.ts"]);
        for keys in [["hls/ab/1.ts", "hls/a/1.ts"], ["hls/a/1.ts", "/hls/a/1.ts"], ["hls/a", "hls/a/"]] {
            assert_eq!(read("hls/a/", &keys, false).unwrap_err().kind, FaultKind::Malformed, "{keys:?}");
        }
        assert!(read("hls/a/", &["hls/a/%FF"], true).is_err());
    }

    #[test]
    fn a_plus_in_a_listing_is_guessed() {
        let read = |keys: &[&str]| read("p/", keys, true).unwrap();
        assert_eq!(read(&["p/a%20b", "p/c+d"]), ["p/a b", "p/c+d"]);
        assert_eq!(read(&["p/a b", "p/c+d"]), ["p/a b", "p/c+d"], "not encoded at all");
        assert_eq!(read(&["p/a+b", "p/c%2Bd"]), ["p/a b", "p/c+d"]);
        assert_eq!(read(&["p/a+b"]), ["p/a+b", "p/a b"], "both, of which one is not there");
        assert_eq!(read(&["p/%25+"]), ["p/%+", "p/% "]);
    }
}
