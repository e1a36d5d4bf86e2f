//! Servers that never outlive us.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

use crate::account::Account;

/// Runs the server as its child, and ends it when the pipe from us closes: on drop, on exit, or when we are killed.
const GUARD: &str = r#"
trap '' INT TERM
"$@" </dev/null >>"$LOG" 2>&1 &
server=$!
echo "$server"
read -r word
kill -s "$STOP" "$server" 2>/dev/null
wait "$server"
[ "$word" = stay ] || [ -z "$SCRAP" ] || rm -rf "$SCRAP"
"#;

/// Starts the server and leaves it alone.
const FREE: &str = r#"
trap '' HUP
setsid "$@" </dev/null >>"$LOG" 2>&1 &
echo "$!"
"#;

/// How a server is started.
pub struct Plan<'a> {
    /// Program and arguments.
    pub command: &'a [&'a str],
    /// The environment that the server sees besides a plain one.
    pub environment: &'a [(&'a str, &'a str)],
    /// The user that it runs as.
    pub account: Option<Account>,
    /// The signal that ends it at once.
    pub stop: &'a str,
    /// Where its output goes.
    pub log: &'a Path,
    /// A directory to remove when we end without having stopped it.
    pub scrap: Option<&'a Path>,
    /// Whether it stays when we end.
    pub keep: bool,
}

/// A running server.
pub struct Process {
    guard: Child,
    pipe: Option<ChildStdin>,
    pid: i32,
    log: PathBuf,
}

impl Process {
    /// Starts it; whether it is ready is for the caller to find out.
    pub fn start(plan: &Plan) -> Result<Process> {
        let mut command = match plan.account {
            Some(account) => account.command("/bin/sh"),
            None => Command::new("/bin/sh"),
        };
        command
            .args(["-c", if plan.keep { FREE } else { GUARD }, "guard"])
            .args(plan.command)
            .envs(plan.environment.iter().copied())
            .env("LOG", plan.log)
            .env("STOP", plan.stop)
            .env("SCRAP", plan.scrap.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut guard = command.spawn().with_context(|| format!("cannot start {}", plan.command[0]))?;
        let pid = first_line(&mut guard)?.trim().parse().context("the guard did not say which process it started")?;
        let pipe = guard.stdin.take();
        Ok(Process { guard, pipe, pid, log: plan.log.to_owned() })
    }

    /// The server's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// All that it has printed.
    pub fn log(&self) -> Result<String> {
        let bytes = fs::read(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Ends it and waits until it is gone.
    pub fn stop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // A guard that does not listen any more has ended already.
            let _ = pipe.write_all(b"stay\n");
        }
        // A guard that cannot be waited for has been waited for already.
        let _ = self.guard.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn first_line(guard: &mut Child) -> Result<String> {
    let output = guard.stdout.take().context("the guard has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}

/// Runs a program to its end; its output is shown only when it fails.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        anyhow::bail!(
            "{command:?} failed: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sends a signal to exactly one process.
pub fn signal(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: kill reads its two integers only; a pid that is gone is an error that we report.
    if unsafe { libc::kill(pid, signal) } != 0 {
        return Err(std::io::Error::last_os_error()).with_context(|| format!("cannot signal process {pid}"));
    }
    Ok(())
}

/// Takes a lock that other processes of this crate wait for; freed when the file is dropped.
pub fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}
