//! Documents in storage that name objects: before anything is checked, all that a row names are read, or found unchanged,
//! since the objects were claimed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::backend::Backend;
use crate::domain::discover::shown;
use crate::domain::document::Digest;
use crate::domain::object::Object;
use crate::error::Result;
use crate::guc;
use crate::pg::snapshot;
use crate::pg::transaction::{self, Failure};
use crate::s3::document::Document;
use crate::s3::fault::Fault;
use crate::s3::io::ReadJob;
use crate::store::document::{self, Read};
use crate::store::guard::{self, Reference};

use super::super::guard::begin;
use super::super::library::{Holding, Library, Unread, with_documents};
use super::check::{Backends, shared};
use super::look::namespace;
use super::{Drain, SHORT};

/// Documents that are read at once: each may be as large as storage_reaper.document_size_limit in memory.
const READ_AT_ONCE: usize = 16;
/// Documents that one inventory lists, so that memory does not grow with their number.
const LISTED: usize = 20_000;
/// Fingerprints that are kept in memory before they are written.
const HELD: usize = 250_000;
/// Checks in a row that met a document which had just come. If they come faster than they are read, nobody can be sure.
const MISSES: u32 = 100;

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
    /// Since when those are read that are being read.
    round: Option<Instant>,
    to_read: VecDeque<Asked>,
    in_flight: HashMap<u64, Asked>,
    /// Read, and not written down.
    read: Vec<(Asked, Option<Read>)>,
    /// Fingerprints in them.
    held: usize,
    trouble: Option<(Unread, String)>,
    /// How many checks in a row met new ones.
    misses: u32,
}

/// A document that is to be read, and where it is.
struct Asked {
    unread: Unread,
    object: Object,
    digest: Digest,
    backend: Arc<Backend>,
    etag: Option<String>,
}

impl Documents {
    /// Whether nothing has to be read before the next check.
    pub fn are_read(&self) -> bool {
        let is_late = |read: Instant| self.claimed_at.is_some_and(|at| read < at);
        !self.exist || !self.is_reading() && self.read_since.is_some_and(|read| !is_late(read))
    }

    /// Whether answers are awaited, or questions wait for their turn.
    pub fn is_reading(&self) -> bool {
        !self.to_read.is_empty() || !self.in_flight.is_empty()
    }

    /// Nothing of what was asked for will be answered, or is wanted.
    pub fn forget_questions(&mut self) {
        self.to_read.clear();
        self.in_flight.clear();
        self.read.clear();
        self.held = 0;
        self.trouble = None;
        self.round = None;
    }

    /// A check was sure of all documents.
    pub fn were_current(&mut self) {
        self.misses = 0;
    }
}

/// What an inventory finds, and what is needed to ask for it.
struct Listed {
    unread: Vec<Unread>,
    backends: Vec<Backend>,
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
        while self.documents.in_flight.len() < guc::concurrency().min(READ_AT_ONCE)
            && let Some(asked) = self.documents.to_read.pop_front()
        {
            self.next_job += 1;
            self.io.read(ReadJob {
                id: self.next_job,
                backend: Arc::clone(&asked.backend),
                object: asked.object.clone(),
                etag: asked.etag.clone(),
                reading: asked.unread.reading.clone(),
                limit: guc::document_size_limit(),
            });
            self.documents.in_flight.insert(self.next_job, asked);
        }
        !self.documents.in_flight.is_empty()
    }

    /// Goes through the rows for documents that were not read in time; when there are none, all are read.
    fn list_documents(&mut self, now: Instant) {
        let since = *self.documents.round.get_or_insert_with(Instant::now);
        let (library, mut asked) = (&mut self.documents.library, None);
        let listed = transaction::run("storage_reaper: list documents", SHORT, || list(library, since, &mut asked));
        match listed {
            Ok(Listed { exist: false, .. }) => {
                self.documents.forget_questions();
                (self.documents.exist, self.documents.misses) = (false, 0);
            }
            Ok(listed) if listed.unread.is_empty() => {
                self.documents.read_since = Some(since);
                self.documents.round = None;
            }
            Ok(Listed { unread, backends, etags, .. }) => {
                self.line_up(unread, &shared(backends), etags, now);
            }
            Err(failure) => self.documents_in_doubt(asked, failure, now),
        }
    }

    /// A check has met documents that came since the last inventory, or were never listed: they are read beside the others.
    pub(super) fn documents_were_missed(&mut self, unread: Vec<Unread>, backends: &Backends, now: Instant) {
        self.documents.exist = true;
        if self.documents.read_since.is_none() {
            return;
        }
        self.documents.misses += 1;
        match unread.first() {
            Some(first) if self.documents.misses > MISSES => {
                let message = "documents come faster than they are read".to_owned();
                let failure = Failure { code: PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, message };
                self.documents_in_doubt(Some((first.source_id, first.title.clone())), failure, now);
            }
            _ => {
                self.documents.round = self.documents.read_since;
                self.line_up(unread, backends, HashMap::new(), now);
            }
        }
    }

    fn line_up(
        &mut self,
        unread: Vec<Unread>,
        backends: &Backends,
        mut etags: HashMap<(i32, Digest), String>,
        now: Instant,
    ) {
        for unread in unread {
            let (object, digest) = match unread.found.clone() {
                Ok(found) => found,
                Err(reason) => return self.document_failed(unread, &reason.to_string(), now),
            };
            // Gone in the meantime: the next check resolves it anew.
            let Some(backend) = backends.get(&object.backend).cloned() else { continue };
            let etag = etags.remove(&(unread.source_id, digest));
            self.documents.to_read.push_back(Asked { unread, object, digest, backend, etag });
        }
    }

    /// What an answer says of a document.
    pub(super) fn document_answered(&mut self, id: u64, result: std::result::Result<Document, Fault>, now: Instant) {
        let Some(asked) = self.documents.in_flight.remove(&id) else { return };
        match result {
            Ok(Document::Unchanged) => self.documents.read.push((asked, None)),
            Ok(Document::Read { etag, prints }) => {
                let read = Read {
                    source_id: asked.unread.source_id,
                    digest: asked.digest,
                    object: asked.object.clone(),
                    reading: asked.unread.reading.clone(),
                    etag,
                    prints,
                };
                self.documents.held += read.prints.len();
                self.documents.read.push((asked, Some(read)));
            }
            Ok(Document::Unreadable(why)) => self.documents.trouble = Some((asked.unread, why)),
            Err(fault) => self.documents.trouble = Some((asked.unread, fault.message)),
        }
        if self.documents.trouble.is_some() {
            // The others are in vain.
            self.documents.to_read.clear();
        }
        if self.documents.held > HELD || !self.documents.is_reading() {
            self.write_documents(now);
        }
        if !self.documents.is_reading()
            && let Some((unread, why)) = self.documents.trouble.take()
        {
            self.document_failed(unread, &why, now);
        }
    }

    /// Writes down what was read. From then on it counts.
    fn write_documents(&mut self, now: Instant) {
        let Some(since) = self.documents.round else { return };
        let read = std::mem::take(&mut self.documents.read);
        self.documents.held = 0;
        let written = transaction::run("storage_reaper: write documents", SHORT, || {
            read.iter().filter_map(|(_, read)| read.as_ref()).try_for_each(document::save)
        });
        match written {
            Ok(()) => {
                for (Asked { unread, digest, .. }, _) in read {
                    self.documents.library.note(unread.source_id, &unread.reading, digest, since);
                }
                // What a check had missed was read; an inventory ends its round itself.
                if self.documents.round == self.documents.read_since && !self.documents.is_reading() {
                    self.documents.round = None;
                }
            }
            Err(failure) => {
                let first = read.into_iter().next().map(|(asked, _)| (asked.unread.source_id, asked.unread.title));
                self.documents_in_doubt(first, failure, now);
            }
        }
    }

    fn document_failed(&mut self, unread: Unread, why: &str, now: Instant) {
        let document = match &unread.found {
            Ok((object, _)) => object.to_string(),
            Err(_) => shown(&unread.locator),
        };
        let message = format!("document \"{document}\" cannot be read: {why}");
        let failure = Failure { code: PgSqlErrorCode::ERRCODE_IO_ERROR, message };
        self.documents_in_doubt(Some((unread.source_id, unread.title)), failure, now);
    }

    /// Nothing is deleted while a document cannot be read, or not be found.
    fn documents_in_doubt(&mut self, of: Option<(i32, String)>, failure: Failure, now: Instant) {
        self.documents.forget_questions();
        self.documents.misses = 0;
        let (id, title) = of.unwrap_or_default();
        let doubt = self.guard.fail(id, title, failure);
        self.doubt(Vec::new(), &doubt, now);
    }
}

/// Goes through the rows of all references with documents. `asked` says with which it is at work.
fn list(library: &mut Library, since: Instant, asked: &mut Option<(i32, String)>) -> Result<Listed> {
    let references = guard::references()?;
    let (namespace, backends) = namespace()?;
    let mut note = |reference: &Reference| {
        *asked = Some((reference.source_id, reference.title.clone()));
        begin(reference);
    };
    for (reference, _) in with_documents(&references) {
        note(reference);
        guard::lock(reference)?;
    }
    library.begin_inventory()?;
    let mut unread = Vec::new();
    snapshot::renewed(|| {
        for (reference, documents) in with_documents(&references) {
            note(reference);
            let holding = Holding { reference, documents, namespace: &namespace };
            unread.extend(library.unread(holding, since, LISTED - unread.len().min(LISTED))?);
        }
        Ok::<_, crate::error::Error>(())
    })?;
    *asked = None;
    // Whoever has something to read comes back.
    let stale = if unread.is_empty() { library.take_stale() } else { Vec::new() };
    for (source_id, digests) in &stale {
        document::remove(*source_id, digests)?;
    }
    let mut etags = HashMap::new();
    for (reference, documents) in with_documents(&references) {
        let id = reference.source_id;
        let of_it = unread.iter().filter(|unread| unread.source_id == id);
        let digests: Vec<Digest> = of_it.filter_map(|unread| Some(unread.found.as_ref().ok()?.1)).collect();
        if !digests.is_empty() {
            let known = document::etags(id, &documents.reading, &digests)?;
            etags.extend(known.into_iter().map(|(digest, etag)| ((id, digest), etag)));
        }
    }
    Ok(Listed { unread, backends, etags, exist: with_documents(&references).next().is_some() })
}
