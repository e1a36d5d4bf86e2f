//! `attach`: checks everything first, then declares the source and covers its tables.

use pgrx::datum::Interval;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::domain::backend::Backend;
use crate::domain::versions::Versions;
use crate::error::{Error, Result};
use crate::pg::lock;
use crate::pg::user;
use crate::store::source::{self, Kind, NewSource};
use crate::store::{backend, catalog};

use super::cover;
use super::declare::{
    Declared, Inside, Way, begin, check_index, check_sql, declare, declare_extras, default_name, warn_of_ownership,
};

/// What the caller of `attach` says, apart from the table.
pub struct Request {
    pub locator: Option<String>,
    pub path: Option<String>,
    pub template: Option<String>,
    pub expression: Option<String>,
    pub filter: Option<String>,
    pub backend: Option<String>,
    pub grace: Interval,
    pub on_update: String,
    pub on_truncate: String,
    pub allow_scan: bool,
    pub fence: bool,
    pub owns: Option<String>,
    pub shared_by: Option<String>,
    pub name: Option<String>,
}

/// 100 years, of twelve months with 30 days as intervals are compared.
const LONGEST_GRACE_US: i128 = 100 * 360 * 86_400 * 1_000_000;

/// Attaches, or alters what is attached under the same name, and returns that name.
pub fn attach(caller: pg_sys::Oid, relation: pg_sys::Oid, request: &Request) -> Result<String> {
    let described = catalog::describe(relation)?
        .ok_or_else(|| Error::Unknown { kind: "source", name: relation.to_u32().to_string() })?;
    check_table(&described)?;
    if !user::owns(caller, relation) {
        return Err(Error::NotOwner(described.name));
    }
    check_choice("on_update", &request.on_update, &["capture", "ignore"])?;
    check_choice("on_truncate", &request.on_truncate, &["capture", "forbid"])?;
    check_grace(&request.grace)?;
    begin()?;
    // A partition that is being created is then there, or waits until its event trigger sees the source.
    lock::against_partitions(relation);
    let backend_id = request.backend.as_deref().map(backend::id_of).transpose()?;
    let way = Way {
        column: request.locator.as_deref(),
        template: request.template.as_deref(),
        expression: request.expression.as_deref(),
        inside: request.path.as_deref().map_or(Inside::Itself, Inside::Path),
        row_of: None,
    };
    let mut declared = declare(relation, &described.name, &way)?;
    let (owns, shared_by) = (request.owns.as_deref(), request.shared_by.as_deref());
    declare_extras(relation, &described.name, &mut declared, owns, shared_by)?;
    check_sql(relation, &described.name, &declared, request.filter.as_deref())?;
    check_captured(relation, &described.name, &declared, request.filter.as_deref())?;
    check_index(relation, &described, &declared, None, request.allow_scan)?;
    warn_of_ownership(relation, &described, &declared)?;
    warn_of_versions(backend_id)?;

    let name = request.name.clone().unwrap_or_else(|| default_name(&described, &declared));
    let id = source::save(NewSource {
        name: &name,
        relation,
        alias: &described.name,
        kind: declared.kind,
        columns: declared.columns,
        attnums: declared.attnums,
        locator: declared.text.as_deref(),
        owns: declared.owns.as_deref(),
        is_shared: declared.shared_by.is_some(),
        filter: request.filter.as_deref(),
        backend_id,
        grace: request.grace,
        on_update: &request.on_update,
        on_truncate: &request.on_truncate,
        row_of: None,
        document: None,
        allow_scan: request.allow_scan,
        fenced: request.fence,
        captures: true,
    })?;
    cover::unfence(id)?;
    cover::cover_anew(id)?;
    Ok(name)
}

/// In a bucket that keeps versions, a deletion hides an object and frees nothing.
fn warn_of_versions(id: Option<i32>) -> Result<()> {
    let backend = backend::all()?.into_iter().find(|backend| Some(backend.id.0) == id);
    let Some(Backend { name, kind, versions: Versions::Current, keeps_versions, .. }) = backend else { return Ok(()) };
    if kind.profile().keeps_versions || keeps_versions == Some(true) {
        ereport!(
            PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            format!("the bucket of backend \"{name}\" keeps versions, so that deletions free no bytes there"),
            "Let a lifecycle rule of the bucket expire old versions, or have them deleted, too: storage_reaper.alter_backend(…, versions => 'all')."
        );
    }
    Ok(())
}

fn check_table(described: &catalog::Described) -> Result<()> {
    let refuse = |what| Err(Error::NotAttachable { verb: "attach", relation: described.name.clone(), what });
    match described.kind.as_str() {
        "v" => return refuse("It is a view: its rows belong to the tables beneath it."),
        "m" => return refuse("It is a materialized view: its rows are copies."),
        "f" => return refuse("It is a foreign table: its rows change where no trigger of this server sees it."),
        "r" | "p" => {}
        _ => return refuse("It is not a table."),
    }
    if described.is_temporary {
        return refuse("It is a temporary table: the worker cannot see its rows.");
    }
    match described.schema.as_str() {
        "pg_catalog" | "information_schema" | "storage_reaper" => refuse("It is a system table."),
        _ => Ok(()),
    }
}

/// What a trigger reads are rows as they are stored.
fn check_captured(relation: pg_sys::Oid, table: &str, declared: &Declared, filter: Option<&str>) -> Result<()> {
    if declared.kind == Kind::JsonPath && declared.text.as_deref().is_some_and(computes) {
        return Err(Error::invalid(
            "path",
            "It computes values, which the reference check would not find in the documents.",
            "Let it lead to strings or numbers as they are stored.",
        ));
    }
    let by_sql = match declared.kind {
        Kind::Expression | Kind::ArrayExpression => declared.text.as_deref(),
        _ => None,
    };
    let columns = catalog::virtual_columns(relation)?;
    for (parameter, text) in [("expression", by_sql), ("filter", filter)] {
        let reads = |text: &str| columns.iter().any(|column| mentions(text, column)) || has_whole_row(text, table);
        if !columns.is_empty() && text.is_some_and(reads) {
            return Err(Error::invalid(
                parameter,
                "It reads a virtual generated column, whose values a trigger does not see.",
                "Make the column STORED, or write what generates it.",
            ));
        }
    }
    Ok(())
}

fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_in_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    text.match_indices(is_in_word).filter_map(move |(at, _)| {
        let is_start = !text[..at].ends_with(is_in_word);
        let end = text[at..].find(|letter| !is_in_word(letter)).map_or(text.len(), |end| at + end);
        is_start.then_some((&text[at..end], &text[end..]))
    })
}

fn mentions(text: &str, name: &str) -> bool {
    words(text).any(|(word, _)| word.eq_ignore_ascii_case(name)) || text.contains(&format!("\"{name}\""))
}

/// The table's name, and not a column of it.
fn has_whole_row(text: &str, table: &str) -> bool {
    words(text).any(|(word, rest)| word.eq_ignore_ascii_case(table) && !rest.trim_start_matches('"').starts_with('.'))
        || text.contains(".*")
}

/// Whether a JSON path does more than lead somewhere, outside of its filters.
fn computes(path: &str) -> bool {
    let (mut depth, mut is_quoted, mut before) = (0_usize, false, ' ');
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if is_quoted => drop(letters.next()),
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' if depth > 0 || before == '?' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            '(' | ')' | '+' | '/' | '%' => return true,
            '*' if !matches!(before, '.' | '[' | '*') => return true,
            '-' if before != 't' => return true,
            _ => {}
        }
        if !letter.is_whitespace() {
            before = letter;
        }
    }
    false
}

fn check_choice(parameter: &'static str, value: &str, choices: &[&str]) -> Result<()> {
    if choices.contains(&value) {
        return Ok(());
    }
    let detail = format!("The value is \"{value}\"; the choices are {}.", choices.join(", "));
    Err(Error::invalid(parameter, detail, "Leave it out for the default, \"capture\"."))
}

/// A negative grace would make entries due before they exist.
pub fn check_grace(grace: &Interval) -> Result<()> {
    let refuse = |detail: &str| Err(Error::invalid("grace", detail, "Give zero, or how long a deletion should wait."));
    match grace.as_micros() {
        negative if negative < 0 => refuse("The interval is negative."),
        // Also what PostgreSQL calls infinity: a moment that far ahead could not be computed with.
        long if long > LONGEST_GRACE_US => refuse("The interval is longer than 100 years."),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{computes, has_whole_row, mentions};

    #[test]
    fn a_column_is_read_behind_its_name() {
        assert!(mentions("coalesce(doc.Key, 'x')", "key") && mentions(r#"doc."Odd key""#, "Odd key"));
        assert!(!mentions("doc.keys || key_of", "key"));
        assert!(
            has_whole_row("to_jsonb(doc)", "doc")
                && has_whole_row("f(doc.*)", "doc")
                && !has_whole_row("doc.id", "doc")
        );
    }

    #[test]
    fn a_path_that_computes_is_told_apart() {
        for path in [
            "$.a",
            "$.\"a-b(c)\"[*].c",
            "$.list[last - 1]",
            "$.** ? (@.type() == \"string\")",
            "strict $[0 to 2].k",
            "$.a ? (@.b > 2 + 1).c",
        ] {
            assert!(!computes(path), "{path}");
        }
        for path in ["$.a.string()", "$.a * 2", "$.a + 1", "-$.a", "$.a.keyvalue().value", "$.a ? (@.b > 2).c.size()"] {
            assert!(computes(path), "{path}");
        }
    }
}
