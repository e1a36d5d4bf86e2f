//! What came back from the stores.

use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::outcome::{Outcome, Reason};
use crate::pg::wait;
use crate::s3::answer::{KeyAnswer, Verdict};
use crate::s3::client::Sent;
use crate::s3::fault::{Fault, FaultKind, Response};
use crate::s3::io::Done;

use super::{Drain, Fate, Place, Planned};

impl Drain {
    /// Takes all answers that are there.
    pub(super) fn collect(&mut self, now: Instant) {
        let Ok(finished) = self.io.finished() else {
            // The thread panicked: its message is in the log. A fresh process starts with a fresh one.
            log!("storage_reaper: the I/O thread has stopped; starting again");
            wait::exit_for_restart();
        };
        for done in finished {
            match done {
                Done::Sent { id, result } => self.request_answered(id, result, now),
                Done::Recalled { id, is_late } => self.recalled(id, is_late),
                Done::Read { id, result } => self.document_answered(id, result, now),
                Done::Listed { id, result } => self.prefix_answered(id, result, now),
                Done::Probed { id, result } => self.store_answered(id, result, now),
                Done::Purged { id, result } => self.cache_answered(id, result, now),
                Done::Timed { backend, ahead_s } => self.timed(backend, ahead_s),
            }
        }
    }

    fn request_answered(&mut self, id: u64, result: Result<Sent, Fault>, now: Instant) {
        let Some(planned) = self.sent.remove(&id) else { return };
        // There is room now.
        self.look_now |= self.has_left_out;
        match result {
            Ok(Sent { answers, learned, is_partial }) => {
                self.note(id, &planned, &answers, now);
                self.answered(&planned, answers, is_partial);
                self.probed(&planned.backend, learned);
            }
            Err(fault) => self.failed(planned, fault, now),
        }
    }

    /// A request was not sent. One whose turn came too late is checked again.
    fn recalled(&mut self, id: u64, is_late: bool) {
        let Some(planned) = self.sent.remove(&id) else { return };
        self.lane(planned.backend.id).refund(&planned);
        if is_late {
            self.lane(planned.backend.id).narrow();
            self.wait_again(&planned);
        } else {
            self.postpone(&planned, None);
        }
        self.return_from(&planned, &[], &[]);
    }

    /// What the answer says of each object. Something of the only one may be gone although the store keeps it (`is_partial`).
    fn answered(&mut self, planned: &Planned, answers: Vec<KeyAnswer>, is_partial: bool) {
        let (mut gone, mut unclear) = (Vec::new(), Vec::new());
        for (index, places) in planned.places.iter().enumerate() {
            // In the order of the keys, as a rule.
            let at_its_place = answers.get(index).filter(|answer| answer.index == index);
            let answer = at_its_place.or_else(|| answers.iter().find(|answer| answer.index == index));
            match answer.map(|answer| &answer.verdict) {
                // What was refused or written anew is still there.
                Some(
                    Verdict::Superseded
                    | Verdict::Denied { .. }
                    | Verdict::Unasked { .. }
                    | Verdict::Locked { .. }
                    | Verdict::Failed { is_refusal: true, .. },
                ) if !is_partial => {}
                Some(Verdict::Deleted | Verdict::Marked | Verdict::Absent) => gone.extend(places),
                _ if is_partial => unclear.extend(places),
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
    fn failed(&mut self, planned: Planned, fault: Fault, now: Instant) {
        let all: Vec<Place> = planned.places.iter().flatten().copied().collect();
        self.return_from(&planned, &[], if fault.is_refusal { &[] } else { &all });
        let fault = self.seen(&planned, fault);
        let is_single = planned.places.len() == 1;
        let decide_all = |drain: &mut Self, fate: Fate| all.iter().for_each(|&place| drain.decide(place, fate.clone()));
        if is_single && matches!(fault.kind, FaultKind::BatchRefused | FaultKind::BatchSilent) {
            // Nothing is left to divide.
            return decide_all(self, Fate::Failed(fault.message));
        }
        if fault.kind.response() == Response::Replan {
            // Planned again, once the guard has been asked again.
            self.wait_again(&planned);
            return;
        }
        let only = planned.objects().next().filter(|_| is_single && fault.kind.may_be_the_key());
        if only.is_some_and(|object| self.suspects.accuse(&object, self.next_job, fault.is_alone)) {
            let is_denied = fault.kind == FaultKind::Denied;
            return decide_all(self, if is_denied { Fate::Denied(fault.message) } else { Fate::Failed(fault.message) });
        }
        self.postpone(&planned, Some(&fault.message));
        self.rest(&planned.backend, planned.places.len(), &fault, now);
    }
}

/// What becomes of an object by what the store says of its key.
fn fate(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Deleted => Fate::Settled(Outcome::Deleted, None),
        Verdict::Marked => Fate::Settled(Outcome::DeleteMarker, None),
        Verdict::Absent => Fate::Settled(Outcome::Absent, None),
        Verdict::Superseded => Fate::Settled(Outcome::Superseded, None),
        Verdict::Throttled { message } | Verdict::Unasked { message } => Fate::Postponed(Some(message)),
        Verdict::Denied { message } => Fate::Denied(message),
        Verdict::Locked { until_us: Some(until_us) } => {
            Fate::Later(until_us, "a lock in the store keeps it until then".to_owned())
        }
        Verdict::Locked { until_us: None } => Fate::Parked(Reason::Locked, None),
        Verdict::Failed { message, .. } => Fate::Failed(message),
        Verdict::Unnamed => Fate::Failed("the answer did not name the key".to_owned()),
    }
}
