//! moto: AWS in one Python process, with its versions, locks and error codes. It keeps everything in memory.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{Plan, Process};

/// Starts it.
pub(super) fn launch(directory: &Path, port: u16, keep: bool) -> Result<Process> {
    let moto = env::var("MOTO").context("MOTO is not set: run through make, or `. .ci/env` first")?;
    Process::start(&Plan {
        command: &[&moto, "-H", "127.0.0.1", "-p", &port.to_string()],
        environment: &[],
        account: None,
        stop: "KILL",
        log: &directory.join("server.log"),
        scrap: Some(directory),
        keep,
    })
}
