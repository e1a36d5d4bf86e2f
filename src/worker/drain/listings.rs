//! Prefixes that go with objects: what lies below them is listed, and queued when their claim is settled.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::object::Object;
use crate::domain::outcome::{Outcome, Reason};
use crate::guc;
use crate::s3::answer::now_us;
use crate::s3::fault::{Fault, FaultKind, Response};
use crate::s3::io::ListJob;
use crate::s3::list::Listed;

use super::{Drain, Fate, Place};

/// Prefixes of one backend that are listed at once: each may have as many objects in memory as its rule allows.
const LISTED_AT_ONCE: usize = 2;
/// Prefixes of one backend that wait for it; others are claimed and left again.
const MOST_WAITING: usize = 64;
/// Objects below prefixes in memory, beyond which nothing is listed before they are settled.
const MOST_BELOW: usize = 50_000;

/// It is listed after a while, and no attempt is counted.
fn later(why: &str) -> Fate {
    let wait = guc::backoff().delay(1, 0.5 + fastrand::f64() / 2.0);
    let wait_us = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
    Fate::Later(now_us().saturating_add(wait_us), why.to_owned())
}

/// What is to be listed, and what is being listed.
#[derive(Default)]
pub(super) struct Listings {
    to_list: VecDeque<Asked>,
    in_flight: HashMap<u64, Asked>,
}

struct Asked {
    place: Place,
    backend: Arc<Backend>,
    prefix: Object,
    /// Objects that may lie below it.
    most: usize,
    asked_at: Instant,
}

impl Listings {
    /// Prefixes of the backend that are being listed.
    pub fn in_flight(&self, backend: BackendId) -> usize {
        self.in_flight.values().filter(|asked| asked.backend.id == backend).count()
    }

    /// Whether enough prefixes wait for the backend.
    pub fn is_crowded(&self, backend: BackendId) -> bool {
        self.to_list.iter().filter(|asked| asked.backend.id == backend).count() >= MOST_WAITING
    }
}

impl Drain {
    /// A claimed prefix waits to be listed.
    pub(super) fn line_up_prefix(&mut self, place: Place, backend: Arc<Backend>, prefix: Object, most: usize) {
        self.listings.to_list.push_back(Asked { place, backend, prefix, most, asked_at: Instant::now() });
    }

    /// Asks what lies below the next prefixes.
    pub(super) fn list_prefixes(&mut self, now: Instant) {
        let below: usize = self.claims.values().flat_map(|claim| &claim.below).map(|(_, objects)| objects.len()).sum();
        if self.is_quiet(now) {
            return;
        }
        if below >= MOST_BELOW {
            // What was listed is settled first, and with it the rest of its entry.
            return self.give_back_prefixes(false);
        }
        for mut asked in std::mem::take(&mut self.listings.to_list) {
            let id = asked.backend.id;
            let here = self.listings.in_flight(id);
            if self.circuits.blocked_until(id, now).is_some() {
                self.postpone_prefix(&asked, None);
                continue;
            }
            // On trial a deletion goes first, if there is one, and tells whether the store is well again.
            if self.circuits.is_probing(id) && (here > 0 || self.has_deletions(id)) {
                self.decide(asked.place, later("its backend is on trial"));
                continue;
            }
            if here >= LISTED_AT_ONCE {
                self.listings.to_list.push_back(asked);
                continue;
            }
            self.next_job += 1;
            self.io.list(ListJob {
                id: self.next_job,
                backend: Arc::clone(&asked.backend),
                prefix: asked.prefix.clone(),
                most: asked.most,
            });
            asked.asked_at = Instant::now();
            self.listings.in_flight.insert(self.next_job, asked);
        }
    }

    fn has_deletions(&self, id: BackendId) -> bool {
        let mut in_memory = self.waiting.iter().map(|(_, object)| object.backend);
        let mut planned = self.ready.iter().chain(self.sent.values()).map(|planned| planned.backend.id);
        in_memory.any(|of| of == id)
            || planned.any(|of| of == id)
            || self.marked.iter().any(|flight| flight.backend == id)
    }

    /// What the store says of a prefix.
    pub(super) fn prefix_answered(&mut self, id: u64, result: Result<Listed, Fault>, now: Instant) {
        let Some(asked) = self.listings.in_flight.remove(&id) else { return };
        match result {
            // That it lists says nothing of whether it deletes: a circuit stays as it is.
            Ok(listed) => {
                let fate = self.expanded(&asked, listed);
                self.decide(asked.place, fate);
            }
            // The right to list is another one than the right to delete.
            Err(fault) if fault.kind == FaultKind::Denied => self.decide(asked.place, Fate::Denied(fault.message)),
            Err(fault) if fault.kind == FaultKind::Throttled => {
                self.postpone_prefix(&asked, Some(fault.message.clone()));
                self.rest(&asked.backend, 1, &fault, now);
            }
            // It is the prefix's fault if the store answered others since, or answers a question now.
            Err(fault) => {
                let answered_at = self.lane(asked.backend.id).answered_at;
                let answers = answered_at.is_some_and(|at| at >= asked.asked_at);
                let may_be_everybodys = fault.kind.response() == Response::Hold || fault.kind.may_be_everybodys();
                if answers || fault.is_alone || !may_be_everybodys {
                    return self.decide(asked.place, Fate::Failed(fault.message));
                }
                if fault.kind.response() == Response::Hold {
                    self.postpone_prefix(&asked, Some(fault.message.clone()));
                    return self.rest(&asked.backend, 1, &fault, now);
                }
                // Nobody knows.
                self.decide(asked.place, later(&fault.message));
            }
        }
    }

    fn expanded(&mut self, asked: &Asked, listed: Listed) -> Fate {
        match listed {
            Listed::TooMany => Fate::Parked(Reason::PrefixTooLarge, None),
            Listed::Keys(keys) if keys.is_empty() => Fate::Settled(Outcome::Absent, None),
            Listed::Keys(keys) => {
                let reason = format!("{} objects below it were queued", keys.len());
                let objects = keys.into_iter().map(|key| Object { key, ..asked.prefix.clone() }).collect();
                if let Some(claim) = self.claims.get_mut(&asked.place.0) {
                    claim.below.push((asked.place.1, objects));
                }
                Fate::Settled(Outcome::Expanded, Some(reason))
            }
        }
    }

    fn postpone_prefix(&mut self, asked: &Asked, error: Option<String>) {
        if let Some(claim) = self.claims.get_mut(&asked.place.0) {
            claim.wait_for(asked.backend.id);
        }
        self.decide(asked.place, Fate::Postponed(error));
    }

    /// Nothing more is asked for. Answers to what was asked may come, unless they `are_lost`.
    pub(super) fn give_back_prefixes(&mut self, are_lost: bool) {
        for asked in std::mem::take(&mut self.listings.to_list) {
            self.postpone_prefix(&asked, None);
        }
        if are_lost {
            for asked in std::mem::take(&mut self.listings.in_flight).into_values() {
                self.postpone_prefix(&asked, None);
            }
        }
    }
}
