//! The guard: asks every attached table whether a row still names what is about to be deleted. Doubt keeps.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::document::Reading;
use crate::domain::fold::fingerprint;
use crate::domain::object::Object;
use crate::domain::resolve::{Namespace, Prints, keys_may_mean, may_name, prints};
use crate::guc;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::transaction::{self, Failure};
use crate::pg::watch;
use crate::store::document;
use crate::store::guard::{self, Asks, Documents, Reference, Sharing};
use crate::store::locator_sql::SPELLINGS;
use crate::store::source;

use super::leader::SHORT;
use super::library::{Holding, Library, Unread};

/// Unread documents that a check hands back.
const MISSED: usize = 1000;

/// Which table could not be asked, and why.
pub struct Doubt {
    pub source: String,
    pub failure: Failure,
}

impl Doubt {
    /// Whether the check ran out of time: fewer objects at once may do.
    pub fn is_slow(&self) -> bool {
        self.failure.code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED
    }
}

/// What a check says.
pub enum Checked {
    /// What is kept.
    Sure(Kept),
    /// Rows name documents that were not read in time: some of them, or none if nobody has ever looked.
    Unread(Vec<Unread>),
    /// What is declared, or where its tables are, changed meanwhile.
    Changed,
}

/// Sources whose check is known to work, so that a fault in the table is cleared once.
#[derive(Default)]
pub struct Guard {
    sound: HashSet<i32>,
    /// Whether some reference is fenced, as far as is known.
    is_fenced: bool,
}

/// The row that an object was captured from.
#[derive(Clone)]
pub struct Origin {
    pub source_id: Option<i32>,
    pub row_id: Option<String>,
    /// By which value rows of its source share it.
    pub shares: Option<String>,
    /// With which object it goes, as a locator.
    pub parent: Option<String>,
}

/// An object that is about to be deleted.
pub struct Candidate {
    pub object: Object,
    pub origin: Origin,
    /// Under which rows may name it.
    pub prints: Prints,
    /// What it goes with: a row that names that keeps it, too.
    pub parent: Option<Parent>,
}

/// An object that others go with.
pub struct Parent {
    pub object: Object,
    pub prints: Prints,
}

impl Parent {
    /// What an object goes with.
    pub fn of(child: &Object, origin: &Origin, namespace: &Namespace) -> Option<Self> {
        let object = Object::at(child.backend, origin.parent.as_deref()?)?;
        Some(Self { prints: prints(&object, namespace), object })
    }
}

impl Candidate {
    /// One that was captured from nowhere.
    fn of(object: Object, namespace: &Namespace) -> Self {
        let origin = Origin { source_id: None, row_id: None, shares: None, parent: None };
        Self { prints: prints(&object, namespace), origin, object, parent: None }
    }
}

impl Candidate {
    /// What a row has to name to keep it.
    fn kept_by_naming(&self) -> impl Iterator<Item = (&Object, &Prints)> {
        let parent = self.parent.as_ref().map(|parent| (&parent.object, &parent.prints));
        std::iter::once((&self.object, &self.prints)).chain(parent)
    }
}

/// What is kept: what names it, by the candidate's place.
pub type Kept = HashMap<usize, String>;

impl Guard {
    /// Whether some reference was fenced at the last check.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Which objects a row still names. All tables are asked in one transaction, on one snapshot that is newer than the
    /// claim: a row that moves from one table to another is in one of them.
    ///
    /// Documents that were not read since `read_since` say nothing.
    pub fn check(
        &mut self,
        candidates: &[Candidate],
        namespace: &Namespace,
        library: &mut Library,
        read_since: Option<Instant>,
    ) -> Result<Checked, Doubt> {
        let (mut asked, mut is_fenced) = (Vec::new(), false);
        // Read before the snapshot on which the references are.
        let known_changes = watch::catalog_changes();
        let found = transaction::run("storage_reaper: guard", guc::guard_timeout(), || {
            // Nothing is declared while a flight is closed, so the references stay these.
            let references = guard::references()?;
            is_fenced = references.iter().any(|reference| reference.fenced);
            // All tables are locked before the snapshot is taken: one that is truncated and filled anew, or rewritten,
            // would look empty to an older one. A writer may hold one of them and wait for these objects.
            for reference in &references {
                asked.push((reference.source_id, reference.title.clone()));
                begin(reference);
                guard::lock(reference)?;
            }
            asked.clear();
            snapshot::renewed(|| {
                // Before it was locked, a partition may have left, or a table taken another's name.
                if watch::catalog_changes() != known_changes && guard::references()? != references {
                    return Ok(Checked::Changed);
                }
                let mut kept = Kept::new();
                for reference in &references {
                    asked.push((reference.source_id, reference.title.clone()));
                    begin(reference);
                    if let Asks::Documents(documents) = &reference.asks {
                        let Some(since) = read_since else { return Ok(Checked::Unread(Vec::new())) };
                        let unread = library.unread(Holding { reference, documents, namespace }, since, MISSED)?;
                        if !unread.is_empty() {
                            return Ok(Checked::Unread(unread));
                        }
                    }
                    let named = ask(reference, candidates, namespace, &kept)?;
                    kept.extend(named.into_iter().map(|place| (place, reference.title.clone())));
                }
                // A schema that was renamed meanwhile, or a partition whose leaving has begun, is no matter of locks; but whoever
                // asked another table than was meant has heard of it.
                let is_other =
                    watch::catalog_changes() != known_changes && guard::references_on(Snapshot::Latest)? != references;
                Ok(if is_other { Checked::Changed } else { Checked::Sure(kept) })
            })
        });
        self.is_fenced = is_fenced;
        let failed = if found.is_err() { asked.pop() } else { None };
        if !matches!(found, Err(_) | Ok(Checked::Sure(_))) {
            // Nobody knows yet whether the last one can be asked.
            asked.clear();
        }
        for (id, _) in asked.into_iter().filter(|(id, _)| failed.as_ref().is_none_or(|(failed, _)| failed != id)) {
            if self.sound.insert(id) {
                record(id, None);
            }
        }
        found.map_err(|failure| {
            let (id, source) = failed.unwrap_or_default();
            self.fail(id, source, failure)
        })
    }

    /// A reference cannot be asked, which its view shows.
    pub fn fail(&mut self, id: i32, source: String, failure: Failure) -> Doubt {
        self.sound.remove(&id);
        record(id, Some(format!("reference check failed: {failure}")));
        Doubt { source, failure }
    }
}

/// Each reference has its own time.
pub fn begin(reference: &Reference) {
    transaction::go_on(&format!("storage_reaper: guard {}", reference.title), guc::guard_timeout());
}

/// The candidates that rows of a table name, apart from those that are kept already.
fn ask(
    reference: &Reference,
    candidates: &[Candidate],
    namespace: &Namespace,
    kept: &Kept,
) -> crate::error::Result<Vec<usize>> {
    let open = candidates.iter().enumerate().filter(|(place, _)| !kept.contains_key(place));
    Ok(match &reference.asks {
        Asks::RowIds(sources) => {
            let rows = Rows::new(open, sources);
            rows.held(guard::holding(reference, rows.ids())?)
        }
        Asks::Shares(sources) => {
            let values = by_value(open, sources);
            let found = guard::having(reference, values.keys().cloned().collect())?;
            found.iter().filter_map(|found| values.get(&found.locator)).flatten().copied().collect()
        }
        Asks::Documents(documents) => in_documents(reference, documents, open, namespace)?,
        Asks::Locators => {
            let asked = Asked::new(open, namespace, reference);
            let found = guard::sharing(reference, asked.prints())?;
            asked.named(candidates, namespace, reference, found)
        }
    })
}

/// The candidates that documents name which a row of the table names.
fn in_documents<'a>(
    reference: &Reference,
    documents: &Documents,
    open: impl Iterator<Item = (usize, &'a Candidate)>,
    namespace: &Namespace,
) -> crate::error::Result<Vec<usize>> {
    let Some(sources) = &documents.row_of else {
        let asked = Asked::new(open, namespace, reference);
        let found = in_living_documents(reference, &documents.reading, asked.prints(), namespace)?;
        return Ok(found.iter().flat_map(|print| asked.places(*print)).collect());
    };
    let rows = Rows::new(open, sources);
    // Different ids may fold alike.
    let mut by_print: HashMap<i64, Vec<String>> = HashMap::new();
    rows.ids().into_iter().for_each(|id| by_print.entry(fingerprint(&id)).or_default().push(id));
    let found = in_living_documents(reference, &documents.reading, by_print.keys().copied().collect(), namespace)?;
    let ids = found.iter().filter_map(|print| by_print.get(print)).flatten();
    let held = ids.map(|id| Sharing { print: 0, locator: id.clone(), row_id: None }).collect();
    Ok(rows.held(guard::without_living(reference, held)?))
}

/// Those of the fingerprints that stand in a document which a row of the table names.
fn in_living_documents(
    reference: &Reference,
    reading: &Reading,
    prints: Vec<i64>,
    namespace: &Namespace,
) -> crate::error::Result<HashSet<i64>> {
    let naming = document::naming(reference.source_id, reading, prints)?;
    let documents: HashSet<&Object> = naming.iter().map(|found| &found.document).collect();
    let candidates: Vec<Candidate> =
        documents.into_iter().map(|object| Candidate::of(object.clone(), namespace)).collect();
    let asked = Asked::new(candidates.iter().enumerate(), namespace, reference);
    let rows = guard::sharing(reference, asked.prints())?;
    let named = asked.named(&candidates, namespace, reference, rows);
    let living: HashSet<&Object> = named.into_iter().map(|place| &candidates[place].object).collect();
    let mut looked_at: HashMap<i64, usize> = HashMap::new();
    Ok(naming
        .iter()
        .filter(|found| {
            let looked_at = looked_at.entry(found.print).or_default();
            *looked_at += 1;
            // Beyond the last one that was looked at there may be one whose row is there.
            *looked_at >= SPELLINGS || living.contains(&found.document)
        })
        .map(|found| found.print)
        .collect())
}

/// The fingerprints that one table is asked for, and the candidates that each stands for.
struct Asked(HashMap<i64, Vec<usize>>);

impl Asked {
    fn new<'a>(
        open: impl Iterator<Item = (usize, &'a Candidate)>,
        namespace: &Namespace,
        reference: &Reference,
    ) -> Self {
        let mut asked: HashMap<i64, Vec<usize>> = HashMap::new();
        for (place, candidate) in open {
            for (object, Prints { placed, key }) in candidate.kept_by_naming() {
                let key = keys_may_mean(object, namespace, reference.backend).then_some(*key);
                for print in placed.iter().copied().chain(key) {
                    asked.entry(print).or_default().push(place);
                }
            }
        }
        Self(asked)
    }

    /// In order, as an index has them: neighbours are on the same page.
    fn prints(&self) -> Vec<i64> {
        let mut prints: Vec<i64> = self.0.keys().copied().collect();
        prints.sort_unstable();
        prints
    }

    /// The candidates that a fingerprint stands for.
    fn places(&self, print: i64) -> impl Iterator<Item = usize> {
        self.0.get(&print).into_iter().flatten().copied()
    }

    /// The candidates that the found rows name.
    fn named(
        &self,
        candidates: &[Candidate],
        namespace: &Namespace,
        reference: &Reference,
        found: Vec<Sharing>,
    ) -> Vec<usize> {
        let mut named = Vec::new();
        let mut looked_at: HashMap<i64, usize> = HashMap::new();
        for Sharing { print, locator, .. } in found {
            let looked_at = looked_at.entry(print).or_default();
            *looked_at += 1;
            // Rows beyond the last one that was looked at may name the object.
            let is_cut = *looked_at >= SPELLINGS;
            named.extend(self.places(print).filter(|&place| {
                let names = |object| may_name(&locator, object, namespace, reference.backend);
                is_cut || candidates[place].kept_by_naming().any(|(object, _)| names(object))
            }));
        }
        named
    }
}

/// The values by which rows of some sources share objects, and the candidates of each.
fn by_value<'a>(open: impl Iterator<Item = (usize, &'a Candidate)>, sources: &[i32]) -> HashMap<String, Vec<usize>> {
    let mut values: HashMap<String, Vec<usize>> = HashMap::new();
    let is_of = |candidate: &Candidate| candidate.origin.source_id.is_some_and(|id| sources.contains(&id));
    for (place, candidate) in open.filter(|(_, candidate)| is_of(candidate)) {
        if let Some(value) = candidate.origin.shares.as_ref().filter(|value| !value.is_empty()) {
            values.entry(value.clone()).or_default().push(place);
        }
    }
    values
}

/// The ids of captured rows of some sources, and the candidates that each stands for.
struct Rows {
    by_id: HashMap<String, Vec<usize>>,
    /// Captured from rows that nothing tells apart: any row may be meant.
    nameless: Vec<usize>,
}

impl Rows {
    fn new<'a>(open: impl Iterator<Item = (usize, &'a Candidate)>, sources: &[i32]) -> Self {
        let (mut by_id, mut nameless): (HashMap<String, Vec<usize>>, Vec<usize>) = (HashMap::new(), Vec::new());
        for (place, candidate) in
            open.filter(|(_, candidate)| candidate.origin.source_id.is_some_and(|id| sources.contains(&id)))
        {
            match candidate.origin.row_id.as_deref() {
                Some(id) if !id.is_empty() => by_id.entry(id.to_owned()).or_default().push(place),
                _ => nameless.push(place),
            }
        }
        Self { by_id, nameless }
    }

    fn ids(&self) -> Vec<String> {
        self.by_id.keys().cloned().collect()
    }

    fn held(&self, found: Vec<Sharing>) -> Vec<usize> {
        let held = found.iter().filter_map(|found| self.by_id.get(&found.locator)).flatten();
        held.chain(&self.nameless).copied().collect()
    }
}

/// What the view `sources` shows; failing to write it must not fail the check.
fn record(id: i32, fault: Option<String>) {
    let written = transaction::run("storage_reaper: guard", SHORT, move || source::set_fault(id, fault.as_deref()));
    if let Err(failure) = written {
        pgrx::log!("storage_reaper: could not record a source's state: {failure}");
    }
}
