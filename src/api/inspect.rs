//! unpack (for the views) and explain.

use std::collections::BTreeMap;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::domain::backend::BackendId;
use crate::domain::embedded;
use crate::domain::fold::fingerprint;
use crate::domain::object::Object;
use crate::domain::outcome::Reason;
use crate::domain::resolve::{Namespace, prints, resolve};
use crate::domain::segment::Segment;
use crate::error::{Error, Result};
use crate::pg::subtransaction;
use crate::store::guard::{self, Asks, Documents};
use crate::store::{backend, document, location, objects, source};

use super::required;

#[pg_extern(immutable, parallel_safe)]
fn unpack(
    payload: &[u8],
) -> std::result::Result<TableIterator<'static, (name!(locator, String), name!(row_id, Option<String>))>, ErrorReport> {
    let segment = Segment::unpack(payload).map_err(Error::from)?;
    let ids: Vec<_> = (0..segment.locators.len()).map(|index| segment.row_id(index)).collect();
    Ok(TableIterator::new(segment.locators.into_iter().zip(ids)))
}

#[pg_extern(immutable, parallel_safe, strict, name = "fingerprint")]
fn fingerprint_of(locator: &str) -> i64 {
    fingerprint(locator)
}

#[pg_extern(immutable, parallel_safe, strict)]
fn fingerprints(locators: pgrx::Array<'_, &str>) -> Vec<i64> {
    let mut found: Vec<_> = locators.iter().flatten().map(fingerprint).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[pg_extern(immutable, parallel_safe, strict)]
fn urls(text: &str) -> Vec<String> {
    embedded::urls(text)
}

type Line = (
    name!(object, Option<String>),
    name!(state, String),
    name!(source, Option<String>),
    name!(detail, Option<String>),
    name!(due_at, Option<TimestampWithTimeZone>),
);

/// What locators name, in words. A plain key names an object of whichever backend its source has.
struct Readings {
    namespace: Namespace,
    names: Vec<(BackendId, String)>,
}

impl Readings {
    fn load() -> Result<Self> {
        let backends = backend::all()?;
        let names = backends.iter().map(|backend| (backend.id, backend.name.clone())).collect();
        Ok(Self { namespace: Namespace::new(backends, location::all()?), names })
    }

    /// Every object that the locator can name.
    fn objects(&self, locator: &str) -> std::result::Result<Vec<Object>, Reason> {
        match resolve(locator, &self.namespace, None) {
            Err(Reason::NoBackend) if !self.names.is_empty() => {
                self.names.iter().map(|(id, _)| resolve(locator, &self.namespace, Some(*id))).collect()
            }
            other => other.map(|object| vec![object]),
        }
    }

    fn describe(&self, object: &Object) -> String {
        let backend = self.names.iter().find(|(id, _)| *id == object.backend).map_or("", |(_, name)| name.as_str());
        format!("{backend}: s3://{}/{}", object.bucket, object.key)
    }

    fn describe_at(&self, locator: &str, backend: Option<BackendId>) -> Option<String> {
        resolve(locator, &self.namespace, backend).ok().map(|object| self.describe(&object))
    }

    fn describe_of(&self, locator: &str, backend: Option<&str>) -> Option<String> {
        let id = self.names.iter().find(|(_, name)| Some(name.as_str()) == backend).map(|(id, _)| *id);
        self.describe_at(locator, id)
    }
}

fn lines_about(locator: &str) -> Result<Vec<Line>> {
    let readings = Readings::load()?;
    let mut lines: Vec<Line> = Vec::new();
    let objects = readings.objects(locator).unwrap_or_else(|reason| {
        lines.push((None, "unresolved".to_owned(), None, Some(reason.to_string()), None));
        Vec::new()
    });
    let mut asked: Vec<_> =
        objects.iter().flat_map(|object| prints(object, &readings.namespace).all().collect::<Vec<_>>()).collect();
    asked.push(fingerprint(locator));
    asked.sort_unstable();
    asked.dedup();
    for reference in guard::references()? {
        if let Asks::Documents(Documents { reading, row_of: None }) = &reference.asks {
            for found in document::naming(reference.source_id, reading, asked.clone())? {
                let document = readings.describe(&found.document);
                let detail =
                    format!("document {document} named it when it was last read: it is kept while a row names that");
                lines.push((None, "referenced".to_owned(), Some(reference.name.clone()), Some(detail), None));
            }
        }
        if !matches!(reference.asks, Asks::Locators) {
            continue;
        }
        let question = || guard::sharing(&reference, asked.clone());
        let found = match subtransaction::attempt(std::panic::AssertUnwindSafe(question)) {
            Ok(found) => found?,
            Err(message) => {
                let detail = format!("it cannot be asked, and so nothing is deleted: {message}");
                lines.push((None, "in doubt".to_owned(), Some(reference.name.clone()), Some(detail), None));
                continue;
            }
        };
        let mut rows: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
        for row in found {
            let object = readings.describe_at(&row.locator, reference.backend);
            rows.entry(object).or_default().extend(row.row_id);
        }
        let table = reference.table.as_deref().unwrap_or("a table");
        for (object, ids) in rows {
            let which = if ids.is_empty() { "a row".to_owned() } else { format!("row {}", ids.join(", ")) };
            let detail = format!("{which} of {table} still names it: it would be kept");
            lines.push((object, "referenced".to_owned(), Some(reference.name.clone()), Some(detail), None));
        }
    }
    // What the worker alone can find out, such as a document that it cannot read.
    for (name, fault) in source::faults()? {
        if !lines.iter().any(|(_, state, of, ..)| state == "in doubt" && of.as_ref() == Some(&name)) {
            let detail = format!("nothing is deleted: {fault}");
            lines.push((None, "in doubt".to_owned(), Some(name), Some(detail), None));
        }
    }
    lines.extend(objects::known(asked)?.into_iter().map(|known| {
        let object = readings.describe_of(&known.locator, known.backend.as_deref());
        (object, format!("{}: {}", known.place, known.state), known.source, known.detail, known.due_at)
    }));
    if lines.is_empty() {
        let detail = "no attached row names it, and nothing was captured".to_owned();
        lines.extend(
            objects.iter().map(|object| {
                (Some(readings.describe(object)), "unknown".to_owned(), None, Some(detail.clone()), None)
            }),
        );
    }
    Ok(lines)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns from the type")]
fn explain(
    locator: Option<&str>,
) -> std::result::Result<
    TableIterator<
        'static,
        (
            name!(object, Option<String>),
            name!(state, String),
            name!(source, Option<String>),
            name!(detail, Option<String>),
            name!(due_at, Option<TimestampWithTimeZone>),
        ),
    >,
    ErrorReport,
> {
    Ok(TableIterator::new(lines_about(required("locator", locator)?)?))
}
