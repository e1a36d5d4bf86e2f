//! What a store can do, and whether it lets us: asked with a key that cannot be there, so that nothing of anybody's goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::backend::Backend;
use crate::domain::batch::{Request, Target};
use crate::domain::probe::{Found, absent_key};
use crate::domain::verify::{Honour, Verify};
use crate::domain::versions::Versions;

use super::answer::{Verdict, now_us};
use super::client::{Client, Exchanged};
use super::fault::{Fault, FaultKind};
use super::io::{Job, ProbeJob};
use super::request;
use super::xml::{self, Xml};

/// A question is asked when its turn comes, however late that is.
const NEVER_TOO_LATE: Duration = Duration::from_secs(3600);

/// What a store says to the deletion of a key.
enum Tried {
    Said(Verdict),
    /// The request as a whole is denied.
    Denied(String),
    /// It takes no such request.
    Unsupported,
    /// It does not say what became of the key.
    Unclear,
}

impl Tried {
    /// Why the key was not deleted.
    fn refusal(self) -> Result<String, Fault> {
        match self {
            Self::Denied(message)
            | Self::Said(
                Verdict::Denied { message } | Verdict::Unasked { message } | Verdict::Failed { message, .. },
            ) => Ok(message),
            Self::Said(Verdict::Throttled { message }) => Err(Fault::refusal(FaultKind::Throttled, message)),
            _ => Ok("the store's answer does not say what became of the key".to_owned()),
        }
    }
}

impl Client {
    /// Deletes a key that cannot be there, in a batch if the kind of store takes them, and asks whether the bucket keeps
    /// versions. A marker that this leaves in such a bucket is removed.
    pub(super) async fn explore(&self, job: &ProbeJob) -> Result<Found, Fault> {
        let ProbeJob { backend, prefix, .. } = job;
        let key = absent_key(prefix, fastrand::u128(..));
        // What else is asked before a deletion is asked apart.
        let plain = |versions| Arc::new(Backend { verify: Verify::None, versions, ..Backend::clone(backend) });
        let current = plain(Versions::Current);
        let of_key = || Target { key: key.clone(), objects: Vec::new() };
        let (id, bucket) = (backend.id, &backend.bucket);
        let single = || Request::Single { backend: id, bucket: bucket.clone(), key: of_key() };
        let batch = || Request::Batch { backend: id, bucket: bucket.clone(), keys: vec![of_key()] };
        let mut found = Found { keeps_versions: self.keeps_versions(backend).await?, ..Found::default() };

        let tried = match backend.kind.profile().takes_batches {
            true => self.tried(&current, batch()).await?,
            false => Tried::Unclear,
        };
        found.takes_batches = match &tried {
            Tried::Said(_) => Some(true),
            Tried::Unsupported => Some(false),
            Tried::Denied(_) | Tried::Unclear => None,
        };
        let tried = match tried {
            Tried::Unsupported | Tried::Unclear => self.tried(&current, single()).await?,
            tried => tried,
        };
        match tried {
            Tried::Said(Verdict::Deleted | Verdict::Absent) => {}
            Tried::Said(Verdict::Marked) => found.keeps_versions = Some(true),
            tried => found.refusal = Some(tried.refusal()?),
        }
        if found.refusal.is_none() && matches!(backend.verify, Verify::IfMatch(_)) {
            found.honours_if_match = match self.condition(backend, &single()).await? {
                Honour::Yes => Some(true),
                Honour::No => Some(false),
                Honour::Unknown => None,
            };
        }
        let wants_versions = backend.versions != Versions::Current;
        if found.refusal.is_none() && (wants_versions || found.keeps_versions == Some(true)) {
            let tried = self.tried(&plain(Versions::All), single()).await;
            // It takes rights that nobody needs who deletes current versions only: without them a marker stays.
            if wants_versions && !matches!(tried, Ok(Tried::Said(Verdict::Deleted | Verdict::Absent))) {
                found.refusal = Some(tried?.refusal()?);
            }
        }
        Ok(found)
    }

    async fn tried(&self, backend: &Arc<Backend>, request: Request) -> Result<Tried, Fault> {
        let until = Instant::now() + NEVER_TOO_LATE;
        let is_batch = matches!(request, Request::Batch { .. });
        let job = Job {
            id: 0,
            until,
            backend: Arc::clone(backend),
            request,
            begins_before: until,
            slots: 1,
            captured_us: now_us(),
        };
        match self.deliver(&job).await {
            Ok(sent) => {
                Ok(sent.answers.into_iter().next().map_or(Tried::Unclear, |answer| Tried::Said(answer.verdict)))
            }
            Err(Fault { kind: FaultKind::BatchUnsupported, .. }) if is_batch => Ok(Tried::Unsupported),
            Err(Fault { kind: FaultKind::BatchRefused | FaultKind::BatchSilent, .. }) if is_batch => Ok(Tried::Unclear),
            Err(Fault { kind: FaultKind::Denied, message, .. }) => Ok(Tried::Denied(message)),
            Err(fault) => Err(fault),
        }
    }

    /// What the bucket's own settings say. Many stores know no such question, and many credentials may not ask it.
    async fn keeps_versions(&self, backend: &Arc<Backend>) -> Result<Option<bool>, Fault> {
        let Exchanged { status, body, .. } = self.ask(backend, request::versioning(backend)?).await?;
        Ok(match (status, xml::parse(&body)) {
            (200, Ok(Xml::Versioning { status: Some(_) })) => Some(true),
            (200, Ok(Xml::Versioning { status: None })) => Some(false),
            _ => None,
        })
    }
}
