//! What the system catalog says of tables.

use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::pg::settings::Settings;

use super::{query_plan, spi};

/// A relation that somebody wants to attach.
pub struct Described {
    pub name: String,
    pub schema: String,
    /// pg_class.relkind.
    pub kind: String,
    pub is_temporary: bool,
}

/// `schema.table`, quoted.
pub fn qualified_name(relation: pg_sys::Oid) -> String {
    spi::read(include_str!("../../sql/queries/qualified_name.sql"), &[relation.into()], |row| {
        row.required::<String>("name")
    })
    .ok()
    .and_then(|names| names.into_iter().next())
    .unwrap_or_default()
}

/// A column of it.
pub struct ColumnType {
    pub number: i16,
    /// The type's name for messages.
    pub type_name: String,
    /// The same without length and domain.
    pub base_name: String,
    pub is_text: bool,
    pub is_text_array: bool,
    pub is_json: bool,
    /// Generated when it is read (PostgreSQL 18).
    pub is_virtual: bool,
}

/// The type of a locator expression.
pub struct ExpressionType {
    pub type_name: String,
    pub is_text: bool,
    pub is_text_array: bool,
}

/// The type of the primary key that the ids of rows are taken from, unless there is none or it has several columns.
pub fn key_type(relation: pg_sys::Oid) -> Result<Option<String>> {
    let found = spi::read(include_str!("../../sql/queries/relation_key.sql"), &[relation.into()], |row| {
        row.required("type_name")
    })?;
    Ok(found.into_iter().next())
}

/// Columns whose values are computed when they are read (PostgreSQL 18).
pub fn virtual_columns(relation: pg_sys::Oid) -> Result<Vec<String>> {
    spi::read(include_str!("../../sql/queries/relation_virtual.sql"), &[relation.into()], |row| row.required("name"))
}

/// Describes a relation.
pub fn describe(relation: pg_sys::Oid) -> Result<Option<Described>> {
    let found = spi::read(include_str!("../../sql/queries/relation_describe.sql"), &[relation.into()], |row| {
        Ok(Described {
            name: row.required("name")?,
            schema: row.required("schema")?,
            kind: row.required("kind")?,
            is_temporary: row.required("is_temporary")?,
        })
    })?;
    Ok(found.into_iter().next())
}

/// Describes a column by name.
pub fn column(relation: pg_sys::Oid, name: &str) -> Result<Option<ColumnType>> {
    let found =
        spi::read(include_str!("../../sql/queries/relation_column.sql"), &[relation.into(), name.into()], |row| {
            Ok(ColumnType {
                number: row.required("number")?,
                type_name: row.required("type_name")?,
                base_name: row.required("base_name")?,
                is_text: row.required("is_text")?,
                is_text_array: row.required("is_text_array")?,
                is_json: row.required("is_json")?,
                is_virtual: row.required("is_virtual")?,
            })
        })?;
    Ok(found.into_iter().next())
}

/// Whether an index answers the query everywhere: no table is read as a whole even where that would be cheaper now. For a
/// view, whether one begins to.
pub fn is_answered_by_index(query: &str, is_view: bool) -> Result<bool> {
    let _settings = Settings::by_index();
    let plans: Vec<pgrx::Json> =
        spi::write(&format!("EXPLAIN (FORMAT JSON) {query}"), &[], |row| row.required("QUERY PLAN"))?;
    let judge = if is_view { query_plan::begins_with_fingerprints } else { query_plan::uses_indexes };
    Ok(plans.first().is_some_and(|plan| judge(&plan.0)))
}

/// The sources that cover a table: its own, and those of the tables above it.
pub fn sources_above(relation: pg_sys::Oid) -> Result<Vec<i32>> {
    spi::read(include_str!("../../sql/queries/sources_above.sql"), &[relation.into()], |row| row.required("id"))
}

/// CREATE TRIGGER statements for every table of a source that lacks one.
pub fn missing_triggers(source: i32) -> Result<Vec<String>> {
    spi::read(include_str!("../../sql/queries/missing_triggers.sql"), &[source.into()], |row| row.required("statement"))
}

/// DROP TRIGGER statements for every table of a source: for all its triggers, or for those of the fence.
pub fn present_triggers(source: i32, of_fence: bool) -> Result<Vec<String>> {
    spi::read(include_str!("../../sql/queries/present_triggers.sql"), &[source.into(), of_fence.into()], |row| {
        row.required("statement")
    })
}

/// The tables that carry a source's triggers.
pub fn covered(source: i32) -> Result<Vec<pg_sys::Oid>> {
    spi::read(include_str!("../../sql/queries/covered.sql"), &[source.into()], |row| row.required("relation"))
}

/// The tables whose writers look for objects in flight.
pub fn fenced() -> Result<Vec<pg_sys::Oid>> {
    spi::read(include_str!("../../sql/queries/covered_by_fences.sql"), &[], |row| row.required("relation"))
}

/// A covered table that a command is about to drop, and the source that covers it.
pub struct Doomed {
    pub relation: pg_sys::Oid,
    pub source: i32,
    /// What it is a partition of.
    pub parent: Option<pg_sys::Oid>,
}

fn doomed(statement: &str, what: pgrx::datum::DatumWithOid<'_>, role: pg_sys::Oid) -> Result<Vec<Doomed>> {
    spi::read(statement, &[what, role.into()], |row| {
        Ok(Doomed {
            relation: row.required("relation")?,
            source: row.required("source")?,
            parent: row.optional("parent")?,
        })
    })
}

/// Covered tables that go when `role` drops these tables: themselves, partitions and children. What the role may not
/// drop is left out: the command will refuse.
pub fn doomed_tables(tables: Vec<pg_sys::Oid>, role: pg_sys::Oid) -> Result<Vec<Doomed>> {
    doomed(include_str!("../../sql/queries/doomed_tables.sql"), tables.into(), role)
}

/// The same for schemas.
pub fn doomed_schemas(schemas: Vec<String>, role: pg_sys::Oid) -> Result<Vec<Doomed>> {
    doomed(include_str!("../../sql/queries/doomed_schemas.sql"), schemas.into(), role)
}

/// The same for what roles own.
pub fn doomed_owned(roles: Vec<String>, role: pg_sys::Oid) -> Result<Vec<Doomed>> {
    doomed(include_str!("../../sql/queries/doomed_owned.sql"), roles.into(), role)
}

/// Runs a statement made by one of the queries above.
pub fn run(statement: &str) -> Result<()> {
    spi::execute(statement, &[]).map(drop)
}

/// Plans and runs a query that yields no rows; its errors are raised.
pub fn check(query: &str) -> Result<()> {
    spi::read(query, &[], |_| Ok(())).map(drop)
}

/// The answer of a query of one boolean.
pub fn answers_yes(query: &str) -> Result<bool> {
    Ok(spi::read(query, &[], |row| row.required("found"))?.first().copied().unwrap_or(false))
}

/// The type of an expression over a table. Planning it may run the expression's own functions, so the caller has
/// switched to the table owner's rights.
pub fn expression_type(expression: &str, from: &str) -> Result<ExpressionType> {
    let query = format!(
        "SELECT pg_catalog.pg_typeof(({expression}))::oid AS kind FROM (VALUES (1)) one LEFT JOIN {from} ON false"
    );
    let kinds: Vec<pg_sys::Oid> = spi::read(&query, &[], |row| row.required("kind"))?;
    let kind = kinds.into_iter().next().unwrap_or(pg_sys::InvalidOid);
    let found = spi::read(include_str!("../../sql/queries/type_describe.sql"), &[kind.into()], |row| {
        Ok(ExpressionType {
            type_name: row.required("type_name")?,
            is_text: row.required("is_text")?,
            is_text_array: row.required("is_text_array")?,
        })
    })?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Error::Stored { what: "type", detail: "The expression has no type.".to_owned() })
}

/// The worker that serves this database, if one runs.
pub fn worker_pid() -> Result<Option<i32>> {
    let found = spi::read(include_str!("../../sql/queries/worker_pid.sql"), &[], |row| row.required("pid"))?;
    Ok(found.into_iter().next())
}
