//! Planning of requests: what goes together, what goes alone, what cannot go.

use std::collections::HashMap;

use super::backend::{Backend, BackendId};
use super::object::{Object, has_steps};
use super::outcome::Reason;

/// One delete request. The numbers are the caller's: every object that the key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// DeleteObjects.
    Batch { backend: BackendId, bucket: String, keys: Vec<Target> },
    /// DELETE of one key.
    Single { backend: BackendId, bucket: String, key: Target },
}

/// A key and the objects of the plan that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub key: String,
    pub objects: Vec<usize>,
}

/// What a store can take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub batch_size: usize,
    pub has_batches: bool,
}

impl Limits {
    /// What a backend's declaration allows of so many keys at once.
    pub fn of(backend: &Backend, keys: usize) -> Self {
        // No request takes more than a second's worth of what may go in a second.
        let own = backend.batch_size.into_iter().chain(backend.rate_limit).min();
        let own = own.and_then(|own| usize::try_from(own).ok()).unwrap_or(usize::MAX);
        let most = backend.kind.profile().batch_size;
        Self { batch_size: keys.min(own).clamp(1, most), has_batches: backend.sends_batches() }
    }
}

/// How a key can travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Carriers {
    xml: bool,
    path: bool,
}

/// Plans requests for numbered objects of one backend. Equal objects share a request's key. What no request can carry
/// comes back with its reason.
pub fn plan(objects: Vec<(usize, Object)>, limits: Limits) -> (Vec<Request>, Vec<(usize, Reason)>) {
    let mut targets: Vec<(Object, Vec<usize>)> = Vec::new();
    let mut place_of: HashMap<Object, usize> = HashMap::new();
    for (number, object) in objects {
        match place_of.get(&object) {
            Some(&place) => targets[place].1.push(number),
            None => {
                place_of.insert(object.clone(), targets.len());
                targets.push((object, vec![number]));
            }
        }
    }

    let (mut requests, mut impossible) = (Vec::new(), Vec::new());
    let mut open: HashMap<(BackendId, String), Vec<(Target, bool)>> = HashMap::new();
    for (object, numbers) in targets {
        let Object { backend, bucket, key } = object;
        let carriers = carriers(&key);
        let target = Target { key, objects: numbers };
        match (carriers.xml && limits.has_batches, carriers.path) {
            (true, path) => open.entry((backend, bucket)).or_default().push((target, path)),
            (false, true) => requests.push(Request::Single { backend, bucket, key: target }),
            (false, false) => {
                impossible.extend(target.objects.into_iter().map(|number| (number, Reason::UnaddressableKey)));
            }
        }
    }
    let mut open: Vec<_> = open.into_iter().collect();
    open.sort_by(|(a, _), (b, _)| a.cmp(b));
    for ((backend, bucket), targets) in open {
        for chunk in targets.chunks(limits.batch_size) {
            requests.push(match chunk {
                // A store that lacks the batch call still takes one key.
                [(only, true)] => Request::Single { backend, bucket: bucket.clone(), key: only.clone() },
                several => {
                    let keys = several.iter().map(|(target, _)| target.clone()).collect();
                    Request::Batch { backend, bucket: bucket.clone(), keys }
                }
            });
        }
    }
    (requests, impossible)
}

fn carriers(key: &str) -> Carriers {
    Carriers { xml: key.chars().all(is_xml), path: !has_steps(key) }
}

/// The characters of XML 1.0. CR is left out: parsers turn it into a line feed unless it is escaped.
fn is_xml(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

impl Request {
    /// The bucket it is about.
    pub fn bucket(&self) -> &str {
        match self {
            Self::Batch { bucket, .. } | Self::Single { bucket, .. } => bucket,
        }
    }

    /// The keys it carries.
    pub fn targets(&self) -> &[Target] {
        match self {
            Self::Batch { keys, .. } => keys,
            Self::Single { key, .. } => std::slice::from_ref(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { batch_size: 1000, has_batches: true };

    fn object(key: &str) -> Object {
        Object { backend: BackendId(1), bucket: "media".into(), key: key.into() }
    }

    fn numbered(keys: &[&str]) -> Vec<(usize, Object)> {
        keys.iter().map(|key| object(key)).enumerate().collect()
    }

    #[test]
    fn one_key_needs_no_batch() {
        let (requests, _) = plan(numbered(&["a"]), LIMITS);
        assert!(matches!(requests.as_slice(), [Request::Single { .. }]));
    }

    #[test]
    fn the_thousand_and_first_key_goes_alone() {
        let objects = (0..1001).map(|n| (n, object(&format!("k{n}")))).collect();
        let (requests, _) = plan(objects, LIMITS);
        let sizes: Vec<_> = requests.iter().map(|request| request.targets().len()).collect();
        assert_eq!(sizes, [1000, 1]);
    }

    #[test]
    fn a_control_character_does_not_poison_the_batch() {
        let (requests, impossible) = plan(numbered(&["a", "p/\u{10}x", "b", "\u{FFFE}"]), LIMITS);
        assert!(impossible.is_empty());
        assert_eq!(requests.iter().filter(|request| matches!(request, Request::Single { .. })).count(), 2);
    }

    #[test]
    fn dot_segments_never_stand_in_a_path() {
        let (requests, impossible) = plan(numbered(&["../other/x", "..", "a/./\u{1}"]), LIMITS);
        assert_eq!(impossible, [(2, Reason::UnaddressableKey)]);
        assert!(matches!(requests.as_slice(), [Request::Batch { keys, .. }] if keys.len() == 2));
        let (requests, impossible) = plan(numbered(&["a/../b"]), Limits { has_batches: false, ..LIMITS });
        assert!(requests.is_empty() && impossible.len() == 1);
    }

    #[test]
    fn the_same_object_is_asked_for_once() {
        let (requests, _) = plan(numbered(&["a", "b", "a"]), LIMITS);
        let targets = requests[0].targets();
        assert_eq!((targets.len(), targets[0].objects.as_slice()), (2, [0, 2].as_slice()));
    }

    proptest! {
        #[test]
        fn every_object_is_in_exactly_one_place(keys in prop::collection::vec("[ab./\u{1}]{1,3}", 0..50), batch_size in 1_usize..5) {
            let objects: Vec<_> = keys.iter().map(|key| object(key)).enumerate().collect();
            let (requests, impossible) = plan(objects, Limits { batch_size, has_batches: true });
            let mut seen: Vec<_> = requests.iter().flat_map(Request::targets).flat_map(|target| target.objects.clone()).collect();
            seen.extend(impossible.iter().map(|(number, _)| *number));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..keys.len()).collect::<Vec<_>>());
            prop_assert!(requests.iter().all(|request| (1..=batch_size).contains(&request.targets().len())));
        }
    }
}
