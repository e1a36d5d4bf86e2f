//! Deleting an object with its versions, markers and unfinished uploads.

use std::borrow::Cow;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use reqwest::header::{DATE, HeaderMap};

use crate::domain::versions::{Listed, Mark, Page, Versions};

use super::answer::{self, Look, Verdict, now_us};
use super::client::{Client, Exchanged, Limit};
use super::fault::{Fault, FaultKind};
use super::io::Job;
use super::list::Unlisted;
use super::request::{self, Kept, Unsigned};
use super::xml;

/// Nobody keeps more versions of one object than ten million; who seems to has a listing that does not end.
const MOST_PAGES: usize = 10_000;

/// What became of an object with its versions.
pub(super) struct Removed {
    pub verdict: Verdict,
    /// Something of it is gone, whatever the verdict says.
    pub is_partial: bool,
}

/// How far it came.
#[derive(Default)]
struct Progress {
    /// Whether anything is listed of the key.
    is_there: bool,
    /// Something may be newer than the capture, or not: the store does not say.
    is_dateless: bool,
    deleted: usize,
}

/// What became of what is listed.
enum Cleared {
    /// The store has no such listing.
    Unsupported,
    /// It does not let go of something.
    Kept(Verdict),
    /// All of it is gone that should be.
    Done,
}

impl Client {
    /// Removes every version and marker of the object that the backend's choice names, and its unfinished uploads. A store that
    /// says that it lists no versions has none: the plain deletion is sent.
    pub(super) async fn delete_versions(&self, job: &Job, unsigned: &Unsigned) -> Result<Removed, Fault> {
        let mut progress = Progress::default();
        let removed = self.delete_all(job, unsigned, &mut progress).await;
        let is_partial = progress.deleted > 0;
        match removed {
            Ok(verdict) => Ok(Removed { verdict, is_partial }),
            Err(fault) => Err(Fault { is_refusal: fault.is_refusal && !is_partial, ..fault }),
        }
    }

    async fn delete_all(&self, job: &Job, unsigned: &Unsigned, progress: &mut Progress) -> Result<Verdict, Fault> {
        let verdict = match self.delete_listed(job, unsigned, Kept::Versions, progress).await? {
            Cleared::Unsupported => self.delete_one(job, unsigned.clone()).await?,
            Cleared::Kept(verdict) => return Ok(verdict),
            Cleared::Done if progress.deleted > 0 => Verdict::Deleted,
            Cleared::Done if progress.is_dateless => return Ok(dateless()),
            Cleared::Done if progress.is_there => Verdict::Superseded,
            Cleared::Done => self.delete_unlisted(job, unsigned).await?,
        };
        Ok(match self.delete_listed(job, unsigned, Kept::Uploads, progress).await? {
            Cleared::Kept(kept) => kept,
            Cleared::Unsupported | Cleared::Done => verdict,
        })
    }

    /// One that the listing does not show: some leave out what was written before there were versions.
    async fn delete_unlisted(&self, job: &Job, unsigned: &Unsigned) -> Result<Verdict, Fault> {
        match (self.look(&job.backend, unsigned, job.captured_us).await?, job.backend.versions) {
            (Look::Absent, _) => Ok(Verdict::Absent),
            (Look::Newer, Versions::Captured) => Ok(Verdict::Superseded),
            (Look::Dateless, Versions::Captured) => Ok(dateless()),
            _ => self.delete_one(job, unsigned.clone()).await,
        }
    }

    /// Deletes what is listed of exactly that key, page by page, and what the key means now last: if that is interrupted, no
    /// older content comes to light.
    async fn delete_listed(
        &self,
        job: &Job,
        unsigned: &Unsigned,
        kept: Kept,
        progress: &mut Progress,
    ) -> Result<Cleared, Fault> {
        let key = job.request.targets().first().map(|target| target.key.as_str()).unwrap_or_default();
        let (mut latest, mut from) = (None, None);
        for _ in 0..MOST_PAGES {
            let Some(page) = self.page(job, key, kept, from.as_ref()).await? else {
                return if from.is_none() { Ok(Cleared::Unsupported) } else { Err(endless()) };
            };
            // By the clock of the answer that tells how old they are.
            let captured_ago_us = now_us().saturating_sub(job.captured_us);
            let own: Vec<&Listed> = page.listed.iter().filter(|listed| listed.key == key).collect();
            let is_chosen_by_date = job.backend.versions == Versions::Captured;
            progress.is_dateless |= is_chosen_by_date && own.iter().any(|listed| listed.age_us.is_none());
            // Newest first, as they are listed, unless the listing says which it is.
            let is_first = !progress.is_there;
            progress.is_there |= !own.is_empty();
            let newest = own.iter().find(|listed| listed.is_latest).or(own.first().filter(|_| is_first));
            let newest = newest.map(|listed| listed.id.clone());
            let mut doomed: Vec<String> =
                page.of(key, job.backend.versions, captured_ago_us).map(|listed| listed.id.clone()).collect();
            if let Some(place) = doomed.iter().position(|id| Some(id) == newest.as_ref()) {
                // One that was held back by mistake is no longer.
                let newest = doomed.remove(place);
                doomed.extend(latest.replace(newest));
            }
            if let Some(verdict) = self.delete_each(job, unsigned, kept, doomed, progress).await? {
                return Ok(Cleared::Kept(verdict));
            }
            if !page.may_go_on(key) {
                let last = self.delete_each(job, unsigned, kept, latest.into_iter().collect(), progress).await?;
                return Ok(last.map_or(Cleared::Done, Cleared::Kept));
            }
            if page.next == from {
                break;
            }
            from = page.next;
        }
        Err(endless())
    }

    /// Deletes them one after the other, the oldest first. Comes back with a verdict where the store keeps one.
    async fn delete_each(
        &self,
        job: &Job,
        unsigned: &Unsigned,
        kept: Kept,
        doomed: Vec<String>,
        progress: &mut Progress,
    ) -> Result<Option<Verdict>, Fault> {
        for id in doomed.iter().rev() {
            let about = request::about(unsigned, kept, id);
            match self.delete_one(job, about.clone()).await {
                Ok(Verdict::Deleted | Verdict::Marked | Verdict::Absent) => progress.deleted += 1,
                Ok(verdict) => return Ok(Some(verdict)),
                Err(fault) if fault.kind == FaultKind::Denied => {
                    return self.lock(&job.backend, &about).await.map(Some).ok_or(fault);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(None)
    }

    async fn delete_one(&self, job: &Job, unsigned: Unsigned) -> Result<Verdict, Fault> {
        let limit = Limit::of_one();
        let Exchanged { status, headers, body, .. } =
            self.exchange(&job.backend, unsigned, limit, Some(job.until)).await?;
        answer::single(status, &headers, &body)
    }

    /// Nothing if the store says that it has no such listing.
    async fn page(&self, job: &Job, key: &str, kept: Kept, from: Option<&Mark>) -> Result<Option<Page>, Fault> {
        let unsigned = request::list(&job.backend, job.request.bucket(), key, kept, from)?;
        match self.listing(&job.backend, unsigned).await {
            Ok((listing, headers)) => page(listing, &headers, key).map(Some),
            Err(Unlisted { is_unsupported: true, .. }) => Ok(None),
            Err(Unlisted { fault, .. }) => Err(fault),
        }
    }
}

fn endless() -> Fault {
    Fault::refusal(FaultKind::Malformed, "the store's listing of an object's versions does not end")
}

fn dateless() -> Verdict {
    Verdict::Failed { message: "the store does not say when its versions were written".to_owned(), is_refusal: true }
}

/// Reads a page that was asked for the sake of one key.
fn page(listing: xml::Listing, headers: &HeaderMap, asked: &str) -> Result<Page, Fault> {
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
    let now = now.and_then(|date| Timestamp::try_from(date).ok());
    // By two clocks nobody can tell.
    let age_us = |written: &str| Some(now?.as_microsecond() - written.parse::<Timestamp>().ok()?.as_microsecond());
    let listed = listing.lines.into_iter().map(|line| {
        let age_us = age_us(&line.written);
        Ok(Listed { key: plain(line.key)?, id: line.id, age_us, is_latest: line.is_latest })
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
    use crate::s3::xml::Xml;

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
