//! The fuzz target: whatever text a row holds, no request leaves the declared buckets, names an empty key, or names
//! another key than the text does. Texts go all the way: resolve, plan, build; then the finished requests are read by
//! code that shares nothing with what made them.
//!
//! `make fuzz FUZZ_SECONDS=3600` lets it run; FUZZ_SEED repeats a run.

mod ground;
mod reading;
mod shrink;
mod texts;

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::request::build;
use crate::domain::backend::BackendId;
use crate::domain::batch::{Limits, Request, plan};
use crate::domain::fold::fingerprint;
use crate::domain::object::{LONGEST_KEY, Object, is_slashes};
use crate::domain::resolve::{may_name, prints, resolve};
use ground::{Ground, Store};

/// What is resolved and planned together.
#[derive(Debug, Clone)]
struct Input {
    texts: Vec<String>,
    /// A key as it is, whatever texts make of it.
    key: String,
    default: Option<BackendId>,
    limits: Limits,
}

/// What a run has seen.
#[derive(Default)]
struct Tally {
    texts: u64,
    resolved: u64,
    unresolved: BTreeMap<&'static str, u64>,
    singles: u64,
    batches: u64,
    unaddressable: u64,
}

#[test]
fn no_input_leaves_the_bucket() {
    let seed = number("FUZZ_SEED").unwrap_or_else(|| fastrand::u64(..));
    let until = Instant::now() + Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(1));
    println!("fuzz: seed {seed}");
    let (grounds, mut rng, mut tally) = (ground::all(), Rng::with_seed(seed), Tally::default());
    while Instant::now() < until {
        let ground = rng.choice(&grounds).expect("there are grounds");
        let input = input(&mut rng, ground);
        if let Err(violation) = attempt(&input, ground, &mut tally) {
            let (input, violation) =
                shrink::smallest(input, violation, |input| attempt(input, ground, &mut Tally::default()));
            panic!("FUZZ_SEED={seed}, ground {:?}: {violation}\n{input:?}", ground.name);
        }
    }
    println!("{tally}");
    assert!(tally.texts > 0);
}

/// A setting of the environment.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")))
}

fn input(rng: &mut Rng, ground: &Ground) -> Input {
    let store = rng.choice(&ground.stores).expect("a ground has stores");
    Input {
        texts: (0..rng.usize(1..10)).map(|_| texts::locator(rng, &ground.bases)).collect(),
        key: texts::key(rng),
        default: (rng.u8(..8) > 0).then_some(store.backend.id),
        limits: Limits { batch_size: rng.usize(1..5), has_batches: rng.u8(..4) > 0 },
    }
}

/// A panic is a violation like any other.
fn attempt(input: &Input, ground: &Ground, tally: &mut Tally) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| check(input, ground, tally))).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

fn check(input: &Input, ground: &Ground, tally: &mut Tally) -> Result<(), String> {
    let mut objects = Vec::new();
    for text in &input.texts {
        tally.texts += 1;
        match resolve(text, &ground.namespace, input.default) {
            Ok(object) => {
                tally.resolved += 1;
                is_what_the_text_says(text, &object, input, ground)?;
                comes_back(&object, ground)?;
                objects.push(object);
            }
            Err(reason) => *tally.unresolved.entry(reason.as_str()).or_default() += 1,
        }
    }
    every_key_can_be_named(&input.key, ground)?;
    for store in &ground.stores {
        let of_store = objects.iter().filter(|object| object.backend == store.backend.id).cloned().collect();
        travels_unchanged(of_store, store, input.limits, tally)?;
    }
    Ok(())
}

/// An independent reading of the text names the object, and so does the guard's.
fn is_what_the_text_says(text: &str, object: &Object, input: &Input, ground: &Ground) -> Result<(), String> {
    if is_slashes(&object.key) || object.key.len() > LONGEST_KEY {
        return Err(format!("{text:?} names a key of {} bytes", object.key.len()));
    }
    if ground.stores.iter().any(|store| store.backend.id == object.backend && may_leave(&object.key, store)) {
        return Err(format!("{text:?} leads out of its bucket"));
    }
    let meant = reading::of_text(text, ground, input.default)?;
    if !meant.contains(object) {
        return Err(format!("{text:?} means {meant:?}, but was taken for {object:?}"));
    }
    let is_found = prints(object, &ground.namespace).all().any(|print| print == fingerprint(text));
    if !is_found || !may_name(text, object, &ground.namespace, input.default) {
        return Err(format!("a row that holds {text:?} does not protect {object:?}"));
    }
    Ok(())
}

/// What is written for an object names that object.
fn comes_back(object: &Object, ground: &Ground) -> Result<(), String> {
    for text in ground.renderings(object) {
        match resolve(&text, &ground.namespace, Some(object.backend)) {
            Ok(again) if ground.are_one(&again, object) => {}
            other => return Err(format!("{object:?} is written {text:?}, which means {other:?}")),
        }
    }
    Ok(())
}

/// Any key that a store could hold can be named, whatever characters it has.
fn every_key_can_be_named(key: &str, ground: &Ground) -> Result<(), String> {
    if is_slashes(key) || key.len() > LONGEST_KEY {
        return Ok(());
    }
    for store in &ground.stores {
        let key = store.canonical(key);
        let object = Object { backend: store.backend.id, bucket: store.backend.bucket.clone(), key };
        if object.key.len() <= LONGEST_KEY && !may_leave(&object.key, store) {
            comes_back(&object, ground)?;
        }
    }
    Ok(())
}

/// Whether a store that keeps objects as files could look for it outside of its bucket.
fn may_leave(key: &str, store: &Store) -> bool {
    let mut depth = 0;
    let lowest = key.split(['/', '\\']).map(|segment| {
        depth += match segment {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth
    });
    lowest.min().is_some_and(|lowest: i32| lowest < 0) && store.backend.kind.profile().may_keep_files
}

/// Each object is in one request, which reaches its bucket and names its key, or nothing can carry it.
fn travels_unchanged(objects: Vec<Object>, store: &Store, limits: Limits, tally: &mut Tally) -> Result<(), String> {
    let limits = Limits { has_batches: limits.has_batches && store.backend.kind.profile().takes_batches, ..limits };
    let (requests, impossible) = plan(objects.iter().cloned().enumerate().collect(), limits);
    let mut carried: Vec<Object> = Vec::new();
    for request in &requests {
        match request {
            Request::Single { .. } => tally.singles += 1,
            Request::Batch { .. } => tally.batches += 1,
        }
        let reach = store.reach(request.bucket()).ok_or_else(|| format!("{request:?} is for an undeclared bucket"))?;
        let unsigned = build(&store.backend, request).map_err(|fault| format!("{request:?}: {fault:?}"))?;
        let keys = reading::of_request(&unsigned, reach.url).map_err(|what| format!("{what}: {unsigned:?}"))?;
        let bucket = request.bucket().to_owned();
        carried.extend(keys.into_iter().map(|key| Object { backend: store.backend.id, bucket: bucket.clone(), key }));
    }
    for (number, _) in &impossible {
        tally.unaddressable += 1;
        let object = &objects[*number];
        if !reading::is_unaddressable(&object.key, limits.has_batches) {
            return Err(format!("{object:?} could be sent"));
        }
        carried.push(object.clone());
    }
    let (wanted, sent): (HashSet<&Object>, HashSet<&Object>) = (objects.iter().collect(), carried.iter().collect());
    if wanted == sent && carried.len() - repeated(&impossible, &objects) == sent.len() {
        return Ok(());
    }
    Err(format!("{objects:?} became {carried:?}"))
}

/// How often an unaddressable object is named again: each mention gets its reason.
fn repeated<R>(impossible: &[(usize, R)], objects: &[Object]) -> usize {
    let distinct: HashSet<&Object> = impossible.iter().map(|(number, _)| &objects[*number]).collect();
    impossible.len() - distinct.len()
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "fuzz: {} inputs, {} resolved, in {} single requests and {} batches, {} unaddressable",
            self.texts, self.resolved, self.singles, self.batches, self.unaddressable
        )?;
        let reasons: Vec<String> = self.unresolved.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        write!(f, "fuzz: unresolved: {}; violations: 0", reasons.join(", "))
    }
}
