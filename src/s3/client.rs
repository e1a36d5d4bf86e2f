//! One request, signed and sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use reqsign_aws_v4::Credential;
use reqsign_core::Signer;
use reqsign_core::hash::hex_sha256;
use reqwest::Version;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH, TRANSFER_ENCODING,
};
use tokio::sync::{Mutex, Semaphore};

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Request;
use crate::domain::object::LONGEST_KEY;
use crate::domain::verify::{Honour, Verify};
use crate::domain::versions::Versions;

use super::answer::{self, KeyAnswer, Look, Verdict};
use super::clock::{self, Ahead, Clocks};
use super::document::{self, Document};
use super::fault::{Fault, FaultKind};
use super::io::{Job, ReadJob, Settings};
use super::request::{Condition, DIGEST, Unsigned};
use super::verify::{NO_VERSION, Probed};
use super::versions::Removed;
use super::{credentials, request, transport};

/// An answer may have this much.
const BODY_LIMIT: usize = 64 * 1024;
/// And so much more for each key that it names: with what else is said of it, and each byte of the key itself written as an
/// entity or escape.
const LINE_LIMIT: usize = 2 * 1024;
const LONGEST_LETTER: usize = "&quot;".len();

/// Signers by backend, with the backend as it was when its signer was made, and that moment.
type Signers = HashMap<BackendId, (Arc<Backend>, Signer<Credential>, Instant)>;

/// The most bytes that an answer may have, and what is wrong when it has more.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    bytes: usize,
    or_else: &'static str,
}

impl Limit {
    fn new(bytes: usize) -> Self {
        Self { bytes, or_else: "the answer is larger than any answer can be" }
    }

    /// Of an answer about one thing.
    pub fn of_one() -> Self {
        Self::new(BODY_LIMIT)
    }

    /// Of an answer that names the keys of the request.
    fn of_request(request: &Request) -> Self {
        let lines = request.targets().iter().map(|target| LINE_LIMIT + LONGEST_LETTER * target.key.len());
        Self::new(BODY_LIMIT + lines.sum::<usize>())
    }

    /// Of a listing with so many lines.
    pub fn of_lines(lines: usize) -> Self {
        Self::new(BODY_LIMIT + lines * (LINE_LIMIT + LONGEST_LETTER * LONGEST_KEY))
    }
}

/// A whole answer.
pub(super) struct Exchanged {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// A connection that breaks cannot pass for the end of the answer.
    pub has_end: bool,
}

/// The client of the I/O thread.
pub struct Client {
    http: reqwest::Client,
    pub(super) settings: Settings,
    signers: Mutex<Signers>,
    clocks: Clocks,
    /// Called with what is learned of a store's clock: by how many seconds it is ahead of ours.
    tell_clock: Box<dyn Fn(BackendId, i64)>,
    pub(super) probed: Mutex<Probed>,
    /// Documents are looked at one after the other.
    reading: Semaphore,
}

/// The answer to a deletion.
#[derive(Debug)]
pub struct Sent {
    pub answers: Vec<KeyAnswer>,
    /// What a probe on the way has found out.
    pub learned: Option<Honour>,
    /// Something of the only object is gone, whatever the answer says.
    pub is_partial: bool,
}

impl Sent {
    fn only(verdict: Verdict, learned: Option<Honour>) -> Self {
        Self { answers: vec![KeyAnswer { index: 0, verdict }], learned, is_partial: false }
    }
}

impl Client {
    /// Makes the client; called on the I/O thread.
    pub fn new(settings: Settings, tell_clock: impl Fn(BackendId, i64) + 'static) -> Result<Self, String> {
        let http = transport::client(&settings)?;
        Ok(Self {
            http,
            settings,
            signers: Mutex::default(),
            clocks: Clocks::default(),
            tell_clock: Box::new(tell_clock),
            probed: Mutex::default(),
            reading: Semaphore::new(1),
        })
    }

    /// Sends a request, unless it is too late for it, and reads its answer. If a request for one key fails, it is found out
    /// whether the store works otherwise.
    pub async fn send(&self, job: &Job) -> Result<Sent, Fault> {
        match self.deliver(job).await {
            Err(fault) if fault.kind.may_be_everybodys() && job.request.targets().len() == 1 => {
                Err(Fault { is_alone: self.answers_others(&job.backend, &job.request).await, ..fault })
            }
            result => result,
        }
    }

    /// Whether the store has an answer about a key that cannot be there.
    pub(super) async fn answers_others(&self, backend: &Arc<Backend>, request: &Request) -> bool {
        let Ok(probe) = request::probe(backend, request, fastrand::u128(..), None) else { return false };
        // A refusal may be everybody's, and something in front of the store may find everything.
        self.ask(backend, request::head(&probe)).await.is_ok_and(|answer| answer.status == 404)
    }

    /// Sends a question: it has no body, and changes nothing, so that it is never too late for it.
    pub(super) async fn ask(&self, backend: &Arc<Backend>, unsigned: Unsigned) -> Result<Exchanged, Fault> {
        self.exchange(backend, unsigned, Limit::of_one(), None).await
    }

    pub(super) async fn deliver(&self, job: &Job) -> Result<Sent, Fault> {
        let Job { backend, request, until, .. } = job;
        let mut unsigned = request::build(backend, request)?;
        let mut learned = None;
        if backend.verify != Verify::None {
            let honour = self.honour(backend, request).await?;
            learned = Some(honour).filter(|_| backend.verify == Verify::IfMatch(Honour::Unknown));
            match self.look(backend, &unsigned, job.captured_us).await? {
                Look::Same { etag } if honour == Honour::Yes => unsigned.condition = etag.map(Condition::Is),
                // It may come back before the deletion arrives.
                Look::Absent if honour == Honour::Yes => {
                    unsigned.condition = Some(Condition::Is(NO_VERSION.to_owned()));
                }
                Look::Same { .. } | Look::Absent => {}
                Look::Newer => return Ok(Sent::only(Verdict::Superseded, learned)),
                Look::Dateless => {
                    let message = "the store does not say when the object was written".to_owned();
                    return Ok(Sent::only(Verdict::Failed { message, is_refusal: true }, learned));
                }
            }
        }
        if backend.versions != Versions::Current && matches!(request, Request::Single { .. }) {
            let Removed { verdict, is_partial } = self.delete_versions(job, &unsigned).await?;
            return Ok(Sent { is_partial, ..Sent::only(verdict, learned) });
        }
        let limit = Limit::of_request(request);
        let Exchanged { status, headers, body, .. } = self.exchange(backend, unsigned, limit, Some(*until)).await?;
        let answers = self.explained(backend, request, answer::read(request, status, &headers, &body)).await?;
        Ok(Sent { answers, learned, is_partial: false })
    }

    /// Reads a document, unless it is still the version that was read before.
    pub async fn read(&self, job: &ReadJob) -> Result<Document, Fault> {
        let ReadJob { backend, object, etag, reading, limit, .. } = job;
        let unsigned = request::get(backend, &object.bucket, &object.key, etag.clone())?;
        let limit = Limit { bytes: *limit, or_else: "it is larger than storage_reaper.document_size_limit" };
        let answer = self.exchange(backend, unsigned, limit, None).await?;
        if answer.status == 200 && !answer.has_end {
            return Err(Fault::new(FaultKind::Malformed, "the answer does not say where it ends"));
        }
        let Exchanged { status, headers, body, .. } = answer;
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::to_owned);
        if status == 200 && text(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Ok(Document::Unreadable("it is compressed".to_owned()));
        }
        let (version, was_read, reading) = (text(ETAG), etag.is_some(), reading.clone());
        // A large one takes its time, and requests must not wait for it; several take their memory.
        let _turn = self.reading.acquire().await;
        let read =
            tokio::task::spawn_blocking(move || document::read(status, &headers, &body, version, was_read, &reading));
        read.await.unwrap_or_else(|_| Ok(Document::Unreadable("it could not be looked at".to_owned())))
    }

    /// Signs in the Authorization header, so that no URL is ever a credential; by a time that is so many seconds ahead.
    async fn sign(&self, backend: &Arc<Backend>, unsigned: &Unsigned, ahead: i64) -> Result<reqwest::Request, Fault> {
        let malformed = || Fault::refusal(FaultKind::Malformed, "the request could not be built");
        let mut head = http::Request::builder()
            .method(unsigned.method.clone())
            .uri(unsigned.url.as_str())
            .extension(Ahead(ahead))
            .header(DIGEST, hex_sha256(unsigned.body.as_bytes()));
        if let Some(digest) = &unsigned.content_md5 {
            head = head.header("content-md5", digest).header("content-type", "application/xml");
        }
        head = match &unsigned.condition {
            Some(Condition::Is(etag)) => head.header(IF_MATCH, etag),
            Some(Condition::IsNot(etag)) => head.header(IF_NONE_MATCH, etag),
            None => head,
        };
        let (mut parts, ()) = head.body(()).map_err(|_| malformed())?.into_parts();
        self.signer(backend).await.sign(&mut parts, None).await.map_err(|error| {
            // The error's own text may quote a file or a token; its kind says enough.
            let what = format!("no usable credentials under \"{}\": {:?}", backend.credentials, error.kind());
            Fault::refusal(FaultKind::Credentials, what)
        })?;
        if parts.uri != *unsigned.url.as_str() {
            return Err(malformed());
        }
        let mut signed = reqwest::Request::new(unsigned.method.clone(), unsigned.url.clone());
        *signed.headers_mut() = parts.headers;
        Ok(signed)
    }

    async fn signer(&self, backend: &Arc<Backend>) -> Signer<Credential> {
        let mut signers = self.signers.lock().await;
        match signers.get(&backend.id) {
            Some((known, signer, _)) if known == backend => signer.clone(),
            _ => {
                let signer = credentials::signer(backend, &self.settings, &self.http);
                signers.insert(backend.id, (Arc::clone(backend), signer.clone(), Instant::now()));
                signer
            }
        }
    }

    /// Credentials of a backend are looked up afresh, after the store refused them, if they are at least so old.
    pub async fn forget_credentials(&self, backend: &Backend, age: Duration) {
        let mut signers = self.signers.lock().await;
        if signers.get(&backend.id).is_some_and(|(_, _, made_at)| made_at.elapsed() >= age) {
            signers.remove(&backend.id);
        }
    }

    /// Credentials of all backends are looked up afresh.
    pub async fn forget_all_credentials(&self) {
        self.signers.lock().await.clear();
    }

    /// Signs a request and sends it, unless that is too late, and reads the answer. Once more by the time of the answer, if the store
    /// refused another one: that time counts from then on if the store takes it.
    pub(super) async fn exchange(
        &self,
        backend: &Arc<Backend>,
        unsigned: Unsigned,
        limit: Limit,
        until: Option<Instant>,
    ) -> Result<Exchanged, Fault> {
        let attempt = async |ahead: i64| {
            let signed = self.sign(backend, &unsigned, ahead).await?;
            // Credentials may have come from a service far away.
            if until.is_some_and(|until| Instant::now() > until) {
                return Err(Fault::refusal(FaultKind::Stale, "the request was not sent in time"));
            }
            self.transmit(signed, unsigned.body.clone(), limit).await
        };
        let ahead = self.clocks.of(backend);
        let first = attempt(ahead).await?;
        let theirs = clock::correction(first.status, &first.headers, SystemTime::now(), ahead);
        let Some(theirs) = theirs else { return Ok(first) };
        match attempt(theirs).await {
            // It may have another reason to refuse it, once it takes the time.
            Ok(second) if second.status != 403 || clock::is_skewed(&first.body) && !clock::is_skewed(&second.body) => {
                if self.clocks.set(backend, theirs) {
                    (self.tell_clock)(backend.id, theirs);
                }
                Ok(second)
            }
            Err(fault) if !fault.is_refusal => Err(fault),
            // The time was right, or the one of the answer is wrong: something between may have added it.
            Ok(_) | Err(_) => Ok(first),
        }
    }

    pub(super) async fn transmit(
        &self,
        mut request: reqwest::Request,
        body: String,
        limit: Limit,
    ) -> Result<Exchanged, Fault> {
        if !body.is_empty() {
            *request.body_mut() = Some(body.into());
        }
        let mut response = self.http.execute(request).await.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let has_end = response.version() >= Version::HTTP_2
            || headers.contains_key(CONTENT_LENGTH)
            || headers.contains_key(TRANSFER_ENCODING);
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
            if answer.len() + chunk.len() > limit.bytes {
                return Err(Fault::new(FaultKind::Malformed, limit.or_else));
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(Exchanged { status, headers, body: answer, has_end })
    }
}

/// A request that got no whole answer. The library's text would name the URL, and its causes may too.
fn broken(error: &reqwest::Error) -> Fault {
    if error.is_connect() && error.is_timeout() {
        return Fault::refusal(FaultKind::Timeout, "the store did not answer in time");
    }
    if error.is_timeout() {
        return Fault::new(FaultKind::Timeout, "the store did not answer in time");
    }
    if error.is_connect() {
        return Fault::refusal(FaultKind::Transient, "could not connect to the store");
    }
    Fault::new(FaultKind::Transient, "the connection to the store broke")
}
