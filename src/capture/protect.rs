//! `protect`: declares a table or view whose rows keep objects, and are never asked to give one up.

use pgrx::datum::Interval;
use pgrx::pg_sys;

use crate::domain::document::{Format, Reading};
use crate::error::{Error, Result};
use crate::pg::{lock, user};
use crate::store::source::{self, NewSource};
use crate::store::{backend, catalog};

use super::cover;
use super::declare::{Inside, RowOf, Way, begin, check_index, check_sql, declare, declare_documents, default_name};

/// What the caller of `protect` says, apart from the table.
pub struct Request {
    pub locator: Option<String>,
    pub member: Option<String>,
    pub embedded: bool,
    pub row_of: Option<String>,
    pub document: Option<String>,
    pub immutable: bool,
    pub template: Option<String>,
    pub expression: Option<String>,
    pub filter: Option<String>,
    pub backend: Option<String>,
    pub name: Option<String>,
    pub allow_scan: bool,
    pub fence: bool,
}

/// Protects, or alters what is protected under the same name, and returns that name.
pub fn protect(caller: pg_sys::Oid, relation: pg_sys::Oid, request: &Request) -> Result<String> {
    let described = catalog::describe(relation)?
        .ok_or_else(|| Error::Unknown { kind: "source", name: relation.to_u32().to_string() })?;
    check_table(&described)?;
    if !user::owns(caller, relation) {
        return Err(Error::NotOwner(described.name));
    }
    if request.fence && described.kind == "v" {
        return Err(Error::invalid(
            "fence",
            "It is a view: rows are written to the tables beneath it.",
            "Protect and fence those.",
        ));
    }
    let reading = reading(request)?;
    let backend_id = request.backend.as_deref().map(backend::id_of).transpose()?;
    begin()?;
    if request.fence {
        // A partition that is being created is then there, or waits until its event trigger sees the reference.
        lock::against_partitions(relation);
    }
    let row_of = request.row_of.as_deref().map(rows_of).transpose()?;
    let way = Way {
        column: request.locator.as_deref(),
        template: request.template.as_deref(),
        expression: request.expression.as_deref(),
        inside: if reading.is_some() { Inside::Itself } else { inside(relation, request)? },
        row_of: row_of.filter(|_| reading.is_none()),
    };
    let mut declared = declare(relation, &described.name, &way)?;
    if let Some(reading) = reading {
        declare_documents(&mut declared, reading, row_of)?;
    }
    check_sql(relation, &described.name, &declared, request.filter.as_deref())?;
    check_index(relation, &described, &declared, request.filter.as_deref(), request.allow_scan)?;
    let name = request.name.clone().unwrap_or_else(|| default_name(&described, &declared));
    let id = source::save(NewSource {
        name: &name,
        relation,
        alias: &described.name,
        kind: declared.kind,
        columns: declared.columns,
        attnums: declared.attnums,
        locator: declared.text.as_deref(),
        owns: None,
        is_shared: false,
        filter: request.filter.as_deref(),
        backend_id,
        grace: Interval::from_seconds(0.0),
        on_update: "ignore",
        on_truncate: "capture",
        row_of: declared.row_of.map(|(table, _)| table),
        document: declared.document.as_ref(),
        allow_scan: request.allow_scan,
        fenced: request.fence,
        captures: false,
    })?;
    cover::unfence(id)?;
    cover::cover_anew(id)?;
    Ok(name)
}

fn check_table(described: &catalog::Described) -> Result<()> {
    let refuse = |what| Err(Error::NotAttachable { verb: "protect by", relation: described.name.clone(), what });
    match described.kind.as_str() {
        "r" | "p" | "v" => {}
        "m" => return refuse("It is a materialized view: its rows may be old."),
        "f" => return refuse("It is a foreign table: it cannot be asked on a fresh snapshot."),
        _ => return refuse("It is not a table."),
    }
    if described.is_temporary {
        return refuse("It is a temporary table: the worker cannot see its rows.");
    }
    Ok(())
}

/// At most one way to look into the column's value; a document is searched for every string.
fn inside<'a>(relation: pg_sys::Oid, request: &'a Request) -> Result<Inside<'a>> {
    const HINT: &str = "Give member or embedded, or none; row_of goes with the column itself and with json.";
    let is_json = match &request.locator {
        Some(column) => catalog::column(relation, column)?.is_some_and(|column| column.is_json),
        None => false,
    };
    match (&request.member, request.embedded, &request.row_of) {
        (Some(member), false, _) => Ok(Inside::Strings(Some(member))),
        (None, true, None) => Ok(Inside::Urls),
        (None, false, _) if is_json => Ok(Inside::Strings(None)),
        (None, false, _) => Ok(Inside::Itself),
        _ => Err(Error::invalid("locator", "More than one way to look into the column is given.", HINT)),
    }
}

/// The table of a source, by the source's name.
fn rows_of(source: &str) -> Result<RowOf<'_>> {
    let owning = source::attached(source)?;
    if !owning.captures {
        return Err(Error::Unknown { kind: "source", name: source.to_owned() });
    }
    Ok(RowOf { source, table: owning.relation })
}

/// How documents are read that the rows name, if it is them that name objects.
fn reading(request: &Request) -> Result<Option<Reading>> {
    const HINT: &str = "Give document => 'json' or 'text'; see the README for what goes with it.";
    let refuse = |parameter, detail| Err(Error::invalid(parameter, detail, HINT));
    let Some(document) = &request.document else {
        if request.immutable {
            return refuse("immutable", "Only documents in storage can be immutable.");
        }
        return Ok(None);
    };
    let format: Format = document.parse().map_err(|error| Error::invalid("document", error, HINT))?;
    if request.embedded {
        return refuse("embedded", "URLs inside of documents are found anyway.");
    }
    if request.fence {
        return refuse("fence", "Nobody in the database sees when a document in storage is written.");
    }
    if format == Format::Text && (request.member.is_some() || request.row_of.is_some()) {
        return refuse("document", "Only JSON has members, and values that can be ids of rows.");
    }
    Ok(Some(Reading { format, member: request.member.clone(), immutable: request.immutable }))
}
