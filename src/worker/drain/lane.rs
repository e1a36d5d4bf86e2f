//! A lane for each backend: what is in flight to it, and how much it may be, so that a slow one does not stand in the way of
//! the others.

use std::collections::{HashMap, HashSet};

use crate::domain::backend::BackendId;
use crate::domain::pace::{Ceiling, Pace};
use crate::guc;

use super::Drain;
use super::check::{LARGEST_WINDOW, SMALLEST_WINDOW};

/// What is known of a backend as long as the worker runs.
pub(super) struct Lane {
    pub pace: Pace,
    /// Objects that are asked about at once: as many as can be sent before the answer is stale.
    window: usize,
}

impl Lane {
    fn new() -> Self {
        Self { pace: Pace::new(ceiling()), window: LARGEST_WINDOW }
    }

    /// What was asked about could not be sent in time.
    pub fn narrow(&mut self) {
        self.window = (self.window / 2).max(SMALLEST_WINDOW);
    }

    /// It could.
    pub fn widen(&mut self) {
        self.window = (self.window * 2).min(LARGEST_WINDOW);
    }
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
        self.lane(backend).window.min(self.window_limit)
    }

    /// Requests in flight, by backend.
    pub(super) fn in_flight(&self) -> HashMap<BackendId, usize> {
        let mut in_flight = HashMap::new();
        self.sent.values().for_each(|sent| *in_flight.entry(sent.backend.id).or_default() += 1);
        in_flight
    }

    /// How many may be.
    pub(super) fn most_in_flight(&self, backend: BackendId) -> usize {
        match self.lanes.get(&backend) {
            _ if self.circuits.is_probing(backend) => 1,
            Some(lane) => lane.pace.requests(ceiling()),
            None => ceiling().requests,
        }
    }

    /// Backends to which no further request may go before one is answered.
    pub(super) fn full(&self) -> HashSet<BackendId> {
        let in_flight = self.in_flight().into_iter();
        in_flight.filter(|(id, requests)| *requests >= self.most_in_flight(*id)).map(|(id, _)| id).collect()
    }
}
