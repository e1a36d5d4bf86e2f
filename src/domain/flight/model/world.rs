//! What the model is made of.

use super::super::Step;

pub const WRITERS: usize = 2;

/// What is left out, to see that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// Objects are sent unmarked.
    Mark,
    /// Older writers are not waited for.
    Wait,
    /// Writers that are waited for are listed before the mark is committed.
    HorizonAfterMark,
    /// Writers find the flight open while it is checked and sent.
    Close,
    /// The check is made before the flight is closed.
    CheckWhenClosed,
    Check,
    /// Nothing says that requests may have left.
    SentMark,
    /// A writer looks before it writes.
    LookAfterWriting,
    /// A writer does not wait for a closed flight.
    Join,
    /// A writer that has joined goes on whatever became of the object.
    SecondLook,
    /// A flight that ended during the statement is taken for an old one.
    PastBySnapshot,
    /// A request without an answer is taken for one that failed.
    Unclear,
    /// A statement that began while it was unclear takes it for clear at its end.
    UnclearAtStart,
    /// What is unclear ends before the store would refuse the request.
    Linger,
    /// A new leader takes a flight that it finds for one of which nothing was sent.
    Adoption,
}

pub const STEPS: [Without; 15] = [
    Without::Mark,
    Without::Wait,
    Without::HorizonAfterMark,
    Without::Close,
    Without::CheckWhenClosed,
    Without::Check,
    Without::SentMark,
    Without::LookAfterWriting,
    Without::Join,
    Without::SecondLook,
    Without::PastBySnapshot,
    Without::Unclear,
    Without::UnclearAtStart,
    Without::Linger,
    Without::Adoption,
];

/// The leader, by what it has done last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leader {
    Gone,
    Idle,
    Listed,
    Marked,
    Waiting,
    Waited,
    Closed,
    Free,
    SaidSent,
    Sent,
    /// The answer has come: the object is gone, or nobody knows.
    Answered {
        is_clear: bool,
    },
    Ended,
}

/// A writer, by what it has done last. One that has written has a transaction id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Writer {
    Absent,
    /// Its statement has a snapshot.
    Began,
    /// Only where it looks first: what it saw.
    Looked(Step),
    Wrote,
    Joining,
    Joined,
    Passed,
    Committed,
    Aborted,
}

impl Writer {
    pub fn is_running(self) -> bool {
        matches!(self, Self::Wrote | Self::Joining | Self::Joined | Self::Passed)
    }
}

/// The row of the flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Row {
    None,
    Open { sent: bool },
    Ended { gone: bool, unclear: bool },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub leader: Leader,
    pub flights: u8,
    pub row: Row,
    pub is_closed: bool,
    /// Requests that the store has not carried out and may still.
    pub wire: u8,
    pub exists: bool,
    /// Who is waited for.
    pub older: [bool; WRITERS],
    pub writers: [Writer; WRITERS],
    /// Whether the flight had ended for the statement's snapshot.
    pub saw_end: [bool; WRITERS],
    /// Whether it was unclear when the statement began.
    pub saw_unclear: [bool; WRITERS],
    /// Who has joined keeps the lock until the transaction ends.
    pub joined: [bool; WRITERS],
    /// The object went after this writer's row was there.
    pub lost: [bool; WRITERS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The leader's next step.
    Lead,
    /// The answer does not come.
    LoseAnswer,
    LeaderEnds,
    LeaderStarts,
    /// The store carries a request out.
    CarryOut,
    /// A request is lost, or too old to be taken.
    DropRequest,
    /// What was unclear is so no longer.
    Clear,
    Forget,
    Write(usize),
    Abort(usize),
}
