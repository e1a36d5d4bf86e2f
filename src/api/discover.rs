//! discover_references, and what arm says of it.

use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::capture::discover::{Scope, Search, search};
use crate::domain::backend::BackendId;
use crate::error::Error;
use crate::pg::{settings, subtransaction};
use crate::store::backend;

use super::required;

/// Beyond it, the samples of a large table would be most of the table.
const MOST_ROWS: i32 = 100_000;
/// What `arm` looks at: it is called by people, who wait for it.
const ROWS_AT_ARMING: i32 = 100;
const TIME_AT_ARMING: Duration = Duration::from_secs(5);
/// Columns that `arm` lists.
const LISTED: usize = 20;

#[pg_extern(sql = r#"
CREATE FUNCTION storage_reaper."discover_references"(
    "backend" text DEFAULT NULL,
    "sample_rows" integer DEFAULT 1000
) RETURNS TABLE (
    "relation" regclass,
    "column" text,
    "type" text,
    "backend" text,
    "hits" integer,
    "sampled" integer,
    "example" text,
    "suggestion" text
)
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
"#)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns from the type")]
fn discover_references(
    backend: Option<&str>,
    sample_rows: Option<i32>,
) -> std::result::Result<
    TableIterator<
        'static,
        (
            name!(relation, pg_sys::Oid),
            name!(column, String),
            name!(type_name, String),
            name!(backend, String),
            name!(hits, i32),
            name!(sampled, i32),
            name!(example, String),
            name!(suggestion, String),
        ),
    >,
    ErrorReport,
> {
    let rows = required("sample_rows", sample_rows)?;
    if !(1..=MOST_ROWS).contains(&rows) {
        let detail = format!("It is {rows}, and must be from 1 to {MOST_ROWS}.");
        return Err(Error::invalid("sample_rows", detail, "Leave it out for 1000 rows.").into());
    }
    let backend = backend.map(backend::id_of).transpose()?.map(BackendId);
    let search = search(&Scope { backend, rows, until: None })?;
    for (title, reason) in &search.failed {
        ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, format!("{title} was not searched"), "discover_references")
            .set_detail(reason.clone())
            .report(PgLogLevel::WARNING);
    }
    let count = |rows: usize| i32::try_from(rows).unwrap_or(i32::MAX);
    Ok(TableIterator::new(search.found.into_iter().map(move |found| {
        let (hits, sampled) = (count(found.hits), count(found.sampled));
        let (column, type_name) = (found.column, found.type_name);
        (found.relation, column, type_name, found.backends, hits, sampled, found.example, found.suggestion)
    })))
}

/// Before anything is deleted, a person hears of rows that would keep nothing. It takes some seconds at most, and no
/// failure of it stops the arming.
pub fn warn() {
    let patience = settings::statement_timeout().map_or(TIME_AT_ARMING, |limit| TIME_AT_ARMING.min(limit / 2));
    let scope = Scope { backend: None, rows: ROWS_AT_ARMING, until: Some(Instant::now() + patience) };
    let searched = subtransaction::attempt(AssertUnwindSafe(|| search(&scope)));
    match searched.and_then(|search| search.map_err(|error| error.to_string())) {
        Ok(search) => report(&search),
        Err(reason) => {
            ErrorReport::new(
                PgSqlErrorCode::ERRCODE_WARNING,
                "could not look for columns that name objects and are not declared",
                "arm",
            )
            .set_detail(reason)
            .report(PgLogLevel::WARNING);
        }
    }
}

fn report(search: &Search) {
    let lines: Vec<_> = search
        .found
        .iter()
        .map(|found| {
            let (hits, sampled, example) = (found.hits, found.sampled, &found.example);
            format!("{} ({}): {hits} of {sampled} values, such as {example}", found.title, found.type_name)
        })
        .chain(search.failed.iter().map(|(title, reason)| format!("{title} was not searched: {reason}")))
        .collect();
    if !lines.is_empty() {
        let mut detail = lines[..lines.len().min(LISTED)].join("\n");
        if lines.len() > LISTED {
            let _ = write!(detail, "\nand {} more", lines.len() - LISTED);
        }
        ErrorReport::new(
            PgSqlErrorCode::ERRCODE_WARNING,
            "columns that are neither attached nor protected may name objects, and would not keep them",
            "arm",
        )
        .set_detail(detail)
        .set_hint(
            "See storage_reaper.discover_references(), and declare what should keep objects with storage_reaper.protect().",
        )
        .report(PgLogLevel::WARNING);
    }
    if search.left > 0 {
        ErrorReport::new(
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            "not all columns were searched for references that are not declared",
            "arm",
        )
        .set_detail(format!("The time was too short for {} columns.", search.left))
        .set_hint("Call storage_reaper.discover_references(), which takes its time.")
        .report(PgLogLevel::NOTICE);
    }
}
