//! What follows from the objects of a claim that are gone, queued in the transaction that settles them: what goes with them, and the
//! caches that have to forget them.

use crate::domain::backend::BackendId;
use crate::domain::derive::{Derivation, Underivable};
use crate::domain::object::Object;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::purge::Purge;
use crate::domain::resolve::{resolve, url_under};
use crate::domain::segment::Segment;
use crate::error::Result;
use crate::store::derivation::{self, Derivations, Derived};
use crate::store::purge::{self, Untold};
use crate::store::settle::{Queued, Settled};

use super::claim::{Claim, Fate};

/// Prefixes in one entry: what lies below all of them is in memory until it is settled.
const PREFIXES_AT_ONCE: usize = 8;

/// Rows of what follows from a claim.
#[derive(Default)]
pub struct Offspring {
    pub queued: Vec<Queued>,
    pub settled: Vec<Settled>,
    pub untold: Vec<Untold>,
}

/// What goes with the object at a place of a claim.
struct Child {
    place: usize,
    object: Object,
    parent: String,
}

/// The places of a claim that are gone, so that what goes with them has to go.
fn gone(claim: &Claim) -> impl Iterator<Item = usize> {
    let is_gone =
        |fate: &Fate| matches!(fate, Fate::Settled(Outcome::Deleted | Outcome::DeleteMarker | Outcome::Absent, _));
    claim.fates().filter(move |(_, fate)| is_gone(fate)).map(|(place, _)| place)
}

/// The source whose rules may apply to a claim.
fn may_follow(claim: &Claim) -> Option<i32> {
    claim.entry.source_id.filter(|_| claim.entry.derived.is_none() && gone(claim).next().is_some())
}

impl Offspring {
    /// What follows from decided claims; reads what is declared, in the transaction of the caller.
    pub fn of(claims: &[&Claim]) -> Result<Self> {
        let mut offspring = Self::default();
        claims.iter().for_each(|claim| offspring.expand(claim));
        let mut sources: Vec<i32> = claims.iter().filter_map(|claim| may_follow(claim)).collect();
        sources.sort_unstable();
        sources.dedup();
        let rules = derivation::of_sources(sources)?;
        let is_anything_gone = claims.iter().any(|claim| gone(claim).next().is_some());
        let purges = if is_anything_gone { purge::all()? } else { Vec::new() };
        purges.iter().for_each(|purge| offspring.tell(claims, purge));
        if !rules.is_empty() {
            let parents = claims.iter().filter(|claim| may_follow(claim).is_some());
            parents.for_each(|claim| offspring.derive(claim, &rules));
        }
        Ok(offspring)
    }

    /// URLs that a cache has to forget.
    fn tell(&mut self, claims: &[&Claim], purge: &Purge) {
        let url = |claim: &Claim, place: usize| {
            let default = claim.entry.backend_id.map(BackendId);
            let object = resolve(&claim.segment.locators[place], &claim.namespace, default).ok()?;
            url_under(&purge.url_base, &object, &claim.namespace)
        };
        let urls = claims.iter().flat_map(|claim| gone(claim).filter_map(|place| url(claim, place)));
        let mut urls: Vec<String> = urls.collect();
        urls.sort_unstable();
        urls.dedup();
        let lots = urls.chunks(usize::from(purge.batch_size));
        self.untold.extend(lots.map(|urls| Untold { purge_id: purge.id, urls: urls.to_vec() }));
    }

    /// What goes with the objects of a claim that are gone, by the rules of its source.
    fn derive(&mut self, claim: &Claim, rules: &Derivations) {
        let rules = claim.entry.source_id.and_then(|id| rules.get(&id)).map(Vec::as_slice).unwrap_or_default();
        for (id, rule) in rules {
            self.derive_by(claim, *id, rule);
        }
    }

    fn derive_by(&mut self, claim: &Claim, id: i32, rule: &Derivation) {
        let default = claim.entry.backend_id.map(BackendId);
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        for place in gone(claim) {
            match resolve(&claim.segment.locators[place], &claim.namespace, default) {
                Ok(object) => {
                    let parent = object.to_string();
                    for key in rule.of(&object.key) {
                        match key {
                            Ok(key) => found.push(Child {
                                place,
                                object: Object { key, ..object.clone() },
                                parent: parent.clone(),
                            }),
                            Err(Underivable) => failed.push((place, Reason::Underivable)),
                        }
                    }
                }
                // It was not, when it was claimed.
                Err(reason) => failed.push((place, reason)),
            }
        }
        found.sort_by_key(|child| child.object.backend);
        let derived = Derived { derivation_id: id, is_prefix: rule.is_prefix() };
        for of_backend in found.chunk_by(|a, b| a.object.backend == b.object.backend) {
            self.queue(claim, derived, of_backend);
        }
        failed.sort_by_key(|(_, reason)| reason.as_str());
        failed.dedup();
        for alike in failed.chunk_by(|(_, a), (_, b)| a == b) {
            self.settle(claim, id, alike);
        }
    }

    /// What was listed below the prefixes of a claim.
    fn expand(&mut self, claim: &Claim) {
        let Some(derived) = claim.entry.derived else { return };
        let derived = Derived { is_prefix: false, ..derived };
        for (place, objects) in &claim.below {
            let parent = claim.segment.parent(*place).unwrap_or_default();
            let child = |object: &Object| Child { place: *place, object: object.clone(), parent: parent.to_owned() };
            self.queue(claim, derived, &objects.iter().map(child).collect::<Vec<_>>());
        }
    }

    /// Objects of one backend. They are as old as what they go with, and whoever was writing then is waited for.
    fn queue(&mut self, claim: &Claim, derived: Derived, children: &[Child]) {
        let at_once = if derived.is_prefix { PREFIXES_AT_ONCE } else { Segment::MAX };
        for children in children.chunks(at_once) {
            let places: Vec<usize> = children.iter().map(|child| child.place).collect();
            let locators = children.iter().map(|child| child.object.to_string()).collect();
            let parents = Some(children.iter().map(|child| child.parent.clone()).collect());
            // The rule says what goes, whatever the row could own.
            let segment = Segment { locators, owns: None, parents, ..claim.segment.select(&places) };
            self.queued.push(Queued {
                source_id: claim.entry.source_id,
                backend_id: children.first().map(|child| child.object.backend.0),
                captured_at: claim.entry.captured_at,
                horizon: claim.entry.horizon.clone(),
                delay_ms: 0,
                attempts: 0,
                objects: i16::try_from(children.len()).unwrap_or(i16::MAX),
                payload: segment.pack(),
                last_error: None,
                whole: false,
                derived: Some(derived),
            });
        }
    }

    fn settle(&mut self, claim: &Claim, derivation_id: i32, alike: &[(usize, Reason)]) {
        let Some((_, reason)) = alike.first() else { return };
        let places: Vec<usize> = alike.iter().map(|(place, _)| *place).collect();
        self.settled.push(Settled {
            source_id: claim.entry.source_id,
            backend_id: claim.entry.backend_id,
            captured_at: claim.entry.captured_at,
            objects: i16::try_from(places.len()).unwrap_or(i16::MAX),
            outcome: Outcome::Kept.as_str(),
            reason: Some(reason.as_str().to_owned()),
            payload: claim.segment.select(&places).pack(),
            derivation_id: Some(derivation_id),
        });
    }
}
