//! Decided claims leave memory, and their entries the outbox.

use std::time::{Duration, Instant};

use crate::guc;
use crate::pg::transaction;

use super::super::claim::Claim;
use super::super::offspring::Offspring;
use super::super::settlement::Rows;
use super::{Drain, SHORT};

/// Objects in one settling transaction, unless a single entry has more: it ends well within its time limit.
pub(super) const SETTLED_AT_ONCE: usize = 10_000;
/// An object of a paused backend in an entry of another one is looked at again after this.
const WHILE_PAUSED: Duration = Duration::from_secs(5);

impl Drain {
    /// Settles every claim that is decided. Untouched ones stay in the outbox as they are, unless they have to wait and
    /// the next claim would take them again at once.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.is_quiet(now) {
            return;
        }
        let left_out = self.left_out(now);
        let stays = |claim: &Claim| {
            let is_left_out = claim.entry.backend_id.is_some_and(|id| left_out.contains(&id));
            claim.is_decided() && claim.is_untouched() && (is_left_out || self.postponement(claim, now).is_zero())
        };
        let staying: Vec<i64> = self.claims.iter().filter(|(_, claim)| stays(claim)).map(|(id, _)| *id).collect();
        for id in staying {
            self.claims.remove(&id);
        }
        let mut decided: Vec<i64> =
            self.claims.iter().filter(|(_, claim)| claim.is_decided()).map(|(id, _)| *id).collect();
        while !decided.is_empty() && !self.is_quiet(now) {
            let objects = |id: &i64| {
                let claim = &self.claims[id];
                claim.segment.locators.len() + claim.below.iter().map(|(_, objects)| objects.len()).sum::<usize>()
            };
            let mut sum = 0;
            let fits = decided.iter().take_while(|id| {
                let before = sum;
                sum += objects(id);
                before < self.settled_at_once
            });
            let lot: Vec<i64> = fits.copied().collect();
            decided.drain(..lot.len());
            self.settle_lot(&lot, now);
        }
    }

    fn settle_lot(&mut self, lot: &[i64], now: Instant) {
        let backoff = guc::backoff();
        let mut rows = Rows::default();
        let claims: Vec<&Claim> = lot.iter().filter_map(|id| self.claims.get(id)).collect();
        for claim in &claims {
            rows.add(claim, &backoff, fastrand::f64(), self.postponement(claim, now));
        }
        let settled = transaction::run("storage_reaper: settle", SHORT, move || {
            rows.add_offspring(Offspring::of(&claims)?);
            rows.write()
        });
        match settled {
            Ok(has_untold) => {
                if has_untold {
                    self.purges.look_again();
                }
                let window_us = guc::breaker().map(|limits| limits.window_us);
                for claim in lot.iter().filter_map(|id| self.claims.remove(id)) {
                    if let (Some(source), Some(window_us), None) =
                        (claim.entry.source_id, window_us, claim.entry.derived)
                    {
                        self.breaker.count(source, claim.deleted(), window_us);
                    }
                }
                self.look_now = true;
                self.settled_at_once = (self.settled_at_once * 2).min(SETTLED_AT_ONCE);
            }
            // The objects are decided in memory; the rows are written as soon as the database takes them.
            Err(failure) => {
                // It may have been too much at once: what goes with an object may be many.
                self.settled_at_once = (self.settled_at_once / 2).max(1);
                self.be_quiet("could not record outcomes", &failure, now);
            }
        }
    }

    /// Backends whose entries are not claimed: nothing may be sent to them now.
    pub(super) fn left_out(&self, now: Instant) -> Vec<i32> {
        let mut left_out = self.circuits.blocked(now);
        left_out.extend(self.full().into_iter().map(|id| id.0));
        left_out
    }

    /// How long a postponed object of a claim waits: until the backends may be tried that it was given back for, or a while when
    /// one is paused or crowded.
    fn postponement(&self, claim: &Claim, now: Instant) -> Duration {
        let may_go_on = self.paused.is_empty() && !self.is_crowded;
        let paused = if may_go_on { Duration::ZERO } else { WHILE_PAUSED };
        let tried_at = claim.waits_for.iter().filter_map(|id| self.circuits.blocked_until(*id, now)).max();
        tried_at.map_or(paused, |at| at.saturating_duration_since(now).max(paused))
    }
}
