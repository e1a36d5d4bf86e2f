//! The life of a worker: wait to lead, then work and sleep.

use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use crate::guc;
use crate::pg::{lock, shared, transaction, wait};

use super::drain::Drain;

/// For statements that touch a handful of rows.
pub const SHORT: Duration = Duration::from_secs(30);
/// Without shared memory no commit can wake the worker.
const UNWOKEN_NAP: Duration = Duration::from_secs(1);

/// Serves the database that the process is connected to, until the server ends it.
pub fn serve() {
    let is_woken = shared::announce();
    // A reload between the fork and the signal handler was not seen: read the files once, now that none is missed.
    wait::reload();
    let Ok((mut wakeup, ringer)) = UnixStream::pair() else { wait::exit_for_restart() };
    if wakeup.set_nonblocking(true).is_err() || ringer.set_nonblocking(true).is_err() {
        wait::exit_for_restart();
    }
    while !leads() {
        wait::wait(wakeup.as_raw_fd(), guc::nap());
    }
    let mut drain = match Drain::start(ringer) {
        Ok(drain) => drain,
        Err(error) => {
            log!("storage_reaper: could not start the I/O thread: {error}");
            wait::exit_for_restart();
        }
    };
    loop {
        let now = Instant::now();
        let next = drain.work(now);
        let nap = if is_woken { guc::nap() } else { guc::nap().min(UNWOKEN_NAP) };
        let limit = next.map_or(nap, |next| next.saturating_duration_since(Instant::now()).min(nap));
        let woken = wait::wait(wakeup.as_raw_fd(), limit);
        silence(&mut wakeup);
        if woken.reloaded {
            drain.reload();
        }
        if woken.by_latch || !is_woken {
            drain.look_again();
        }
    }
}

fn leads() -> bool {
    match transaction::run("storage_reaper: waiting to lead", SHORT, || Ok(lock::try_lead())) {
        Ok(leads) => leads,
        Err(failure) => {
            log!("storage_reaper: {failure}");
            false
        }
    }
}

/// Takes what the I/O thread rang out of the socket.
fn silence(wakeup: &mut UnixStream) {
    let mut bytes = [0; 256];
    loop {
        match wakeup.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
