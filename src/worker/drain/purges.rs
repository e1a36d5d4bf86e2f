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

use super::{Drain, PAUSE_AFTER_FAILURE, SHORT};

/// Requests to one service at once.
const AT_ONCE: usize = 4;
/// Entries of one purge that are looked at together: an application that deletes row by row makes one for each.
const ENTRIES_AT_ONCE: usize = 256;
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

/// URLs that are told in one request.
struct Telling {
    purge_id: i32,
    keys: Vec<PurgeKey>,
    urls: Vec<String>,
    attempts: u32,
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

    fn at_once(&self, purge_id: i32) -> usize {
        // One at a time to a service that did not listen the last time.
        if self.resting.contains_key(&purge_id) { 1 } else { AT_ONCE }
    }
}

impl Drain {
    /// Tells services of what is due.
    pub(super) fn tell_caches(&mut self, now: Instant) {
        if self.purges.look_at.is_none_or(|at| now < at) || self.is_quiet(now) {
            return;
        }
        let under_way = self.purges.in_flight.values().flat_map(|telling| &telling.keys).map(|key| key.id).collect();
        let resting = self.purges.resting.iter().filter(|(_, (_, until))| now < *until);
        let at_rest: Vec<i32> = resting.map(|(id, _)| *id).collect();
        let due = match transaction::run("storage_reaper: claim purges", SHORT, || find(under_way, at_rest)) {
            Ok(due) => due,
            Err(failure) => return self.purges_failed("could not look for purges", &failure, now),
        };
        let next = due.next_due_ms.map(|wait| now + Duration::from_millis(u64::try_from(wait).unwrap_or(1).max(1)));
        let rested = self.purges.resting.values().map(|(_, until)| *until).filter(|until| now < *until).min();
        self.purges.look_at = next.into_iter().chain(rested).min();
        self.purges.exist = !due.purges.is_empty();
        let mut of_purge: HashMap<i32, Vec<DuePurge>> = HashMap::new();
        due.entries.into_iter().for_each(|entry| of_purge.entry(entry.purge_id).or_default().push(entry));
        for purge in due.purges.into_iter().map(Arc::new) {
            let entries = of_purge.remove(&purge.id).unwrap_or_default();
            let here = self.purges.in_flight.values().filter(|telling| telling.purge_id == purge.id).count();
            let room = self.purges.at_once(purge.id).saturating_sub(here);
            for telling in together(&purge, entries).into_iter().take(room) {
                self.next_job += 1;
                let (purge, urls) = (Arc::clone(&purge), telling.urls.clone());
                self.io.purge(PurgeJob { id: self.next_job, purge, urls });
                self.purges.in_flight.insert(self.next_job, telling);
            }
        }
    }

    /// What a service says.
    pub(super) fn cache_answered(&mut self, id: u64, result: std::result::Result<(), Untold>, now: Instant) {
        let Some(telling) = self.purges.in_flight.remove(&id) else { return };
        self.purges.look_again();
        let (purge_id, backoff) = (telling.purge_id, guc::backoff());
        let written = match result {
            Ok(()) => {
                self.purges.resting.remove(&purge_id);
                record(move || purge::end(purge_id, &telling.keys, true, None))
            }
            Err(untold) if untold.is_its_own => {
                self.purges.resting.remove(&purge_id);
                record(move || refused(&telling, &untold, &backoff))
            }
            Err(untold) => {
                let failures = self.purges.resting.get(&purge_id).map_or(1, |(failures, _)| failures + 1);
                let rest = backoff.delay(failures, 0.5 + fastrand::f64() / 2.0).min(LONGEST_REST);
                let rest = rest.max(untold.retry_after.unwrap_or_default());
                self.purges.resting.insert(purge_id, (failures, now + rest));
                record(move || purge::failed(purge_id, &untold.message).map(|()| true))
            }
        };
        match written {
            Ok(true) => {}
            // Somebody is changing the purge: what was told is told once more, which does no harm.
            Ok(false) => self.purges.look_at = Some(now + PAUSE_AFTER_FAILURE),
            Err(failure) => self.purges_failed("could not record a purge", &failure, now),
        }
    }

    /// Deletions do not wait for this.
    fn purges_failed(&mut self, what: &str, failure: &transaction::Failure, now: Instant) {
        log!("storage_reaper: {what}: {failure}");
        self.purges.look_at = Some(now + PAUSE_AFTER_FAILURE);
    }
}

/// Entries that are told in one request each. Those that were refused before stay alone.
fn together(purge: &Purge, entries: Vec<DuePurge>) -> Vec<Telling> {
    let mut all: Vec<Telling> = Vec::new();
    for DuePurge { purge_id, key, attempts, urls } in entries {
        let fits = |telling: &&mut Telling| {
            telling.attempts == 0 && attempts == 0 && telling.urls.len() + urls.len() <= usize::from(purge.batch_size)
        };
        match all.last_mut().filter(fits) {
            Some(telling) => {
                telling.keys.push(key);
                telling.urls.extend(urls);
            }
            None => all.push(Telling { purge_id, keys: vec![key], urls, attempts }),
        }
    }
    all
}

/// The service listens, but not to this: one of several URLs may be to blame.
fn refused(telling: &Telling, untold: &Untold, backoff: &crate::domain::backoff::Backoff) -> Result<bool> {
    let Telling { purge_id, keys, urls, attempts } = telling;
    let attempts = attempts + 1;
    if urls.len() > 1 {
        let (one, other) = urls.split_at(urls.len() / 2);
        return purge::split(*purge_id, keys, Duration::ZERO, 1, &[one, other]).map(|()| true);
    }
    if urls.is_empty() || backoff.is_exhausted(attempts) {
        log!("storage_reaper: a URL is given up: {}", untold.message);
        return purge::end(*purge_id, keys, false, Some(&untold.message));
    }
    let wait = backoff.delay(attempts, 0.5 + fastrand::f64() / 2.0).min(LONGEST_REST);
    purge::split(*purge_id, keys, wait, attempts, &[urls]).map(|()| true)
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
    Ok(Due { purges, entries: purge::due(under_way, at_rest, ENTRIES_AT_ONCE)?, next_due_ms: purge::next_due_ms()? })
}

fn record(write: impl FnOnce() -> Result<bool>) -> std::result::Result<bool, transaction::Failure> {
    transaction::run("storage_reaper: record a purge", SHORT, write)
}
