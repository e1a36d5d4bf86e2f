//! What answers say of the store that gave them: whether it works, how much it can take, and what it can do.

use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Request;
use crate::domain::verify::Honour;
use crate::pg::{transaction, utility};
use crate::s3::answer::{KeyAnswer, Verdict};
use crate::s3::fault::{Fault, FaultKind};
use crate::store::backend::{self, Ability};

use super::lane::ceiling;
use super::{Drain, Planned, SHORT};

/// Requests in a row that the store's slowness made too late to send, before that is its fault.
const MOST_STALE: u32 = 5;

impl Drain {
    /// What an answer, to the request of this number, says of the backend.
    pub(super) fn note(&mut self, request: u64, planned: &Planned, answers: &[KeyAnswer], now: Instant) {
        let id = planned.backend.id;
        self.released(&planned.backend, now);
        let lane = self.lane(id);
        (lane.stale, lane.answered_at) = (0, Some(now));
        let throttled = answers.iter().find_map(|answer| match &answer.verdict {
            Verdict::Throttled { message } => Some(message.clone()),
            _ => None,
        });
        match throttled {
            Some(message) => {
                let fault = Fault::new(FaultKind::Throttled, message);
                self.rest(&planned.backend, planned.places.len(), &fault, now);
            }
            None => self.lane(id).pace.answered(planned.places.len(), ceiling()),
        }
        if matches!(planned.request, Request::Batch { .. }) && planned.backend.takes_batches.is_none() {
            self.learned(&planned.backend, Ability::TakesBatches, true);
        }
        let is_marked = answers.iter().any(|answer| answer.verdict == Verdict::Marked);
        if is_marked && planned.backend.keeps_versions != Some(true) {
            self.learned(&planned.backend, Ability::KeepsVersions, true);
        }
        self.suspects.answered(id, request, planned.objects());
    }

    /// Takes note of a fault that asks for another plan, and says what it amounts to.
    pub(super) fn seen(&mut self, planned: &Planned, fault: Fault) -> Fault {
        let id = planned.backend.id;
        match fault.kind {
            FaultKind::BatchRefused => self.lane(id).pace.shrink(planned.places.len()),
            FaultKind::BatchSilent => self.lane(id).pace.shrink(1),
            FaultKind::BatchUnsupported if !self.learned(&planned.backend, Ability::TakesBatches, false) => {
                self.lane(id).singles_only = true;
            }
            // Who has deleted something on the way gets on.
            FaultKind::Stale if fault.is_refusal => {
                let lane = self.lane(id);
                lane.stale += 1;
                if lane.stale >= MOST_STALE {
                    let message =
                        "the store, or what lends credentials for it, answers too slowly to ask it before a deletion";
                    return Fault::refusal(FaultKind::Throttled, message);
                }
            }
            _ => {}
        }
        fault
    }

    /// Nothing is sent to the backend for a while, and less at once then than the keys of the request that failed.
    pub(super) fn rest(&mut self, backend: &Backend, keys: usize, fault: &Fault, now: Instant) {
        let counts = self.hold_back(backend, fault, now);
        let pace = &mut self.lane(backend.id).pace;
        match fault.kind {
            // What was in flight together counts once.
            _ if !counts => {}
            FaultKind::Throttled => pace.throttled(),
            FaultKind::Timeout | FaultKind::Transient => pace.overtaxed(keys),
            // One key of it may be what the store cannot take.
            FaultKind::Malformed | FaultKind::Denied => pace.shrink(keys),
            _ => {}
        }
    }

    /// Nothing is sent to the backend for a while. Says whether the fault counts beside others.
    pub(super) fn hold_back(&mut self, backend: &Backend, fault: &Fault, now: Instant) -> bool {
        // What waits for its turn there is not sent.
        self.io.recall(Some(backend.id));
        let opened = self.circuits.fail(backend.id, fault, 0.5 + fastrand::f64() / 2.0, now);
        if opened.is_news {
            log!("storage_reaper: backend \"{}\" is held: {}", backend.name, fault.message);
            if self.record_held(backend.id, Some(fault.message.clone())) {
                self.circuits.written(backend.id);
            }
        }
        opened.counts
    }

    fn released(&mut self, backend: &Backend, now: Instant) {
        if self.circuits.succeed(backend.id, now) {
            self.tell_released(backend);
        }
    }

    /// A probe that somebody wanted was answered well: whatever was wrong before, it is not now.
    pub(super) fn let_go(&mut self, backend: &Backend) {
        if self.circuits.close(backend.id) {
            self.tell_released(backend);
        }
    }

    fn tell_released(&mut self, backend: &Backend) {
        log!("storage_reaper: backend \"{}\" answers again", backend.name);
        self.record_held(backend.id, None);
        self.look_now = true;
    }

    /// What a probe on the way has found out.
    pub(super) fn probed(&self, backend: &Backend, honour: Option<Honour>) {
        match honour {
            Some(Honour::Yes) => drop(self.learned(backend, Ability::HonoursIfMatch, true)),
            Some(Honour::No) => drop(self.learned(backend, Ability::HonoursIfMatch, false)),
            Some(Honour::Unknown) | None => {}
        }
    }

    /// What was found out of a backend is remembered until that is altered. Says whether that was written down.
    fn learned(&self, backend: &Backend, ability: Ability, is_so: bool) -> bool {
        let written = transaction::run("storage_reaper: record an ability", SHORT, || {
            backend::set_ability(backend, ability, is_so)
        });
        match written {
            Ok(is_news) => {
                if let Some(told) = ability.told(is_so).filter(|_| is_news) {
                    log!("storage_reaper: backend \"{}\" {told}", backend.name);
                }
                true
            }
            Err(failure) => {
                log!("storage_reaper: could not record a backend's abilities: {failure}");
                false
            }
        }
    }

    /// The clock of a store differs from ours, or does so no more.
    pub(super) fn timed(&self, id: BackendId, ahead_s: i64) {
        let written = transaction::run("storage_reaper: record a clock", SHORT, || backend::set_clock(id, ahead_s));
        match written {
            Ok(Some(name)) if ahead_s == 0 => {
                log!("storage_reaper: the clock of backend \"{name}\" is this server's again")
            }
            Ok(Some(name)) => warning!(
                "storage_reaper: the clock of this server is {} s {} that of backend \"{name}\", by which its requests are signed now",
                ahead_s.unsigned_abs(),
                if ahead_s > 0 { "behind" } else { "ahead of" },
            ),
            Ok(None) => {}
            Err(failure) => log!("storage_reaper: could not record a backend's clock: {failure}"),
        }
    }

    /// What is known of clocks ends with the thread that found it out.
    pub(super) fn forget_clocks(&self) {
        let written =
            transaction::run("storage_reaper: forget clocks", SHORT, || match utility::extension_is_installed() {
                true => backend::forget_clocks(),
                false => Ok(()),
            });
        drop(written.inspect_err(|failure| log!("storage_reaper: could not forget clocks: {failure}")));
    }

    /// Says whether that was written down.
    fn record_held(&self, id: BackendId, reason: Option<String>) -> bool {
        let written = transaction::run("storage_reaper: record a held backend", SHORT, move || {
            backend::set_held(id, reason.as_deref())
        });
        written.inspect_err(|failure| log!("storage_reaper: could not record a backend's state: {failure}")).is_ok()
    }
}
