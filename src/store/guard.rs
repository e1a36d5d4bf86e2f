//! References: tables whose rows may still name an object, attached or only protecting.

use std::collections::HashMap;

use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;
use pgrx::spi::quote_identifier;

use crate::domain::backend::BackendId;
use crate::domain::document::{Reading, UnknownFormat};
use crate::error::{Error, Result};
use crate::pg::settings::Settings;
use crate::pg::snapshot::Snapshot;
use crate::pg::user::ActingAs;

use super::locator_sql::{KeyType, LOT, LocatorSql, MOST_OF_LOT, Spec, living};
use super::source::Kind;
use super::spi;

/// One table to search, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub source_id: i32,
    pub name: String,
    /// What people are told: `source image.url`, or `reference page.body` for what only protects.
    pub title: String,
    /// Where the table's plain keys go.
    pub backend: Option<BackendId>,
    /// What its rows are asked for.
    pub asks: Asks,
    /// The table of those sources, and how to ask which of its rows are there.
    rows: Option<(pg_sys::Oid, String)>,
    /// Writers of the table look for objects in flight.
    pub fenced: bool,
    allow_scan: bool,
    pub(super) relation: pg_sys::Oid,
    /// Its qualified name, while it exists.
    pub table: Option<String>,
    /// The locators, and the table with its alias.
    locators: Option<(LocatorSql, String)>,
    /// `None` when nothing can be asked: then nothing may be deleted.
    query: Option<String>,
    /// The same for many locators.
    in_lots: Option<String>,
}

/// What a table is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asks {
    /// Locators, by their fingerprints.
    Locators,
    /// Ids of rows of these sources.
    RowIds(Vec<i32>),
    /// The value by which rows of these sources share objects.
    Shares(Vec<i32>),
    /// Documents in storage, which are asked instead.
    Documents(Documents),
}

/// How the documents are asked that the rows of a table name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    pub reading: Reading,
    /// They hold ids of rows of these sources, not locators.
    pub row_of: Option<Vec<i32>>,
}

/// A text in a row, under the fingerprint that was asked for.
pub struct Sharing {
    pub print: i64,
    pub locator: String,
    /// The row's primary key, where it has one.
    pub row_id: Option<String>,
}

/// Everything that protects: attached tables, what is covered but not reached through them, and what is declared.
pub fn references() -> Result<Vec<Reference>> {
    references_on(Snapshot::Transaction)
}

/// The same as it is seen by somebody.
pub fn references_on(snapshot: Snapshot) -> Result<Vec<Reference>> {
    let statement = include_str!("../../sql/queries/references.sql");
    let found = spi::read_on(snapshot, statement, &[], |row| {
        let reference = reference(row)?;
        let (shares, documents) = (shares(row, &reference)?, documents(row, &reference)?);
        Ok([Some(reference), shares, documents])
    })?;
    Ok(found.into_iter().flatten().flatten().collect())
}

fn reference(row: &spi::Row<'_>) -> Result<Reference> {
    let kind: Kind = row.required::<String>("kind")?.parse()?;
    let columns: Vec<String> = row.required("columns")?;
    let (locator, filter): (Option<String>, Option<String>) = (row.optional("locator")?, row.optional("filter")?);
    let (alias, owns): (String, Option<String>) = (row.required("alias")?, row.optional("owns")?);
    let table: Option<String> = row.optional("qualified_name")?;
    let from = table.as_ref().map(|table| format!("{table} AS {}", quote_identifier(&alias)));
    let row_key: Vec<String> = row.required("key_columns")?;
    let sql = LocatorSql::new(&Spec {
        kind,
        alias: &alias,
        columns: &columns,
        locator: locator.as_deref(),
        owns: owns.as_deref(),
        is_shared: row.required("is_shared")?,
        filter: filter.as_deref(),
        key: &row_key,
    });
    let key_type = |column| Ok::<_, Error>(row.optional::<String>(column)?.and_then(|name| KeyType::of(&name)));
    let rows = match (
        key_type("row_key_type")?,
        row.optional::<pg_sys::Oid>("row_table")?,
        row.optional::<String>("row_table_name")?,
    ) {
        (Some(key), Some(table), Some(name)) => {
            let column: Option<String> = row.optional("row_key")?;
            column.map(|column| (table, living("$1::text[]", key, &column, &name)))
        }
        _ => None,
    };
    let locators = sql.zip(from);
    let is_in_documents = row.optional::<String>("document")?.is_some();
    let asks = match row.optional("row_of")? {
        Some(sources) if !is_in_documents => Asks::RowIds(sources),
        _ => Asks::Locators,
    };
    let query = match (&asks, &locators) {
        // Without a source there is nobody to ask about, which is not the same as nothing.
        (Asks::RowIds(sources), _) if sources.is_empty() => None,
        (Asks::RowIds(_), Some((sql, from))) => sql.holding("$1::text[]", key_type("column_type")?, from),
        (_, Some((sql, from))) => Some(sql.sharing("$1::bigint[]", from)),
        _ => None,
    };
    let in_lots = match (&asks, &locators) {
        (Asks::Locators, Some((sql, from))) => Some(sql.sharing_in_lots("$1::bigint[]", from)),
        _ => None,
    };
    Ok(Reference {
        in_lots,
        source_id: row.required("id")?,
        name: row.required("name")?,
        title: row.required("title")?,
        backend: row.optional("backend_id")?.map(BackendId),
        asks,
        rows,
        fenced: row.required("fenced")?,
        allow_scan: row.required("allow_scan")?,
        relation: row.required("relation")?,
        table,
        locators,
        query,
    })
}

/// The same table, asked for the value by which its rows share objects.
fn shares(row: &spi::Row<'_>, reference: &Reference) -> Result<Option<Reference>> {
    if !row.required::<bool>("is_shared")? {
        return Ok(None);
    }
    let key = row.optional::<String>("shared_type")?.and_then(|name| KeyType::of(&name));
    let query = reference.locators.as_ref().zip(key);
    let query = query.and_then(|((sql, from), key)| sql.sharing_value("$1::text[]", key, from));
    let title = format!("{} by the value that its rows share", reference.title);
    Ok(Some(Reference { asks: Asks::Shares(row.required("siblings")?), title, query, ..reference.clone() }))
}

/// The same table, asked for documents that its rows name.
fn documents(row: &spi::Row<'_>, reference: &Reference) -> Result<Option<Reference>> {
    let Some(format) = row.optional::<String>("document")? else { return Ok(None) };
    let format =
        format.parse().map_err(|error: UnknownFormat| Error::Stored { what: "source", detail: error.to_string() })?;
    let row_of: Option<Vec<i32>> = row.optional("row_of")?;
    // As above: nobody to ask about.
    let is_answerable = row_of.as_ref().is_none_or(|sources| !sources.is_empty());
    let (query, in_lots) =
        if is_answerable { (reference.query.clone(), reference.in_lots.clone()) } else { (None, None) };
    let asks = Asks::Documents(Documents {
        reading: Reading { format, member: row.optional("member")?, immutable: row.required("immutable")? },
        row_of,
    });
    Ok(Some(Reference { asks, query, in_lots, ..reference.clone() }))
}

impl Reference {
    /// The query that `sharing` runs, for the fingerprints in `prints` (SQL of type bigint[]).
    pub(super) fn question(&self, prints: &str) -> Option<String> {
        self.locators.as_ref().map(|(sql, from)| sql.sharing(prints, from))
    }

    /// A query of that many of its locators; `clause` may say which part of the table to read.
    pub(super) fn sample(&self, clause: &str, rows: i32) -> Option<String> {
        let (sql, from) = self.locators.as_ref()?;
        let all = sql.over(&format!("{from} {clause}"));
        Some(format!("{} LIMIT {rows}", locators_of(&all)))
    }

    /// A query of all of its locators.
    fn all(&self) -> Option<String> {
        self.locators.as_ref().map(|(sql, from)| locators_of(&sql.over(from)))
    }
}

fn locators_of(query: &str) -> String {
    format!("SELECT s.locator FROM ({query}) AS s (locator, row_id, owns, shares) WHERE s.locator IS NOT NULL")
}

/// Locks everything that the question reads, by asking it for nothing.
pub fn lock(reference: &Reference) -> Result<()> {
    match reference.asks {
        Asks::Locators | Asks::Documents(_) => ask(reference, Vec::<i64>::new().into()),
        Asks::RowIds(_) | Asks::Shares(_) => ask(reference, Vec::<String>::new().into()),
    }?;
    match &reference.rows {
        Some((table, query)) => {
            let _rights = ActingAs::owner_of(*table);
            let nothing = Vec::<String>::new();
            spi::read_on(Snapshot::Transaction, query, &[nothing.into()], |_| Ok(())).map(drop)
        }
        None => Ok(()),
    }
}

/// Those of the values that some row of the table has.
pub fn having(reference: &Reference, values: Vec<String>) -> Result<Vec<Sharing>> {
    ask(reference, values.into())
}

/// Texts in rows of the table that share one of the fingerprints, asked with the rights of the table's owner; some of them
/// where they are many. Sorted fingerprints are quicker: an index has neighbours on one page.
pub fn sharing(reference: &Reference, prints: Vec<i64>) -> Result<Vec<Sharing>> {
    let mut found = run(reference, reference.in_lots.as_ref(), prints.clone().into())?;
    let lot_of: HashMap<i64, usize> = prints.iter().enumerate().map(|(place, print)| (*print, place / LOT)).collect();
    let mut sizes: HashMap<usize, usize> = HashMap::new();
    let lot = |found: &Sharing| lot_of.get(&found.print).copied().unwrap_or_default();
    found.iter().for_each(|found| *sizes.entry(lot(found)).or_default() += 1);
    sizes.retain(|_, size| *size >= MOST_OF_LOT);
    if !sizes.is_empty() {
        // A text that many rows have may have hidden the others.
        found.retain(|found| !sizes.contains_key(&lot(found)));
        let hidden: Vec<i64> = prints.into_iter().filter(|print| sizes.contains_key(&lot_of[print])).collect();
        found.extend(ask(reference, hidden.into())?);
    }
    Ok(found)
}

/// Those of the row ids that a row of the table holds, while their own rows are gone: a row that is there speaks for
/// itself, and may have let this object go.
pub fn holding(reference: &Reference, ids: Vec<String>) -> Result<Vec<Sharing>> {
    let held = ask(reference, ids.into())?;
    without_living(reference, held)
}

/// Without those whose own rows are there.
pub fn without_living(reference: &Reference, held: Vec<Sharing>) -> Result<Vec<Sharing>> {
    let Some((table, query)) = reference.rows.as_ref().filter(|_| !held.is_empty()) else { return Ok(held) };
    let ids: Vec<String> = held.iter().map(|held| held.locator.clone()).collect();
    let Some(_rights) = ActingAs::owner_of(*table) else { return Ok(held) };
    let living: Vec<String> = spi::read_on(Snapshot::Transaction, query, &[ids.into()], |row| row.required("locator"))?;
    Ok(held.into_iter().filter(|held| !living.contains(&held.locator)).collect())
}

/// Every locator that a row of the table has, as often as it stands there.
pub fn each_locator(reference: &Reference, mut visit: impl FnMut(&str)) -> Result<()> {
    let Some(_rights) = ActingAs::owner_of(reference.relation) else {
        return Err(Error::ReferenceGone(reference.title.clone()));
    };
    let Some(query) = reference.all() else { return Err(Error::ReferenceGone(reference.title.clone())) };
    let read = spi::read_on(Snapshot::Transaction, &query, &[], |row| {
        visit(&row.required::<String>("locator")?);
        Ok(())
    });
    read.map(drop)
}

fn ask(reference: &Reference, argument: DatumWithOid<'_>) -> Result<Vec<Sharing>> {
    run(reference, reference.query.as_ref(), argument)
}

fn run(reference: &Reference, query: Option<&String>, argument: DatumWithOid<'_>) -> Result<Vec<Sharing>> {
    let (Some(_rights), Some(query)) = (ActingAs::owner_of(reference.relation), query) else {
        return Err(Error::ReferenceGone(reference.title.clone()));
    };
    // The plan that attach() and protect() have seen: the planner may think a whole table cheaper.
    let _settings = (!reference.allow_scan).then(Settings::by_index);
    spi::read_on(Snapshot::Transaction, query, &[argument], |row| {
        Ok(Sharing {
            print: row.required("print")?,
            locator: row.required("locator")?,
            row_id: row.optional("row_id")?,
        })
    })
}
