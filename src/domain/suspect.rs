//! Whose fault it is when a request for one key fails as a whole: the store's, or the key's.

use std::collections::HashMap;

use super::backend::BackendId;
use super::object::Object;

/// Objects whose own request failed as a whole. An outage fails everybody, so that is the store's fault; but if it answers
/// others in between and fails for the same object again, it is the object's.
#[derive(Debug, Default)]
pub struct Suspects {
    answered: HashMap<BackendId, u64>,
    /// What the store had answered when the object failed.
    failed: HashMap<Object, u64>,
}

/// Beyond it, all are forgotten: that many at once are an outage.
const MOST: usize = 10_000;

impl Suspects {
    /// The store answered a request for other objects, or for these.
    pub fn answered<'a>(&mut self, backend: BackendId, objects: impl Iterator<Item = &'a Object>) {
        *self.answered.entry(backend).or_default() += 1;
        if self.failed.is_empty() {
            return;
        }
        for object in objects {
            self.failed.remove(object);
        }
    }

    /// A request for the object alone failed as a whole. Says whether that is the object's own fault.
    pub fn accuse(&mut self, object: &Object) -> bool {
        let answered = self.answered.get(&object.backend).copied().unwrap_or_default();
        if self.failed.len() >= MOST && !self.failed.contains_key(object) {
            self.failed.clear();
        }
        self.failed.insert(object.clone(), answered).is_some_and(|before| answered > before)
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
        for _ in 0..100 {
            assert!(!suspects.accuse(&object("a")) && !suspects.accuse(&object("b")));
        }
    }

    #[test]
    fn an_object_that_no_store_takes_is_charged_to_the_store() {
        let mut suspects = Suspects::default();
        suspects.answered(BackendId(1), std::iter::empty());
        assert!(!suspects.accuse(&object("poison")), "nobody can tell yet");
        suspects.answered(BackendId(2), std::iter::empty());
        assert!(!suspects.accuse(&object("poison")), "another store says nothing");
        suspects.answered(BackendId(1), [object("a")].iter());
        assert!(suspects.accuse(&object("poison")));
        assert!(!suspects.accuse(&object("poison")), "nothing was answered since");
        suspects.answered(BackendId(1), [object("poison")].iter());
        assert!(suspects.is_empty() && !suspects.contains(&object("poison")));
    }
}
