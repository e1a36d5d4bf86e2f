//! The embedded server: the program `s3-server` of this crate.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{ACCESS_KEY, SECRET_KEY, serve};
use crate::process::Process;

/// Starts it over a directory.
pub(super) fn launch(directory: &Path, port: u16, keep: bool) -> Result<Process> {
    let program = program()?.display().to_string();
    let objects = directory.join("objects");
    fs::create_dir_all(&objects)?;
    let address = format!("127.0.0.1:{port}");
    serve(&[&program, &address, &objects.display().to_string(), ACCESS_KEY, SECRET_KEY], &[], directory, keep)
}

/// Cargo puts the program beside our own, or one directory above when we are a test.
fn program() -> Result<PathBuf> {
    let own = env::current_exe()?;
    let beside = own.parent().context("our own program has no directory")?;
    let directory = if beside.ends_with("deps") { beside.parent().unwrap_or(beside) } else { beside };
    let program = directory.join("s3-server");
    ensure!(program.exists(), "{} is not built: cargo build -p storage-reaper-tests --bins", program.display());
    Ok(program)
}
