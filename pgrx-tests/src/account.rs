//! Which operating system user the PostgreSQL servers run as.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// The user and group of the servers: postgres when we are root, as PostgreSQL refuses to run as root; else ourselves.
#[derive(Clone, Copy)]
pub struct Account {
    switch_to: Option<(u32, u32)>,
}

impl Account {
    /// The account that servers run as.
    pub fn of_servers() -> Result<Account> {
        static ACCOUNT: OnceLock<Account> = OnceLock::new();
        if let Some(account) = ACCOUNT.get() {
            return Ok(*account);
        }
        // SAFETY: geteuid has no preconditions and cannot fail.
        let root = unsafe { libc::geteuid() } == 0;
        let switch_to = if root { Some((id("-u")?, id("-g")?)) } else { None };
        Ok(*ACCOUNT.get_or_init(|| Account { switch_to }))
    }

    /// A command that will run as this account, with an environment that holds nothing of ours.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C.UTF-8").current_dir("/");
        if let Some((user, group)) = self.switch_to {
            // Dropping to another user also drops root's supplementary groups.
            command.uid(user).gid(group);
        }
        command
    }

    /// Gives a file or directory to this account.
    pub fn own(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.switch_to else { return Ok(()) };
        chown(path, Some(user), Some(group)).with_context(|| format!("cannot hand {} to the servers", path.display()))
    }

    /// Writes a file that nobody but this account may read.
    pub fn write_private(&self, path: &Path, text: &str) -> Result<()> {
        let written = || -> std::io::Result<()> {
            let _ = fs::remove_file(path);
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
        };
        written().with_context(|| format!("cannot write {}", path.display()))?;
        self.own(path)
    }
}

fn id(which: &str) -> Result<u32> {
    let output = Command::new("id").args([which, "postgres"]).output().context("cannot run id")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().context("there is no user postgres, and PostgreSQL does not run as root")
}
