//! What `attach` and `protect` have in common: where a table's rows name objects, checked against the table.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::domain::document::Reading;
use crate::domain::template::{Owns, Template};
use crate::error::{Error, Result};
use crate::guc;
use crate::pg::subtransaction;
use crate::pg::user::ActingAs;
use crate::store::locator_sql::{KeyType, LocatorSql, Spec};
use crate::store::source::Kind;
use crate::store::{catalog, flight};

/// Rows that are looked at for a warning.
const SAMPLED: usize = 200;

/// How the caller says where the locators are.
pub struct Way<'a> {
    pub column: Option<&'a str>,
    pub template: Option<&'a str>,
    pub expression: Option<&'a str>,
    pub inside: Inside<'a>,
    /// What is found are ids of rows of a table, not locators.
    pub row_of: Option<RowOf<'a>>,
}

/// The table that ids are of, and the source that is on it.
#[derive(Clone, Copy)]
pub struct RowOf<'a> {
    pub source: &'a str,
    pub table: pg_sys::Oid,
}

/// Where in a column's value they are.
pub enum Inside<'a> {
    /// The value is one, or its elements are.
    Itself,
    /// What a JSON path yields.
    Path(&'a str),
    /// Every string of a document, or those under members of that name.
    Strings(Option<&'a str>),
    /// URLs in a text.
    Urls,
}

/// A locator that has been checked against the table.
pub struct Declared {
    pub kind: Kind,
    pub columns: Vec<String>,
    pub attnums: Vec<i16>,
    pub text: Option<String>,
    /// Within which prefix a row owns objects; its columns follow the locator's.
    pub owns: Option<String>,
    /// Whether the last column is the value by which rows share objects, and its type.
    pub shared_by: Option<KeyType>,
    /// For ids of rows: the table that they are of, and the type of its key.
    pub row_of: Option<(pg_sys::Oid, KeyType)>,
    /// How documents are read that the locators name.
    pub document: Option<Reading>,
}

impl Declared {
    fn new(kind: Kind, columns: Vec<String>, attnums: Vec<i16>, text: Option<String>) -> Self {
        Self { kind, columns, attnums, text, owns: None, shared_by: None, row_of: None, document: None }
    }
}

/// Before what rows mean is changed: waits for deletions that know nothing of it, and lets none begin until the caller's
/// transaction has ended. Taken before any table's lock.
pub fn begin() -> Result<()> {
    flight::declare(guc::fence_timeout(), guc::fence_linger())
}

/// Exactly one way to name objects.
pub fn declare(relation: pg_sys::Oid, table: &str, way: &Way<'_>) -> Result<Declared> {
    const HINT: &str = "Name a column, template => '…' or expression => '…'.";
    match way {
        Way { column: Some(column), template: None, expression: None, inside, row_of } => {
            declare_column(relation, table, column, inside, *row_of)
        }
        Way { column: None, template: Some(template), expression: None, inside: Inside::Itself, row_of: None } => {
            declare_template(relation, table, template)
        }
        Way { column: None, template: None, expression: Some(expression), inside: Inside::Itself, row_of: None } => {
            declare_expression(relation, table, expression)
        }
        Way { column: None, template: None, expression: None, .. } => {
            Err(Error::invalid("locator", "Nothing says where the locators are.", HINT))
        }
        _ => Err(Error::invalid("locator", "More than one way to find the locators is given.", HINT)),
    }
}

fn find_column(relation: pg_sys::Oid, table: &str, column: &str) -> Result<catalog::ColumnType> {
    let found = catalog::column(relation, column)?
        .ok_or_else(|| Error::UnknownColumn { relation: table.to_owned(), column: column.to_owned() })?;
    if found.is_virtual {
        return Err(Error::LocatorType {
            column: column.to_owned(),
            detail: "It is a virtual generated column, which rows do not hold.".to_owned(),
            hint: "Make it STORED, or give what generates it as expression => '…'.",
        });
    }
    Ok(found)
}

fn declare_column(
    relation: pg_sys::Oid,
    table: &str,
    name: &str,
    inside: &Inside<'_>,
    row_of: Option<RowOf<'_>>,
) -> Result<Declared> {
    let column = find_column(relation, table, name)?;
    let refuse = |wanted: &str, hint| {
        let detail = format!("It is of type {}, not {wanted}.", column.type_name);
        Err(Error::LocatorType { column: name.to_owned(), detail, hint })
    };
    let (kind, text) = match inside {
        Inside::Itself if let Some(rows) = row_of => (Kind::RowIds, Some(rows.source.to_owned())),
        Inside::Itself if column.is_text => (Kind::Column, None),
        Inside::Itself if column.is_text_array => (Kind::Array, None),
        Inside::Itself => {
            const HINT: &str = "Use path => '…' for json, or expression => '…' to make text of it.";
            return refuse("text or an array of text", HINT);
        }
        Inside::Path(path) if column.is_json => (Kind::JsonPath, Some((*path).to_owned())),
        Inside::Strings(member) if column.is_json => (Kind::Strings, member.map(str::to_owned)),
        Inside::Path(_) | Inside::Strings(_) => {
            return refuse("json or jsonb", "Leave it out for a text column or an array of text.");
        }
        Inside::Urls if column.is_text => (Kind::Urls, None),
        Inside::Urls => return refuse("text", "Leave embedded out for other types."),
    };
    let mut declared = Declared::new(kind, vec![name.to_owned()], vec![column.number], text);
    if let Some(rows) = row_of {
        let (key, key_name) = key_of(rows)?;
        if kind == Kind::RowIds && KeyType::of(&column.base_name) != Some(key) {
            let source = rows.source;
            return Err(Error::LocatorType {
                column: name.to_owned(),
                detail: format!(
                    "It is of type {}, and the key of source \"{source}\" of type {key_name}.",
                    column.base_name
                ),
                hint: "Both have to be integers, uuid, or text.",
            });
        }
        declared.row_of = Some((rows.table, key));
    }
    Ok(declared)
}

/// The type of a table's primary key, whose text must mean one row.
fn key_of(RowOf { source, table }: RowOf<'_>) -> Result<(KeyType, String)> {
    const HINT: &str = "Use member, expression or a view that yields locators instead.";
    let name = catalog::key_type(table)?.ok_or_else(|| {
        let detail = format!("The table of source \"{source}\" has no primary key of one column.");
        Error::invalid("row_of", detail, HINT)
    })?;
    let key = KeyType::of(&name).ok_or_else(|| {
        let detail = format!("The key of source \"{source}\" is of type {name}, not an integer, uuid or text.");
        Error::invalid("row_of", detail, HINT)
    })?;
    Ok((key, name))
}

/// The locators name documents, and these what is protected.
pub fn declare_documents(declared: &mut Declared, reading: Reading, row_of: Option<RowOf<'_>>) -> Result<()> {
    declared.row_of = row_of.map(|rows| Ok::<_, Error>((rows.table, key_of(rows)?.0))).transpose()?;
    declared.document = Some(reading);
    Ok(())
}

fn declare_template(relation: pg_sys::Oid, table: &str, text: &str) -> Result<Declared> {
    let template = Template::parse(text).map_err(|error| {
        Error::invalid("template", error, "Write columns in braces, such as 'vault/{user_id}/{id}.zip'.")
    })?;
    let columns: Vec<_> = template.columns().into_iter().map(str::to_owned).collect();
    let attnums = columns
        .iter()
        .map(|column| find_column(relation, table, column).map(|found| found.number))
        .collect::<Result<_>>()?;
    Ok(Declared::new(Kind::Template, columns, attnums, Some(text.to_owned())))
}

/// An expression yields text, or an array of text that is taken apart.
fn declare_expression(relation: pg_sys::Oid, table: &str, text: &str) -> Result<Declared> {
    let from = format!("ONLY {} AS {}", catalog::qualified_name(relation), spi::quote_identifier(table));
    let found = with_rights_of_owner(relation, || catalog::expression_type(text, &from))?;
    let kind = match found {
        found if found.is_text => Kind::Expression,
        found if found.is_text_array => Kind::ArrayExpression,
        found => {
            return Err(Error::LocatorType {
                column: text.to_owned(),
                detail: format!("The expression is of type {}, not text or an array of text.", found.type_name),
                hint: "Cast it to text.",
            });
        }
    };
    Ok(Declared::new(kind, Vec::new(), Vec::new(), Some(text.to_owned())))
}

/// Adds what rows can own, and the value by which they share it.
pub fn declare_extras(
    relation: pg_sys::Oid,
    table: &str,
    declared: &mut Declared,
    owns: Option<&str>,
    shared_by: Option<&str>,
) -> Result<()> {
    if let Some(text) = owns {
        const HINT: &str = "Give a prefix such as 'users/{user_id}/', or '*' where rows own whatever they name.";
        let parsed = Owns::parse(text).map_err(|error| Error::invalid("owns", error, HINT))?;
        for name in parsed.columns() {
            let column = find_column(relation, table, name)?;
            declared.columns.push(name.to_owned());
            declared.attnums.push(column.number);
        }
        declared.owns = Some(text.to_owned());
    }
    if let Some(name) = shared_by {
        let column = find_column(relation, table, name)?;
        let key = KeyType::of(&column.base_name).ok_or_else(|| Error::LocatorType {
            column: name.to_owned(),
            detail: format!("It is of type {}, whose text depends on settings.", column.type_name),
            hint: "Share by a column of type text, varchar, char, bytea, uuid or an integer.",
        })?;
        declared.columns.push(name.to_owned());
        declared.attnums.push(column.number);
        declared.shared_by = Some(key);
    }
    Ok(())
}

fn locator_sql(table: &str, declared: &Declared, filter: Option<&str>) -> Option<LocatorSql> {
    LocatorSql::new(&Spec {
        kind: declared.kind,
        alias: table,
        columns: &declared.columns,
        locator: declared.text.as_deref(),
        owns: declared.owns.as_deref(),
        is_shared: declared.shared_by.is_some(),
        filter,
        key: &[],
    })
}

/// Plans the query that capture and the reference check will run, so that a mistake shows now. Its errors are the
/// server's own: undefined_column, syntax_error, …
pub fn check_sql(relation: pg_sys::Oid, table: &str, declared: &Declared, filter: Option<&str>) -> Result<()> {
    let Some(sql) = locator_sql(table, declared, filter) else {
        return Err(Error::invalid(
            "locator",
            "It cannot be read from the table's rows.",
            "See the README for the forms.",
        ));
    };
    let from = format!("ONLY {} AS {}", catalog::qualified_name(relation), spi::quote_identifier(table));
    with_rights_of_owner(relation, || catalog::check(&format!("SELECT FROM ({}) checked LIMIT 0", sql.over(&from))))
}

/// Planning may already run functions of the expression, so it happens with no more rights than the owner has.
fn with_rights_of_owner<R>(relation: pg_sys::Oid, step: impl FnOnce() -> Result<R>) -> Result<R> {
    let _rights = ActingAs::owner_of(relation);
    step()
}

/// Before each deletion the table is searched for rows that still name the object: without an index, all of it. `filter`
/// is the one that the search has.
pub fn check_index(
    relation: pg_sys::Oid,
    described: &catalog::Described,
    declared: &Declared,
    filter: Option<&str>,
    allow_scan: bool,
) -> Result<()> {
    let table = described.name.as_str();
    let Some(sql) = locator_sql(table, declared, filter) else { return Ok(()) };
    let name = catalog::qualified_name(relation);
    let from = format!("{name} AS {}", spi::quote_identifier(table));
    if let Some(query) = declared.shared_by.and_then(|key| sql.sharing_value("ARRAY['1']::text[]", key, &from)) {
        let column = declared.columns.last().map(spi::quote_identifier).unwrap_or_default();
        insist(relation, described, &query, &format!("CREATE INDEX ON {name} ({column});"), allow_scan)?;
    }
    let query = match declared.row_of {
        Some((_, key)) if declared.document.is_none() => {
            sql.holding("ARRAY['1']::text[]", Some(key), &from).unwrap_or_default()
        }
        _ => sql.sharing("ARRAY[1]::bigint[]", &from),
    };
    let index = match declared.kind {
        Kind::RowIds => format!("CREATE INDEX ON {name} ({});", spi::quote_identifier(&declared.columns[0])),
        _ if described.kind == "v" => format!("on the table beneath the view, {}.", sql.index()),
        _ => format!("CREATE INDEX ON {name} {};", sql.index()),
    };
    insist(relation, described, &query, &index, allow_scan)
}

/// Refuses a search that no index answers, or warns of it.
fn insist(
    relation: pg_sys::Oid,
    described: &catalog::Described,
    query: &str,
    index: &str,
    allow_scan: bool,
) -> Result<()> {
    if with_rights_of_owner(relation, || catalog::is_answered_by_index(query, described.kind == "v"))? {
        return Ok(());
    }
    let table = &described.name;
    if !allow_scan {
        let hint = format!("Create one: {index} Or give allow_scan => true, and the whole table is read each time.");
        return Err(Error::NoIndex { relation: table.clone(), hint });
    }
    ereport!(
        PgLogLevel::WARNING,
        PgSqlErrorCode::ERRCODE_WARNING,
        format!("table \"{table}\" is read as a whole before each deletion"),
        format!("No index finds the rows that name an object. Create one: {index}")
    );
    Ok(())
}

/// Warns when rows name objects by URL and nothing says which of them they may own: whoever writes the column could name
/// anybody's.
pub fn warn_of_ownership(relation: pg_sys::Oid, described: &catalog::Described, declared: &Declared) -> Result<()> {
    if declared.owns.is_some() || declared.kind == Kind::Template {
        return Ok(());
    }
    let Some(sql) = locator_sql(&described.name, declared, None) else { return Ok(()) };
    let from = format!("{} AS {}", catalog::qualified_name(relation), spi::quote_identifier(&described.name));
    let query = format!(
        "SELECT EXISTS (SELECT FROM ({} LIMIT {SAMPLED}) AS s (locator, row_id, owns, shares) \
         WHERE s.locator COLLATE \"C\" ~* '^((https?:)?//|(s3|gs)://)') AS found",
        sql.over(&from)
    );
    // An expression that fails on some row has nothing to say here.
    let found = subtransaction::attempt(std::panic::AssertUnwindSafe(|| {
        with_rights_of_owner(relation, || catalog::answers_yes(&query))
    }));
    if let Ok(Ok(true)) = found {
        ereport!(
            PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            format!("rows of table \"{}\" name objects by URL, and may name any object of the bucket", described.name),
            "If users can write the column, one of them can have the object of another deleted. State what a row owns, such as owns => 'users/{user_id}/', or say that it owns whatever it names: owns => '*'."
        );
    }
    Ok(())
}

/// The table, with its schema unless that is public, and what holds the locators.
pub fn default_name(described: &catalog::Described, declared: &Declared) -> String {
    let table = if described.schema == "public" {
        described.name.clone()
    } else {
        format!("{}.{}", described.schema, described.name)
    };
    match declared.kind {
        Kind::Template => format!("{table}.template"),
        Kind::Expression | Kind::ArrayExpression => format!("{table}.expression"),
        _ => format!("{table}.{}", declared.columns.join(",")),
    }
}
