//! The protocol of flight.rs, explored in full: every order of the steps of a leader, of two writers and of the network,
//! with processes that end at any moment and answers that get lost. Without any one of its steps an object is lost.

mod world;

use std::rc::Rc;

use stateright::{Checker, Model, Property};

use super::{End, Flight, Marks, State as Shown, Step, Written};
use world::{Action, Leader, Row, STEPS, WRITERS, Without, World, Writer};

/// Flights in one history: a second one meets what the first has left behind.
const FLIGHTS: u8 = 2;
/// The only object.
const MARK: i64 = 1;

struct Fence(Without);

impl Fence {
    fn is_without(&self, step: Without) -> bool {
        self.0 == step
    }

    fn shown(&self, world: &World, writer: usize) -> Option<Flight> {
        let marks = |any: bool| Marks::new(any.then_some(MARK));
        let state = match world.row {
            Row::None => return None,
            Row::Open { sent } => Shown::Open { sent },
            Row::Ended { gone, unclear } => Shown::Ended(End {
                is_past: world.saw_end[writer] || self.is_without(Without::PastBySnapshot),
                gone: marks(gone),
                unclear: (unclear || self.saw_unclear(world, writer)).then(|| marks(true)),
            }),
        };
        Some(Flight { id: 1, marks: Rc::new(marks(true)), state })
    }

    fn saw_unclear(&self, world: &World, writer: usize) -> bool {
        world.saw_unclear[writer] && !self.is_without(Without::UnclearAtStart)
    }

    fn at_first(&self, world: &World, writer: usize) -> Step {
        self.shown(world, writer).map_or(Step::GoOn, |flight| flight.at_first(&written()))
    }

    fn once_joined(&self, world: &World, writer: usize) -> Step {
        self.shown(world, writer).map_or(Step::Refuse, |flight| flight.once_joined(&written()))
    }

    /// `None` when the step has to wait.
    fn write(&self, world: &World, writer: usize) -> Option<World> {
        let mut next = world.clone();
        let looks_first = self.is_without(Without::LookAfterWriting);
        next.writers[writer] = match world.writers[writer] {
            Writer::Absent => {
                next.saw_end[writer] = matches!(world.row, Row::Ended { .. });
                next.saw_unclear[writer] = matches!(world.row, Row::Ended { unclear: true, .. });
                Writer::Began
            }
            Writer::Began if looks_first => Writer::Looked(self.at_first(world, writer)),
            Writer::Began => Writer::Wrote,
            Writer::Looked(Step::GoOn) => Writer::Passed,
            Writer::Looked(Step::Join) => Writer::Joining,
            Writer::Looked(Step::Refuse) => Writer::Aborted,
            Writer::Wrote => match self.at_first(world, writer) {
                Step::GoOn => Writer::Passed,
                Step::Join => Writer::Joining,
                Step::Refuse => Writer::Aborted,
            },
            Writer::Joining if world.is_closed && !self.is_without(Without::Join) => return None,
            Writer::Joining => {
                next.joined[writer] = !self.is_without(Without::Join);
                Writer::Joined
            }
            Writer::Joined if self.is_without(Without::SecondLook) => Writer::Passed,
            Writer::Joined => match self.once_joined(world, writer) {
                Step::GoOn => Writer::Passed,
                _ => Writer::Aborted,
            },
            Writer::Passed => Writer::Committed,
            Writer::Committed | Writer::Aborted => return None,
        };
        if matches!(next.writers[writer], Writer::Committed | Writer::Aborted) {
            next.joined[writer] = false;
        }
        Some(next)
    }

    fn list_writers(world: &mut World) {
        for writer in 0..WRITERS {
            world.older[writer] = world.writers[writer].is_running();
        }
    }

    /// `None` when the step has to wait.
    fn lead(&self, world: &World) -> Option<World> {
        let mut next = world.clone();
        let is_named = world.writers.contains(&Writer::Committed);
        next.leader = match world.leader {
            Leader::Gone => return None,
            Leader::Idle if world.flights == FLIGHTS || !world.exists || world.row != Row::None => return None,
            Leader::Idle => {
                next.flights += 1;
                Self::list_writers(&mut next);
                Leader::Listed
            }
            Leader::Listed => {
                if !self.is_without(Without::Mark) {
                    next.row = Row::Open { sent: false };
                    // Another flight than the one that writers may have seen.
                    next.saw_end = [false; WRITERS];
                    next.saw_unclear = [false; WRITERS];
                }
                Leader::Marked
            }
            Leader::Marked => {
                if !self.is_without(Without::HorizonAfterMark) {
                    Self::list_writers(&mut next);
                }
                Leader::Waiting
            }
            Leader::Waiting => {
                let still = (0..WRITERS).any(|writer| world.older[writer] && world.writers[writer].is_running());
                if still && !self.is_without(Without::Wait) {
                    return None;
                }
                Leader::Waited
            }
            // Here the check comes before the lock.
            Leader::Waited if self.is_without(Without::CheckWhenClosed) && !world.is_closed => {
                if is_named {
                    Self::spare(&mut next)
                } else {
                    Leader::Closed
                }
            }
            Leader::Waited if self.is_without(Without::Close) => Leader::Closed,
            Leader::Waited if world.joined.contains(&true) => {
                // Somebody has joined: wait for whoever writes now.
                Self::list_writers(&mut next);
                Leader::Waiting
            }
            Leader::Waited => {
                next.is_closed = true;
                Leader::Closed
            }
            Leader::Closed if self.is_without(Without::CheckWhenClosed) => {
                if world.joined.contains(&true) {
                    return None;
                }
                next.is_closed = true;
                Leader::Free
            }
            Leader::Closed if is_named && !self.is_without(Without::Check) => Self::spare(&mut next),
            Leader::Closed => Leader::Free,
            Leader::Free => {
                if next.row != Row::None && !self.is_without(Without::SentMark) {
                    next.row = Row::Open { sent: true };
                }
                Leader::SaidSent
            }
            Leader::SaidSent => {
                next.wire += 1;
                Leader::Sent
            }
            // An answer says that the request was carried out.
            Leader::Sent if world.wire > 0 => return None,
            Leader::Sent => Leader::Answered { is_clear: true },
            Leader::Answered { is_clear } => {
                let unclear = !is_clear && !self.is_without(Without::Unclear);
                let gone = is_clear || unclear;
                if next.row != Row::None {
                    next.row = Row::Ended { gone, unclear };
                }
                Leader::Ended
            }
            Leader::Ended => {
                next.is_closed = false;
                Leader::Idle
            }
        };
        Some(next)
    }

    /// A row names the object: nothing is sent.
    fn spare(world: &mut World) -> Leader {
        if world.row != Row::None {
            world.row = Row::Ended { gone: false, unclear: false };
        }
        Leader::Ended
    }

    fn adopt(&self, world: &mut World) {
        world.leader = Leader::Idle;
        if let Row::Open { sent } = world.row {
            let unclear = sent && !self.is_without(Without::Adoption);
            world.row = Row::Ended { gone: unclear, unclear };
        }
    }
}

fn written() -> Written {
    Written { fingerprints: [MARK].into(), is_anything: false }
}

impl Model for Fence {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            leader: Leader::Idle,
            flights: 0,
            row: Row::None,
            is_closed: false,
            wire: 0,
            exists: true,
            older: [false; WRITERS],
            writers: [Writer::Absent; WRITERS],
            saw_end: [false; WRITERS],
            saw_unclear: [false; WRITERS],
            joined: [false; WRITERS],
            lost: [false; WRITERS],
        }]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Action>) {
        use Action::{Abort, CarryOut, Clear, DropRequest, Forget, Lead, LeaderEnds, LeaderStarts, LoseAnswer, Write};
        actions.extend([Lead, LoseAnswer, LeaderEnds, LeaderStarts, CarryOut, DropRequest, Clear, Forget]);
        actions.extend((0..WRITERS).flat_map(|writer| [Write(writer), Abort(writer)]));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Lead => return self.lead(world),
            Action::Write(writer) => return self.write(world, writer),
            Action::Abort(writer) if world.writers[writer].is_running() => {
                next.writers[writer] = Writer::Aborted;
                next.joined[writer] = false;
            }
            Action::LoseAnswer if world.leader == Leader::Sent => next.leader = Leader::Answered { is_clear: false },
            Action::LeaderEnds if world.leader != Leader::Gone => {
                next.leader = Leader::Gone;
                next.is_closed = false;
            }
            Action::LeaderStarts if world.leader == Leader::Gone => self.adopt(&mut next),
            Action::CarryOut if world.wire > 0 => {
                next.wire -= 1;
                if world.exists {
                    next.exists = false;
                    for writer in 0..WRITERS {
                        let has_row = world.writers[writer].is_running() || world.writers[writer] == Writer::Committed;
                        next.lost[writer] = has_row;
                    }
                }
            }
            Action::DropRequest if world.wire > 0 && world.leader != Leader::Sent => next.wire -= 1,
            Action::Clear => match world.row {
                Row::Ended { gone, unclear: true } if world.wire == 0 || self.is_without(Without::Linger) => {
                    next.row = Row::Ended { gone, unclear: false };
                }
                _ => return None,
            },
            Action::Forget => match world.row {
                // Nobody runs who was writing before it ended.
                Row::Ended { unclear: false, .. }
                    if matches!(world.leader, Leader::Idle)
                        && !world.writers.iter().any(|writer| writer.is_running()) =>
                {
                    next.row = Row::None;
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no committed row has lost its object", |_, world: &World| {
                (0..WRITERS).all(|writer| !(world.lost[writer] && world.writers[writer] == Writer::Committed))
            }),
            Property::sometimes("an object goes", |_, world: &World| !world.exists),
            Property::sometimes("a writer passes a flight", |_, world: &World| {
                world.row == Row::Open { sent: false } && world.writers.contains(&Writer::Committed)
            }),
            Property::sometimes("a writer is refused", |_, world: &World| {
                !world.exists && world.writers.contains(&Writer::Aborted) && world.lost.contains(&true)
            }),
        ]
    }
}

#[test]
fn some_order_of_steps_loses_an_object() {
    let checker = Fence(Without::Nothing).checker().spawn_bfs().join();
    println!("fence: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

#[test]
fn a_step_of_the_protocol_is_not_needed() {
    for step in STEPS {
        let checker = Fence(step).checker().spawn_bfs().join();
        let lost = checker.discovery("no committed row has lost its object");
        assert!(lost.is_some(), "without {step:?} nothing is lost in {} states", checker.unique_state_count());
    }
}
