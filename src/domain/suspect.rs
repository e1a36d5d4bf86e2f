//! Whose fault it is when a request for one key fails as a whole: the store's, or the key's.

use std::collections::HashMap;

use super::backend::BackendId;
use super::object::Object;

/// Objects whose own request failed as a whole. An outage fails everybody, so that is the store's fault; but if it answers
/// others in between and fails for the same object again, it is the object's.
#[derive(Debug, Default)]
pub struct Suspects {
    /// The latest request that was answered.
    answered: HashMap<BackendId, u64>,
    /// The latest request that had been sent when the object failed.
    failed: HashMap<Object, u64>,
}

/// So many objects that fail at one store are no accident.
const FEW: usize = 3;
/// Beyond it, all are forgotten: that many at once are an outage.
const MOST: usize = 10_000;

impl Suspects {
    /// The store answered a request, by its number, for other objects or for these.
    pub fn answered(&mut self, backend: BackendId, request: u64, objects: impl Iterator<Item = Object>) {
        let latest = self.answered.entry(backend).or_default();
        *latest = request.max(*latest);
        if self.failed.is_empty() {
            return;
        }
        for object in objects {
            self.failed.remove(&object);
        }
    }

    /// A request for the object alone failed as a whole, when `sent` was the latest one. Says whether that is the object's own
    /// fault: it has failed before, and the store has answered one that was sent since, or another question now (`is_alone`).
    pub fn accuse(&mut self, object: &Object, sent: u64, is_alone: bool) -> bool {
        let answered = self.answered.get(&object.backend).copied().unwrap_or_default();
        if self.failed.len() >= MOST && !self.failed.contains_key(object) {
            self.failed.clear();
        }
        // A store may answer questions and delete nothing, for anybody.
        let others = self.failed.keys().filter(|other| other.backend == object.backend && *other != object);
        let is_alone = is_alone && others.count() < FEW;
        self.failed.insert(object.clone(), sent).is_some_and(|before| is_alone || answered > before)
    }

    /// Whether it failed when it was last asked for: others go first.
    pub fn contains(&self, object: &Object) -> bool {
        self.failed.contains_key(object)
    }

    /// Nobody is suspected.
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str) -> Object {
        Object { backend: BackendId(1), bucket: "media".into(), key: key.into() }
    }

    #[test]
    fn an_outage_is_charged_to_objects() {
        let mut suspects = Suspects::default();
        for sent in 1..100 {
            assert!(!suspects.accuse(&object("a"), sent, false) && !suspects.accuse(&object("b"), sent, false));
        }
        suspects.answered(BackendId(1), 50, [object("c")].into_iter());
        assert!(!suspects.accuse(&object("a"), 101, false), "what was under way before says nothing");
    }

    #[test]
    fn an_object_that_no_store_takes_is_charged_to_the_store() {
        let mut suspects = Suspects::default();
        suspects.answered(BackendId(1), 1, std::iter::empty());
        assert!(!suspects.accuse(&object("poison"), 2, false), "nobody can tell yet");
        suspects.answered(BackendId(2), 3, std::iter::empty());
        assert!(!suspects.accuse(&object("poison"), 4, false), "another store says nothing");
        suspects.answered(BackendId(1), 5, [object("a")].into_iter());
        assert!(suspects.accuse(&object("poison"), 6, false));
        assert!(!suspects.accuse(&object("poison"), 7, false), "nothing was answered since");
        assert!(suspects.accuse(&object("poison"), 7, true), "but another question");
        assert!(!suspects.accuse(&object("new"), 7, true), "it may have been a moment");
        for key in ["x", "y", "z", "x", "y", "z"] {
            assert!(!suspects.accuse(&object(key), 7, true), "the store deletes nothing");
        }
        suspects.answered(BackendId(1), 8, ["poison", "new", "x", "y", "z"].map(object).into_iter());
        assert!(suspects.is_empty() && !suspects.contains(&object("poison")));
    }
}
