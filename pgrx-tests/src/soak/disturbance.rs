//! What happens to the worker meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use fastrand::Rng;

use super::Soak;
use crate::process;

/// The longest time of peace.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// What comes after what, so that a short soak has seen a kill as well.
const DISTURBANCES: [&str; 5] = ["killed", "paused", "terminated", "killed", "reloaded"];

/// Kills the worker, ends it, pauses it or has it read its settings again, until the soak is over.
pub(super) fn disturb(soak: &Soak, mut rng: Rng) -> Result<()> {
    for what in DISTURBANCES.into_iter().cycle() {
        let pause = LONGEST_PAUSE.mul_f64(rng.f64());
        thread::park_timeout(pause.min(soak.until.saturating_duration_since(Instant::now())));
        if soak.is_over() {
            break;
        }
        // The server may just be starting again, or have no worker; then there is nobody to disturb.
        if disturb_once(soak, what, &mut rng).is_ok() {
            *soak.ledger().disturbances.entry(what).or_default() += 1;
        }
    }
    Ok(())
}

fn disturb_once(soak: &Soak, what: &str, rng: &mut Rng) -> Result<()> {
    let mut db = soak.cluster.database("shop")?;
    match what {
        "paused" => {
            db.run("SELECT storage_reaper.pause()")?;
            thread::park_timeout(Duration::from_millis(rng.u64(..1500)));
            db.run("SELECT storage_reaper.resume()")
        }
        "reloaded" => db.run("SELECT pg_reload_conf()"),
        _ => {
            let worker = db.number("SELECT worker_pid FROM storage_reaper.status")?;
            // kill -9 makes the server end all sessions and start again.
            process::signal(i32::try_from(worker)?, if what == "killed" { libc::SIGKILL } else { libc::SIGTERM })
        }
    }
}
