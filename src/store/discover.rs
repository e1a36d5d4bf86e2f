//! What discovery reads: columns that nothing declared covers, samples of them, and what is known of our objects.

use std::str::FromStr;

use pgrx::pg_sys;
use pgrx::spi::{quote_identifier, quote_literal};

use crate::domain::backend::BackendId;
use crate::domain::discover::Way;
use crate::domain::segment::Segment;
use crate::error::{Error, Result};
use crate::pg::user::ActingAs;

use super::guard::Reference;
use super::{catalog, spi};

/// Values that take more bytes where they are stored are left out.
const LARGEST_VALUE: usize = 1 << 20;
/// All values of a sample together; they are compressed there, and in memory all at once.
const LARGEST_SAMPLE: usize = 8 << 20;
/// Pages that are read for each row of a sample: most columns are NULL in most rows, or their tables full of holes.
const PAGES_PER_ROW: i64 = 2;
/// Entries of the outbox that are looked into, of up to 1000 objects each.
const ENTRIES: i64 = 20;

/// What a column's values are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Array,
    Document,
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "text" => Ok(Self::Text),
            "array" => Ok(Self::Array),
            "document" => Ok(Self::Document),
            _ => Err(Error::Stored { what: "column", detail: format!("Unknown kind \"{word}\".") }),
        }
    }
}

/// A column that can hold locators, and that nothing declared covers.
pub struct Column {
    pub relation: pg_sys::Oid,
    pub schema: String,
    pub table: String,
    pub name: String,
    pub type_name: String,
    /// Some of its partitions are foreign tables.
    pub is_foreign: bool,
    kind: Kind,
    /// Whether `protect` takes it by its name: not a domain over an array or a document.
    is_direct: bool,
    is_partitioned: bool,
}

/// All of them, by schema, table and place.
pub fn columns() -> Result<Vec<Column>> {
    spi::read(include_str!("../../sql/queries/discover_columns.sql"), &[], |row| {
        Ok(Column {
            relation: row.required("relation")?,
            schema: row.required("schema")?,
            table: row.required("table_name")?,
            name: row.required("name")?,
            type_name: row.required("type_name")?,
            is_foreign: row.required("is_foreign")?,
            kind: row.required::<String>("kind")?.parse()?,
            is_direct: row.required("is_direct")?,
            is_partitioned: row.required("is_partitioned")?,
        })
    })
}

impl Column {
    /// The table, quoted.
    fn qualified_table(&self) -> String {
        format!("{}.{}", quote_identifier(&self.schema), quote_identifier(&self.table))
    }

    /// For people: schema, table and column.
    pub fn title(&self) -> String {
        format!("{}.{}", self.qualified_table(), quote_identifier(&self.name))
    }

    /// SQL of type text[]: the texts that a value of the column consists of.
    fn texts(&self, value: &str) -> String {
        match self.kind {
            Kind::Text => format!("ARRAY[{value}::text]"),
            Kind::Array => format!("{value}::text[]"),
            Kind::Document => format!("storage_reaper.strings({value}::jsonb)"),
        }
    }

    /// The call of `protect` that would make the column keep what it names.
    pub fn protection(&self, way: Way, backend: Option<&str>) -> String {
        let mut arguments = vec![quote_literal(self.qualified_table())];
        arguments.extend(match (way, self.kind) {
            (Way::Whole, _) if self.is_direct => vec![quote_literal(&self.name)],
            (Way::Embedded, Kind::Text) => vec![quote_literal(&self.name), "embedded => true".to_owned()],
            _ => self.expression(way),
        });
        arguments.extend(backend.map(|backend| format!("backend => {}", quote_literal(backend))));
        format!("SELECT storage_reaper.protect({});", arguments.join(", "))
    }

    /// What no other argument says. An array cannot be indexed as a text.
    fn expression(&self, way: Way) -> Vec<String> {
        let value = format!("{}.{}", quote_identifier(&self.table), quote_identifier(&self.name));
        let urls = format!("storage_reaper.urls({value}::text)");
        let expression = match way {
            Way::Whole => self.texts(&value),
            Way::Embedded => urls,
            Way::Both => format!("{} || {urls}", self.texts(&value)),
        };
        let name = if self.schema == "public" { &self.table } else { &format!("{}.{}", self.schema, self.table) };
        let mut arguments = vec![
            format!("expression => {}", quote_literal(expression)),
            format!("name => {}", quote_literal(format!("{name}.{}", self.name))),
        ];
        if self.kind == Kind::Array && way != Way::Whole {
            arguments.push("allow_scan => true".to_owned());
        }
        arguments
    }
}

/// The texts of some values of a column, taken from all over its table and read with the rights of the table's owner.
pub fn sample(column: &Column, rows: i32) -> Result<Vec<Vec<Option<String>>>> {
    let share = share(column.relation, rows)?;
    let (only, table) = (if column.is_partitioned { "" } else { "ONLY " }, column.qualified_table());
    let (name, texts) = (quote_identifier(&column.name), column.texts("v.value"));
    let query = format!(
        "SELECT {texts} AS texts FROM (
             SELECT s.value, pg_catalog.sum(pg_catalog.pg_column_size(s.value)) OVER (ROWS UNBOUNDED PRECEDING) AS total
             FROM (SELECT t.{name} AS value FROM {only}{table} AS t TABLESAMPLE SYSTEM ({share:.6})
                   WHERE t.{name} IS NOT NULL AND pg_catalog.pg_column_size(t.{name}) <= {LARGEST_VALUE}
                   ORDER BY pg_catalog.random() LIMIT {rows}) s) v
         WHERE v.total <= {LARGEST_SAMPLE}"
    );
    let _rights = ActingAs::owner_of(column.relation);
    spi::read(&query, &[], |row| row.required("texts"))
}

/// How much of a table is read for that many rows, in percent.
fn share(relation: pg_sys::Oid, rows: i32) -> Result<f64> {
    let pages = i64::from(rows) * PAGES_PER_ROW;
    let found =
        spi::read(include_str!("../../sql/queries/discover_share.sql"), &[relation.into(), pages.into()], |row| {
            row.required("share")
        })?;
    Ok(found.into_iter().next().unwrap_or(100.0))
}

/// Some locators of a table that is attached or protects.
pub fn locators(reference: &Reference, rows: i32) -> Result<Vec<String>> {
    let is_view = is_view(reference)?;
    let sampled = format!("TABLESAMPLE SYSTEM ({:.6})", share(reference.relation, rows)?);
    let Some(query) = reference.sample(if is_view { "" } else { &sampled }, rows) else { return Ok(Vec::new()) };
    let _rights = ActingAs::owner_of(reference.relation);
    spi::read(&query, &[], |row| row.required("locator"))
}

/// Whether an index tells which of a thousand locators a reference holds; else each would cost a scan.
pub fn is_indexed(reference: &Reference) -> Result<bool> {
    let is_view = is_view(reference)?;
    let Some(query) = reference.question("ARRAY[1]::bigint[]") else { return Ok(false) };
    let _rights = ActingAs::owner_of(reference.relation);
    catalog::is_answered_by_index(&query, is_view)
}

fn is_view(reference: &Reference) -> Result<bool> {
    Ok(catalog::describe(reference.relation)?.is_some_and(|described| described.kind == "v"))
}

/// Locators of the outbox, with the backends that their plain keys are of.
pub fn queued() -> Result<Vec<(Vec<String>, Option<BackendId>)>> {
    let entries = spi::read(include_str!("../../sql/queries/discover_queued.sql"), &[ENTRIES.into()], |row| {
        Ok((row.required::<Vec<u8>>("payload")?, row.optional("backend_id")?.map(BackendId)))
    })?;
    // A damaged one is parked by the worker.
    let read = |(payload, backend): (Vec<u8>, _)| Some((Segment::unpack(&payload).ok()?.locators, backend));
    Ok(entries.into_iter().filter_map(read).collect())
}
