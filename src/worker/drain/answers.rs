//! What came back from the stores.

use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::outcome::Outcome;
use crate::domain::verify::Honour;
use crate::pg::{transaction, wait};
use crate::s3::answer::{Fault, FaultKind, KeyAnswer, Verdict};
use crate::s3::client::Sent;
use crate::s3::io::Done;
use crate::store::backend;

use super::{Drain, Fate, Place, Planned, SHORT};

impl Drain {
    /// Takes all answers that are there.
    pub(super) fn collect(&mut self, now: Instant) {
        let Ok(finished) = self.io.finished() else {
            // The thread panicked: its message is in the log. A fresh process starts with a fresh one.
            log!("storage_reaper: the I/O thread has stopped; starting again");
            wait::exit_for_restart();
        };
        for done in finished {
            let (id, result) = match done {
                Done::Sent { id, result } => (id, result),
                Done::Read { id, result } => {
                    self.document_answered(id, result, now);
                    continue;
                }
            };
            let Some(planned) = self.sent.remove(&id) else { continue };
            match result {
                Ok(Sent { answers, learned }) => {
                    self.answered(&planned, answers);
                    self.learned(&planned.backend, learned);
                    self.released(&planned.backend);
                }
                Err(fault) => self.failed(planned, &fault, now),
            }
        }
    }

    fn answered(&mut self, planned: &Planned, answers: Vec<KeyAnswer>) {
        let (mut gone, mut unclear) = (Vec::new(), Vec::new());
        for (index, places) in planned.places.iter().enumerate() {
            match answers.iter().find(|answer| answer.index == index).map(|answer| &answer.verdict) {
                // What was refused or written anew is still there.
                Some(Verdict::Superseded | Verdict::Failed { is_refusal: true, .. }) => {}
                Some(Verdict::Failed { is_refusal: false, .. }) => unclear.extend(places),
                _ => gone.extend(places),
            }
        }
        self.return_from(planned, &gone, &unclear);
        for answer in answers {
            let fate = match answer.verdict {
                Verdict::Deleted => Fate::Settled(Outcome::Deleted, None),
                Verdict::Absent => Fate::Settled(Outcome::Absent, None),
                Verdict::Superseded => Fate::Settled(Outcome::Superseded, None),
                Verdict::Failed { message, .. } => Fate::Failed(message),
                Verdict::Unnamed => Fate::Failed("the answer did not name the key".to_owned()),
            };
            for &place in planned.places.get(answer.index).into_iter().flatten() {
                self.decide(place, fate.clone());
            }
        }
        // Whatever the answer left out is not done.
        for &place in planned.places.iter().flatten() {
            self.decide(place, Fate::Failed("the answer did not name the key".to_owned()));
        }
    }

    /// The request failed as a whole: that is charged to the backend.
    fn failed(&mut self, planned: Planned, fault: &Fault, now: Instant) {
        let id = planned.backend.id;
        let all: Vec<Place> = planned.places.iter().flatten().copied().collect();
        self.return_from(&planned, &[], if fault.is_refusal { &[] } else { &all });
        if fault.kind == FaultKind::BatchUnsupported && self.singles_only.insert(id) {
            log!("storage_reaper: backend \"{}\" takes no batches; deleting one by one", planned.backend.name);
        }
        if matches!(fault.kind, FaultKind::BatchUnsupported | FaultKind::Stale) {
            // Planned again, once the guard has been asked again.
            self.wait_again(&planned);
            return;
        }
        self.postpone(&planned, Some(&fault.message));
        if self.circuits.fail(id, &fault.message, fault.retry_after, now) {
            log!("storage_reaper: backend \"{}\" is held: {}", planned.backend.name, fault.message);
            self.record_held(id, Some(fault.message.clone()));
        }
    }

    fn released(&mut self, backend: &Backend) {
        if self.circuits.succeed(backend.id) {
            log!("storage_reaper: backend \"{}\" answers again", backend.name);
            self.record_held(backend.id, None);
            self.look_now = true;
        }
    }

    /// What a probe has found out of a backend is remembered until that is altered.
    fn learned(&self, backend: &Backend, honour: Option<Honour>) {
        let honours = match honour {
            Some(Honour::Yes) => true,
            Some(Honour::No) => false,
            Some(Honour::Unknown) | None => return,
        };
        let written = transaction::run("storage_reaper: record a probe", SHORT, || {
            backend::set_honours_if_match(backend, honours)
        });
        match written {
            Ok(true) if !honours => log!(
                "storage_reaper: backend \"{}\" does not make a deletion depend on a version: verify 'if-match' does what 'head' does",
                backend.name
            ),
            Ok(_) => {}
            Err(failure) => log!("storage_reaper: could not record a backend's abilities: {failure}"),
        }
    }

    fn record_held(&self, id: BackendId, reason: Option<String>) {
        let written = transaction::run("storage_reaper: record a held backend", SHORT, move || {
            backend::set_held(id, reason.as_deref())
        });
        if let Err(failure) = written {
            log!("storage_reaper: could not record a backend's state: {failure}");
        }
    }
}
