//! Caches are told of URLs whose objects are gone: apart from the deletions, which never wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::domain::purge::Purge;
use crate::error::Result;
use crate::guc;
use crate::pg::{transaction, utility};
use crate::s3::io::PurgeJob;
use crate::s3::purge::Untold;
use crate::store::purge::{self, DuePurge, PurgeKey};

use super::{Drain, SHORT};

/// Requests to one service at once.
const AT_ONCE: usize = 4;
/// The longest rest of a service that does not listen.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// What is being told, and who is at rest.
pub(super) struct Purges {
    in_flight: HashMap<u64, Telling>,
    /// Since how many failures, and until when.
    resting: HashMap<i32, (u32, Instant)>,
    look_at: Option<Instant>,
    /// Whether there are purges, as far as is known.
    exist: bool,
}

struct Telling {
    key: PurgeKey,
    attempts: u32,
    is_old: bool,
}

/// What one look finds.
struct Due {
    purges: Vec<Purge>,
    entries: Vec<DuePurge>,
    next_due_ms: Option<i64>,
}

impl Purges {
    /// Nobody knows yet what is to be told.
    pub fn new() -> Self {
        Self { in_flight: HashMap::new(), resting: HashMap::new(), look_at: Some(Instant::now()), exist: true }
    }

    /// There is something to tell.
    pub fn look_again(&mut self) {
        (self.look_at, self.exist) = (Some(Instant::now()), true);
    }

    /// Somebody committed something: it may be that caches may be told now.
    pub fn told(&mut self) {
        if self.exist {
            self.look_again();
        }
    }

    /// When to come back.
    pub fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Answers to what was sent will not come.
    pub fn give_back(&mut self) {
        self.in_flight.clear();
        self.told();
    }

    /// A reload may have brought a new token.
    pub fn forgive(&mut self) {
        self.resting.clear();
        self.told();
    }
}

impl Drain {
    /// Tells services of what is due.
    pub(super) fn tell_caches(&mut self, now: Instant) {
        if self.purges.look_at.is_none_or(|at| now < at) || self.is_quiet(now) {
            return;
        }
        self.purges.look_at = None;
        let under_way: Vec<i64> = self.purges.in_flight.values().map(|telling| telling.key.id).collect();
        let resting = self.purges.resting.iter().filter(|(_, (_, until))| now < *until);
        let at_rest: Vec<i32> = resting.map(|(id, _)| *id).collect();
        let due = match transaction::run("storage_reaper: claim purges", SHORT, || find(under_way, at_rest)) {
            Ok(due) => due,
            Err(failure) => return self.be_quiet("could not look for purges", &failure, now),
        };
        let next = due.next_due_ms.map(|wait| now + Duration::from_millis(u64::try_from(wait).unwrap_or(1).max(1)));
        let rested = self.purges.resting.values().map(|(_, until)| *until).filter(|until| now < *until).min();
        self.purges.exist = !due.purges.is_empty();
        self.purges.look_at = next.into_iter().chain(rested).min();
        let purges: HashMap<i32, Arc<Purge>> =
            due.purges.into_iter().map(|purge| (purge.id, Arc::new(purge))).collect();
        for entry in due.entries {
            if let Some(purge) = purges.get(&entry.key.purge_id) {
                self.tell(Arc::clone(purge), entry);
            }
        }
    }

    fn tell(&mut self, purge: Arc<Purge>, entry: DuePurge) {
        let here = self.purges.in_flight.values().filter(|telling| telling.key.purge_id == purge.id).count();
        // One at a time to a service that did not listen the last time.
        let most = if self.purges.resting.contains_key(&purge.id) { 1 } else { AT_ONCE };
        if here >= most {
            return;
        }
        self.next_job += 1;
        let DuePurge { key, attempts, is_old, urls } = entry;
        self.io.purge(PurgeJob { id: self.next_job, purge, urls });
        self.purges.in_flight.insert(self.next_job, Telling { key, attempts, is_old });
    }

    /// What a service says.
    pub(super) fn cache_answered(&mut self, id: u64, result: std::result::Result<(), Untold>, now: Instant) {
        let Some(telling) = self.purges.in_flight.remove(&id) else { return };
        self.purges.look_again();
        let purge_id = telling.key.purge_id;
        let written = match result {
            Ok(()) => {
                self.purges.resting.remove(&purge_id);
                record(move || purge::end(telling.key, true, None))
            }
            Err(untold) => {
                let (attempts, backoff) = (telling.attempts + u32::from(untold.is_its_own), guc::backoff());
                if telling.is_old || untold.is_its_own && backoff.is_exhausted(attempts) {
                    log!("storage_reaper: a purge is given up: {}", untold.message);
                    record(move || purge::end(telling.key, false, Some(&untold.message)))
                } else {
                    let failures = self.purges.resting.get(&purge_id).map_or(1, |(failures, _)| failures + 1);
                    let rest = backoff.delay(failures.max(attempts), 0.5 + fastrand::f64() / 2.0).min(LONGEST_REST);
                    let rest = untold.retry_after.unwrap_or(rest);
                    if !untold.is_its_own {
                        self.purges.resting.insert(purge_id, (failures, now + rest));
                    }
                    record(move || purge::delay(telling.key, rest, attempts, &untold.message))
                }
            }
        };
        // Else it is told once more, which does no harm.
        if let Err(failure) = written {
            self.be_quiet("could not record a purge", &failure, now);
        }
    }
}

fn find(under_way: Vec<i64>, at_rest: Vec<i32>) -> Result<Due> {
    let nothing = Due { purges: Vec::new(), entries: Vec::new(), next_due_ms: None };
    if !utility::extension_is_installed() {
        return Ok(nothing);
    }
    let purges = purge::all()?;
    if purges.is_empty() {
        return Ok(nothing);
    }
    Ok(Due { purges, entries: purge::due(under_way, at_rest, AT_ONCE)?, next_due_ms: purge::next_due_ms()? })
}

fn record(write: impl FnOnce() -> Result<()>) -> std::result::Result<(), transaction::Failure> {
    transaction::run("storage_reaper: record a purge", SHORT, write)
}
