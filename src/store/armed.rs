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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switches {
    pub state: State,
    /// All of it.
    pub paused: bool,
    /// The paused or held sources, and the paused backends as negative numbers, in order.
    pub stopped: Vec<i32>,
    /// The backends that are held.
    pub held: Vec<i32>,
    /// Whether a backend that is not paused is to be probed.
    pub is_probe_wanted: bool,
}

/// Reads the switches.
pub fn switches() -> Result<Switches> {
    let found = spi::read(include_str!("../../sql/queries/switches.sql"), &[], |row| {
        let state = match row.required::<String>("state")?.as_str() {
            "armed" => State::Armed,
            "disarmed" => State::Disarmed,
            _ => State::Observe,
        };
        let (stopped, held) = (row.required("stopped")?, row.required("held")?);
        let is_probe_wanted = row.required("is_probe_wanted")?;
        Ok(Switches { state, paused: row.required("paused")?, stopped, held, is_probe_wanted })
    })?;
    let shut =
        Switches { state: State::Observe, paused: true, stopped: Vec::new(), held: Vec::new(), is_probe_wanted: false };
    Ok(found.into_iter().next().unwrap_or(shut))
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
