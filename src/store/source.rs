//! storage_reaper.source: attached tables.

use std::str::FromStr;

use pgrx::pg_sys;

use crate::domain::document::Reading;
use crate::error::{Error, Result};

use super::locator_sql::{LocatorSql, Spec};
use super::{document, spi};

/// How a source's locators are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Column,
    Array,
    JsonPath,
    Template,
    Expression,
    /// An expression that yields an array of text.
    ArrayExpression,
    /// Strings of a JSON document, under members of a name or all; only to protect.
    Strings,
    /// URLs inside of a text; only to protect.
    Urls,
    /// Not a locator: the id of a row of another source; only to protect.
    RowIds,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Self::Column,
        Self::Array,
        Self::JsonPath,
        Self::Template,
        Self::Expression,
        Self::ArrayExpression,
        Self::Strings,
        Self::Urls,
        Self::RowIds,
    ];

    /// The word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Column => "column",
            Self::Array => "array",
            Self::JsonPath => "jsonpath",
            Self::Template => "template",
            Self::Expression => "expression",
            Self::ArrayExpression => "array_expression",
            Self::Strings => "strings",
            Self::Urls => "urls",
            Self::RowIds => "row_ids",
        }
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| Error::Stored { what: "source", detail: format!("Unknown kind \"{word}\".") })
    }
}

/// A source as it applies to one table. `attnums` holds NULL for a column that the table lacks.
pub struct Captured {
    pub kind: Kind,
    pub columns: Vec<String>,
    pub attnums: Vec<Option<i16>>,
    pub locator: Option<String>,
    pub owns: Option<String>,
    pub is_shared: bool,
    pub filter: Option<String>,
    pub on_update: bool,
    pub forbid_truncate: bool,
    /// Whether triggers capture what its rows let go; else they only protect.
    pub captures: bool,
    /// For a column that holds ids of rows: the sources that capture from their table.
    pub row_of: Option<Vec<i32>>,
    pub grace_us: i64,
    pub backend_id: Option<i32>,
    /// Attribute numbers and names of the primary key.
    pub key: Vec<i16>,
    pub key_columns: Vec<String>,
    /// The name under which expressions know the table: its own at the first attach.
    pub alias: String,
}

impl Captured {
    /// The source's locators in SQL.
    pub fn locators_sql(&self) -> Option<LocatorSql> {
        LocatorSql::new(&self.spec())
    }

    /// Its settings.
    pub fn spec(&self) -> Spec<'_> {
        Spec {
            kind: self.kind,
            alias: &self.alias,
            columns: &self.columns,
            locator: self.locator.as_deref(),
            owns: self.owns.as_deref(),
            is_shared: self.is_shared,
            filter: self.filter.as_deref(),
            key: &self.key_columns,
        }
    }
}

/// The source `id` on `relation`, or `None` when it is detached.
pub fn captured(id: i32, relation: pg_sys::Oid) -> Result<Option<Captured>> {
    let found =
        spi::read(include_str!("../../sql/queries/source_captured.sql"), &[id.into(), relation.into()], |row| {
            Ok(Captured {
                kind: row.required::<String>("kind")?.parse()?,
                columns: row.required("columns")?,
                attnums: row.required("attnums")?,
                locator: row.optional("locator")?,
                owns: row.optional("owns")?,
                is_shared: row.required("is_shared")?,
                filter: row.optional("filter")?,
                on_update: row.required("on_update")?,
                forbid_truncate: row.required("forbid_truncate")?,
                captures: row.required("captures")?,
                row_of: row.optional("row_of")?,
                grace_us: row.required("grace_us")?,
                backend_id: row.optional("backend_id")?,
                key: row.required("key")?,
                key_columns: row.required("key_columns")?,
                alias: row.required("alias")?,
            })
        })?;
    Ok(found.into_iter().next())
}

/// What `attach` writes.
pub struct NewSource<'a> {
    pub name: &'a str,
    pub relation: pg_sys::Oid,
    pub alias: &'a str,
    pub kind: Kind,
    pub columns: Vec<String>,
    pub attnums: Vec<i16>,
    pub locator: Option<&'a str>,
    pub owns: Option<&'a str>,
    pub is_shared: bool,
    pub filter: Option<&'a str>,
    pub backend_id: Option<i32>,
    pub grace: pgrx::datum::Interval,
    pub on_update: &'a str,
    pub on_truncate: &'a str,
    /// The table whose rows the ids in the column or document are of.
    pub row_of: Option<pg_sys::Oid>,
    /// How the documents are read that the locators name.
    pub document: Option<&'a Reading>,
    pub allow_scan: bool,
    /// Whether writers of the table look for objects in flight.
    pub fenced: bool,
    /// Whether triggers capture what its rows let go; else they only protect.
    pub captures: bool,
}

/// Writes a source, or alters the one of that name, and returns its id.
pub fn save(new: NewSource<'_>) -> Result<i32> {
    let ids = spi::write(
        include_str!("../../sql/queries/source_save.sql"),
        &[
            new.name.into(),
            new.relation.into(),
            new.kind.as_str().into(),
            new.columns.into(),
            new.attnums.into(),
            new.locator.into(),
            new.filter.into(),
            new.backend_id.into(),
            new.grace.into(),
            new.on_update.into(),
            new.on_truncate.into(),
            new.alias.into(),
            new.captures.into(),
            new.row_of.into(),
            new.allow_scan.into(),
            new.fenced.into(),
            new.owns.into(),
            new.is_shared.into(),
            new.document.map(|reading| reading.format.as_str()).into(),
            new.document.and_then(|reading| reading.member.as_deref()).into(),
            new.document.is_some_and(|reading| reading.immutable).into(),
        ],
        |row| row.required("id"),
    )?;
    ids.into_iter().next().ok_or_else(|| Error::Exists { kind: "source", name: new.name.to_owned() })
}

/// An attached source, as the functions that name one see it.
pub struct Attached {
    pub id: i32,
    pub relation: pg_sys::Oid,
    /// Whether it captures, or only protects.
    pub captures: bool,
}

/// The attached source of that name.
pub fn attached(name: &str) -> Result<Attached> {
    spi::read(include_str!("../../sql/queries/source_attached.sql"), &[name.into()], |row| {
        Ok(Attached {
            id: row.required("id")?,
            relation: row.required("relation")?,
            captures: row.required("captures")?,
        })
    })?
    .into_iter()
    .next()
    .ok_or_else(|| Error::Unknown { kind: "source", name: name.to_owned() })
}

/// Refuses a name that no source has or had.
pub fn check_known(name: &str) -> Result<()> {
    let found =
        spi::read(include_str!("../../sql/queries/source_exists.sql"), &[name.into()], |row| row.required("found"))?;
    if found.first().copied().unwrap_or(false) {
        Ok(())
    } else {
        Err(Error::Unknown { kind: "source", name: name.to_owned() })
    }
}

/// Takes a source off; its row stays for the queue and history.
pub fn mark_detached(id: i32) -> Result<()> {
    document::forget(id)?;
    spi::execute(include_str!("../../sql/queries/source_mark_detached.sql"), &[id.into()]).map(drop)
}

/// Sources on a dropped table end with it, unless a detached partition lives on.
pub fn mark_dropped(relation: pg_sys::Oid) -> Result<()> {
    let heirs = spi::write(include_str!("../../sql/queries/source_mark_dropped.sql"), &[relation.into()], |row| {
        row.optional::<i32>("heir")
    })?;
    let heirs: Vec<i32> = heirs.into_iter().flatten().collect();
    if !heirs.is_empty() {
        let arguments = [relation.into(), heirs.into()];
        spi::execute(include_str!("../../sql/queries/source_inherit_rows.sql"), &arguments)?;
    }
    spi::execute(include_str!("../../sql/queries/covered_forget_table.sql"), &[relation.into()]).map(drop)
}

/// Notes where the source's columns are in each table that belongs to it; `anew` when they are other columns.
pub fn record_covered(id: i32, anew: bool) -> Result<()> {
    if anew {
        spi::execute(include_str!("../../sql/queries/covered_renew.sql"), &[id.into()])?;
    }
    spi::execute(include_str!("../../sql/queries/covered_record.sql"), &[id.into()]).map(drop)
}

/// Follows renamed columns of a table's sources.
pub fn follow_renames(relation: pg_sys::Oid) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/source_follow_renames.sql"), &[relation.into()]).map(drop)
}

/// After a restore: attribute numbers are looked up again by name. Returns the sources that were.
pub fn rebind() -> Result<Vec<i32>> {
    spi::write(include_str!("../../sql/queries/source_rebind.sql"), &[], |row| row.required("id"))
}

/// Records why the reference check on a source fails, or that it works again.
pub fn set_fault(id: i32, fault: Option<&str>) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/source_set_fault.sql"), &[id.into(), fault.into()]).map(drop)
}

/// Sources and references whose check failed the last time, and why.
pub fn faults() -> Result<Vec<(String, String)>> {
    spi::read(include_str!("../../sql/queries/source_faults.sql"), &[], |row| {
        Ok((row.required("name")?, row.required("fault")?))
    })
}

/// Pauses or resumes a source.
pub fn set_paused(name: &str, paused: bool) -> Result<()> {
    let touched =
        spi::write(include_str!("../../sql/queries/source_set_paused.sql"), &[name.into(), paused.into()], |row| {
            row.required::<i32>("id")
        })?;
    if touched.is_empty() { Err(Error::Unknown { kind: "source", name: name.to_owned() }) } else { Ok(()) }
}
