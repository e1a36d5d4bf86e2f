//! References: tables whose rows may still name an object, attached or only protecting.

use pgrx::pg_sys;
use pgrx::spi::quote_identifier;

use crate::domain::backend::BackendId;
use crate::error::{Error, Result};
use crate::pg::settings::Settings;
use crate::pg::snapshot::Snapshot;
use crate::pg::user::ActingAs;

use super::locator_sql::{KeyType, LocatorSql, Spec, living};
use super::source::Kind;
use super::spi;

/// One table to search, and how.
#[derive(Debug, Clone)]
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
}

/// What a table is asked for.
#[derive(Debug, Clone)]
pub enum Asks {
    /// Locators, by their fingerprints.
    Locators,
    /// Ids of rows of these sources.
    RowIds(Vec<i32>),
    /// The value by which rows of these sources share objects.
    Shares(Vec<i32>),
}

impl Asks {
    fn is_something(&self) -> bool {
        !matches!(self, Self::RowIds(sources) if sources.is_empty())
    }
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
    let statement = include_str!("../../sql/queries/references.sql");
    let found = spi::read_on(Snapshot::Transaction, statement, &[], |row| {
        let reference = reference(row)?;
        let shares = shares(row, &reference)?;
        Ok([Some(reference), shares])
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
    let key = row.optional::<String>("column_type")?.and_then(|name| KeyType::of(&name));
    let rows = match (key, row.optional::<pg_sys::Oid>("row_table")?, row.optional::<String>("row_table_name")?) {
        (Some(key), Some(table), Some(name)) => {
            let column: Option<String> = row.optional("row_key")?;
            column.map(|column| (table, living("$1::text[]", key, &column, &name)))
        }
        _ => None,
    };
    let locators = sql.zip(from);
    let asks = row.optional("row_of")?.map_or(Asks::Locators, Asks::RowIds);
    let query = match (kind, &locators) {
        // Without a source there is nobody to ask about, which is not the same as nothing.
        (Kind::RowIds, Some((sql, from))) if asks.is_something() => {
            key.and_then(|key| sql.holding("$1::text[]", key, from))
        }
        (Kind::RowIds, _) => None,
        (_, Some((sql, from))) => Some(sql.sharing("$1::bigint[]", from)),
        _ => None,
    };
    Ok(Reference {
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

impl Reference {
    /// The query that `sharing` runs, for the fingerprints in `prints` (SQL of type bigint[]).
    pub(super) fn question(&self, prints: &str) -> Option<String> {
        self.locators.as_ref().map(|(sql, from)| sql.sharing(prints, from))
    }

    /// A query of that many of its locators; `clause` may say which part of the table to read.
    pub(super) fn sample(&self, clause: &str, rows: i32) -> Option<String> {
        let (sql, from) = self.locators.as_ref()?;
        let all = sql.over(&format!("{from} {clause}"));
        Some(format!(
            "SELECT s.locator FROM ({all}) AS s (locator, row_id, owns, shares) WHERE s.locator IS NOT NULL LIMIT {rows}"
        ))
    }
}

/// Locks everything that the question reads, by asking it for nothing.
pub fn lock(reference: &Reference) -> Result<()> {
    match reference.asks {
        Asks::Locators => ask(reference, Vec::<i64>::new().into()),
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

/// Texts in rows of the table that share one of the fingerprints, asked with the rights of the table's owner.
pub fn sharing(reference: &Reference, prints: Vec<i64>) -> Result<Vec<Sharing>> {
    ask(reference, prints.into())
}

/// Those of the row ids that a row of the table holds, while their own rows are gone: a row that is there speaks for
/// itself, and may have let this object go.
pub fn holding(reference: &Reference, ids: Vec<String>) -> Result<Vec<Sharing>> {
    let held = ask(reference, ids.into())?;
    let Some((table, query)) = reference.rows.as_ref().filter(|_| !held.is_empty()) else { return Ok(held) };
    let ids: Vec<String> = held.iter().map(|held| held.locator.clone()).collect();
    let Some(_rights) = ActingAs::owner_of(*table) else { return Ok(held) };
    let living: Vec<String> = spi::read_on(Snapshot::Transaction, query, &[ids.into()], |row| row.required("locator"))?;
    Ok(held.into_iter().filter(|held| !living.contains(&held.locator)).collect())
}

fn ask(reference: &Reference, argument: pgrx::datum::DatumWithOid<'_>) -> Result<Vec<Sharing>> {
    let (Some(_rights), Some(query)) = (ActingAs::owner_of(reference.relation), &reference.query) else {
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
