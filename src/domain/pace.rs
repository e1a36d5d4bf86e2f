//! How much a store is asked at once: it shows by its answers what it can take.

/// The most that the settings allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Requests in flight.
    pub requests: usize,
    /// Keys in one request.
    pub keys: usize,
}

/// Requests in flight, and keys in one of them. Both halve when a store cannot take them. Requests come back by one for each
/// round of answers; keys double after a while, and after twice as long each time that this was too much.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Its fraction is what answers have added since the last whole one.
    requests: f64,
    keys: usize,
    /// Requests of full size that were answered since it changed.
    calm: u32,
    /// So many of them, and larger ones are tried.
    patience: u32,
}

/// A store that was merely slow for a moment is soon asked as before.
const SHORTEST_PATIENCE: u32 = 8;
/// One that never takes more is asked for more in one of a thousand requests.
const LONGEST_PATIENCE: u32 = 1024;

impl Pace {
    /// As much as is allowed: stores say when it is too much.
    pub fn new(ceiling: Ceiling) -> Self {
        let requests = u32::try_from(ceiling.requests).unwrap_or(u32::MAX);
        Self { requests: f64::from(requests), keys: ceiling.keys, calm: 0, patience: SHORTEST_PATIENCE }
    }

    /// Requests that may be in flight.
    pub fn requests(&self, ceiling: Ceiling) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 1 and the ceiling")]
        let whole = self.requests as usize;
        whole.clamp(1, ceiling.requests.max(1))
    }

    /// Keys that one may carry.
    pub fn keys(&self, ceiling: Ceiling) -> usize {
        self.keys.clamp(1, ceiling.keys.max(1))
    }

    /// A request with so many keys was answered.
    pub fn answered(&mut self, keys: usize, ceiling: Ceiling) {
        let now = self.requests(ceiling);
        if now < ceiling.requests {
            self.requests += 1.0 / f64::from(u32::try_from(now).unwrap_or(u32::MAX));
        }
        let is_full = keys >= self.keys(ceiling);
        self.calm += u32::from(is_full);
        if self.calm < self.patience {
            return;
        }
        self.calm = 0;
        if self.keys < ceiling.keys {
            self.keys = (self.keys * 2).min(ceiling.keys);
        } else {
            self.patience = SHORTEST_PATIENCE;
        }
    }

    /// It asked to slow down: fewer requests, and smaller ones once there is but one.
    pub fn throttled(&mut self) {
        if self.requests < 2.0 {
            self.shrink(self.keys);
        }
        self.requests = (self.requests / 2.0).max(1.0);
    }

    /// A request with so many keys took too long or broke something: smaller ones, and fewer when they name one key.
    pub fn overtaxed(&mut self, keys: usize) {
        if keys <= 1 {
            self.requests = (self.requests / 2.0).max(1.0);
        }
        self.shrink(keys);
    }

    /// Half of a request. Several of one size that were in flight together count once.
    pub fn shrink(&mut self, keys: usize) {
        let half = (keys / 2).max(1);
        if half < self.keys {
            self.keys = half;
            self.calm = 0;
            self.patience = (self.patience * 2).min(LONGEST_PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CEILING: Ceiling = Ceiling { requests: 64, keys: 1000 };

    #[test]
    fn a_store_that_is_too_slow_for_a_batch_gets_the_same_one_for_ever() {
        let mut pace = Pace::new(CEILING);
        let (mut failures, mut done) = (0, 0);
        // It takes 300 keys in time.
        while done < 300_000 {
            let keys = pace.keys(CEILING);
            if keys <= 300 {
                pace.answered(keys, CEILING);
                done += keys;
            } else {
                pace.overtaxed(keys);
                failures += 1;
            }
        }
        assert!((2..12).contains(&failures), "{failures}");
    }

    #[test]
    fn what_fails_together_counts_once() {
        let mut pace = Pace::new(CEILING);
        (0..10).for_each(|_| pace.overtaxed(1000));
        assert_eq!((pace.keys(CEILING), pace.requests(CEILING)), (500, 64));
    }

    #[test]
    fn a_store_that_has_recovered_is_asked_for_little_for_ever() {
        let mut pace = Pace::new(CEILING);
        (0..20).for_each(|_| pace.throttled());
        assert_eq!((pace.requests(CEILING), pace.keys(CEILING)), (1, 1));
        (0..20_000).for_each(|_| pace.answered(pace.keys(CEILING), CEILING));
        assert_eq!((pace.requests(CEILING), pace.keys(CEILING)), (64, 1000));
    }

    proptest! {
        #[test]
        fn it_stays_between_one_and_the_ceiling(events in prop::collection::vec((0_u8..4, 1_usize..2000), 0..200), requests in 1_usize..300, keys in 1_usize..1001) {
            let ceiling = Ceiling { requests, keys };
            let mut pace = Pace::new(CEILING);
            for (event, size) in events {
                match event {
                    0 => pace.answered(size, ceiling),
                    1 => pace.throttled(),
                    2 => pace.overtaxed(size),
                    _ => pace.shrink(size),
                }
                prop_assert!((1..=requests).contains(&pace.requests(ceiling)));
                prop_assert!((1..=keys).contains(&pace.keys(ceiling)));
            }
        }
    }
}
