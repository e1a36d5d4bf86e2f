//! The drain: claims what is due, sends what the guard lets through, settles what was answered.
//!
//! Everything in here is memory of the leader. An entry leaves the outbox only in the transaction that settles it, so
//! a crash at any point costs repeated requests, which deletes survive, and nothing else.

mod answers;
mod backends;
mod check;
mod documents;
mod flight;
mod lane;
mod listings;
mod look;
mod probes;
mod purges;
mod settle;

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Request;
use crate::domain::object::Object;
use crate::domain::resolve::Namespace;
use crate::domain::suspect::Suspects;
use crate::guc;
use crate::pg::{signals, transaction, utility};
use crate::s3::io::{Io, Settings};
use crate::store::settle::{FORGOTTEN_AT_ONCE, forget_history};
use crate::store::{entry, purge};

use super::breaker::Breaker;
use super::circuit::Circuits;
use super::claim::{Claim, Fate, Place};
use super::guard::Guard;
use super::leader::SHORT;
use documents::Documents;
use flight::Flight;
use lane::Lane;
use listings::Listings;
use probes::Probes;
use purges::Purges;

/// How often history is trimmed.
const TRIM_EVERY: Duration = Duration::from_secs(3600);
/// Without room for more, switches are read this often, and whenever one was changed.
const SWITCHES_EVERY: Duration = Duration::from_millis(100);
/// After a failed transaction of our own.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Objects that wait for one backend without room; others of it are claimed and left again.
const MOST_WAITING: usize = 20_000;
/// Entries in the first claim; grows while entries are small and the queue is long.
const FIRST_CLAIM: i64 = 64;

/// A request that is planned, and whose objects its targets name.
struct Planned {
    flight: i64,
    backend: Arc<Backend>,
    request: Request,
    /// For each target of the request, the objects it stands for.
    places: Vec<Vec<Place>>,
    /// When the guard was asked about them.
    checked_at: Instant,
}

impl Planned {
    /// The objects that its targets are.
    fn objects(&self) -> impl Iterator<Item = Object> {
        let bucket = self.request.bucket();
        let of = |key: &str| Object { backend: self.backend.id, bucket: bucket.to_owned(), key: key.to_owned() };
        self.request.targets().iter().map(move |target| of(&target.key))
    }
}

/// The leader's state.
pub struct Drain {
    io: Io,
    settings: Settings,
    ringer: UnixStream,
    claims: HashMap<i64, Claim>,
    /// What was declared when it was looked at last: as long as that stays the same, nothing has to be read anew.
    namespace: Arc<Namespace>,
    /// Resolved, and not asked about yet.
    waiting: VecDeque<(Place, Object)>,
    /// Marked, and waiting for those who were writing then.
    marked: VecDeque<Flight>,
    /// Closed, with requests that are ready or sent.
    aloft: HashMap<i64, Flight>,
    /// Flights of a leader before this one have been ended.
    has_adopted: bool,
    /// When to try the first marked flight again.
    close_at: Option<Instant>,
    /// When to look again whether flights can be forgotten.
    forget_at: Option<Instant>,
    /// Asked about and planned.
    ready: VecDeque<Planned>,
    /// Objects that are asked about at once, at most: as many as the slowest reference answers in time.
    window_limit: usize,
    sent: HashMap<u64, Planned>,
    next_job: u64,
    lanes: HashMap<BackendId, Lane>,
    circuits: Circuits,
    suspects: Suspects,
    /// Something was not claimed because its backend had no room.
    has_left_out: bool,
    /// Something was left again because too much waits for its backend.
    is_crowded: bool,
    guard: Guard,
    documents: Documents,
    listings: Listings,
    /// Objects in one settling transaction.
    settled_at_once: usize,
    purges: Purges,
    probes: Probes,
    breaker: Breaker,
    /// Failures of the guard in a row, and until when nothing is claimed because of them.
    doubts: u32,
    claim_limit: i64,
    /// The one that was served last: the next claim begins behind it.
    last_strand: entry::Strand,
    look_now: bool,
    /// Somebody wants the switches to be read.
    is_told: bool,
    switches_at: Instant,
    look_at: Option<Instant>,
    quiet_until: Option<Instant>,
    trim_at: Instant,
    /// What was paused when the ready requests were planned.
    paused: Vec<i32>,
    told_disarmed: bool,
}

impl Drain {
    /// Starts the I/O thread, which writes to `ringer` whenever an answer is there.
    pub fn start(ringer: UnixStream) -> std::io::Result<Self> {
        let settings = guc::io_settings();
        let io = start_io(&settings, &ringer)?;
        Ok(Self {
            io,
            settings,
            ringer,
            claims: HashMap::new(),
            namespace: Arc::default(),
            waiting: VecDeque::new(),
            marked: VecDeque::new(),
            aloft: HashMap::new(),
            has_adopted: false,
            close_at: None,
            forget_at: None,
            ready: VecDeque::new(),
            window_limit: check::LARGEST_WINDOW,
            sent: HashMap::new(),
            next_job: 0,
            lanes: HashMap::new(),
            circuits: Circuits::default(),
            suspects: Suspects::default(),
            has_left_out: false,
            is_crowded: false,
            guard: Guard::default(),
            documents: Documents::default(),
            listings: Listings::default(),
            settled_at_once: settle::SETTLED_AT_ONCE,
            purges: Purges::new(),
            probes: Probes::default(),
            breaker: Breaker::default(),
            doubts: 0,
            claim_limit: FIRST_CLAIM,
            last_strand: (0, 0),
            look_now: true,
            is_told: true,
            switches_at: Instant::now(),
            look_at: None,
            quiet_until: None,
            trim_at: Instant::now(),
            paused: Vec::new(),
            told_disarmed: false,
        })
    }

    /// Somebody committed something, or changed a switch.
    pub fn look_again(&mut self) {
        self.look_now = true;
        self.is_told = true;
        self.purges.told();
    }

    /// The configuration was reloaded: credentials may be other ones, so held backends are tried at once.
    pub fn reload(&mut self) {
        if guc::breaker().is_none() {
            // What goes while it is off is looked up when it is on again.
            self.breaker = Breaker::default();
        }
        let settings = guc::io_settings();
        if settings != self.settings {
            match start_io(&settings, &self.ringer) {
                Ok(io) => {
                    self.give_back_sent();
                    std::mem::replace(&mut self.io, io).stop();
                    self.settings = settings;
                    self.forget_clocks();
                }
                Err(error) => log!("storage_reaper: could not restart the I/O thread: {error}"),
            }
        }
        self.io.forget_credentials();
        self.purges.forgive();
        self.circuits.forgive(Instant::now());
        self.lanes.values_mut().for_each(|lane| lane.singles_only = false);
        self.look_now = true;
    }

    /// Does all that can be done without waiting. Returns when to come back at the latest.
    pub fn work(&mut self, now: Instant) -> Option<Instant> {
        self.collect(now);
        self.open_lanes(now);
        self.land(now);
        self.settle(now);
        self.tidy_flights(now);
        if self.is_time_to_look(now) {
            self.look(now);
        }
        self.write_probes(now);
        self.ask_stores(now);
        self.list_prefixes(now);
        self.send(now);
        self.land(now);
        self.settle(now);
        self.tell_caches(now);
        self.trim(now);
        self.next_moment(now)
    }

    fn is_quiet(&self, now: Instant) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    fn is_time_to_look(&self, now: Instant) -> bool {
        let is_due = self.look_now || self.look_at.is_some_and(|at| at <= now) || self.circuits.is_any_on_trial(now);
        is_due && !self.is_quiet(now)
    }

    /// Gives a planned request's objects back to the outbox, no attempt counted.
    fn postpone(&mut self, planned: &Planned, error: Option<&str>) {
        for &place in planned.places.iter().flatten() {
            if let Some(claim) = self.claims.get_mut(&place.0) {
                claim.wait_for(planned.backend.id);
            }
            self.decide(place, Fate::Postponed(error.map(str::to_owned)));
        }
    }

    fn decide(&mut self, (entry, index): Place, fate: Fate) {
        if let Some(claim) = self.claims.get_mut(&entry) {
            claim.decide(index, fate);
        }
    }

    /// Nothing of what is not sent yet will be sent.
    fn give_back_unsent(&mut self) {
        self.io.recall(None);
        for planned in std::mem::take(&mut self.ready) {
            self.postpone(&planned, None);
            self.return_from(&planned, &[], &[]);
        }
        for flight in std::mem::take(&mut self.marked) {
            self.call_off(flight, Fate::Postponed(None));
        }
        for (place, _) in std::mem::take(&mut self.waiting) {
            self.decide(place, Fate::Postponed(None));
        }
        self.give_back_prefixes(false);
        self.documents.forget_questions();
    }

    /// What is in flight goes back: its answers will not come.
    fn give_back_sent(&mut self) {
        for planned in std::mem::take(&mut self.sent).into_values() {
            self.postpone(&planned, None);
            let all: Vec<Place> = planned.places.iter().flatten().copied().collect();
            self.return_from(&planned, &[], &all);
        }
        self.give_back_prefixes(true);
        self.purges.give_back();
        self.probes.give_back();
        self.documents.forget_questions();
    }

    fn be_quiet(&mut self, what: &str, failure: &transaction::Failure, now: Instant) {
        log!("storage_reaper: {what}: {failure}");
        self.quiet_until = Some(now + PAUSE_AFTER_FAILURE);
        self.look_now = true;
    }

    /// Keeps history bounded; a thousand segments at a time, so that nothing waits for it.
    fn trim(&mut self, now: Instant) {
        if now < self.trim_at {
            return;
        }
        self.trim_at = now + TRIM_EVERY;
        let trimmed =
            transaction::run("storage_reaper: trim history", SHORT, || match utility::extension_is_installed() {
                true => purge::forget().and_then(|()| forget_history(guc::history_retention())),
                false => Ok(0),
            });
        match trimmed {
            Ok(removed) if removed >= FORGOTTEN_AT_ONCE => self.trim_at = now,
            Ok(_) => {}
            Err(failure) => log!("storage_reaper: could not trim history: {failure}"),
        }
    }

    fn next_moment(&self, now: Instant) -> Option<Instant> {
        if self.look_now && self.has_room() {
            return Some(self.quiet_until.filter(|until| now < *until).unwrap_or(now));
        }
        let full = self.full();
        let is_full = self.documents.is_reading() || self.marked.iter().all(|flight| full.contains(&flight.backend));
        let close_at = self.close_at.filter(|_| !is_full);
        let (probe, quiet_until) = (self.circuits.next_probe(now), self.quiet_until.filter(|until| now < *until));
        let purge_at = self.purges.look_at();
        let next = [
            self.look_at,
            purge_at,
            self.probes.write_at(),
            probe,
            close_at,
            self.next_opening(),
            self.forget_at,
            quiet_until,
            Some(self.trim_at),
        ];
        let next = next.into_iter().flatten().min();
        next.map(|next| self.quiet_until.map_or(next, |until| next.max(until)))
    }

    /// Whether more may be claimed: what can be sent comes first, and what its backend has no room for stands in nobody's way.
    fn has_room(&self) -> bool {
        let full = self.full();
        self.ready.iter().all(|planned| full.contains(&planned.backend.id))
            && self.waiting.iter().all(|(_, object)| full.contains(&object.backend))
            && self.marked.iter().filter(|flight| !full.contains(&flight.backend)).count() < flight::MOST_MARKED
    }
}

fn start_io(settings: &Settings, ringer: &UnixStream) -> std::io::Result<Io> {
    let bell = ringer.try_clone()?;
    // PostgreSQL's signal handlers must run on its own thread only; the new thread inherits the mask.
    let _blocked = signals::block_all();
    // A full socket already wakes the reader, so a failed write loses nothing.
    Io::start(settings.clone(), move || drop((&bell).write(&[1])))
}
