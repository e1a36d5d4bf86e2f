//! Whether a column names objects that nobody declared it to name, judged by a sample of its values.
//!
//! A URL says by itself whose object it names. A plain key does not: it counts when a row that is attached, or the
//! outbox, names the same object; or when the column's name says so too and most of its values look like keys of ours.

mod example;
mod known;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use super::backend::BackendId;
use super::fold::fingerprint;
pub use example::shown;
pub use known::Known;
use shape::Shape;
pub use shape::name_is_telling;

/// Different keys of a column that are looked up; a document can hold any number.
const MOST_KEYS: usize = 1000;

/// How a column holds locators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Its values are locators, or the elements of its arrays, or the strings of its documents.
    Whole,
    /// URLs stand inside of its texts.
    Embedded,
    /// Some are locators, and some have URLs inside.
    Both,
}

/// A column that names objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub way: Way,
    /// Rows of the sample that name an object.
    pub hits: usize,
    pub sampled: usize,
    /// Whose objects, most often named first.
    pub backends: Vec<BackendId>,
    /// Whose objects its plain keys name, if it is one backend's.
    pub key_backend: Option<BackendId>,
    /// One of them, without anything that may be secret.
    pub example: String,
}

/// What a sample of one column has shown so far.
pub struct Tally<'a> {
    known: &'a Known<'a>,
    rows: Vec<Row>,
    keys: Vec<Key>,
    places: HashMap<String, usize>,
    located: Option<String>,
    embedded: Option<String>,
}

/// What one value names.
#[derive(Default)]
struct Row {
    located: Option<BackendId>,
    embedded: Option<BackendId>,
    /// Places of texts that may be keys.
    keys: Vec<usize>,
}

/// A text of a shape that keys of ours have, and whose object it names as far as is known.
struct Key {
    text: String,
    shape: Shape,
    backend: Option<BackendId>,
}

impl<'a> Tally<'a> {
    pub fn new(known: &'a Known<'a>) -> Self {
        Self { known, rows: Vec::new(), keys: Vec::new(), places: HashMap::new(), located: None, embedded: None }
    }

    /// Looks at the texts of one value: itself, its elements, or its strings.
    pub fn add<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        let mut row = Row::default();
        for text in texts {
            if let Some(backend) = self.known.located(text) {
                row.located.get_or_insert(backend);
                self.located.get_or_insert_with(|| text.to_owned());
            } else if let Some((backend, url)) = self.known.embedded(text) {
                row.embedded.get_or_insert(backend);
                self.embedded.get_or_insert(url);
            } else {
                row.keys.extend(self.key(text));
            }
        }
        self.rows.push(row);
    }

    fn key(&mut self, text: &str) -> Option<usize> {
        if let Some(place) = self.places.get(text) {
            return Some(*place);
        }
        let shape = Shape::of(text).filter(|shape| self.known.has_shape(shape) && self.keys.len() < MOST_KEYS)?;
        self.keys.push(Key { text: text.to_owned(), shape, backend: self.known.named(fingerprint(text)) });
        self.places.insert(text.to_owned(), self.keys.len() - 1);
        Some(self.keys.len() - 1)
    }

    /// The fingerprints of whatever could name the objects of keys that are not known yet, with the places of the keys.
    pub fn asked(&self) -> HashMap<i64, Vec<usize>> {
        let mut asked: HashMap<i64, Vec<usize>> = HashMap::new();
        for (place, key) in self.keys.iter().enumerate().filter(|(_, key)| key.backend.is_none()) {
            for print in self.known.prints_of_key(&key.text) {
                asked.entry(print).or_default().push(place);
            }
        }
        asked
    }

    /// Keys at these places name objects of the backend.
    pub fn answer(&mut self, places: &[usize], backend: BackendId) {
        for place in places {
            self.keys[*place].backend.get_or_insert(backend);
        }
    }

    /// The judgement; `is_telling` says whether the column's name speaks for keys.
    pub fn finding(mut self, is_telling: bool) -> Option<Finding> {
        if is_telling && self.keys.iter().all(|key| key.backend.is_none()) {
            self.judge_by_shape();
        }
        let named_by_keys = || self.rows.iter().filter_map(|row| self.key_of(row));
        let named = self
            .rows
            .iter()
            .filter_map(|row| row.located.or_else(|| self.key_of(row).and_then(|key| key.backend)).or(row.embedded));
        let counts = count(named);
        let key_counts = count(named_by_keys().filter_map(|key| key.backend));
        let key = named_by_keys().next().map(|key| key.text.as_str());
        let example = self.located.as_deref().or(key).or(self.embedded.as_deref())?;
        let way = match (self.located.is_some() || key.is_some(), self.embedded.is_some()) {
            (_, false) => Way::Whole,
            (false, true) => Way::Embedded,
            (true, true) => Way::Both,
        };
        let mut backends: Vec<_> = counts.keys().copied().collect();
        backends.sort_by_key(|backend| std::cmp::Reverse(counts[backend]));
        Some(Finding {
            way,
            hits: counts.values().sum(),
            sampled: self.rows.len(),
            backends,
            key_backend: key_counts.keys().next().copied().filter(|_| key_counts.len() == 1),
            example: shown(example),
        })
    }

    /// The first key of a row that names an object.
    fn key_of(&self, row: &Row) -> Option<&Key> {
        row.keys.iter().map(|place| &self.keys[*place]).find(|key| key.backend.is_some())
    }

    /// No row that is known names them, but most values look as if one had.
    fn judge_by_shape(&mut self) {
        let is_like = |row: &&Row| row.keys.iter().any(|place| self.keys[*place].shape.is_telling());
        if self.rows.iter().filter(is_like).count() * 2 < self.rows.len() {
            return;
        }
        for key in self.keys.iter_mut().filter(|key| key.shape.is_telling()) {
            key.backend = self.known.backend_of_shape(&key.shape);
        }
    }
}

fn count(backends: impl Iterator<Item = BackendId>) -> BTreeMap<BackendId, usize> {
    let mut counts = BTreeMap::new();
    backends.for_each(|backend| *counts.entry(backend).or_default() += 1);
    counts
}
