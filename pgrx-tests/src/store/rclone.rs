//! rclone's S3 server: buckets are folders, objects are files.

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{ACCESS_KEY, SECRET_KEY, serve};
use crate::process::Process;

/// Starts it over a directory.
pub(super) fn launch(directory: &Path, port: u16, keep: bool) -> Result<Process> {
    let rclone = env::var("RCLONE").context("RCLONE is not set: run through make, or `. .ci/env` first")?;
    let data = directory.join("data");
    fs::create_dir_all(&data)?;
    // Without a file and a cache of its own it reads and writes those of whoever runs the tests.
    let own = |name: &str| directory.join(name).display().to_string();
    let command = [
        rclone.as_str(),
        "serve",
        "s3",
        "--config",
        &own("rclone.conf"),
        "--cache-dir",
        &own("cache"),
        "--addr",
        &format!("127.0.0.1:{port}"),
        "--auth-key",
        &format!("{ACCESS_KEY},{SECRET_KEY}"),
        &data.display().to_string(),
    ];
    serve(&command, &[], directory, keep)
}
