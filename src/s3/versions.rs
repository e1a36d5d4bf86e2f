//! Deleting an object with its versions, markers and unfinished uploads.

use std::borrow::Cow;
use std::time::Instant;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use reqwest::header::{DATE, HeaderMap};

use crate::domain::versions::{Listed, Mark, Page};

use super::answer::{self, Verdict, now_us};
use super::client::{Client, Exchanged, Limit};
use super::fault::{Fault, FaultKind, fault};
use super::io::Job;
use super::request::{self, Kept, Unsigned};
use super::xml::{self, Listing, StoreError, Xml};

/// A page has up to 1000 lines.
const LINES: usize = 1000;
/// More pages of one key than this are no listing that ends: ten million versions.
const MOST_PAGES: usize = 10_000;

/// How far it came.
#[derive(Default)]
struct Progress {
    listed: usize,
    deleted: usize,
}

impl Client {
    /// Removes every version and marker of the object that the backend's choice names, and its unfinished uploads. A store that
    /// lists no versions has none: the plain deletion is sent.
    pub(super) async fn delete_versions(&self, job: &Job, unsigned: &Unsigned) -> Result<Verdict, Fault> {
        let mut progress = Progress::default();
        let found = self.delete_listed(job, unsigned, Kept::Versions, &mut progress).await;
        let is_versionless = |fault: &Fault| fault.kind == FaultKind::BatchUnsupported && progress.listed == 0;
        let verdict = match found {
            Err(fault) if is_versionless(&fault) => self.delete_one(job, unsigned.clone()).await?,
            // What came before may be gone.
            Err(fault) => return Err(Fault { is_refusal: fault.is_refusal && progress.deleted == 0, ..fault }),
            Ok(Some(verdict)) => return Ok(verdict),
            Ok(None) if progress.deleted > 0 => Verdict::Deleted,
            Ok(None) if progress.listed > 0 => Verdict::Superseded,
            Ok(None) => Verdict::Absent,
        };
        match self.delete_listed(job, unsigned, Kept::Uploads, &mut progress).await {
            Ok(Some(verdict)) => Ok(verdict),
            Ok(None) => Ok(verdict),
            Err(fault) if fault.kind == FaultKind::BatchUnsupported => Ok(verdict),
            Err(fault) => Err(Fault { is_refusal: false, ..fault }),
        }
    }

    /// Deletes what is listed of exactly that key. Comes back with a verdict where the store keeps one.
    async fn delete_listed(
        &self,
        job: &Job,
        unsigned: &Unsigned,
        kept: Kept,
        progress: &mut Progress,
    ) -> Result<Option<Verdict>, Fault> {
        let key = job.request.targets().first().map(|target| target.key.as_str()).unwrap_or_default();
        let captured_ago_us = now_us().saturating_sub(job.captured_us);
        let mut from: Option<Mark> = None;
        for _ in 0..MOST_PAGES {
            let page = self.page(job, key, kept, from.as_ref()).await?;
            progress.listed += page.listed.iter().filter(|listed| listed.key == key).count();
            for Listed { id, .. } in page.of(key, job.backend.versions, captured_ago_us) {
                let about = request::about(unsigned, kept, id);
                let denied = match self.delete_one(job, about.clone()).await {
                    Ok(Verdict::Deleted | Verdict::Marked | Verdict::Absent) => {
                        progress.deleted += 1;
                        continue;
                    }
                    Ok(verdict) => return Ok(Some(verdict)),
                    Err(fault) if fault.kind == FaultKind::Denied => fault,
                    Err(fault) => return Err(fault),
                };
                return self.lock(&job.backend, &about).await.map(Some).ok_or(denied);
            }
            if !page.may_go_on(key) {
                return Ok(None);
            }
            if page.next == from {
                break;
            }
            from = page.next;
        }
        Err(Fault::refusal(FaultKind::Malformed, "the store's listing of an object's versions does not end"))
    }

    async fn delete_one(&self, job: &Job, unsigned: Unsigned) -> Result<Verdict, Fault> {
        let signed = self.sign(&job.backend, unsigned).await?;
        if Instant::now() > job.until {
            return Err(Fault::refusal(FaultKind::Stale, "the request was not sent in time"));
        }
        let Exchanged { status, headers, body, .. } = self.exchange(signed, String::new(), Limit::of(1)).await?;
        answer::single(status, &headers, &body)
    }

    async fn page(&self, job: &Job, key: &str, kept: Kept, from: Option<&Mark>) -> Result<Page, Fault> {
        let unsigned = request::list(&job.backend, job.request.bucket(), key, kept, from)?;
        let signed = self.sign(&job.backend, unsigned).await?;
        let Exchanged { status, headers, body, .. } = self.exchange(signed, String::new(), Limit::of(LINES)).await?;
        match (status, xml::parse(&body)) {
            (200, Ok(Xml::Listing(listing))) => page(listing, &headers, key),
            (200, Ok(Xml::Error(error))) => Err(fault(503, &error, &headers, true)),
            (200, _) => Err(Fault::refusal(FaultKind::Malformed, "the answer is not a complete listing")),
            (status, Ok(Xml::Error(error))) => Err(refused(fault(status, &error, &headers, true))),
            (status, _) => Err(refused(fault(status, &StoreError::default(), &headers, true))),
        }
    }
}

/// A listing changes nothing.
fn refused(fault: Fault) -> Fault {
    Fault { is_refusal: true, ..fault }
}

/// Reads a page that was asked for the sake of one key.
fn page(listing: Listing, headers: &HeaderMap, asked: &str) -> Result<Page, Fault> {
    let broken = |what: &str| Fault::refusal(FaultKind::Malformed, format!("the store's listing {what}"));
    // Most stores write a blank as a plus sign, and some leave a plus as it is.
    let decode = |text: &str| percent_decode_str(text).decode_utf8().map(Cow::into_owned);
    let plain = |key: String| match listing.is_encoded {
        false => Ok(key),
        true if decode(&key).is_ok_and(|literal| literal == asked) => Ok(asked.to_owned()),
        true => decode(&key.replace('+', " ")).map_err(|_| broken("holds a key that is no text")),
    };
    let now =
        headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = now.and_then(|date| Timestamp::try_from(date).ok()).unwrap_or_else(Timestamp::now);
    let age_us = |written: &str| Some(now.as_microsecond() - written.parse::<Timestamp>().ok()?.as_microsecond());
    let listed = listing.lines.into_iter().map(|line| {
        let age_us = age_us(&line.written);
        Ok(Listed { key: plain(line.key)?, id: line.id, age_us })
    });
    let listed = listed.collect::<Result<Vec<_>, Fault>>()?;
    let next = match (listing.is_truncated, listing.next_key) {
        (false, _) => None,
        (true, Some(key)) => Some(Mark { key: plain(key)?, id: listing.next_id.unwrap_or_default() }),
        (true, None) => return Err(broken("goes on, but not from where")),
    };
    Ok(Page { listed, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_for(asked: &str, body: &str) -> Result<Page, Fault> {
        match xml::parse(body.as_bytes()) {
            Ok(Xml::Listing(listing)) => page(listing, &HeaderMap::new(), asked),
            other => panic!("{other:?}"),
        }
    }

    fn read(body: &str) -> Result<Page, Fault> {
        read_for("a+b c", body)
    }

    #[test]
    fn a_listing_that_breaks_off_or_is_none_names_no_version() {
        let line = "<Version><Key>a%2Bb+c</Key><VersionId>v1</VersionId><Owner><ID>x</ID></Owner><LastModified>2026-01-01T00:00:00.000Z</LastModified></Version>";
        let open = "<ListVersionsResult><EncodingType>url</EncodingType>";
        let whole = read(&format!("{open}{line}<IsTruncated>false</IsTruncated></ListVersionsResult>")).unwrap();
        assert_eq!((whole.listed[0].key.as_str(), whole.listed[0].id.as_str(), whole.next), ("a+b c", "v1", None));
        let literal = read_for("a+b+c", &format!("{open}{line}</ListVersionsResult>")).unwrap();
        assert_eq!(literal.listed[0].key, "a+b+c", "some stores leave a plus as it is");
        assert!(read(&format!("{open}{line}<IsTruncated>true</IsTruncated></ListVersionsResult>")).is_err());
        assert!(xml::parse(format!("{open}{line}").as_bytes()).is_err());
        assert!(xml::parse(b"<ListVersionsResult><Version><Key>a</Key></Version></ListVersionsResult>").is_err());
    }
}
