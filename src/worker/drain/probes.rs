//! Stores that somebody wants to be asked what they can do, and whether they let us delete.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::backend::Backend;
use crate::domain::probe::Found;
use crate::pg::{transaction, utility};
use crate::s3::fault::{Fault, Response};
use crate::s3::io::ProbeJob;
use crate::store::probe::{self, Wanted};

use super::{Drain, PAUSE_AFTER_FAILURE, SHORT};

/// What is wanted, what is under way, and what was answered and is not written down yet.
#[derive(Default)]
pub(super) struct Probes {
    is_wanted: bool,
    in_flight: HashMap<u64, (Arc<Backend>, Wanted)>,
    answered: VecDeque<Answered>,
    write_at: Option<Instant>,
}

struct Answered {
    backend: Arc<Backend>,
    wanted: Wanted,
    result: Result<Found, Fault>,
}

impl Probes {
    /// What the switches say.
    pub fn told(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// Answers to what was asked will not come.
    pub fn give_back(&mut self) {
        self.is_wanted |= !self.in_flight.is_empty();
        self.in_flight.clear();
    }

    /// When to come back.
    pub fn write_at(&self) -> Option<Instant> {
        self.write_at
    }

    fn is_under_way(&self, wanted: &Wanted) -> bool {
        let unwritten = self.answered.iter().map(|answered| &answered.wanted);
        self.in_flight.values().map(|(_, asked)| asked).chain(unwritten).any(|asked| asked == wanted)
    }
}

impl Drain {
    /// Asks the stores that somebody wants to be asked. Nothing of anybody's is deleted, so nobody need have armed.
    pub(super) fn ask_stores(&mut self, now: Instant) {
        if !self.probes.is_wanted || self.is_quiet(now) {
            return;
        }
        match transaction::run("storage_reaper: read wanted probes", SHORT, probe::wanted) {
            Ok(wanted) => {
                self.probes.is_wanted = false;
                for (backend, wanted) in wanted {
                    if !self.probes.is_under_way(&wanted) {
                        self.ask_store(backend, wanted);
                    }
                }
            }
            Err(failure) => self.be_quiet("could not read which stores to ask", &failure, now),
        }
    }

    fn ask_store(&mut self, backend: Backend, wanted: Wanted) {
        let backend = Arc::new(backend);
        self.next_job += 1;
        self.io.probe(ProbeJob { id: self.next_job, backend: Arc::clone(&backend), prefix: wanted.prefix.clone() });
        self.probes.in_flight.insert(self.next_job, (backend, wanted));
    }

    /// What the store says.
    pub(super) fn store_answered(&mut self, id: u64, result: Result<Found, Fault>, now: Instant) {
        let Some((backend, wanted)) = self.probes.in_flight.remove(&id) else { return };
        self.probes.answered.push_back(Answered { backend, wanted, result });
        self.probes.write_at = Some(now);
    }

    /// Writes down what stores have said. It holds a backend or lets it go, as any answer does, if it is still the one that was
    /// asked.
    pub(super) fn write_probes(&mut self, now: Instant) {
        if self.probes.write_at.is_none_or(|at| now < at) {
            return;
        }
        self.probes.write_at = None;
        while let Some(answered) = self.probes.answered.pop_front() {
            let found = match &answered.result {
                Ok(found) => found.clone(),
                Err(fault) => Found { refusal: Some(fault.message.clone()), ..Found::default() },
            };
            let wanted = answered.wanted.clone();
            let written = transaction::run("storage_reaper: record a probe", SHORT, move || {
                utility::extension_is_installed().then(|| probe::record(&wanted, &found)).transpose()
            });
            match written {
                Ok(Some(true)) => self.heed(&answered, now),
                Ok(Some(false)) => self.probes.is_wanted = true,
                Ok(None) => {}
                // Somebody may be altering the backend: nothing else has to wait for that.
                Err(failure) => {
                    log!("storage_reaper: could not record a probe: {failure}");
                    self.probes.answered.push_front(answered);
                    self.probes.write_at = Some(now + PAUSE_AFTER_FAILURE);
                    return;
                }
            }
        }
    }

    fn heed(&mut self, answered: &Answered, now: Instant) {
        let Answered { backend, result, .. } = answered;
        match result {
            Ok(Found { refusal: None, .. }) => {
                log!("storage_reaper: backend \"{}\" lets us delete", backend.name);
                self.let_go(backend);
            }
            Ok(Found { refusal: Some(refusal), .. }) => {
                log!("storage_reaper: backend \"{}\" does not let us delete: {refusal}", backend.name);
            }
            Err(fault) => {
                log!("storage_reaper: the probe of backend \"{}\" failed: {}", backend.name, fault.message);
                if fault.kind.response() == Response::Hold {
                    self.rest(backend, 1, fault, now);
                }
            }
        }
    }
}
