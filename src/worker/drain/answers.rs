//! What came back from the stores.

use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Request;
use crate::domain::object::Object;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::verify::Honour;
use crate::pg::{transaction, wait};
use crate::s3::answer::{KeyAnswer, Verdict, now_us};
use crate::s3::client::Sent;
use crate::s3::fault::{Fault, FaultKind, Response};
use crate::s3::io::Done;
use crate::store::backend;

use super::lane::ceiling;
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
            // There is room now.
            self.look_now |= self.has_left_out;
            match result {
                Ok(Sent { answers, learned }) => {
                    self.note(&planned, &answers, now);
                    self.answered(&planned, answers);
                    self.learned(&planned.backend, learned);
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
                Some(
                    Verdict::Superseded
                    | Verdict::Denied { .. }
                    | Verdict::Locked { .. }
                    | Verdict::Failed { is_refusal: true, .. },
                ) => {}
                Some(Verdict::Throttled { .. } | Verdict::Failed { is_refusal: false, .. }) => unclear.extend(places),
                _ => gone.extend(places),
            }
        }
        self.return_from(planned, &gone, &unclear);
        for answer in answers {
            let fate = fate(answer.verdict);
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
        let all: Vec<Place> = planned.places.iter().flatten().copied().collect();
        self.return_from(&planned, &[], if fault.is_refusal { &[] } else { &all });
        self.slow_down(&planned, fault.kind);
        let is_single = planned.places.len() == 1;
        if is_single && matches!(fault.kind, FaultKind::BatchRefused | FaultKind::BatchSilent) {
            // Nothing is left to divide.
            all.into_iter().for_each(|place| self.decide(place, Fate::Failed(fault.message.clone())));
            return;
        }
        if fault.kind.response() == Response::Replan {
            // Planned again, once the guard has been asked again.
            self.wait_again(&planned);
            return;
        }
        let only = planned.objects().next().filter(|_| is_single && fault.kind.may_be_the_key());
        if only.is_some_and(|object| self.suspects.accuse(&object)) {
            let is_denied = fault.kind == FaultKind::Denied;
            let fate =
                if is_denied { Fate::Denied(fault.message.clone()) } else { Fate::Failed(fault.message.clone()) };
            all.into_iter().for_each(|place| self.decide(place, fate.clone()));
            return;
        }
        self.postpone(&planned, Some(&fault.message));
        self.rest(&planned.backend, fault, now);
    }

    /// Nothing is sent to the backend for a while.
    fn rest(&mut self, backend: &Backend, fault: &Fault, now: Instant) {
        let opened = self.circuits.fail(backend.id, fault, 0.5 + fastrand::f64() / 2.0, now);
        if opened.counts && fault.kind == FaultKind::Throttled {
            self.lane(backend.id).pace.throttled();
        }
        if opened.is_news {
            log!("storage_reaper: backend \"{}\" is held: {}", backend.name, fault.message);
            self.record_held(backend.id, Some(fault.message.clone()));
        }
    }

    /// What a failure says of how much the backend can take.
    fn slow_down(&mut self, planned: &Planned, kind: FaultKind) {
        let (id, keys) = (planned.backend.id, planned.places.len());
        match kind {
            FaultKind::Timeout | FaultKind::Transient => self.lane(id).pace.overtaxed(keys),
            FaultKind::BatchRefused => self.lane(id).pace.shrink(keys),
            FaultKind::BatchSilent => self.lane(id).pace.shrink(1),
            FaultKind::BatchUnsupported => self.takes_batches(&planned.backend, false),
            _ => {}
        }
    }

    /// What an answer says of the backend: it works, and how much it can take.
    fn note(&mut self, planned: &Planned, answers: &[KeyAnswer], now: Instant) {
        let id = planned.backend.id;
        self.released(&planned.backend);
        let throttled = answers.iter().find_map(|answer| match &answer.verdict {
            Verdict::Throttled { message } => Some(message.clone()),
            _ => None,
        });
        match throttled {
            Some(message) => self.rest(&planned.backend, &Fault::new(FaultKind::Throttled, message), now),
            None => self.lane(id).pace.answered(planned.places.len(), ceiling()),
        }
        if matches!(planned.request, Request::Batch { .. }) && planned.backend.takes_batches.is_none() {
            self.takes_batches(&planned.backend, true);
        }
        let spoken_of: Vec<Object> = planned.objects().collect();
        self.suspects.answered(id, spoken_of.iter());
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

    /// What requests have found out of a backend is remembered until that is altered.
    fn takes_batches(&mut self, backend: &Backend, takes: bool) {
        let written =
            transaction::run("storage_reaper: record an ability", SHORT, || backend::set_takes_batches(backend, takes));
        match written {
            Ok(true) if !takes => {
                log!("storage_reaper: backend \"{}\" takes no batches; deleting one by one", backend.name);
            }
            Ok(_) => {}
            Err(failure) => {
                log!("storage_reaper: could not record a backend's abilities: {failure}");
                if !takes {
                    self.singles_only.insert(backend.id);
                }
            }
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

/// What becomes of an object by what the store says of its key.
fn fate(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Deleted => Fate::Settled(Outcome::Deleted, None),
        Verdict::Marked => Fate::Settled(Outcome::DeleteMarker, None),
        Verdict::Absent => Fate::Settled(Outcome::Absent, None),
        Verdict::Superseded => Fate::Settled(Outcome::Superseded, None),
        Verdict::Throttled { message } => Fate::Postponed(Some(message)),
        Verdict::Denied { message } => Fate::Denied(message),
        Verdict::Locked { until_us: Some(until_us) } => {
            let wait = u64::try_from(until_us.saturating_sub(now_us())).unwrap_or_default();
            Fate::Later(Duration::from_micros(wait), "a lock in the store keeps it until then".to_owned())
        }
        Verdict::Locked { until_us: None } => Fate::Parked(Reason::Locked, None),
        Verdict::Failed { message, .. } => Fate::Failed(message),
        Verdict::Unnamed => Fate::Failed("the answer did not name the key".to_owned()),
    }
}
