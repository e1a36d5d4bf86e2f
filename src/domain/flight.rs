//! Flights: objects whose deletion is under way, as those see them who write rows that may name one.
//!
//! The protocol, which `model` explores in full. The leader (1) marks the objects and commits, (2) waits until every
//! transaction that was writing then has ended, (3) closes the flight, (4) asks the guard, (5) sends, (6) ends the
//! flight and opens it. A writer (a) writes its rows, (b) looks for flights with their marks, (c) joins each that it
//! finds, which holds up its closing and waits while it is closed, and (d) looks again: it goes on unless one of its
//! objects is gone.

#[cfg(test)]
mod model;

use std::collections::HashSet;
use std::rc::Rc;

use xxhash_rust::xxh3::xxh3_64;

use super::backend::BackendId;
use super::fold::{self, fingerprint};
use super::object::Object;
use super::resolve::{Namespace, Prints, keys_may_mean};

/// Fingerprints of the objects of a flight, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks(Vec<i64>);

impl Marks {
    /// In any order, as often as they come.
    pub fn new(fingerprints: impl IntoIterator<Item = i64>) -> Self {
        let mut sorted: Vec<i64> = fingerprints.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self(sorted)
    }

    /// As they are stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|mark| mark.to_le_bytes()).collect()
    }

    /// What is stored; bytes beyond the last whole mark are ignored.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.chunks_exact(8).filter_map(|mark| mark.try_into().ok().map(i64::from_le_bytes)).collect())
    }

    /// Whether one of these fingerprints is marked.
    pub fn meet(&self, written: &Written) -> bool {
        written.is_anything && !self.0.is_empty() || written.fingerprints.iter().any(|mark| self.contains(*mark))
    }

    /// All marks of several flights.
    pub fn union<'a>(flights: impl Iterator<Item = &'a Marks>) -> Self {
        Self::new(flights.flat_map(|marks| marks.0.iter().copied()))
    }

    /// Whether the fingerprint is marked.
    pub fn contains(&self, mark: i64) -> bool {
        self.0.binary_search(&mark).is_ok()
    }
}

/// What a statement has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    pub fingerprints: HashSet<i64>,
    /// Some row's locators could not be told: it may name anything.
    pub is_anything: bool,
}

/// The marks of an object: of every text that names its place, and of its plain key for each backend whose plain keys may
/// mean it.
pub fn object_marks(object: &Object, prints: &Prints, namespace: &Namespace) -> Vec<i64> {
    let defaults = namespace.backends().iter().map(|backend| Some(backend.id)).chain([None]);
    let keys = defaults
        .filter(|default| keys_may_mean(object, namespace, *default))
        .map(|default| key_mark(prints.key, default));
    prints.placed.iter().copied().chain(keys).collect()
}

/// The marks that a text in a row may meet, where plain keys go to `default_backend`.
pub fn text_marks(text: &str, default_backend: Option<BackendId>) -> [i64; 2] {
    let print = fingerprint(text);
    [print, key_mark(print, default_backend)]
}

/// The same key in another store is another object.
fn key_mark(print: i64, default_backend: Option<BackendId>) -> i64 {
    // The golden ratio's digits: neighbouring ids differ in all bits.
    const SPREAD: i64 = 0x9e37_79b9_7f4a_7c15_u64.cast_signed();
    let id = default_backend.map_or(-1, |backend| i64::from(backend.0));
    print.rotate_left(17) ^ id.wrapping_mul(SPREAD)
}

/// The mark of a row, for references that hold ids of rows. Blanks at the end make no difference: character(n) has them, and
/// loses them as text.
pub fn row_mark(source: i32, row_id: &str) -> i64 {
    xxh3_64(format!("row {source} {}", fold::row_id(row_id.trim_end_matches(' '))).as_bytes()).cast_signed()
}

/// The mark of a value by which rows of a source share objects.
pub fn share_mark(source: i32, value: &str) -> i64 {
    xxh3_64(format!("share {source} {}", value.trim_end_matches(' ')).as_bytes()).cast_signed()
}

/// A flight as its row shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight {
    pub id: i64,
    pub marks: Rc<Marks>,
    pub state: State,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Under way; `sent` when requests may have left.
    Open {
        sent: bool,
    },
    Ended(End),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Before the statement began, as the statement's snapshot has it.
    pub is_past: bool,
    /// What is gone, or may be.
    pub gone: Marks,
    /// What a request may have removed since the statement began, or may still.
    pub unclear: Option<Marks>,
}

/// What a writer does about a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    GoOn,
    /// Its outcome concerns the writer: it has to be joined.
    Join,
    /// An object that the writer names is gone, or may be.
    Refuse,
}

impl Flight {
    /// At first sight, after writing.
    pub fn at_first(&self, written: &Written) -> Step {
        match &self.state {
            State::Open { .. } if self.marks.meet(written) => Step::Join,
            State::Open { .. } => Step::GoOn,
            State::Ended(end) => end.step(written),
        }
    }

    /// Once joined: nobody closes it now, and if it was closed, it is over.
    pub fn once_joined(&self, written: &Written) -> Step {
        match &self.state {
            State::Open { sent: false } => Step::GoOn,
            // Open and sent, and yet it could be joined: whoever led has died, and its requests may still arrive.
            State::Open { sent: true } => Step::Refuse,
            State::Ended(end) => End { is_past: false, ..end.clone() }.step(written),
        }
    }
}

impl End {
    fn step(&self, written: &Written) -> Step {
        let is_gone = !self.is_past && self.gone.meet(written);
        let may_go = self.unclear.as_ref().is_some_and(|unclear| unclear.meet(written));
        if is_gone || may_go { Step::Refuse } else { Step::GoOn }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(marks: &[i64]) -> Written {
        Written { fingerprints: marks.iter().copied().collect(), is_anything: false }
    }

    #[test]
    fn a_writer_goes_on_past_an_object_that_may_be_gone() {
        let flight = |state| Flight { id: 1, marks: Rc::new(Marks::new([1, 2, 3])), state };
        let ended = |is_past, gone: &[i64], unclear: &[i64]| {
            let unclear = (!unclear.is_empty()).then(|| Marks::new(unclear.iter().copied()));
            flight(State::Ended(End { is_past, gone: Marks::new(gone.iter().copied()), unclear }))
        };
        let open = flight(State::Open { sent: false });
        assert_eq!((open.at_first(&written(&[2, 9])), open.once_joined(&written(&[2]))), (Step::Join, Step::GoOn));
        assert_eq!(open.at_first(&written(&[9])), Step::GoOn);
        assert_eq!(open.at_first(&Written { is_anything: true, ..written(&[]) }), Step::Join);
        assert_eq!(flight(State::Open { sent: true }).once_joined(&written(&[2])), Step::Refuse);
        assert_eq!(ended(false, &[2], &[]).at_first(&written(&[2])), Step::Refuse);
        assert_eq!(ended(true, &[2], &[]).at_first(&written(&[2])), Step::GoOn);
        assert_eq!(ended(true, &[2], &[]).once_joined(&written(&[2])), Step::Refuse);
        assert_eq!(ended(false, &[2], &[]).once_joined(&written(&[3])), Step::GoOn);
        assert_eq!(ended(true, &[], &[2]).at_first(&written(&[2])), Step::Refuse);
    }

    #[test]
    fn an_id_of_a_row_that_is_spelled_otherwise_is_missed() {
        let id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [id.to_uppercase(), id.replace('-', ""), "A0eeBC99-9c0b-4ef8-bb6d-6bb9bd380a11".to_owned()] {
            assert_eq!((row_mark(1, &text), fingerprint(&text)), (row_mark(1, id), fingerprint(id)), "{text}");
        }
        assert_eq!((row_mark(1, "17.00"), fingerprint("17.0")), (row_mark(1, "17"), fingerprint("17")));
        assert_ne!(row_mark(1, "17.01"), row_mark(1, "17"));
    }

    proptest! {
        #[test]
        fn a_mark_is_lost_on_its_way_through_the_database(marks in prop::collection::vec(any::<i64>(), 0..50)) {
            let stored = Marks::from_bytes(&Marks::new(marks.clone()).to_bytes());
            prop_assert!(marks.iter().all(|mark| stored.meet(&written(&[*mark]))));
        }
    }
}
