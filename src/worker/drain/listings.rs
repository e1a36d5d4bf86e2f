//! Prefixes that go with objects: what lies below them is listed, and queued when their claim is settled.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::domain::backend::Backend;
use crate::domain::object::Object;
use crate::domain::outcome::{Outcome, Reason};
use crate::s3::fault::{Fault, FaultKind};
use crate::s3::io::ListJob;
use crate::s3::list::Listed;

use super::{Drain, Fate, Place};

/// Prefixes that are listed at once: each may have as many objects in memory as its rule allows.
const LISTED_AT_ONCE: usize = 4;

/// What is to be listed, and what is being listed.
#[derive(Default)]
pub(super) struct Listings {
    to_list: VecDeque<Asked>,
    in_flight: HashMap<u64, Asked>,
}

struct Asked {
    place: Place,
    backend: Arc<Backend>,
    prefix: Object,
    /// Objects that may lie below it.
    most: usize,
}

impl Drain {
    /// A claimed prefix waits to be listed.
    pub(super) fn line_up_prefix(&mut self, place: Place, backend: Arc<Backend>, prefix: Object, most: usize) {
        self.listings.to_list.push_back(Asked { place, backend, prefix, most });
    }

    /// Asks what lies below the next prefixes.
    pub(super) fn list_prefixes(&mut self, now: Instant) {
        while self.listings.in_flight.len() < LISTED_AT_ONCE
            && let Some(asked) = self.listings.to_list.pop_front()
        {
            let id = asked.backend.id;
            let is_tried = self.circuits.is_probing(id) && self.in_flight().get(&id).is_some_and(|sent| *sent > 0);
            if is_tried || self.circuits.blocked_until(id, now).is_some() {
                self.postpone_prefix(&asked, None);
                continue;
            }
            self.next_job += 1;
            self.io.list(ListJob {
                id: self.next_job,
                backend: Arc::clone(&asked.backend),
                prefix: asked.prefix.clone(),
                most: asked.most,
            });
            self.listings.in_flight.insert(self.next_job, asked);
        }
    }

    /// What the store says of a prefix.
    pub(super) fn prefix_answered(&mut self, id: u64, result: Result<Listed, Fault>, now: Instant) {
        let Some(asked) = self.listings.in_flight.remove(&id) else { return };
        match result {
            Ok(listed) => {
                self.released(&asked.backend, now);
                let fate = self.expanded(&asked, listed);
                self.decide(asked.place, fate);
            }
            // The right to list is another one than the right to delete.
            Err(fault) if fault.kind == FaultKind::Denied => self.decide(asked.place, Fate::Denied(fault.message)),
            Err(fault) if fault.kind == FaultKind::Malformed => self.decide(asked.place, Fate::Failed(fault.message)),
            Err(fault) => {
                self.postpone_prefix(&asked, Some(fault.message.clone()));
                self.rest(&asked.backend, 1, &fault, now);
            }
        }
    }

    fn expanded(&mut self, asked: &Asked, listed: Listed) -> Fate {
        match listed {
            Listed::TooMany => Fate::Parked(Reason::PrefixTooLarge, None),
            Listed::Keys(keys) if keys.is_empty() => Fate::Settled(Outcome::Absent, None),
            Listed::Keys(keys) => {
                let reason = format!("{} objects below it were queued", keys.len());
                let objects = keys.into_iter().map(|key| Object { key, ..asked.prefix.clone() }).collect();
                if let Some(claim) = self.claims.get_mut(&asked.place.0) {
                    claim.below.push((asked.place.1, objects));
                }
                Fate::Settled(Outcome::Expanded, Some(reason))
            }
        }
    }

    fn postpone_prefix(&mut self, asked: &Asked, error: Option<String>) {
        if let Some(claim) = self.claims.get_mut(&asked.place.0) {
            claim.wait_for(asked.backend.id);
        }
        self.decide(asked.place, Fate::Postponed(error));
    }

    /// Nothing more is asked for. Answers to what was asked may come, unless they `are_lost`.
    pub(super) fn give_back_prefixes(&mut self, are_lost: bool) {
        for asked in std::mem::take(&mut self.listings.to_list) {
            self.postpone_prefix(&asked, None);
        }
        if are_lost {
            for asked in std::mem::take(&mut self.listings.in_flight).into_values() {
                self.postpone_prefix(&asked, None);
            }
        }
    }
}
