//! What is asked of a store before an object is deleted: whether it was put back, and whether the store can be trusted with a
//! condition.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Request;
use crate::domain::verify::{Honour, Reply, Verify, honours};

use super::answer::{self, Look};
use super::client::{Client, Exchanged};
use super::fault::{Fault, fault};
use super::request::{self, Condition, Unsigned};
use super::xml::{self, StoreError, Xml};

/// What probes have found out, until the database knows it. Each backend waits for its own probe only.
pub type Probed = HashMap<BackendId, Arc<Mutex<Option<Probe>>>>;

/// A probe that was answered.
pub struct Probe {
    backend: Arc<Backend>,
    found: Honour,
    at: Instant,
}

/// What could not be told may be told another time.
const UNKNOWN_FOR: Duration = Duration::from_secs(60);

/// No object has this ETag: it is the digest of nothing that anybody knows.
pub(super) const NO_VERSION: &str = "\"00000000000000000000000000000000\"";

impl Client {
    /// Asks whether the object was written since it was captured.
    pub(super) async fn look(
        &self,
        backend: &Arc<Backend>,
        unsigned: &Unsigned,
        captured_us: i64,
    ) -> Result<Look, Fault> {
        let Exchanged { status, headers, .. } = self.ask(backend, request::head(unsigned)).await?;
        let since_us = answer::now_us().saturating_sub(captured_us);
        match status {
            200 => Ok(answer::look(&headers, since_us)),
            // The deletion's own answer says whether it is the key or the bucket that is missing.
            404 => Ok(Look::Absent),
            status => Err(Fault { is_refusal: true, ..fault(status, &StoreError::default(), &headers, false) }),
        }
    }

    /// Whether the store deletes a version only, if asked to; it is probed once.
    pub(super) async fn honour(&self, backend: &Arc<Backend>, request: &Request) -> Result<Honour, Fault> {
        match backend.verify {
            Verify::None | Verify::Head => return Ok(Honour::No),
            Verify::IfMatch(known @ (Honour::Yes | Honour::No)) => {
                // The database knows it, until somebody wants it probed anew.
                self.probed.lock().await.remove(&backend.id);
                return Ok(known);
            }
            Verify::IfMatch(Honour::Unknown) => {}
        }
        let of_backend = Arc::clone(self.probed.lock().await.entry(backend.id).or_default());
        // One at a time: the next one finds what this one has found.
        let mut probed = of_backend.lock().await;
        let is_valid = |probe: &&Probe| {
            probe.backend == *backend && (probe.found != Honour::Unknown || probe.at.elapsed() < UNKNOWN_FOR)
        };
        if let Some(probe) = probed.as_ref().filter(is_valid) {
            return Ok(probe.found);
        }
        let found = self.condition(backend, request).await?;
        *probed = Some(Probe { backend: Arc::clone(backend), found, at: Instant::now() });
        Ok(found)
    }

    /// Asks on a condition to delete what cannot be there.
    pub(super) async fn condition(&self, backend: &Arc<Backend>, request: &Request) -> Result<Honour, Fault> {
        let chance = fastrand::u128(..);
        let ask = async |condition| {
            let probe = request::probe(backend, request, chance, condition)?;
            let Exchanged { status, body, .. } = self.ask(backend, probe).await?;
            let code = match xml::parse(&body) {
                Ok(Xml::Error(error)) => error.code,
                _ => String::new(),
            };
            Ok::<Reply, Fault>(Reply::of(status, &code))
        };
        let conditional = ask(Some(Condition::Is(NO_VERSION.to_owned()))).await?;
        match conditional {
            Reply::Absent => Ok(honours(conditional, Some(ask(None).await?))),
            _ => Ok(honours(conditional, None)),
        }
    }
}
