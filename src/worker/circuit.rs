//! Backends that nothing is sent to for a while: faults of a whole request are charged to the backend.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::domain::backend::BackendId;

/// The first wait after a fault, doubled with each one that follows.
const FIRST: Duration = Duration::from_secs(1);
/// Short enough that a backend that comes back is noticed within a minute.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Open {
    until: Instant,
    faults: u32,
    reason: String,
}

/// Circuits of all backends; one that is not listed is closed, and requests flow.
#[derive(Debug, Default)]
pub struct Circuits {
    open: HashMap<BackendId, Open>,
}

impl Circuits {
    /// A request failed as a whole. Returns whether the reason is new, so that it is logged and stored once.
    pub fn fail(&mut self, backend: BackendId, reason: &str, at_least: Option<Duration>, now: Instant) -> bool {
        let faults = self.open.get(&backend).map_or(0, |open| open.faults);
        // Requests that were in flight together fail together: they count once.
        if self.open.get(&backend).is_some_and(|open| now < open.until) {
            return false;
        }
        let wait = FIRST.saturating_mul(1 << faults.min(16)).min(LONGEST).max(at_least.unwrap_or_default());
        let is_new = self.open.get(&backend).is_none_or(|open| open.reason != reason);
        self.open.insert(backend, Open { until: now + wait, faults: faults + 1, reason: reason.to_owned() });
        is_new
    }

    /// A request was answered. Returns whether the backend was held before.
    pub fn succeed(&mut self, backend: BackendId) -> bool {
        self.open.remove(&backend).is_some()
    }

    /// Until when nothing is sent to the backend.
    pub fn blocked_until(&self, backend: BackendId, now: Instant) -> Option<Instant> {
        self.open.get(&backend).map(|open| open.until).filter(|until| now < *until)
    }

    /// Backends that nothing is sent to now.
    pub fn blocked(&self, now: Instant) -> Vec<i32> {
        self.open.iter().filter(|(_, open)| now < open.until).map(|(backend, _)| backend.0).collect()
    }

    /// Whether the backend is to be tried with a single request.
    pub fn is_probing(&self, backend: BackendId) -> bool {
        self.open.contains_key(&backend)
    }

    /// When the next backend is tried again.
    pub fn next_probe(&self, now: Instant) -> Option<Instant> {
        self.open.values().map(|open| open.until).filter(|until| now < *until).min()
    }

    /// Whether any backend is blocked or on trial.
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Closes every circuit whose backend is not held any more, and tries one that was held before this process began.
    pub fn keep(&mut self, held: &[i32], now: Instant) {
        self.open.retain(|backend, _| held.contains(&backend.0));
        for &backend in held {
            let on_trial = || Open { until: now, faults: 0, reason: String::new() };
            self.open.entry(BackendId(backend)).or_insert_with(on_trial);
        }
    }

    /// Settings changed: everything is tried again at once.
    pub fn forgive(&mut self, now: Instant) {
        self.open.values_mut().for_each(|open| open.until = now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end_with_a_success() {
        let (mut circuits, start) = (Circuits::default(), Instant::now());
        let backend = BackendId(1);
        assert!(circuits.fail(backend, "down", None, start));
        assert!(!circuits.fail(backend, "down", None, start), "in flight together, counted once");
        assert_eq!(circuits.blocked_until(backend, start), Some(start + FIRST));
        let later = start + FIRST;
        assert!(circuits.blocked(later).is_empty() && circuits.is_probing(backend));
        assert!(!circuits.fail(backend, "down", None, later), "the reason is known");
        assert_eq!(circuits.blocked_until(backend, later), Some(later + 2 * FIRST));
        assert!(circuits.succeed(backend) && !circuits.succeed(backend));
        circuits.keep(&[1], later);
        assert!(circuits.is_probing(backend) && circuits.succeed(backend), "held when the process began");
    }
}
