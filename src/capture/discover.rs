//! Discovery: which columns name objects, and are neither attached nor protected?

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use pgrx::pg_sys;

use crate::domain::backend::BackendId;
use crate::domain::discover::{Finding, Known, Tally, name_is_telling};
use crate::domain::resolve::Namespace;
use crate::error::Result;
use crate::pg::subtransaction;
use crate::store::discover::{self, Column};
use crate::store::guard::{self, Asks, Reference};
use crate::store::{backend, location};

/// Where to look, and how closely.
pub struct Scope {
    /// Only objects of this backend; `None` means all.
    pub backend: Option<BackendId>,
    /// Rows of each column that are looked at.
    pub rows: i32,
    /// When to give up.
    pub until: Option<Instant>,
}

/// A column that names objects.
pub struct Found {
    pub relation: pg_sys::Oid,
    /// Schema, table and column, quoted.
    pub title: String,
    pub column: String,
    pub type_name: String,
    /// Names of the backends of the objects.
    pub backends: String,
    pub hits: usize,
    pub sampled: usize,
    pub example: String,
    /// The statement that would protect it.
    pub suggestion: String,
}

/// What a search found.
#[derive(Default)]
pub struct Search {
    pub found: Vec<Found>,
    /// What could not be read, and why.
    pub failed: Vec<(String, String)>,
    /// Columns that the time was too short for.
    pub left: usize,
}

/// Looks at every column that nothing declared covers. Those whose names speak for locators come first, in case that the
/// time is short.
pub fn search(scope: &Scope) -> Result<Search> {
    let namespace = Namespace::new(backend::all()?, location::all()?);
    let mut search = Search::default();
    if namespace.backends().is_empty() {
        return Ok(search);
    }
    let mut known = Known::new(&namespace, scope.backend);
    let indexed = learn(&mut known, scope, &mut search)?;
    let mut columns: Vec<_> = discover::columns()?.into_iter().enumerate().collect();
    columns.sort_by_key(|(_, column)| !is_telling(column));
    let mut found = Vec::new();
    for (place, column) in &columns {
        if scope.is_over() {
            search.left += 1;
            continue;
        }
        match look_at(column, &known, &indexed, scope) {
            Ok(finding) => found.extend(finding.map(|finding| (*place, describe(column, finding, &namespace)))),
            Err(reason) => search.failed.push((column.title(), reason)),
        }
    }
    found.sort_by_key(|(place, _)| *place);
    search.found = found.into_iter().map(|(_, found)| found).collect();
    Ok(search)
}

impl Scope {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

fn is_telling(column: &Column) -> bool {
    name_is_telling(&column.name) || name_is_telling(&column.table)
}

/// Takes in what attached and protecting rows and the outbox name. Returns the references that can be asked for keys.
fn learn(known: &mut Known<'_>, scope: &Scope, search: &mut Search) -> Result<Vec<Reference>> {
    let mut indexed = Vec::new();
    for reference in guard::references()?.into_iter().filter(|reference| matches!(reference.asks, Asks::Locators)) {
        if scope.is_over() {
            break;
        }
        let read = look(|| Ok((discover::locators(&reference, scope.rows)?, discover::is_indexed(&reference)?)));
        match read {
            Ok((locators, is_indexed)) => {
                locators.iter().for_each(|locator| known.learn(locator, reference.backend));
                indexed.extend(is_indexed.then_some(reference));
            }
            Err(reason) => search.failed.push((reference.title.clone(), reason)),
        }
    }
    for (locators, backend) in discover::queued()? {
        locators.iter().for_each(|locator| known.learn(locator, backend));
    }
    Ok(indexed)
}

/// An error ends the look at one table, not the search.
fn look<R>(step: impl FnOnce() -> Result<R>) -> std::result::Result<R, String> {
    subtransaction::look(AssertUnwindSafe(step))?.map_err(|error| error.to_string())
}

fn look_at(
    column: &Column,
    known: &Known<'_>,
    indexed: &[Reference],
    scope: &Scope,
) -> std::result::Result<Option<Finding>, String> {
    if column.is_foreign {
        return Err("some of its partitions are foreign tables".to_owned());
    }
    let mut tally = Tally::new(known);
    for texts in look(|| discover::sample(column, scope.rows))? {
        tally.add(texts.iter().flatten().map(String::as_str));
    }
    for reference in indexed {
        let asked = tally.asked();
        if asked.is_empty() || scope.is_over() {
            break;
        }
        for sharing in look(|| guard::sharing(reference, asked.keys().copied().collect()))? {
            let owner = known.owner(&sharing.locator, reference.backend);
            if let (Some(owner), Some(places)) = (owner, asked.get(&sharing.print)) {
                tally.answer(places, owner);
            }
        }
    }
    Ok(tally.finding(is_telling(column)))
}

fn describe(column: &Column, finding: Finding, namespace: &Namespace) -> Found {
    let name = |id: BackendId| namespace.backend(id).map(|backend| backend.name.as_str());
    let backends: Vec<_> = finding.backends.iter().filter_map(|id| name(*id)).collect();
    Found {
        relation: column.relation,
        title: column.title(),
        column: column.name.clone(),
        type_name: column.type_name.clone(),
        backends: backends.join(", "),
        hits: finding.hits,
        sampled: finding.sampled,
        example: finding.example,
        // URLs need no backend.
        suggestion: column.protection(finding.way, finding.key_backend.and_then(name)),
    }
}
