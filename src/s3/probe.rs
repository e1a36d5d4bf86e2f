//! What a store can do, and whether it lets us: asked with a key that cannot be there, so that nothing of anybody's goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::backend::Backend;
use crate::domain::batch::{Request, Target};
use crate::domain::probe::{Found, absent_key};
use crate::domain::verify::{Honour, Verify};
use crate::domain::versions::Versions;

use super::answer::{KeyAnswer, Verdict, now_us};
use super::client::{Client, Exchanged};
use super::fault::{Fault, FaultKind};
use super::io::{Job, ProbeJob};
use super::request;
use super::xml::{self, Xml};

/// A question is asked when its turn comes, however late that is.
const NEVER_TOO_LATE: Duration = Duration::from_secs(3600);

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

        let takes_batches = backend.kind.profile().takes_batches;
        let mut verdict = if takes_batches { self.tried(&current, batch()).await? } else { None };
        found.takes_batches = match &verdict {
            // It may be the request that is denied, or the key in it.
            Some(Verdict::Denied { .. }) => None,
            verdict => takes_batches.then_some(verdict.is_some()),
        };
        if verdict.is_none() {
            verdict = self.tried(&current, single()).await?;
        }
        match verdict {
            Some(Verdict::Deleted | Verdict::Absent) => {}
            Some(Verdict::Marked) => found.keeps_versions = Some(true),
            Some(Verdict::Denied { message } | Verdict::Unasked { message } | Verdict::Failed { message, .. }) => {
                found.refusal = Some(message);
            }
            Some(Verdict::Throttled { message }) => return Err(Fault::refusal(FaultKind::Throttled, message)),
            Some(Verdict::Superseded | Verdict::Locked { .. } | Verdict::Unnamed) | None => {
                found.refusal = Some("the store's answer does not say what became of the key".to_owned());
            }
        }
        if found.refusal.is_none() && matches!(backend.verify, Verify::IfMatch(_)) {
            found.honours_if_match = match self.condition(backend, &single()).await? {
                Honour::Yes => Some(true),
                Honour::No => Some(false),
                Honour::Unknown => None,
            };
        }
        if found.keeps_versions == Some(true) && found.refusal.is_none() {
            // It takes rights that nobody needs who deletes current versions only: without them the marker stays.
            let _ = self.tried(&plain(Versions::All), single()).await;
        }
        Ok(found)
    }

    /// What the store says to the deletion of a key; nothing if it takes no such request.
    async fn tried(&self, backend: &Arc<Backend>, request: Request) -> Result<Option<Verdict>, Fault> {
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
            Ok(sent) => Ok(sent.answers.into_iter().next().map(|KeyAnswer { verdict, .. }| verdict)),
            Err(Fault {
                kind: FaultKind::BatchUnsupported | FaultKind::BatchRefused | FaultKind::BatchSilent, ..
            }) if is_batch => Ok(None),
            Err(Fault { kind: FaultKind::Denied, message, .. }) => Ok(Some(Verdict::Denied { message })),
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
