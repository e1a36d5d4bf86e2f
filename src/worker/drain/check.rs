//! The last look before requests leave: guard, switches, plan, send.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::{self, Limits, Request};
use crate::domain::object::Object;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::resolve::{Namespace, prints as prints_of, resolve};
use crate::pg::transaction;
use crate::s3::io::Job;

use super::super::guard::{Candidate, Checked, Doubt, Origin, Parent};
use super::documents::Documents;
use super::flight::Flight;
use super::look::namespace;
use super::{Drain, Fate, Place, Planned, SHORT};

/// Objects that the guard is asked about at once, at most: enough for several full batches.
pub(super) const LARGEST_WINDOW: usize = 4000;
pub(super) const SMALLEST_WINDOW: usize = 64;
/// What the guard said is older than this: it is asked again before anything is handed to the I/O thread, which sends
/// nothing that is older than twice that.
pub(super) const FRESH: Duration = Duration::from_millis(500);
/// The longest wait after guards that failed in a row.
const LONGEST_DOUBT: Duration = Duration::from_secs(60);

pub(super) type Backends = HashMap<BackendId, Arc<Backend>>;
type Plan = (Vec<Planned>, Vec<(Place, Reason)>);

impl Drain {
    /// Sends as many requests at once as the settings allow, each shortly after the guard let its objects through.
    pub(super) fn send(&mut self, now: Instant) {
        while !self.is_quiet(now) {
            self.ask_again_about_stale();
            self.send_ready(now);
            let [is_waiting, is_marked] = self.can_go_on();
            if !is_waiting && !is_marked || !self.documents_are_read(now) {
                return;
            }
            let Some(flight) = self.next_closed(now) else {
                // A check may have found out that something has to be read first, or that it has to be made again.
                let [is_waiting, is_marked] = self.can_go_on();
                if !self.documents.are_read() || !is_marked && is_waiting {
                    continue;
                }
                return;
            };
            if !self.check(flight, now) {
                return;
            }
        }
    }

    /// Whether objects wait, and whether flights are marked, for which their backends have room.
    fn can_go_on(&self) -> [bool; 2] {
        let full = self.full();
        let is_waiting = self.waiting.iter().any(|(_, object)| !full.contains(&object.backend));
        [is_waiting, self.marked.iter().any(|flight| !full.contains(&flight.backend))]
    }

    /// One at a time to a backend that is on trial.
    fn send_ready(&mut self, now: Instant) {
        let mut in_flight = self.in_flight();
        for planned in std::mem::take(&mut self.ready) {
            let id = planned.backend.id;
            let here = in_flight.entry(id).or_default();
            let is_on_trial = self.circuits.is_probing(id) && *here > 0;
            if is_on_trial || self.circuits.blocked_until(id, now).is_some() {
                self.postpone(&planned, None);
                self.return_from(&planned, &[], &[]);
                continue;
            }
            // Not `now`: a lane may have opened while others were checked, and `full` counts on it.
            if *here >= self.most_sent(id) || self.lane(id).is_shut(Instant::now()) {
                self.ready.push_back(planned);
                continue;
            }
            *here += 1;
            self.lane(id).charge(&planned, now);
            self.next_job += 1;
            let captured_us = self.captured_us(&planned);
            self.io.submit(Job {
                captured_us,
                slots: self.most_in_flight(id),
                id: self.next_job,
                begins_before: planned.checked_at + FRESH,
                until: planned.checked_at + 2 * FRESH,
                backend: Arc::clone(&planned.backend),
                request: planned.request.clone(),
            });
            self.sent.insert(self.next_job, planned);
        }
    }

    /// When the objects of a request were captured, the last one.
    fn captured_us(&self, planned: &Planned) -> i64 {
        let claims = planned.places.iter().flatten().filter_map(|(entry, _)| self.claims.get(entry));
        claims.map(|claim| claim.entry.captured_us).max().unwrap_or(i64::MIN)
    }

    fn ask_again_about_stale(&mut self) {
        let now = Instant::now();
        let is_stale = |planned: &Planned| now.saturating_duration_since(planned.checked_at) >= FRESH;
        if !self.ready.iter().any(is_stale) {
            return;
        }
        let (stale, fresh): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ready).into_iter().partition(is_stale);
        self.ready = fresh.into();
        let lanes: HashSet<BackendId> = stale.iter().map(|planned| planned.backend.id).collect();
        lanes.into_iter().for_each(|id| self.lane(id).narrow());
        for planned in stale.into_iter().rev() {
            self.wait_again(&planned);
            self.return_from(&planned, &[], &[]);
        }
    }

    /// A planned request is undone: its objects wait for the guard, before all others.
    pub(super) fn wait_again(&mut self, planned: &Planned) {
        for (object, places) in planned.objects().zip(&planned.places) {
            for &place in places {
                if self.is_stopped(place, planned.backend.id) {
                    self.decide(place, Fate::Postponed(None));
                } else {
                    self.waiting.push_front((place, object.clone()));
                }
            }
        }
    }

    /// Whether its backend or source was paused or held since it was claimed.
    fn is_stopped(&self, (entry, _): Place, backend: BackendId) -> bool {
        let source = self.claims.get(&entry).and_then(|claim| claim.entry.source_id);
        self.paused.contains(&-backend.0) || source.is_some_and(|source| self.paused.contains(&source))
    }

    /// Asks about the objects of a closed flight and plans what is let through. Says whether to go on.
    fn check(&mut self, mut flight: Flight, now: Instant) -> bool {
        let asked = std::mem::take(&mut flight.objects);
        let Some((free, backends)) = self.without_kept(asked, Some(&mut flight), now) else {
            self.call_off(flight, Fate::Postponed(None));
            return !self.is_quiet(now);
        };
        flight.objects = free;
        if !flight.is_safe(self.guard.is_fenced()) {
            // A fence was put up since it was marked: its writers have to be waited for after all.
            self.turn_back(flight);
            return true;
        }
        // The guard may have taken its time.
        let paused = self.paused.clone();
        if !self.may_go_on(now) || self.paused != paused {
            self.call_off(flight, Fate::Postponed(None));
            return false;
        }
        if !self.take_off(&flight, now) {
            self.turn_back(flight);
            return !self.is_quiet(now);
        }
        self.window_limit = (self.window_limit + self.window_limit / 8 + 1).min(LARGEST_WINDOW);
        self.lane(flight.backend).widen();
        self.plan(flight, &backends);
        true
    }

    /// Leaves out what a row still names, and what has got another meaning since it was claimed or marked. A check that
    /// fails gives everything back.
    pub(super) fn without_kept(
        &mut self,
        asked: Vec<(Place, Object)>,
        mut flight: Option<&mut Flight>,
        now: Instant,
    ) -> Option<(Vec<(Place, Object)>, Backends)> {
        let (namespace, backends) = match transaction::run("storage_reaper: guard", SHORT, namespace) {
            Ok(found) => found,
            Err(failure) => {
                self.doubt(asked, &Doubt { source: String::new(), failure }, now);
                return None;
            }
        };
        let namespace = self.known(namespace);
        let (mut places, mut candidates, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        for (place, object) in asked {
            let prints = flight.as_deref_mut().and_then(|flight| flight.take_prints(place, &namespace));
            let is_covered = prints.is_some();
            let prints = prints.unwrap_or_else(|| prints_of(&object, &namespace));
            let origin = self.origin(place);
            let parent = Parent::of(&object, &origin, &namespace);
            let candidate = Candidate { prints, origin, object, parent };
            let covers = |flight: &&mut Flight| flight.covers(&candidate, &namespace);
            if self.still_means(place, &candidate.object, &namespace)
                && (is_covered || flight.as_ref().is_none_or(covers))
            {
                places.push(place);
                candidates.push(candidate);
            } else {
                changed.push(place);
            }
        }
        // Nobody announces them: they are claimed anew at once.
        self.look_now |= !changed.is_empty();
        changed.into_iter().for_each(|place| self.decide(place, Fate::Postponed(None)));
        let Documents { library, read_since, .. } = &mut self.documents;
        let checked = self.guard.check(&candidates, &namespace, library, *read_since);
        let objects = candidates.into_iter().map(|candidate| candidate.object);
        match checked {
            Ok(unsure @ (Checked::Unread(_) | Checked::Changed)) => {
                self.put_back(places.into_iter().zip(objects).collect());
                if let Checked::Unread(unread) = unsure {
                    self.documents_were_missed(unread, &shared(backends), now);
                }
                None
            }
            Ok(Checked::Sure(kept)) => {
                self.doubts = 0;
                self.documents.were_current();
                for (&object, by) in &kept {
                    let reason = format!("{} by {by}", Reason::Referenced.as_str());
                    self.decide(places[object], Fate::Settled(Outcome::Kept, Some(reason)));
                }
                let free = places.into_iter().zip(objects).enumerate();
                let free = free.filter(|(object, _)| !kept.contains_key(object)).map(|(_, pair)| pair).collect();
                Some((free, shared(backends)))
            }
            Err(doubt) => {
                let asked: Vec<_> = places.into_iter().zip(objects).collect();
                if doubt.is_slow() && asked.len() > 1 {
                    self.ask_for_less(asked);
                } else {
                    self.doubt(asked, &doubt, now);
                }
                None
            }
        }
    }

    pub(super) fn origin(&self, (entry, index): Place) -> Origin {
        let claim = self.claims.get(&entry);
        let segment = claim.map(|claim| &claim.segment);
        Origin {
            source_id: claim.and_then(|claim| claim.entry.source_id),
            row_id: segment.and_then(|segment| segment.row_id(index)),
            shares: segment.and_then(|segment| segment.shares(index)).map(str::to_owned),
            parent: segment.and_then(|segment| segment.parent(index)).map(str::to_owned),
        }
    }

    /// Backends and locations may have changed since the claim.
    fn still_means(&self, (entry, index): Place, object: &Object, namespace: &Arc<Namespace>) -> bool {
        self.claims.get(&entry).is_some_and(|claim| {
            if Arc::ptr_eq(&claim.namespace, namespace) {
                return true;
            }
            let default = claim.entry.backend_id.map(BackendId);
            resolve(&claim.segment.locators[index], namespace, default).is_ok_and(|now| now == *object)
        })
    }

    /// A table that could not answer in time is asked about fewer objects at once, and slowly about more again.
    fn ask_for_less(&mut self, asked: Vec<(Place, Object)>) {
        self.window_limit = self.window_limit.min(asked.len() / 2).max(1);
        self.put_back(asked);
    }

    /// They wait again, before all others and in their order.
    pub(super) fn put_back(&mut self, objects: Vec<(Place, Object)>) {
        objects.into_iter().rev().for_each(|object| self.waiting.push_front(object));
    }

    /// Nothing is deleted while a table cannot be asked.
    pub(super) fn doubt(&mut self, asked: Vec<(Place, Object)>, doubt: &Doubt, now: Instant) {
        self.waiting.extend(asked);
        self.give_back_unsent();
        self.settle(now);
        let wait = Duration::from_secs(1 << self.doubts.min(6)).min(LONGEST_DOUBT);
        self.doubts += 1;
        log!(
            "storage_reaper: reference check on source \"{}\" failed, nothing is deleted: {}",
            doubt.source,
            doubt.failure
        );
        self.look_now = false;
        self.quiet_until = Some(now + wait);
        self.look_at = Some(now + wait);
    }

    fn plan(&mut self, mut flight: Flight, backends: &Backends) {
        let mut objects = std::mem::take(&mut flight.objects);
        if let Some(backend) = backends.get(&flight.backend) {
            let limits = self.limits(backend);
            if objects.len() > limits.batch_size {
                // Stores limit requests by prefix, and what was let go together stands under one.
                fastrand::shuffle(&mut objects);
            }
            let (mut requests, impossible) = plan_objects(flight.id, backend, objects, limits);
            if !self.suspects.is_empty() {
                // What the store stumbled over goes last: its answers to the others say whose fault that was.
                requests.sort_by_cached_key(|planned| planned.objects().any(|object| self.suspects.contains(&object)));
            }
            flight.requests = requests.len();
            self.ready.extend(requests);
            for (place, reason) in impossible {
                self.decide(place, Fate::Parked(reason, None));
            }
        }
        self.aloft.insert(flight.id, flight);
    }
}

pub(super) fn shared(backends: Vec<Backend>) -> Backends {
    backends.into_iter().map(|backend| (backend.id, Arc::new(backend))).collect()
}

fn plan_objects(flight: i64, backend: &Arc<Backend>, objects: Vec<(Place, Object)>, limits: Limits) -> Plan {
    let places: Vec<Place> = objects.iter().map(|(place, _)| *place).collect();
    let numbered = objects.into_iter().map(|(_, object)| object).enumerate().collect();
    let (requests, impossible) = batch::plan(numbered, limits);
    let checked_at = Instant::now();
    let of = |numbers: &[usize]| numbers.iter().map(|&number| places[number]).collect::<Vec<_>>();
    let planned = requests.into_iter().map(|request: Request| Planned {
        flight,
        backend: Arc::clone(backend),
        places: request.targets().iter().map(|target| of(&target.objects)).collect(),
        request,
        checked_at,
    });
    (planned.collect(), impossible.into_iter().map(|(number, reason)| (places[number], reason)).collect())
}
