//! The library: which documents in storage were read, and when. It lives in the leader's memory; what the documents name is
//! in a table, where the guard looks it up.

use std::collections::HashMap;
use std::time::Instant;

use pgrx::pg_sys;

use crate::domain::document::{Digest, Reading};
use crate::error::Result;
use crate::store::document;
use crate::store::guard::{self, Documents, Reference};

/// A document that a row names and that was not read in time.
#[derive(Debug, Clone)]
pub struct Unread {
    pub source_id: i32,
    pub title: String,
    pub locator: String,
}

/// What is known of the documents of one reference.
struct Shelf {
    reading: Reading,
    read: HashMap<Digest, Entry>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// It was read, or found unchanged, no earlier than this; not by this process without it.
    since: Option<Instant>,
    /// The last inventory that met a row with it.
    met: u64,
}

/// Documents by reference.
#[derive(Default)]
pub struct Library {
    /// The table that this is about; in another one, nothing was read.
    table: Option<pg_sys::Oid>,
    shelves: HashMap<i32, Shelf>,
    inventories: u64,
}

/// What an inventory finds.
pub struct Inventory {
    pub unread: Vec<Unread>,
    /// No row names them any more.
    pub stale: Vec<(i32, Vec<Digest>)>,
}

impl Library {
    /// Goes through all rows that name documents, within a transaction: what was not read since then, at most `limit`, and
    /// what can be forgotten.
    pub fn take_inventory(&mut self, references: &[Reference], since: Instant, limit: usize) -> Result<Inventory> {
        self.inventories += 1;
        let table = document::table()?;
        if self.table != Some(table) {
            self.shelves.clear();
            self.table = Some(table);
        }
        let mut unread = Vec::new();
        for (reference, documents) in with_documents(references) {
            self.open(reference, documents)?;
            self.each_unread(reference, documents, since, |locator| {
                if unread.len() < limit {
                    unread.push(Unread {
                        source_id: reference.source_id,
                        title: reference.title.clone(),
                        locator: locator.to_owned(),
                    });
                }
            })?;
        }
        // Whoever has something to read comes back.
        let stale = if unread.is_empty() { self.take_stale() } else { Vec::new() };
        Ok(Inventory { unread, stale })
    }

    /// Whether every document that a row of the reference names was read since then.
    pub fn is_current(&mut self, reference: &Reference, documents: &Documents, since: Instant) -> Result<bool> {
        if self.reading(reference.source_id) != Some(&documents.reading) || self.table != Some(document::table()?) {
            return Ok(false);
        }
        let mut is_current = true;
        self.each_unread(reference, documents, since, |_| is_current = false)?;
        Ok(is_current)
    }

    /// How the documents of a reference are read.
    pub fn reading(&self, source_id: i32) -> Option<&Reading> {
        self.shelves.get(&source_id).map(|shelf| &shelf.reading)
    }

    /// Notes that a document was read, or found unchanged.
    pub fn note(&mut self, source_id: i32, locator: &str, since: Instant) {
        if let Some(shelf) = self.shelves.get_mut(&source_id) {
            shelf.read.entry(Digest::of(locator)).or_default().since = Some(since);
        }
    }

    /// Loads what an earlier process has read, unless it is here.
    fn open(&mut self, reference: &Reference, documents: &Documents) -> Result<()> {
        let id = reference.source_id;
        if self.reading(id) != Some(&documents.reading) {
            let known = document::known(id, &documents.reading)?;
            let read = known.into_iter().map(|digest| (digest, Entry::default())).collect();
            self.shelves.insert(id, Shelf { reading: documents.reading.clone(), read });
        }
        Ok(())
    }

    fn each_unread(
        &mut self,
        reference: &Reference,
        documents: &Documents,
        since: Instant,
        mut visit: impl FnMut(&str),
    ) -> Result<()> {
        let inventory = self.inventories;
        let Some(shelf) = self.shelves.get_mut(&reference.source_id) else { return Ok(()) };
        guard::each_locator(reference, |locator| {
            if locator.trim().is_empty() {
                return;
            }
            let entry = shelf.read.get_mut(&Digest::of(locator));
            let is_read = entry.is_some_and(|entry| {
                entry.met = inventory;
                documents.are_immutable || entry.since.is_some_and(|read| read >= since)
            });
            if !is_read {
                visit(locator);
            }
        })
    }

    fn take_stale(&mut self) -> Vec<(i32, Vec<Digest>)> {
        let inventory = self.inventories;
        let stale = self.shelves.iter_mut().map(|(id, shelf)| {
            let gone: Vec<Digest> =
                shelf.read.iter().filter(|(_, entry)| entry.met < inventory).map(|(digest, _)| *digest).collect();
            shelf.read.retain(|_, entry| entry.met >= inventory);
            (*id, gone)
        });
        stale.filter(|(_, gone)| !gone.is_empty()).collect()
    }
}

/// The references whose rows name documents.
pub fn with_documents(references: &[Reference]) -> impl Iterator<Item = (&Reference, &Documents)> {
    references.iter().filter_map(|reference| match &reference.asks {
        guard::Asks::Documents(documents) => Some((reference, documents)),
        _ => None,
    })
}
