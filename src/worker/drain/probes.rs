//! Stores that somebody wants to be asked what they can do, and whether they let us delete.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pgrx::prelude::*;

use crate::domain::backend::Backend;
use crate::domain::probe::Found;
use crate::pg::transaction;
use crate::s3::fault::{Fault, Response};
use crate::s3::io::ProbeJob;
use crate::store::probe::{self, Wanted};

use super::{Drain, SHORT};

/// What is wanted, and what is under way.
#[derive(Default)]
pub(super) struct Probes {
    is_wanted: bool,
    in_flight: HashMap<u64, (Arc<Backend>, Wanted)>,
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

    fn is_under_way(&self, wanted: &Wanted) -> bool {
        self.in_flight.values().any(|(_, asked)| asked == wanted)
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

    /// What the store says is written down, and holds the backend or lets it go as any answer does.
    pub(super) fn store_answered(&mut self, id: u64, result: Result<Found, Fault>, now: Instant) {
        let Some((backend, wanted)) = self.probes.in_flight.remove(&id) else { return };
        match &result {
            Ok(_) => self.released(&backend, now),
            Err(fault) if fault.kind.response() == Response::Hold => self.rest(&backend, 1, fault, now),
            Err(_) => {}
        }
        let found = result.unwrap_or_else(|fault| Found { refusal: Some(fault.message), ..Found::default() });
        match &found.refusal {
            None => log!("storage_reaper: backend \"{}\" lets us delete", backend.name),
            Some(refusal) => log!("storage_reaper: the probe of backend \"{}\" failed: {refusal}", backend.name),
        }
        let written =
            transaction::run("storage_reaper: record a probe", SHORT, move || probe::record(&backend, &wanted, &found));
        if let Err(failure) = written {
            self.probes.is_wanted = true;
            self.be_quiet("could not record a probe", &failure, now);
        }
    }
}
