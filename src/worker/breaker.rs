//! The mass-delete breaker: before anything is claimed, looks whether a source is losing too much.

use std::collections::HashMap;

use crate::domain::breaker::{Gone, Limits, Lot, largest};
use crate::error::Result;
use crate::store::breaker;

/// What the leader remembers of deletions.
#[derive(Default)]
pub struct Breaker {
    gone: HashMap<i32, Gone>,
    /// What a leader before this one has deleted is known, too.
    is_seeded: bool,
}

/// A source that was just held.
pub struct Tripped {
    pub name: String,
    pub reason: String,
}

impl Breaker {
    /// Counts what was deleted.
    pub fn count(&mut self, source: i32, lot: Lot, window_us: i64) {
        self.gone.entry(source).or_default().add(lot, window_us);
    }

    /// Holds every source that is about to lose too much, in the transaction of the caller.
    pub fn trip(&mut self, limits: &Limits) -> Result<Vec<Tripped>> {
        if !self.is_seeded {
            for (source, lots) in breaker::gone(limits.window_us)? {
                lots.into_iter().for_each(|lot| self.count(source, lot, limits.window_us));
            }
            self.is_seeded = true;
        }
        let mut tripped = Vec::new();
        for (source, ahead) in breaker::ahead(limits.window_us)? {
            tripped.extend(self.trip_one(source, ahead, limits)?);
        }
        Ok(tripped)
    }

    fn trip_one(&self, source: i32, ahead: Vec<Lot>, limits: &Limits) -> Result<Option<Tripped>> {
        let with_gone = |since| {
            let gone = self.gone.get(&source).into_iter().flat_map(move |gone| gone.lots(since));
            largest(ahead.iter().copied().chain(gone).collect(), limits.window_us)
        };
        if !with_gone(None).into_iter().any(|mass| limits.is_large(mass)) {
            return Ok(None);
        }
        let standing = breaker::standing(source)?;
        let masses = with_gone(standing.released_us);
        let Some(mass) = masses.into_iter().find(|mass| limits.trips(*mass, standing.live)) else { return Ok(None) };
        let reason = match mass.has_whole {
            true => format!("its table was truncated or dropped, which lets go {} objects", mass.objects),
            false => format!("{} objects are let go at once, and about {} rows are left", mass.objects, standing.live),
        };
        Ok(breaker::hold(source, &reason)?.map(|name| Tripped { name, reason }))
    }
}
