//! Probes of backends: which are wanted, and what they found out.

use crate::domain::backend::Backend;
use crate::domain::probe::Found;
use crate::error::{Error, Result};

use super::backend;
use super::spi;

/// A probe that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub backend_id: i32,
    pub prefix: String,
    /// Tells it from what is wanted later.
    pub token: String,
}

/// Wants the backend to be probed below the prefix.
pub fn want(name: &str, prefix: &str) -> Result<()> {
    let touched: Vec<i32> =
        spi::write(include_str!("../../sql/queries/probe_want.sql"), &[name.into(), prefix.into()], |row| {
            row.required("id")
        })?;
    if touched.is_empty() { Err(Error::Unknown { kind: "backend", name: name.to_owned() }) } else { Ok(()) }
}

/// What is wanted, of backends that are not paused.
pub fn wanted() -> Result<Vec<(Backend, Wanted)>> {
    let wanted = spi::read(include_str!("../../sql/queries/probe_wanted.sql"), &[], |row| {
        let (prefix, token) = (row.required("probe_prefix")?, row.required("probe_wanted")?);
        Ok(Wanted { backend_id: row.required("id")?, prefix, token })
    })?;
    let backends = if wanted.is_empty() { Vec::new() } else { backend::all()? };
    let of = |wanted: Wanted| {
        let backend = backends.iter().find(|backend| backend.id.0 == wanted.backend_id)?;
        Some((backend.clone(), wanted))
    };
    Ok(wanted.into_iter().filter_map(of).collect())
}

/// Writes down what was found out, and says whether that is still wanted of the backend as it was asked. What could not be told
/// stays as it is.
pub fn record(wanted: &Wanted, found: &Found) -> Result<bool> {
    let statement = include_str!("../../sql/queries/probe_record.sql");
    let arguments = [
        wanted.backend_id.into(),
        wanted.token.as_str().into(),
        found.refusal.as_deref().into(),
        found.takes_batches.into(),
        found.keeps_versions.into(),
        found.honours_if_match.into(),
    ];
    Ok(spi::execute(statement, &arguments)? > 0)
}
