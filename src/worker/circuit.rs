//! Backends that nothing is sent to for a while: faults of a whole request are charged to the backend.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::domain::backend::BackendId;
use crate::s3::fault::{Fault, Response};

/// The first wait after a fault, doubled with each one that follows.
const FIRST: Duration = Duration::from_secs(1);
/// Short enough that a backend that comes back is noticed within a minute.
const LONGEST: Duration = Duration::from_secs(60);
/// A backend that rests for the fifth time in a row, after 15 s, does not recover by itself: people are told.
const MOST_RESTS: u32 = 5;

#[derive(Debug)]
struct Open {
    until: Instant,
    faults: u32,
    reason: String,
    /// People are told, and may let it go.
    is_held: bool,
    /// The database shows that it is held.
    is_shown: bool,
    /// The reason that it shows.
    told: Option<String>,
}

/// What follows from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// It did not fail together with others.
    pub counts: bool,
    /// It is held now, or for another reason: that is logged and stored.
    pub is_news: bool,
}

/// Circuits of all backends; one that is not listed is closed, and requests flow.
#[derive(Debug, Default)]
pub struct Circuits {
    open: HashMap<BackendId, Open>,
}

impl Circuits {
    /// A request failed as a whole. The backend is held if that needs a person, else it rests: for `jitter` (0.5 to 1) of the wait,
    /// so that not everybody comes back at the same moment.
    pub fn fail(&mut self, backend: BackendId, fault: &Fault, jitter: f64, now: Instant) -> Opened {
        let before = self.open.get(&backend);
        let needs_person = fault.kind.response() == Response::Hold;
        // Requests that were in flight together fail together: they count once.
        if before.is_some_and(|open| now < open.until && (open.is_held || !needs_person)) {
            return Opened { counts: false, is_news: false };
        }
        let faults = before.map_or(0, |open| open.faults);
        let wait = FIRST.saturating_mul(1 << faults.min(16)).min(LONGEST);
        let wait = if needs_person { wait } else { wait.mul_f64(jitter) };
        let wait = wait.max(fault.retry_after.unwrap_or_default());
        let is_held = needs_person || faults + 1 >= MOST_RESTS || before.is_some_and(|open| open.is_held);
        let (is_shown, told) = before.map_or((false, None), |open| (open.is_shown, open.told.clone()));
        let is_news = is_held && told.as_ref() != Some(&fault.message);
        let open =
            Open { until: now + wait, faults: faults + 1, reason: fault.message.clone(), is_held, is_shown, told };
        self.open.insert(backend, open);
        Opened { counts: true, is_news }
    }

    /// The database knows that it is held, and why.
    pub fn written(&mut self, backend: BackendId) {
        if let Some(open) = self.open.get_mut(&backend) {
            open.is_shown = true;
            open.told = Some(open.reason.clone());
        }
    }

    /// A request was answered. Returns whether the backend was held before, and is not any more. What was in flight when
    /// another one failed does not cut short how long nothing is sent.
    pub fn succeed(&mut self, backend: BackendId, now: Instant) -> bool {
        match self.open.get_mut(&backend) {
            Some(open) if now < open.until => {
                open.faults = 0;
                false
            }
            _ => self.open.remove(&backend).is_some_and(|open| open.is_held),
        }
    }

    /// It works again, however long nothing was to be sent. Returns whether it was held before.
    pub fn close(&mut self, backend: BackendId) -> bool {
        self.open.remove(&backend).is_some_and(|open| open.is_held)
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

    /// Whether some backend may be tried again.
    pub fn is_any_on_trial(&self, now: Instant) -> bool {
        self.open.values().any(|open| open.until <= now)
    }

    /// Closes every circuit whose backend is not held any more, and tries one that was held before this process began.
    pub fn keep(&mut self, held: &[i32], now: Instant) {
        self.open.retain(|backend, open| !(open.is_held && open.is_shown) || held.contains(&backend.0));
        for &backend in held {
            let (reason, told) = (String::new(), None);
            let on_trial = Open { until: now, faults: 0, reason, is_held: true, is_shown: true, told };
            self.open.entry(BackendId(backend)).or_insert(on_trial).is_shown = true;
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
    use crate::s3::fault::FaultKind;

    #[test]
    fn waits_double_and_end_with_a_success() {
        let (mut circuits, start) = (Circuits::default(), Instant::now());
        let (backend, down) = (BackendId(1), Fault::new(FaultKind::Auth, "down"));
        let counted = |is_news| Opened { counts: true, is_news };
        assert_eq!(circuits.fail(backend, &down, 0.5, start), counted(true));
        circuits.keep(&[], start);
        assert!(circuits.is_probing(backend), "it could not be written down");
        circuits.written(backend);
        assert!(!circuits.fail(backend, &down, 0.5, start).counts, "in flight together, counted once");
        assert_eq!(circuits.blocked_until(backend, start), Some(start + FIRST));
        let later = start + FIRST;
        assert!(circuits.blocked(later).is_empty() && circuits.is_probing(backend));
        assert_eq!(circuits.fail(backend, &down, 0.5, later), counted(false), "the reason is known");
        assert_eq!(circuits.blocked_until(backend, later), Some(later + 2 * FIRST));
        assert!(!circuits.succeed(backend, later), "it was in flight before");
        let later = later + 2 * FIRST;
        assert!(circuits.succeed(backend, later) && !circuits.succeed(backend, later));
        circuits.keep(&[1], later);
        assert!(circuits.is_probing(backend) && circuits.succeed(backend, later), "held when the process began");
    }

    #[test]
    fn another_reason_is_not_told_or_a_hold_that_is_shown_cannot_be_let_go() {
        let (mut circuits, mut now) = (Circuits::default(), Instant::now());
        let (backend, other) = (BackendId(1), Fault::new(FaultKind::Clock, "other"));
        circuits.fail(backend, &Fault::new(FaultKind::Auth, "down"), 0.5, now);
        circuits.written(backend);
        for _ in 0..2 {
            now = circuits.blocked_until(backend, now).unwrap();
            assert!(circuits.fail(backend, &other, 0.5, now).is_news, "it could not be written down");
            circuits.keep(&[1], now);
        }
        circuits.keep(&[], now);
        assert!(!circuits.is_probing(backend), "somebody let it go");
    }

    #[test]
    fn a_store_with_a_bad_moment_needs_a_person() {
        let (mut circuits, mut now) = (Circuits::default(), Instant::now());
        let (backend, slow) = (BackendId(1), Fault::new(FaultKind::Throttled, "slow down"));
        for rest in 1..MOST_RESTS {
            assert!(!circuits.fail(backend, &slow, 0.5, now).is_news, "rest {rest}");
            now = circuits.blocked_until(backend, now).unwrap();
            circuits.keep(&[], now);
            assert!(circuits.is_probing(backend), "nobody lets go what is not held");
        }
        assert!(circuits.fail(backend, &slow, 0.5, now).is_news);
        let now = circuits.blocked_until(backend, now).unwrap();
        assert!(circuits.succeed(backend, now));
        let patient = Fault { retry_after: Some(Duration::from_secs(600)), ..slow };
        circuits.fail(backend, &patient, 0.5, now);
        assert_eq!(circuits.blocked_until(backend, now), Some(now + Duration::from_secs(600)));
        assert!(!circuits.succeed(backend, now + Duration::from_secs(600)));
    }
}
