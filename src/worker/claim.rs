//! A claim: an entry that the leader works on, and what is known of each of its objects so far.

use std::sync::Arc;

use crate::domain::backend::BackendId;
use crate::domain::breaker::Lot;
use crate::domain::object::Object;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::resolve::Namespace;
use crate::domain::segment::Segment;
use crate::store::entry::Claimed;

/// Names an object of a claim: the entry's id and the place in its segment.
pub type Place = (i64, usize);

/// What becomes of an object when its claim is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Its way has ended.
    Settled(Outcome, Option<String>),
    /// A person has to look.
    Parked(Reason, Option<String>),
    /// It failed by itself: it waits longer each time.
    Failed(String),
    /// The same, because the store does not allow it.
    Denied(String),
    /// The store keeps it until then, in microseconds of the epoch; no attempt is counted.
    Later(i64, String),
    /// Its backend failed, or was paused: it is tried again, and no attempt is counted.
    Postponed(Option<String>),
}

/// An entry in work. It lives in the leader's memory only: after a crash the entry is still in the outbox.
pub struct Claim {
    pub entry: Claimed,
    pub segment: Segment,
    /// By which its locators were resolved.
    pub namespace: Arc<Namespace>,
    /// The segment could not be read; it is set aside as a whole.
    pub is_damaged: bool,
    /// Backends that some of its objects have to wait for.
    pub waits_for: Vec<BackendId>,
    /// What was listed below its prefixes, by their places.
    pub below: Vec<(usize, Vec<Object>)>,
    fates: Vec<Option<Fate>>,
    undecided: usize,
}

impl Claim {
    /// Unpacks an entry. One that cannot be unpacked comes as a single object to park, so that it blocks nobody.
    pub fn new(entry: Claimed, namespace: Arc<Namespace>) -> Self {
        let (segment, damage) = match Segment::unpack(&entry.payload) {
            Ok(segment) => (segment, None),
            Err(error) => {
                let locators = vec![format!("entry {}", entry.key.id)];
                (Segment::of(locators), Some(error.to_string()))
            }
        };
        let objects = segment.locators.len();
        let is_damaged = damage.is_some();
        let (waits_for, below, fates) = (Vec::new(), Vec::new(), vec![None; objects]);
        let mut claim = Self { entry, segment, namespace, is_damaged, waits_for, below, fates, undecided: objects };
        // Whole rows stay rows, also when they cannot be read: retry() leaves them alone.
        let holds_rows = claim.entry.fault.is_some();
        let reason = if is_damaged && !holds_rows { Reason::DamagedSegment } else { Reason::LocatorFailed };
        if let Some(error) = damage.or_else(|| claim.entry.fault.clone()) {
            for index in 0..objects {
                claim.decide(index, Fate::Parked(reason, Some(error.clone())));
            }
        }
        claim
    }

    /// Decides an object; the first decision stands.
    pub fn decide(&mut self, index: usize, fate: Fate) {
        if let Some(open @ None) = self.fates.get_mut(index) {
            *open = Some(fate);
            self.undecided -= 1;
        }
    }

    /// An object is given back because of its backend.
    pub fn wait_for(&mut self, backend: BackendId) {
        if !self.waits_for.contains(&backend) {
            self.waits_for.push(backend);
        }
    }

    /// The places of objects that nothing is known of yet.
    pub fn undecided(&self) -> impl Iterator<Item = usize> {
        self.fates.iter().enumerate().filter(|(_, fate)| fate.is_none()).map(|(index, _)| index)
    }

    /// Whether the claim can be settled.
    pub fn is_decided(&self) -> bool {
        self.undecided == 0
    }

    /// Whether nothing happened to any object, so that the entry may stay as it is.
    pub fn is_untouched(&self) -> bool {
        self.fates.iter().all(|fate| matches!(fate, Some(Fate::Postponed(_))))
    }

    /// What the store has deleted of it.
    pub fn deleted(&self) -> Lot {
        let is_deleted =
            |fate: &&Option<Fate>| matches!(fate, Some(Fate::Settled(Outcome::Deleted | Outcome::DeleteMarker, _)));
        Lot {
            captured_us: self.entry.captured_us,
            objects: self.fates.iter().filter(is_deleted).count() as u64,
            is_whole: self.entry.whole,
        }
    }

    /// Every object's fate; call it on a decided claim.
    pub fn fates(&self) -> impl Iterator<Item = (usize, &Fate)> {
        self.fates.iter().enumerate().filter_map(|(index, fate)| fate.as_ref().map(|fate| (index, fate)))
    }
}
