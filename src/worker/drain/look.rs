//! Looking for work: switches, claim, resolve.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::breaker::Limits;
use crate::domain::object::Object;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::resolve::{Namespace, resolve};
use crate::domain::segment::Segment;
use crate::domain::template::is_within;
use crate::error::Result;
use crate::guc;
use crate::pg::{lock, transaction, utility, wait};
use crate::store::armed::{self, State};
use crate::store::entry::{self, Claimed, Except, Outlook, Strand};
use crate::store::{backend, location};

use super::super::breaker::{Breaker, Tripped};
use super::{Claim, Drain, FIRST_CLAIM, Fate, MOST_WAITING, SHORT, SWITCHES_EVERY};

/// Objects in one claim: enough for several full batches, little enough for the guard to be quick.
const OBJECTS_AT_ONCE: usize = 4000;
/// Entries in one claim, when they are small.
const MOST_ENTRIES: i64 = 1000;
/// First wait for a running transaction that is older than a due entry; there is no event for its end.
const HELD_BACK: Duration = Duration::from_millis(100);
/// A look behind an old transaction reads all that is due: it may take this part of the time at most.
const SHARE_OF_TIME: u32 = 20;
const LONGEST_HELD_BACK: Duration = Duration::from_secs(10);

/// What one look finds.
struct Found {
    entries: Vec<Claimed>,
    /// There may be more of them.
    is_cut: bool,
    /// Not looked at when there are no entries.
    namespace: Option<Namespace>,
    outlook: Option<Outlook>,
    tripped: Vec<Tripped>,
}

/// What the switches say.
enum Gate {
    Shut {
        /// Armed somewhere else.
        disarmed: bool,
    },
    Open {
        paused: Vec<i32>,
    },
}

impl Drain {
    /// Claims and plans as much as there is room for.
    pub(super) fn look(&mut self, now: Instant) {
        self.look_now = false;
        let has_room = self.has_room();
        if !has_room && !self.is_told && self.switches_at.elapsed() < SWITCHES_EVERY {
            self.look_now = true;
            return;
        }
        self.look_at = None;
        if !self.may_go_on(now) {
            return;
        }
        if !has_room {
            // Looks again as soon as an answer makes room.
            self.look_now = true;
            return;
        }
        self.claim(now);
    }

    /// Reads the switches. Whenever they stop anything, nothing of what is not sent yet is sent.
    pub(super) fn may_go_on(&mut self, now: Instant) -> bool {
        if !lock::leads() && !lock::try_lead() {
            log!("storage_reaper: another worker leads; starting again");
            wait::exit_for_restart();
        }
        (self.is_told, self.switches_at) = (false, Instant::now());
        match transaction::run("storage_reaper: read switches", SHORT, gate) {
            Ok(switched) => {
                self.probes.told(switched.is_probe_wanted);
                // alter_backend lets a backend go: it is tried with its new settings at once.
                self.circuits.keep(&switched.held, now);
                self.pass(switched.gate)
            }
            Err(failure) => {
                self.be_quiet("could not read the switches", &failure, now);
                false
            }
        }
    }

    /// Says whether the gate is open.
    fn pass(&mut self, gate: Gate) -> bool {
        match gate {
            Gate::Open { paused } => {
                self.told_disarmed = false;
                if paused != self.paused {
                    self.give_back_unsent();
                    self.paused = paused;
                    self.look_now = true;
                }
                true
            }
            Gate::Shut { disarmed } => {
                self.give_back_unsent();
                self.tell_disarmed(disarmed);
                false
            }
        }
    }

    fn tell_disarmed(&mut self, disarmed: bool) {
        if disarmed && !self.told_disarmed {
            log!("storage_reaper: this database is a copy of the one that was armed; nothing is deleted before arm()");
        }
        self.told_disarmed = disarmed;
    }

    fn claim(&mut self, now: Instant) {
        let except = Except { claimed: self.claims.keys().copied().collect(), backends: self.left_out(now) };
        self.has_left_out = !except.backends.is_empty();
        let (limit, last) = (self.claim_limit, self.last_strand);
        let (limits, breaker) = (guc::breaker(), &mut self.breaker);
        let found =
            transaction::run("storage_reaper: claim", SHORT, || find(&except, limit, last, limits.as_ref(), breaker));
        let found = match found {
            Ok(found) => found,
            Err(failure) => return self.be_quiet("could not claim", &failure, now),
        };
        for Tripped { name, reason } in &found.tripped {
            // What is on its way out of it is looked at again: switches are read before anything is sent.
            warning!("storage_reaper: source \"{name}\" is held until release('{name}'): {reason}");
        }
        if let Some(outlook) = &found.outlook {
            let held_back = (now.elapsed() * SHARE_OF_TIME).clamp(HELD_BACK, LONGEST_HELD_BACK);
            self.look_at = next_look(outlook, now, held_back);
        }
        if !found.entries.is_empty() {
            self.documents.claimed_at = Some(Instant::now());
        }
        self.adapt(found.is_cut);
        self.take(found, now);
    }

    /// More entries at once while they are small, fewer when they are large.
    fn adapt(&mut self, is_cut: bool) {
        if is_cut {
            self.look_now = true;
            self.claim_limit = (self.claim_limit * 2).min(MOST_ENTRIES);
        } else {
            self.claim_limit = FIRST_CLAIM;
        }
    }

    fn take(&mut self, found: Found, now: Instant) {
        let Found { entries, namespace: Some(namespace), .. } = found else { return };
        let namespace = self.known(namespace);
        for backend in namespace.backends() {
            self.lane(backend.id).rate = backend.rate_limit;
        }
        let mut taken = 0;
        let mut waiting: HashMap<BackendId, usize> = HashMap::new();
        self.waiting.iter().for_each(|(_, object)| *waiting.entry(object.backend).or_default() += 1);
        self.is_crowded = false;
        for entry in entries {
            if taken >= OBJECTS_AT_ONCE {
                self.look_now = true;
                self.claim_limit = FIRST_CLAIM;
                break;
            }
            let mut claim = Claim::new(entry, Arc::clone(&namespace));
            taken += claim.segment.locators.len();
            self.last_strand = claim.entry.key.strand;
            let default = claim.entry.backend_id.map(BackendId);
            let is_prefix = claim.entry.derived.is_some_and(|derived| derived.is_prefix);
            let open: Vec<_> = claim.undecided().collect();
            for index in open {
                match resolve(&claim.segment.locators[index], &namespace, default) {
                    Ok(object) if self.is_blocked(object.backend, now) => {
                        claim.wait_for(object.backend);
                        claim.decide(index, Fate::Postponed(None));
                    }
                    Ok(prefix) if is_prefix && self.listings.is_crowded(prefix.backend) => {
                        self.is_crowded = true;
                        claim.decide(index, Fate::Postponed(None));
                    }
                    Ok(prefix) if is_prefix => {
                        let backend = namespace.backend(prefix.backend).cloned().map(Arc::new);
                        let place = (claim.entry.key.id, index);
                        match backend {
                            Some(backend) => self.line_up_prefix(place, backend, prefix, claim.entry.max_objects),
                            None => claim.decide(index, unresolved(Reason::NotOwned)),
                        }
                    }
                    Ok(object) if waiting.get(&object.backend).is_some_and(|waiting| *waiting >= MOST_WAITING) => {
                        self.is_crowded = true;
                        claim.decide(index, Fate::Postponed(None));
                    }
                    Ok(object) if !owns(&claim.segment, index, &object, &namespace) => {
                        claim.decide(index, unresolved(Reason::NotOwned));
                    }
                    Ok(object) => {
                        *waiting.entry(object.backend).or_default() += 1;
                        self.waiting.push_back(((claim.entry.key.id, index), object));
                    }
                    Err(reason) => claim.decide(index, unresolved(reason)),
                }
            }
            self.claims.insert(claim.entry.key.id, claim);
        }
    }

    /// The same, in the memory where it was before if it has not changed.
    pub(super) fn known(&mut self, namespace: Namespace) -> Arc<Namespace> {
        if *self.namespace != namespace {
            self.namespace = Arc::new(namespace);
        }
        Arc::clone(&self.namespace)
    }

    /// A locator may name an object of another backend than its entry's, which the claim has already left out.
    fn is_blocked(&self, backend: BackendId, now: Instant) -> bool {
        self.circuits.blocked_until(backend, now).is_some() || self.paused.contains(&-backend.0)
    }
}

/// The gate, and what else the switches say.
struct Switched {
    gate: Gate,
    /// Backends that are held.
    held: Vec<i32>,
    is_probe_wanted: bool,
}

fn gate() -> Result<Switched> {
    if !utility::extension_is_installed() {
        let gate = Gate::Shut { disarmed: false };
        return Ok(Switched { gate, held: Vec::new(), is_probe_wanted: false });
    }
    let switches = armed::switches()?;
    let is_open = switches.state == State::Armed && !switches.paused;
    let disarmed = switches.state == State::Disarmed;
    let gate = if is_open { Gate::Open { paused: switches.stopped } } else { Gate::Shut { disarmed } };
    let is_probe_wanted = switches.is_probe_wanted && !switches.paused;
    Ok(Switched { gate, held: switches.held, is_probe_wanted })
}

fn find(except: &Except, limit: i64, last: Strand, limits: Option<&Limits>, breaker: &mut Breaker) -> Result<Found> {
    // A claim writes row locks, and so takes a transaction id: not for nothing.
    if !entry::is_anything_due(except)? {
        let outlook = Some(entry::outlook(except)?);
        return Ok(Found { entries: Vec::new(), is_cut: false, namespace: None, outlook, tripped: Vec::new() });
    }
    let tripped = limits.map_or(Ok(Vec::new()), |limits| breaker.trip(limits))?;
    let entry::Found { entries, is_cut } = entry::claim(except, limit, last)?;
    let outlook = if is_cut {
        None
    } else {
        let mut beyond = Except { claimed: except.claimed.clone(), backends: except.backends.clone() };
        beyond.claimed.extend(entries.iter().map(|entry| entry.key.id));
        Some(entry::outlook(&beyond)?)
    };
    Ok(Found { entries, is_cut, namespace: Some(namespace()?.0), outlook, tripped })
}

/// What is declared now.
pub(super) fn namespace() -> Result<(Namespace, Vec<Backend>)> {
    let backends = backend::all()?;
    Ok((Namespace::new(backends.clone(), location::all()?), backends))
}

fn next_look(outlook: &Outlook, now: Instant, held_back: Duration) -> Option<Instant> {
    let due = outlook.next_due_ms.map(|wait| now + Duration::from_millis(u64::try_from(wait).unwrap_or(1).max(1)));
    let held_back = outlook.held_back.then(|| now + held_back);
    [due, held_back].into_iter().flatten().min()
}

/// Whether the row could own the object, as its source says.
fn owns(segment: &Segment, index: usize, object: &Object, namespace: &Namespace) -> bool {
    segment.owns(index).is_none_or(|prefix| {
        let kind = namespace.backend(object.backend).map(|backend| backend.kind);
        kind.is_some_and(|kind| is_within(&object.key, &kind.canonical_key(prefix)))
    })
}

/// A locator that names no object of ours is no fault; anything else needs a person.
fn unresolved(reason: Reason) -> Fate {
    match reason {
        Reason::NotOwned => Fate::Settled(Outcome::Kept, Some(reason.as_str().to_owned())),
        _ => Fate::Parked(reason, None),
    }
}
