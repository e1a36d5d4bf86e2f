//! The library: which documents in storage were read, and when. It lives in the leader's memory; what the documents name is
//! in a table, where the guard looks it up.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use pgrx::pg_sys;

use crate::domain::document::{Digest, Reading};
use crate::domain::object::Object;
use crate::domain::outcome::Reason;
use crate::domain::resolve::{Namespace, resolve};
use crate::error::Result;
use crate::store::document;
use crate::store::guard::{self, Documents, Reference};

/// A document that a row names and that was not read in time.
#[derive(Debug, Clone)]
pub struct Unread {
    pub source_id: i32,
    /// Of the reference, for people.
    pub title: String,
    pub reading: Reading,
    /// What the row holds.
    pub locator: String,
    pub found: std::result::Result<(Object, Digest), Reason>,
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

/// A reference with documents, and what its locators mean.
#[derive(Clone, Copy)]
pub struct Holding<'a> {
    pub reference: &'a Reference,
    pub documents: &'a Documents,
    pub namespace: &'a Namespace,
}

impl Library {
    /// Begins to go through all rows that name documents, within a transaction.
    pub fn begin_inventory(&mut self) -> Result<()> {
        self.inventories += 1;
        let table = document::table()?;
        if self.table != Some(table) {
            self.shelves.clear();
            self.table = Some(table);
        }
        Ok(())
    }

    /// What the rows of one reference name and was not read since then, at most `limit` of it, each once.
    pub fn unread(&mut self, holding: Holding<'_>, since: Instant, limit: usize) -> Result<Vec<Unread>> {
        let Holding { reference, documents: Documents { reading, .. }, namespace } = holding;
        let id = reference.source_id;
        if self.table != Some(document::table()?) {
            self.begin_inventory()?;
        }
        self.open(id, reading)?;
        let (inventory, mut unread, mut seen) = (self.inventories, Vec::new(), HashSet::new());
        let Some(shelf) = self.shelves.get_mut(&id) else { return Ok(unread) };
        guard::each_locator(reference, |locator| {
            if locator.trim().is_empty() || unread.len() >= limit {
                return;
            }
            let found = place(locator, namespace, reference);
            let is_news = match &found {
                Ok((_, digest)) => !shelf.has_read(*digest, since, inventory) && seen.insert(*digest),
                Err(_) => true,
            };
            if is_news {
                let (title, locator) = (reference.title.clone(), locator.to_owned());
                unread.push(Unread { source_id: id, title, reading: reading.clone(), locator, found });
            }
        })?;
        Ok(unread)
    }

    /// What no row names any more, once an inventory has met all.
    pub fn take_stale(&mut self) -> Vec<(i32, Vec<Digest>)> {
        let inventory = self.inventories;
        let stale = self.shelves.iter_mut().map(|(id, shelf)| {
            let gone: Vec<Digest> =
                shelf.read.iter().filter(|(_, entry)| entry.met < inventory).map(|(digest, _)| *digest).collect();
            shelf.read.retain(|_, entry| entry.met >= inventory);
            (*id, gone)
        });
        stale.filter(|(_, gone)| !gone.is_empty()).collect()
    }

    /// Notes that a document was read in that way, or found unchanged.
    pub fn note(&mut self, source_id: i32, reading: &Reading, document: Digest, since: Instant) {
        if let Some(shelf) = self.shelves.get_mut(&source_id).filter(|shelf| shelf.reading == *reading) {
            let entry = shelf.read.entry(document).or_default();
            (entry.since, entry.met) = (Some(since), self.inventories);
        }
    }

    /// Loads what an earlier process has read, unless it is here.
    fn open(&mut self, id: i32, reading: &Reading) -> Result<()> {
        if self.shelves.get(&id).is_none_or(|shelf| shelf.reading != *reading) {
            let known = document::known(id, reading)?;
            let read = known.into_iter().map(|digest| (digest, Entry::default())).collect();
            self.shelves.insert(id, Shelf { reading: reading.clone(), read });
        }
        Ok(())
    }
}

impl Shelf {
    fn has_read(&mut self, document: Digest, since: Instant, inventory: u64) -> bool {
        let Some(entry) = self.read.get_mut(&document) else { return false };
        entry.met = inventory;
        self.reading.immutable || entry.since.is_some_and(|read| read >= since)
    }
}

/// The document that a row names, and what tells it from all others, in other places too.
fn place(locator: &str, namespace: &Namespace, reference: &Reference) -> std::result::Result<(Object, Digest), Reason> {
    let object = resolve(locator, namespace, reference.backend)?;
    let backend = namespace.backend(object.backend).ok_or(Reason::NoBackend)?;
    let digest = Digest::of(backend.endpoint.as_str(), &object);
    Ok((object, digest))
}

/// The references whose rows name documents.
pub fn with_documents(references: &[Reference]) -> impl Iterator<Item = (&Reference, &Documents)> {
    references.iter().filter_map(|reference| match &reference.asks {
        guard::Asks::Documents(documents) => Some((reference, documents)),
        _ => None,
    })
}
