//! What a process needs of the machine, as /proc tells.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// What one deletion of everything has cost.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// On the wall.
    pub seconds: f64,
    /// Of all threads, in user and kernel mode.
    pub cpu: f64,
    /// Of the main thread.
    pub main: f64,
    /// The most memory that the process has had, in MiB.
    pub peak: f64,
}

/// How often a running program's memory is looked at, and whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs a program to its end. Its peak is looked at while it runs: what wait4 would say of it counts the memory of this
/// program, too, from the moment between fork and exec.
pub fn of_program(command: &mut Command) -> Result<Usage> {
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let pid = i64::from(child.id());
    let (mut peak, mut main) = (0.0, 0.0);
    let (status, usage) = loop {
        match reap(child.id())? {
            Some(ended) => break ended,
            None => {
                // It may end at any moment, and is gone from /proc then.
                peak = peak_of(pid).unwrap_or(0.0_f64).max(peak);
                main = main_thread(pid).unwrap_or(main);
                thread::park_timeout(LOOK_EVERY);
            }
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    drop(child.stdin.take());
    if status != 0 {
        bail!("{command:?} ended with status {status:#x}");
    }
    let time = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Usage { seconds, cpu: time(usage.ru_utime) + time(usage.ru_stime), main, peak })
}

/// The status of a child that has ended, and what it has used.
fn reap(pid: u32) -> Result<Option<(i32, libc::rusage)>> {
    let pid = libc::pid_t::try_from(pid)?;
    let mut status = 0;
    // SAFETY: all zeros are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to our own locals, and wait4 keeps neither.
    match unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) } {
        0 => Ok(None),
        reaped if reaped == pid => Ok(Some((status, usage))),
        _ => Err(std::io::Error::last_os_error()).context("cannot wait for a program"),
    }
}

/// A process that goes on, from a moment on.
pub struct Meter {
    pid: i64,
    begun: Instant,
    cpu: f64,
    main: f64,
}

impl Meter {
    /// Begins to count.
    pub fn start(pid: i32) -> Result<Meter> {
        let pid = i64::from(pid);
        // Only root and the process's own user may; without, the peak is that of its whole life.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Ok(Meter { pid, cpu: all_threads(pid)?, main: main_thread(pid)?, begun: Instant::now() })
    }

    /// What it has needed since.
    pub fn stop(&self) -> Result<Usage> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let (cpu, main) = (all_threads(self.pid)? - self.cpu, main_thread(self.pid)? - self.main);
        Ok(Usage { seconds, cpu, main, peak: peak_of(self.pid)? })
    }
}

/// utime and stime of a process.
fn all_threads(pid: i64) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before it may hold anything, also parentheses.
    let (_, fields) = text.rsplit_once(')').context("a stat without a name")?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    // SAFETY: sysconf has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks as f64 / per_second as f64)
}

fn main_thread(pid: i64) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).context("the kernel counts no CPU time")?;
    let nanoseconds: f64 = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
    Ok(nanoseconds / 1e9)
}

fn peak_of(pid: i64) -> Result<f64> {
    status(pid, "VmHWM:")
}

/// The memory that a process shares with nobody, in MiB.
pub fn private_of(pid: i64) -> Result<f64> {
    status(pid, "RssAnon:")
}

/// A line of a process's status, from kB to MiB.
fn status(pid: i64, name: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("a line of a status is missing")?;
    let kib: f64 = line.split_whitespace().next().context("a line of a status is empty")?.parse()?;
    Ok(kib / 1024.0)
}
