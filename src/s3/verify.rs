//! What is asked of a store before an object is deleted: whether it was put back, and whether the store can be trusted with a
//! condition.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Request;
use crate::domain::verify::{Honour, Verify, honours};

use super::answer::{self, Fault, Look};
use super::client::{Client, Exchanged, Limit};
use super::request::{self, Condition, Unsigned};

/// What probes have found out, until the database knows it.
pub type Probed = HashMap<BackendId, (Arc<Backend>, Honour)>;

/// No object has this ETag: it is the digest of nothing that anybody knows.
const NO_VERSION: &str = "\"00000000000000000000000000000000\"";

impl Client {
    /// Asks whether the object was written since it was captured.
    pub(super) async fn look(
        &self,
        backend: &Arc<Backend>,
        unsigned: &Unsigned,
        captured_us: i64,
    ) -> Result<Look, Fault> {
        let signed = self.sign(backend, request::head(unsigned)).await?;
        let Exchanged { status, headers, .. } = self.exchange(signed, String::new(), Limit::of(1)).await?;
        let since_us = answer::now_us().saturating_sub(captured_us);
        match status {
            200 => Ok(answer::look(&headers, since_us)),
            // The deletion's own answer says whether it is the key or the bucket that is missing.
            404 => Ok(Look::Absent),
            status => Err(Fault { is_refusal: true, ..answer::fault(status, "", "", false) }),
        }
    }

    /// Whether the store deletes a version only, if asked to; it is probed once.
    pub(super) async fn honour(&self, backend: &Arc<Backend>, request: &Request) -> Result<Honour, Fault> {
        // One at a time: the next one finds what this one has found.
        let mut probed = self.probed.lock().await;
        match backend.verify {
            Verify::None | Verify::Head => return Ok(Honour::No),
            Verify::IfMatch(known @ (Honour::Yes | Honour::No)) => {
                // The database knows it, until somebody wants it probed anew.
                probed.remove(&backend.id);
                return Ok(known);
            }
            Verify::IfMatch(Honour::Unknown) => {}
        }
        if let Some((_, found)) = probed.get(&backend.id).filter(|(known, _)| known == backend) {
            return Ok(*found);
        }
        let found = self.probe(backend, request).await?;
        // What could not be told now may be told another time.
        if found != Honour::Unknown {
            probed.insert(backend.id, (Arc::clone(backend), found));
        }
        Ok(found)
    }

    /// Deletes what cannot be there.
    async fn probe(&self, backend: &Arc<Backend>, request: &Request) -> Result<Honour, Fault> {
        let chance = fastrand::u128(..);
        let ask = async |condition| {
            let signed = self.sign(backend, request::probe(backend, request, chance, condition)?).await?;
            Ok::<u16, Fault>(self.exchange(signed, String::new(), Limit::of(1)).await?.status)
        };
        let conditional = ask(Some(Condition::Is(NO_VERSION.to_owned()))).await?;
        match honours(conditional, None) {
            Honour::Unknown if conditional == 404 => Ok(honours(conditional, Some(ask(None).await?))),
            found => Ok(found),
        }
    }
}
