//! Documents in storage that name objects: before anything is checked, all that a row names are read, or found unchanged,
//! since the objects were claimed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::document::Digest;
use crate::domain::outcome::Reason;
use crate::domain::resolve::{Namespace, resolve};
use crate::error::Result;
use crate::guc;
use crate::pg::snapshot;
use crate::pg::transaction::{self, Failure};
use crate::s3::answer::Fault;
use crate::s3::document::Document;
use crate::s3::io::ReadJob;
use crate::store::document::{self, Read};
use crate::store::guard;

use super::super::library::{Inventory, Library, Unread, with_documents};
use super::look::namespace;
use super::{Drain, SHORT};

/// Documents that one inventory lists, so that memory does not grow with their number.
const LISTED: usize = 2000;
/// Fingerprints that are kept in memory before they are written.
const HELD: usize = 250_000;

/// What is known of documents, and what is being read.
#[derive(Default)]
pub(super) struct Documents {
    pub library: Library,
    /// Whether some reference has documents, as far as is known.
    pub exist: bool,
    /// When something was last claimed.
    pub claimed_at: Option<Instant>,
    /// All were read since.
    pub read_since: Option<Instant>,
    /// A check met one that was not.
    pub is_behind: bool,
    /// Since when those are read that are being read.
    round: Option<Instant>,
    to_read: VecDeque<Asked>,
    in_flight: HashMap<u64, Unread>,
    /// Read, and not written down.
    read: Vec<(Unread, Option<Read>)>,
    trouble: Option<(Unread, String)>,
}

/// A document and where it is.
struct Asked {
    unread: Unread,
    job: ReadJob,
}

impl Documents {
    fn are_read(&self) -> bool {
        !self.exist
            || !self.is_behind && self.read_since.is_some_and(|read| self.claimed_at.is_none_or(|at| read >= at))
    }

    /// Nothing of what was asked for will be answered, or is wanted.
    pub fn forget_questions(&mut self) {
        self.to_read.clear();
        self.in_flight.clear();
        self.round = None;
    }
}

/// What is needed to ask for documents.
struct Listed {
    inventory: Inventory,
    namespace: Namespace,
    backends: Vec<Backend>,
    defaults: HashMap<i32, Option<BackendId>>,
    etags: HashMap<(i32, Digest), String>,
    exist: bool,
}

impl Drain {
    /// Whether all documents are read that a row names. If not, it sees to it; answers come through `document_answered`.
    pub(super) fn documents_are_read(&mut self, now: Instant) -> bool {
        while !self.documents.are_read() && !self.is_quiet(now) {
            if self.ask_for_documents() {
                return false;
            }
            self.list_documents(now);
        }
        self.documents.are_read()
    }

    /// Asks for as many as may be asked for at once. Says whether answers are awaited.
    fn ask_for_documents(&mut self) -> bool {
        while self.documents.in_flight.len() < guc::concurrency()
            && let Some(Asked { unread, mut job }) = self.documents.to_read.pop_front()
        {
            self.next_job += 1;
            job.id = self.next_job;
            self.documents.in_flight.insert(job.id, unread);
            self.io.read(job);
        }
        !self.documents.in_flight.is_empty()
    }

    /// Goes through the rows for documents that were not read in time; when there are none, all are read.
    fn list_documents(&mut self, now: Instant) {
        // What a check has met is read beside the others, which are read already.
        let since = *self.documents.round.get_or_insert(match self.documents.read_since {
            Some(since) if self.documents.is_behind && self.documents.claimed_at.is_none_or(|at| since >= at) => since,
            _ => Instant::now(),
        });
        let library = &mut self.documents.library;
        match transaction::run("storage_reaper: list documents", guc::guard_timeout(), || list(library, since)) {
            Ok(Listed { exist, .. }) if !exist => {
                self.documents =
                    Documents { library: std::mem::take(&mut self.documents.library), ..Documents::default() };
            }
            Ok(listed) if listed.inventory.unread.is_empty() => {
                self.documents.read_since = Some(since);
                self.documents.is_behind = false;
                self.documents.round = None;
            }
            Ok(listed) => self.line_up(listed, now),
            Err(failure) => self.documents_in_doubt(None, failure, now),
        }
    }

    fn line_up(&mut self, listed: Listed, now: Instant) {
        let Listed { inventory, namespace, backends, defaults, mut etags, .. } = listed;
        let backends: HashMap<BackendId, Arc<Backend>> =
            backends.into_iter().map(|backend| (backend.id, Arc::new(backend))).collect();
        for unread in inventory.unread {
            let default = defaults.get(&unread.source_id).copied().flatten();
            let found = resolve(&unread.locator, &namespace, default).and_then(|object| {
                let backend = backends.get(&object.backend).cloned().ok_or(Reason::NoBackend)?;
                Ok((object, backend))
            });
            let (object, backend) = match found {
                Ok(found) => found,
                Err(reason) => return self.document_failed(unread, &reason.to_string(), now),
            };
            let Some(reading) = self.documents.library.reading(unread.source_id).cloned() else { continue };
            let etag = etags.remove(&(unread.source_id, Digest::of(&unread.locator)));
            let job = ReadJob { id: 0, backend, object, etag, reading, limit: guc::document_size_limit() };
            self.documents.to_read.push_back(Asked { unread, job });
        }
    }

    /// What an answer says of a document.
    pub(super) fn document_answered(&mut self, id: u64, result: std::result::Result<Document, Fault>, now: Instant) {
        let Some(unread) = self.documents.in_flight.remove(&id) else { return };
        match result {
            Ok(Document::Unchanged) => self.documents.read.push((unread, None)),
            Ok(Document::Read { etag, prints }) => {
                let read = Read { source_id: unread.source_id, locator: unread.locator.clone(), etag, prints };
                self.documents.read.push((unread, Some(read)));
            }
            Ok(Document::Unreadable(why)) => self.documents.trouble = Some((unread, why)),
            Err(fault) => self.documents.trouble = Some((unread, fault.message)),
        }
        let is_last = self.documents.in_flight.is_empty() && self.documents.to_read.is_empty();
        let held: usize =
            self.documents.read.iter().filter_map(|(_, read)| read.as_ref()).map(|read| read.prints.len()).sum();
        if is_last || held > HELD || self.documents.trouble.is_some() {
            self.write_documents(now);
        }
        if self.documents.in_flight.is_empty()
            && let Some((unread, why)) = self.documents.trouble.take()
        {
            self.document_failed(unread, &why, now);
        } else if self.documents.trouble.is_some() {
            // The others are in vain.
            self.documents.to_read.clear();
        }
    }

    /// Writes down what was read. From then on it counts.
    fn write_documents(&mut self, now: Instant) {
        let (read, since) = (std::mem::take(&mut self.documents.read), self.documents.round);
        let library = &self.documents.library;
        let written = transaction::run("storage_reaper: write documents", SHORT, || {
            let new = read.iter().filter_map(|(_, read)| read.as_ref());
            new.filter_map(|read| Some((read, library.reading(read.source_id)?)))
                .try_for_each(|(read, reading)| document::save(read, reading))
        });
        match (written, since) {
            (Ok(()), Some(since)) => {
                for (unread, _) in read {
                    self.documents.library.note(unread.source_id, &unread.locator, since);
                }
            }
            // Nobody waits for them any more.
            (Ok(()), None) => {}
            (Err(failure), _) => self.be_quiet("could not write what documents name", &failure, now),
        }
    }

    fn document_failed(&mut self, unread: Unread, why: &str, now: Instant) {
        let message = format!("document \"{}\" cannot be read: {why}", without_query(&unread.locator));
        let failure = Failure { code: PgSqlErrorCode::ERRCODE_IO_ERROR, message };
        self.documents_in_doubt(Some(unread), failure, now);
    }

    /// Nothing is deleted while a document cannot be read.
    fn documents_in_doubt(&mut self, unread: Option<Unread>, failure: Failure, now: Instant) {
        self.documents.forget_questions();
        let (id, title) = unread.map_or((0, "documents".to_owned()), |unread| (unread.source_id, unread.title));
        let doubt = self.guard.fail(id, title, failure);
        self.doubt(Vec::new(), &doubt, now);
    }
}

/// Keys of signatures do not belong in a log.
fn without_query(locator: &str) -> &str {
    locator.split(['?', '#']).next().unwrap_or_default()
}

fn list(library: &mut Library, since: Instant) -> Result<Listed> {
    let references = guard::references()?;
    let exist = with_documents(&references).next().is_some();
    for (reference, _) in with_documents(&references) {
        guard::lock(reference)?;
    }
    let inventory = snapshot::renewed(|| library.take_inventory(&references, since, LISTED))?;
    for (source_id, digests) in &inventory.stale {
        document::remove(*source_id, digests)?;
    }
    let mut etags = HashMap::new();
    for (reference, documents) in with_documents(&references) {
        let id = reference.source_id;
        let of_it = inventory.unread.iter().filter(|unread| unread.source_id == id);
        let digests: Vec<Digest> = of_it.map(|unread| Digest::of(&unread.locator)).collect();
        if !digests.is_empty() {
            let known = document::etags(id, &documents.reading, &digests)?;
            etags.extend(known.into_iter().map(|(digest, etag)| ((id, digest), etag)));
        }
    }
    let defaults = with_documents(&references).map(|(reference, _)| (reference.source_id, reference.backend)).collect();
    let (namespace, backends) = namespace()?;
    Ok(Listed { inventory, namespace, backends, defaults, etags, exist })
}
