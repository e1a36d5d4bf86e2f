//! doctor: everything that a person should know, with what mends it.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::capture::discover::{Scope, search};
use crate::error::Result;
use crate::pg::subtransaction;
use crate::store::doctor::{Finding, LOOKS, look};

/// Rows of each column that are looked at for names of objects, and how long: people wait for it.
const ROWS: i32 = 100;
const PATIENCE: Duration = Duration::from_secs(5);

/// The worst first; what is found together stays together.
const SEVERITIES: [&str; 3] = ["error", "warning", "notice"];

fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (what, statement) in LOOKS {
        findings.extend(attempt(what, || look(statement)));
    }
    findings.extend(attempt("undeclared references", undeclared));
    findings.sort_by_key(|finding| SEVERITIES.iter().position(|severity| *severity == finding.severity));
    findings
}

/// A look that fails is a finding, too.
fn attempt(what: &str, look: impl FnOnce() -> Result<Vec<Finding>>) -> Vec<Finding> {
    let looked = subtransaction::attempt(AssertUnwindSafe(look));
    looked.and_then(|found| found.map_err(|error| error.to_string())).unwrap_or_else(|reason| {
        vec![Finding {
            severity: "error".to_owned(),
            subject: what.to_owned(),
            finding: format!("this could not be looked at: {reason}"),
            remedy: "Mend what the message says, and call doctor() again.".to_owned(),
        }]
    })
}

/// Columns that name objects and keep none.
fn undeclared() -> Result<Vec<Finding>> {
    let search = search(&Scope { backend: None, rows: ROWS, until: Some(Instant::now() + PATIENCE) })?;
    let found = search.found.into_iter().map(|found| Finding {
        severity: "warning".to_owned(),
        subject: format!("column {}", found.title),
        finding: format!(
            "{} of {} values name objects, such as {}, and keep none: it is neither attached nor protected",
            found.hits, found.sampled, found.example
        ),
        remedy: found.suggestion,
    });
    let failed = search.failed.into_iter().map(|(title, reason)| Finding {
        severity: "notice".to_owned(),
        subject: title,
        finding: format!("it was not searched for names of objects: {reason}"),
        remedy: "Look yourself, or SELECT * FROM storage_reaper.discover_references();".to_owned(),
    });
    let left = (search.left > 0).then(|| Finding {
        severity: "notice".to_owned(),
        subject: "undeclared references".to_owned(),
        finding: format!("the time was too short for {} columns", search.left),
        remedy: "SELECT * FROM storage_reaper.discover_references();".to_owned(),
    });
    Ok(found.chain(failed).chain(left).collect())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn doctor() -> std::result::Result<
    TableIterator<
        'static,
        (name!(severity, String), name!(subject, String), name!(finding, String), name!(remedy, String)),
    >,
    ErrorReport,
> {
    Ok(TableIterator::new(
        findings().into_iter().map(|found| (found.severity, found.subject, found.finding, found.remedy)),
    ))
}
