//! A lane for each backend: what is in flight to it, and how much it may be, so that a slow one does not stand in the way of
//! the others.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Limits;
use crate::domain::pace::{Ceiling, Pace};
use crate::guc;

use super::check::{FRESH, LARGEST_WINDOW, SMALLEST_WINDOW};
use super::{Drain, Planned};

/// Single deletions that are checked at once, for each that may be under way: the next check is over before these are, and
/// these are sent before the check is stale.
const ROUNDS: usize = 8;

/// What is known of a backend as long as the worker runs.
pub(super) struct Lane {
    pub pace: Pace,
    /// Objects that are asked about at once: as many as can be sent before the answer is stale.
    window: usize,
    narrowed_at: Option<Instant>,
    /// What was sent is enough until then.
    opens_at: Option<Instant>,
    /// Objects a second, if they are limited: no more are asked about at once.
    pub rate: Option<u32>,
    /// When it answered a deletion for the last time.
    pub answered_at: Option<Instant>,
    /// Requests in a row that were too late to be sent.
    pub stale: u32,
    /// Its requests carry one key each.
    has_singles: bool,
    /// It refused DeleteObjects as such, and that could not be written down.
    pub singles_only: bool,
}

impl Lane {
    fn new() -> Self {
        Self {
            pace: Pace::new(ceiling()),
            window: LARGEST_WINDOW,
            narrowed_at: None,
            opens_at: None,
            rate: None,
            answered_at: None,
            stale: 0,
            has_singles: false,
            singles_only: false,
        }
    }

    /// What was asked about could not be sent in time. What was late together counts once.
    pub fn narrow(&mut self) {
        if self.narrowed_at.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        self.narrowed_at = Some(Instant::now());
        self.window = (self.window / 2).max(SMALLEST_WINDOW);
    }

    /// It could.
    pub fn widen(&mut self) {
        self.window = (self.window * 2).min(LARGEST_WINDOW);
    }

    /// Whether its backend has got all that it may get for now.
    pub fn is_shut(&self, now: Instant) -> bool {
        self.opens_at.is_some_and(|at| now < at)
    }

    /// A request leaves: where objects a second are limited, the next one waits for as long as these take.
    pub fn charge(&mut self, planned: &Planned, now: Instant) {
        if let Some(takes) = takes(planned) {
            self.opens_at = Some(self.opens_at.map_or(now, |at| at.max(now)) + takes);
        }
    }

    /// A request did not leave after all.
    pub fn refund(&mut self, planned: &Planned) {
        if let (Some(at), Some(takes)) = (self.opens_at, takes(planned)) {
            self.opens_at = at.checked_sub(takes);
        }
    }
}

/// How long the objects of a request take, where objects a second are limited.
fn takes(planned: &Planned) -> Option<Duration> {
    let objects = u32::try_from(planned.places.len()).unwrap_or(u32::MAX);
    planned.backend.rate_limit.map(|rate| Duration::from_secs(1) * objects / rate.max(1))
}

/// The most that a backend may be asked at once.
pub(super) fn ceiling() -> Ceiling {
    Ceiling { requests: guc::concurrency(), keys: guc::batch_size() }
}

impl Drain {
    pub(super) fn lane(&mut self, backend: BackendId) -> &mut Lane {
        self.lanes.entry(backend).or_insert_with(Lane::new)
    }

    /// Objects of the backend that are asked about at once.
    pub(super) fn window(&mut self, backend: BackendId) -> usize {
        let lane = self.lane(backend);
        let rate = lane.rate.and_then(|rate| usize::try_from(rate).ok()).unwrap_or(usize::MAX);
        let rounds = if lane.has_singles { ROUNDS * lane.pace.requests(ceiling()) } else { usize::MAX };
        lane.window.min(rate).min(rounds.max(SMALLEST_WINDOW)).min(self.window_limit)
    }

    /// Requests that are under way or wait for their turn, by backend.
    pub(super) fn in_flight(&self) -> HashMap<BackendId, usize> {
        let mut in_flight = HashMap::new();
        self.sent.values().for_each(|sent| *in_flight.entry(sent.backend.id).or_default() += 1);
        in_flight
    }

    /// How many may be: with those that wait, the store has to do while the worker checks the next ones.
    pub(super) fn most_sent(&self, backend: BackendId) -> usize {
        let most = self.most_in_flight(backend);
        if self.circuits.is_probing(backend) { most } else { 2 * most }
    }

    /// How many may be under way.
    pub(super) fn most_in_flight(&self, backend: BackendId) -> usize {
        match self.lanes.get(&backend) {
            _ if self.circuits.is_probing(backend) => 1,
            Some(lane) => lane.pace.requests(ceiling()),
            None => ceiling().requests,
        }
    }

    /// Backends to which no further request may go for now.
    pub(super) fn full(&self) -> HashSet<BackendId> {
        let now = Instant::now();
        let in_flight = self.in_flight().into_iter();
        let full = in_flight.filter(|(id, requests)| *requests >= self.most_sent(*id)).map(|(id, _)| id);
        full.chain(self.lanes.iter().filter(|(_, lane)| lane.is_shut(now)).map(|(id, _)| *id)).collect()
    }

    /// Opens lanes whose time has come: what was left out for them is looked for again.
    pub(super) fn open_lanes(&mut self, now: Instant) {
        for lane in self.lanes.values_mut().filter(|lane| lane.opens_at.is_some_and(|at| at <= now)) {
            lane.opens_at = None;
            self.look_now = true;
        }
    }

    /// When the next lane opens.
    pub(super) fn next_opening(&self) -> Option<Instant> {
        self.lanes.values().filter_map(|lane| lane.opens_at).min()
    }

    /// What one request to the backend may carry.
    pub(super) fn limits(&mut self, backend: &Backend) -> Limits {
        let lane = self.lane(backend.id);
        let mut limits = Limits::of(backend, lane.pace.keys(ceiling()));
        limits.has_batches &= !lane.singles_only;
        lane.has_singles = !limits.has_batches || limits.batch_size == 1;
        limits
    }
}
