//! How long an object waits between attempts.

use std::time::Duration;

/// Exponential backoff with full jitter, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub base: Duration,
    pub max: Duration,
    pub attempts: u32,
}

impl Backoff {
    /// The wait after `attempt` failures (1 and up); `jitter` is in 0..1 and spreads what failed together.
    pub fn delay(&self, attempt: u32, jitter: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let ceiling = self.base.saturating_mul(1 << doublings).min(self.max);
        ceiling.mul_f64(jitter.clamp(0.0, 1.0))
    }

    /// Whether a person has to look now.
    pub fn is_exhausted(&self, attempts: u32) -> bool {
        attempts >= self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit() {
        let backoff = Backoff { base: Duration::from_secs(30), max: Duration::from_secs(6 * 3600), attempts: 20 };
        assert_eq!(backoff.delay(1, 1.0), Duration::from_secs(30));
        assert_eq!(backoff.delay(3, 0.5), Duration::from_secs(60));
        assert_eq!(backoff.delay(u32::MAX, 1.0), Duration::from_secs(6 * 3600));
        assert!(backoff.is_exhausted(20) && !backoff.is_exhausted(19));
    }
}
