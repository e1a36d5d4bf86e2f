//! storage_reaper.derivation: what goes with the objects of a source.

use std::collections::HashMap;

use pgrx::JsonB;

use crate::domain::derive::{self, Derivation};
use crate::error::{Error, Result};

use super::spi;

/// The rules of some sources, by source, with their ids.
pub type Derivations = HashMap<i32, Vec<(i32, Derivation)>>;

/// That an entry's objects go with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derived {
    /// By which rule.
    pub derivation_id: i32,
    /// Its locators are prefixes.
    pub is_prefix: bool,
}

impl Derived {
    /// From the columns of a row of the outbox or of the parked.
    pub fn of(row: &spi::Row<'_>) -> Result<Option<Self>> {
        let is_prefix = row.optional("is_prefix")?.unwrap_or(false);
        Ok(row.optional("derivation_id")?.map(|derivation_id| Self { derivation_id, is_prefix }))
    }
}

/// What `derive` writes.
pub struct NewDerivation<'a> {
    pub source_id: i32,
    pub template: &'a str,
    pub over: Option<JsonB>,
    pub is_required: bool,
    pub max_objects: i32,
}

/// Writes a rule, or alters the one with that template.
pub fn save(new: NewDerivation<'_>) -> Result<()> {
    let NewDerivation { source_id, template, over, is_required, max_objects } = new;
    spi::execute(
        include_str!("../../sql/queries/derivation_save.sql"),
        &[source_id.into(), template.into(), over.into(), is_required.into(), max_objects.into()],
    )
    .map(drop)
}

/// Ends a rule; its row stays for the queue and history. Says whether there was one.
pub fn end(source_id: i32, template: &str) -> Result<bool> {
    let statement = include_str!("../../sql/queries/derivation_end.sql");
    Ok(spi::execute(statement, &[source_id.into(), template.into()])? > 0)
}

/// The rules of these sources.
pub fn of_sources(sources: Vec<i32>) -> Result<Derivations> {
    let mut found = Derivations::new();
    if sources.is_empty() {
        return Ok(found);
    }
    let rules = spi::read(include_str!("../../sql/queries/derivation_of_sources.sql"), &[sources.into()], |row| {
        let over: Option<JsonB> = row.optional("over")?;
        let variants = over.map_or(Ok(Vec::new()), |over| derive::variants(&over.0));
        let template: String = row.required("template")?;
        let derivation = variants.and_then(|variants| Derivation::new(&template, variants));
        let derivation = derivation.map_err(|error| Error::Stored { what: "derivation", detail: error.to_string() })?;
        Ok((row.required::<i32>("source_id")?, row.required::<i32>("id")?, derivation))
    })?;
    rules.into_iter().for_each(|(source, id, rule)| found.entry(source).or_default().push((id, rule)));
    Ok(found)
}
