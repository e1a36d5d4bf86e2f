//! storage_reaper.arming and the switches for the whole database.

use crate::error::Result;

use super::spi;

/// Whether this database may delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Never armed: capture and report only.
    Observe,
    /// Armed here.
    Armed,
    /// Armed somewhere else, as in a copy or a restored dump.
    Disarmed,
}

/// The switches that the worker honours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    pub state: State,
    pub paused: bool,
}

/// Reads the switches.
pub fn switches() -> Result<Switches> {
    let found = spi::read(include_str!("../../sql/queries/switches.sql"), &[], |row| {
        let state = match row.required::<String>("state")?.as_str() {
            "armed" => State::Armed,
            "disarmed" => State::Disarmed,
            _ => State::Observe,
        };
        Ok(Switches { state, paused: row.required("paused")? })
    })?;
    Ok(found.into_iter().next().unwrap_or(Switches { state: State::Observe, paused: true }))
}

/// Binds arming to this database.
pub fn arm(by: &str) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/arm.sql"), &[by.into()]).map(drop)
}

/// Back to observing.
pub fn disarm() -> Result<()> {
    spi::execute(include_str!("../../sql/queries/disarm.sql"), &[]).map(drop)
}

/// Pauses or resumes everything.
pub fn set_paused(paused: bool) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/control_set_paused.sql"), &[paused.into()]).map(drop)
}

/// Whether the extension is installed in this database.
pub fn is_installed() -> Result<bool> {
    Ok(spi::read(include_str!("../../sql/queries/is_installed.sql"), &[], |row| row.required("installed"))?
        .first()
        .copied()
        .unwrap_or(false))
}

/// The paused sources and backends (as negative numbers), in order.
pub fn paused() -> Result<Vec<i32>> {
    spi::read(include_str!("../../sql/queries/paused.sql"), &[], |row| row.required("id"))
}
