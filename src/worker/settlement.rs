//! Turns decided claims into rows, and writes them in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::backoff::Backoff;
use crate::domain::outcome::{Outcome, Reason};
use crate::error::Result;
use crate::s3::answer::now_us;
use crate::store::entry::Key;
use crate::store::purge::{self, Untold};
use crate::store::settle::{self, Parked, Queued, Settled};

use super::claim::{Claim, Fate};
use super::offspring::Offspring;

/// Objects of a claim that end alike, by place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Settled(&'static str, Option<String>),
    Failed(String),
    Later(i64, String),
    Postponed(Option<String>),
}

impl Group {
    /// Nobody has to look at it.
    fn given_up(reason: Reason) -> Self {
        Self::Settled(Outcome::Discarded.as_str(), Some(reason.as_str().to_owned()))
    }
}

/// What the settling transaction writes.
#[derive(Default)]
pub struct Rows {
    entries: Vec<Key>,
    settled: Vec<Settled>,
    queued: Vec<Queued>,
    parked: Vec<Parked>,
    untold: Vec<Untold>,
}

impl Rows {
    /// The rows of one decided claim. `jitter` in 0..1 spreads retries; `postpone` is how long a backend's fault holds
    /// what it did not touch.
    pub fn add(&mut self, claim: &Claim, backoff: &Backoff, jitter: f64, postpone: Duration) {
        self.entries.push(claim.entry.key);
        let attempts = u32::try_from(claim.entry.attempts).unwrap_or_default() + 1;
        let mut groups: BTreeMap<Group, Vec<usize>> = BTreeMap::new();
        for (index, fate) in claim.fates() {
            let group = match fate {
                Fate::Settled(outcome, reason) => Group::Settled(outcome.as_str(), reason.clone()),
                Fate::Parked(reason, _) if !claim.entry.is_required => Group::given_up(*reason),
                Fate::Parked(reason, error) => {
                    self.park(claim, index, *reason, error.clone(), attempts - 1);
                    Group::Settled(Outcome::Parked.as_str(), Some(reason.as_str().to_owned()))
                }
                Fate::Failed(error) | Fate::Denied(error) if backoff.is_exhausted(attempts) => {
                    let is_denied = matches!(fate, Fate::Denied(_));
                    let reason = if is_denied { Reason::AccessDenied } else { Reason::AttemptsExhausted };
                    if !claim.entry.is_required {
                        groups.entry(Group::given_up(reason)).or_default().push(index);
                        continue;
                    }
                    self.park(claim, index, reason, Some(error.clone()), attempts);
                    Group::Settled(Outcome::Parked.as_str(), Some(reason.as_str().to_owned()))
                }
                Fate::Failed(error) | Fate::Denied(error) => Group::Failed(error.clone()),
                Fate::Later(until_us, error) => Group::Later(*until_us, error.clone()),
                Fate::Postponed(error) => Group::Postponed(error.clone()),
            };
            groups.entry(group).or_default().push(index);
        }
        for (group, places) in groups {
            match group {
                Group::Settled(outcome, reason) => self.settle(claim, &places, outcome, reason),
                Group::Failed(error) => {
                    self.retry(claim, &places, attempts, backoff.delay(attempts, jitter), Some(error));
                }
                Group::Later(until_us, error) => {
                    let wait = u64::try_from(until_us.saturating_sub(now_us())).unwrap_or_default();
                    self.retry(claim, &places, attempts - 1, Duration::from_micros(wait), Some(error));
                }
                Group::Postponed(error) => self.retry(claim, &places, attempts - 1, postpone, error),
            }
        }
    }

    /// What follows from claims, beside what becomes of them.
    pub fn add_offspring(&mut self, offspring: Offspring) {
        self.queued.extend(offspring.queued);
        self.settled.extend(offspring.settled);
        self.untold.extend(offspring.untold);
    }

    /// Writes everything, in the transaction of the caller. Says whether caches have to be told.
    pub fn write(self) -> Result<bool> {
        let has_untold = !self.untold.is_empty();
        purge::queue(self.untold)?;
        settle::remove_entries(&self.entries)?;
        settle::record(self.settled)?;
        settle::queue(self.queued)?;
        settle::park(self.parked)?;
        Ok(has_untold)
    }

    fn settle(&mut self, claim: &Claim, places: &[usize], outcome: &'static str, reason: Option<String>) {
        self.settled.push(Settled {
            source_id: claim.entry.source_id,
            backend_id: claim.entry.backend_id,
            captured_at: claim.entry.captured_at,
            objects: i16::try_from(places.len()).unwrap_or(i16::MAX),
            outcome,
            reason,
            payload: claim.segment.select(places).pack(),
            derivation_id: claim.entry.derived.map(|derived| derived.derivation_id),
        });
    }

    fn retry(&mut self, claim: &Claim, places: &[usize], attempts: u32, delay: Duration, last_error: Option<String>) {
        self.queued.push(Queued {
            source_id: claim.entry.source_id,
            backend_id: claim.entry.backend_id,
            captured_at: claim.entry.captured_at,
            horizon: claim.entry.horizon.clone(),
            delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX),
            attempts: i16::try_from(attempts).unwrap_or(i16::MAX),
            objects: i16::try_from(places.len()).unwrap_or(i16::MAX),
            payload: claim.segment.select(places).pack(),
            last_error: last_error.or_else(|| claim.entry.last_error.clone()),
            whole: claim.entry.whole,
            derived: claim.entry.derived,
        });
    }

    fn park(&mut self, claim: &Claim, index: usize, reason: Reason, error: Option<String>, attempts: u32) {
        self.parked.push(Parked {
            source_id: claim.entry.source_id,
            backend_id: claim.entry.backend_id,
            captured_at: claim.entry.captured_at,
            horizon: claim.entry.horizon.clone(),
            locator: claim.segment.locators[index].clone(),
            row_id: claim.segment.row_id(index),
            owns: claim.segment.owns(index).map(str::to_owned),
            shares: claim.segment.shares(index).map(str::to_owned),
            reason: reason.as_str(),
            last_error: error.or_else(|| claim.entry.last_error.clone()),
            attempts: i32::try_from(attempts).unwrap_or(i32::MAX),
            payload: claim.is_damaged.then(|| claim.entry.payload.clone()),
            derived: claim.entry.derived,
            parent: claim.segment.parent(index).map(str::to_owned),
        });
    }
}
