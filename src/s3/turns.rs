//! Requests take turns: a backend has as many under way as it may, and the next ones wait here, where an answer starts the
//! next at once, whatever keeps the worker busy.

use std::collections::{HashMap, VecDeque};

use crate::domain::backend::BackendId;

use super::io::Job;

/// What is under way and what waits, by backend.
#[derive(Default)]
pub(super) struct Turns(HashMap<BackendId, Turn>);

#[derive(Default)]
struct Turn {
    under_way: usize,
    /// As the last job has it.
    slots: usize,
    waiting: VecDeque<Job>,
}

impl Turn {
    fn next(&mut self) -> Vec<Job> {
        let room = self.slots.max(1).saturating_sub(self.under_way);
        let next: Vec<Job> = self.waiting.drain(..room.min(self.waiting.len())).collect();
        self.under_way += next.len();
        next
    }
}

impl Turns {
    /// A job lines up. Those come back whose turn it is.
    pub fn begin(&mut self, job: Job) -> Vec<Job> {
        let turn = self.0.entry(job.backend.id).or_default();
        turn.slots = job.slots;
        turn.waiting.push_back(job);
        turn.next()
    }

    /// A job of the backend is over. Those come back whose turn it is.
    pub fn end(&mut self, backend: BackendId) -> Vec<Job> {
        let Some(turn) = self.0.get_mut(&backend) else { return Vec::new() };
        turn.under_way = turn.under_way.saturating_sub(1);
        turn.next()
    }

    /// What waits for a backend, or for any, does not any more.
    pub fn recall(&mut self, backend: Option<BackendId>) -> Vec<Job> {
        let turns = self.0.iter_mut().filter(|(id, _)| backend.is_none_or(|backend| backend == **id));
        turns.flat_map(|(_, turn)| std::mem::take(&mut turn.waiting)).collect()
    }
}
