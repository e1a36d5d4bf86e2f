//! The programs that storage_reaper is compared with. Each is told the keys by a list, as it likes it best.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use storage_reaper_tests::cluster::SHOP;
use storage_reaper_tests::store::{ACCESS_KEY, SECRET_KEY};

use crate::usage::{self, Usage};

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    S5cmd,
    Rclone,
    /// cron.py.
    Script,
}

/// Requests that rclone sends at once: as many as storage_reaper by default.
const RCLONE_AT_ONCE: &str = "64";

/// Where everything is.
pub struct Task<'a> {
    pub endpoint: &'a str,
    pub bucket: &'a str,
    pub keys: &'a [String],
    /// Where lists may be written.
    pub scratch: &'a Path,
    /// The socket's directory of the cluster that the script asks.
    pub postgres: &'a Path,
}

impl Tool {
    /// Deletes the keys.
    pub fn delete(self, task: &Task) -> Result<Usage> {
        let list = task.scratch.join("keys");
        fs::write(&list, self.list(task)?)?;
        let mut command = self.command(task, &list)?;
        command
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        usage::of_program(&mut command)
    }

    fn list(self, task: &Task) -> Result<String> {
        let mut list = String::new();
        match self {
            // A command of its own for each key would send each in a request of its own.
            Tool::S5cmd => {
                for keys in task.keys.chunks(1000) {
                    list.push_str("rm");
                    keys.iter().try_for_each(|key| write!(list, " s3://{}/{key}", task.bucket))?;
                    list.push('\n');
                }
            }
            Tool::Rclone | Tool::Script => {
                task.keys.iter().try_for_each(|key| writeln!(list, "{key}"))?;
            }
        }
        Ok(list)
    }

    fn command(self, task: &Task, list: &Path) -> Result<Command> {
        let venv =
            PathBuf::from(env::var("REAPER_ROOT").context("REAPER_ROOT is not set: run through make")?).join(".venv");
        let mut command = match self {
            // bin/s5cmd is a wrapper in Python.
            Tool::S5cmd => Command::new(package(&venv, "s5cmd/bin/s5cmd")?),
            Tool::Rclone => Command::new(venv.join("bin/rclone")),
            Tool::Script => Command::new(venv.join("bin/python")),
        };
        match self {
            Tool::S5cmd => {
                command.args(["--endpoint-url", task.endpoint, "--log", "error", "run"]).arg(list);
            }
            Tool::Rclone => {
                command.args(["--config", "", "delete", &format!(":s3:{}", task.bucket), "--files-from-raw"]).arg(list);
                // Without the last it asks for every key of the list before it deletes it.
                command.args(["--transfers", RCLONE_AT_ONCE, "--checkers", RCLONE_AT_ONCE, "--s3-no-head-object"]);
                command
                    .env("RCLONE_S3_PROVIDER", "SeaweedFS")
                    .env("RCLONE_S3_ENDPOINT", task.endpoint)
                    .env("RCLONE_S3_ENV_AUTH", "true");
            }
            Tool::Script => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/bench_drain/cron.py");
                command.arg(script).args([task.bucket, task.endpoint]).arg(list);
                command.env("PGHOST", task.postgres).env("PGUSER", "postgres").env("PGDATABASE", SHOP);
            }
        }
        Ok(command)
    }
}

/// A file of a Python package.
fn package(venv: &Path, file: &str) -> Result<PathBuf> {
    let pythons = fs::read_dir(venv.join("lib"))?.flatten();
    let mut places = pythons.map(|python| python.path().join("site-packages").join(file));
    places.find(|place| place.exists()).with_context(|| format!("no {file}: run .ci/bench-tools"))
}
