//! derive and underive.

use pgrx::JsonB;
use pgrx::prelude::*;

use crate::domain::derive::{self, Derivation, DeriveError};
use crate::error::Error;
use crate::pg::user::{self, ActingAs};
use crate::store::derivation::{self, NewDerivation};

use super::source::owned;
use super::{Answer, required};

#[pg_extern(sql = r#"
CREATE FUNCTION storage_reaper."derive"(
    "source" text,
    "template" text,
    "over" jsonb DEFAULT NULL,
    "required" boolean DEFAULT true,
    "max_objects" integer DEFAULT 10000
) RETURNS void
SET search_path = pg_catalog, pg_temp
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
"#)]
fn derive(
    source: Option<&str>,
    template: Option<&str>,
    over: Option<JsonB>,
    is_required: Option<bool>,
    max_objects: Option<i32>,
) -> Answer<()> {
    let (source, template) = (required("source", source)?, required("template", template)?);
    let (is_required, max_objects) = (required("required", is_required)?, required("max_objects", max_objects)?);
    if max_objects < 1 {
        let hint = "Give the most objects that may lie below one prefix.";
        return Err(Error::invalid("max_objects", format!("The value is {max_objects}."), hint).into());
    }
    let variants = over.as_ref().map_or(Ok(Vec::new()), |over| derive::variants(&over.0));
    let rule = variants.and_then(|variants| Derivation::new(template, variants)).map_err(refused)?;
    let caller = user::current();
    let _rights = ActingAs::extension();
    let source_id = owned(caller, source, true)?;
    derivation::save(NewDerivation { source_id, template, over, is_required, max_objects })?;
    if !rule.is_one_to_one() {
        ereport!(
            PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            format!("objects of one name share what \"{template}\" yields, and it goes with the first of them"),
            "Unless names are unique in the bucket, use {key}, or {dir} with {name}, or {dir} with {stem} and {ext}."
        );
    }
    if rule.is_nesting() {
        ereport!(
            PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            format!(
                "what \"{template}\" yields for an object \"a\" holds what it yields for an object \"a/b\", and takes it along"
            ),
            "Unless no key begins with another one and a slash, write something behind the last part, such as {key}.d/, and state what rows own: storage_reaper.attach(…, owns => …)."
        );
    }
    Ok(())
}

#[pg_extern]
#[search_path(pg_catalog, pg_temp)]
fn underive(source: Option<&str>, template: Option<&str>) -> Answer<()> {
    let (source, template) = (required("source", source)?, required("template", template)?);
    let caller = user::current();
    let _rights = ActingAs::extension();
    let source_id = owned(caller, source, true)?;
    if derivation::end(source_id, template)? {
        return Ok(());
    }
    Err(Error::Unknown { kind: "derivation", name: template.to_owned() }.into())
}

fn refused(error: DeriveError) -> Error {
    let (parameter, hint) = match error {
        DeriveError::BadOver | DeriveError::BadValue(_) => ("over", "Write it like [{\"w\": 100}, {\"w\": 200}]."),
        _ => ("template", "Write it like thumbs/{key}.webp, or hls/{stem}/ for all that lies below."),
    };
    Error::invalid(parameter, error.to_string(), hint)
}
