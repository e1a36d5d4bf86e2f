//! Waiting for something to become true, never for a fixed time.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a scenario waits for what should take milliseconds, on a machine that is busy with other things or stands still
/// for a while: only a scenario that fails takes this long.
pub const PATIENCE: Duration = Duration::from_secs(120);

const PAUSE: Duration = Duration::from_millis(20);

/// Asks again and again until the answer is `Some`, and says what it waited for if it never is.
pub fn until<T>(patience: Duration, what: &str, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask().with_context(|| format!("while waiting until {what}"))? {
            return Ok(answer);
        }
        if Instant::now() >= deadline {
            bail!("waited {patience:?} in vain until {what}");
        }
        thread::park_timeout(PAUSE);
    }
}

/// Asks until the answer is the expected one; the failure shows the last answer.
pub fn until_equal<T: PartialEq + Debug>(what: &str, expected: T, mut ask: impl FnMut() -> Result<T>) -> Result<()> {
    let mut last = None;
    until(PATIENCE, what, || {
        let answer = ask()?;
        let done = answer == expected;
        last = Some(answer);
        Ok(done.then_some(()))
    })
    .with_context(|| format!("expected {expected:?}, last saw {last:?}"))
}

/// Watches that something stays true for a while; used where the fear is that something happens.
pub fn stays(span: Duration, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + span;
    loop {
        if !holds().with_context(|| format!("while watching that {what}"))? {
            bail!("no longer true that {what}");
        }
        if Instant::now() >= end {
            return Ok(());
        }
        thread::park_timeout(PAUSE);
    }
}
