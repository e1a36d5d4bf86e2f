//! attach and detach.

use pgrx::datum::Interval;
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::capture::attach::{self, Request};
use crate::capture::{cover, protect};
use crate::error::{Error, Result};
use crate::pg::user::{self, ActingAs};
use crate::pg::wake;
use crate::store::{catalog, source};

use super::{Answer, required};

#[pg_extern(sql = r#"
CREATE FUNCTION storage_reaper."attach"(
    "relation" regclass,
    "locator" text DEFAULT NULL,
    "path" text DEFAULT NULL,
    "template" text DEFAULT NULL,
    "expression" text DEFAULT NULL,
    "filter" text DEFAULT NULL,
    "backend" text DEFAULT NULL,
    "grace" interval DEFAULT '0',
    "on_update" text DEFAULT 'capture',
    "on_truncate" text DEFAULT 'capture',
    "name" text DEFAULT NULL,
    "allow_scan" boolean DEFAULT false,
    "fence" boolean DEFAULT false,
    "owns" text DEFAULT NULL,
    "shared_by" text DEFAULT NULL
) RETURNS text
SET search_path = pg_catalog, pg_temp
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
"#)]
#[expect(clippy::too_many_arguments, reason = "SQL callers name them")]
fn attach(
    relation: Option<pg_sys::Oid>,
    locator: Option<String>,
    path: Option<String>,
    template: Option<String>,
    expression: Option<String>,
    filter: Option<String>,
    backend: Option<String>,
    grace: Option<Interval>,
    on_update: Option<String>,
    on_truncate: Option<String>,
    name: Option<String>,
    allow_scan: Option<bool>,
    fence: Option<bool>,
    owns: Option<String>,
    shared_by: Option<String>,
) -> Answer<String> {
    let relation = required("relation", relation)?;
    let request = Request {
        locator,
        path,
        template,
        expression,
        filter,
        backend,
        grace: required("grace", grace)?,
        on_update: required("on_update", on_update)?,
        on_truncate: required("on_truncate", on_truncate)?,
        allow_scan: required("allow_scan", allow_scan)?,
        fence: required("fence", fence)?,
        owns,
        shared_by,
        name,
    };
    let caller = user::current();
    let _rights = ActingAs::extension();
    let name = attach::attach(caller, relation, &request)?;
    wake::at_commit();
    Ok(name)
}

#[pg_extern(sql = r#"
CREATE FUNCTION storage_reaper."protect"(
    "relation" regclass,
    "locator" text DEFAULT NULL,
    "member" text DEFAULT NULL,
    "embedded" boolean DEFAULT false,
    "row_of" text DEFAULT NULL,
    "document" text DEFAULT NULL,
    "immutable" boolean DEFAULT false,
    "template" text DEFAULT NULL,
    "expression" text DEFAULT NULL,
    "filter" text DEFAULT NULL,
    "backend" text DEFAULT NULL,
    "name" text DEFAULT NULL,
    "allow_scan" boolean DEFAULT false,
    "fence" boolean DEFAULT false
) RETURNS text
SET search_path = pg_catalog, pg_temp
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
"#)]
#[expect(clippy::too_many_arguments, reason = "SQL callers name them")]
fn protect(
    relation: Option<pg_sys::Oid>,
    locator: Option<String>,
    member: Option<String>,
    embedded: Option<bool>,
    row_of: Option<String>,
    document: Option<String>,
    immutable: Option<bool>,
    template: Option<String>,
    expression: Option<String>,
    filter: Option<String>,
    backend: Option<String>,
    name: Option<String>,
    allow_scan: Option<bool>,
    fence: Option<bool>,
) -> Answer<String> {
    let relation = required("relation", relation)?;
    let request = protect::Request {
        locator,
        member,
        embedded: required("embedded", embedded)?,
        row_of,
        document,
        immutable: required("immutable", immutable)?,
        template,
        expression,
        filter,
        backend,
        name,
        allow_scan: required("allow_scan", allow_scan)?,
        fence: required("fence", fence)?,
    };
    let caller = user::current();
    let _rights = ActingAs::extension();
    Ok(protect::protect(caller, relation, &request)?)
}

#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn unprotect(name: Option<&str>) -> Answer<()> {
    take_off("name", name, false)
}

#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn detach(source: Option<&str>) -> Answer<()> {
    take_off("source", source, true)
}

fn take_off(parameter: &'static str, name: Option<&str>, captures: bool) -> Answer<()> {
    let name = required(parameter, name)?;
    let caller = user::current();
    let _rights = ActingAs::extension();
    let id = owned(caller, name, captures)?;
    cover::announce(id)?;
    cover::uncover(id)?;
    source::mark_detached(id)?;
    Ok(())
}

/// The source of that name, or the reference if it only protects, whose table is the caller's, or gone.
pub(super) fn owned(caller: pg_sys::Oid, name: &str, captures: bool) -> Result<i32> {
    let attached = source::attached(name)?;
    if attached.captures != captures {
        return Err(Error::Unknown { kind: if captures { "source" } else { "reference" }, name: name.to_owned() });
    }
    match catalog::describe(attached.relation)? {
        Some(described) if !user::owns(caller, attached.relation) => Err(Error::NotOwner(described.name)),
        _ => Ok(attached.id),
    }
}
