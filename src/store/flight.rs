//! storage_reaper.flight: what is on its way out, for writers of fenced tables.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::domain::flight::{End, Flight, Marks, State};
use crate::error::{Error, Result};
use crate::pg::{fence, lock, transaction, wait};

use super::spi;

/// Marks a flight in the transaction of the caller; it counts once that is committed. `is_fenced` if it will be said when
/// requests leave.
pub fn mark(marks: &Marks, is_fenced: bool) -> Result<i64> {
    let arguments = [marks.to_bytes().into(), (!is_fenced).into()];
    let ids: Vec<i64> =
        spi::write(include_str!("../../sql/queries/flight_mark.sql"), &arguments, |row| row.required("id"))?;
    ids.into_iter().next().ok_or_else(|| Error::Stored { what: "flight", detail: "It has no id.".to_owned() })
}

/// Whether writers of some table look for objects in flight.
pub fn is_fenced() -> Result<bool> {
    let found = spi::read(include_str!("../../sql/queries/flight_is_fenced.sql"), &[], |row| row.required("fenced"))?;
    Ok(found.first().copied().unwrap_or(true))
}

/// From the commit on, requests may leave.
pub fn send(id: i64) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/flight_send.sql"), &[id.into()]).map(drop)
}

/// Ends a flight. A request without an answer may still be carried out for `unclear_for`.
pub fn end(id: i64, gone: &Marks, unclear: &Marks, unclear_for: Duration) -> Result<()> {
    let (gone, unclear) = (gone.to_bytes(), unclear.to_bytes());
    let milliseconds = i64::try_from(unclear_for.as_millis()).unwrap_or(i64::MAX);
    let arguments = [id.into(), transaction::horizon().into(), gone.into(), unclear.into(), milliseconds.into()];
    spi::execute(include_str!("../../sql/queries/flight_end.sql"), &arguments).map(drop)
}

/// Ends what another leader left behind.
pub fn adopt(unclear_for: Duration) -> Result<()> {
    let milliseconds = i64::try_from(unclear_for.as_millis()).unwrap_or(i64::MAX);
    let arguments = [transaction::horizon().into(), milliseconds.into()];
    spi::execute(include_str!("../../sql/queries/flight_adopt.sql"), &arguments).map(drop)
}

/// Flights that writers may have to know of.
pub struct Left {
    pub any: bool,
    /// When to look again whether one can be forgotten; nothing tells.
    pub look_in: Option<Duration>,
}

/// How often it is looked whether the last transaction that may need a flight has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Forgets what no writer needs any more, and says what is left.
pub fn forget() -> Result<Left> {
    if left()?.look_in.is_some() {
        spi::execute(include_str!("../../sql/queries/flight_clear.sql"), &[transaction::horizon().into()])?;
        spi::execute(include_str!("../../sql/queries/flight_forget.sql"), &[])?;
    }
    left()
}

fn left() -> Result<Left> {
    let found = spi::read(include_str!("../../sql/queries/flight_left.sql"), &[], |row| {
        let ended: i64 = row.required("ended")?;
        let wait: Option<i64> = row.optional("wait_ms")?;
        let wait = wait.and_then(|wait| u64::try_from(wait).ok()).map_or(LOOK_EVERY, Duration::from_millis);
        Ok(Left { any: row.required::<i64>("flights")? > 0, look_in: (ended > 0).then(|| wait.max(LOOK_EVERY)) })
    })?;
    Ok(found.into_iter().next().unwrap_or(Left { any: false, look_in: None }))
}

/// Whether every transaction that was writing at a horizon has ended.
pub fn has_passed(horizon: u64) -> Result<bool> {
    let found =
        spi::read(include_str!("../../sql/queries/horizon_passed.sql"), &[horizon.to_string().into()], |row| {
            row.required("passed")
        })?;
    Ok(found.first().copied().unwrap_or(false))
}

thread_local! {
    /// Marks never change, and take longer to read than all else.
    static MARKS: RefCell<HashMap<i64, Rc<Marks>>> = RefCell::new(HashMap::new());
}

/// Longer than any request takes that was sent in time.
const LONGEST_REQUEST: Duration = Duration::from_secs(600);

fn over_after(linger: Duration) -> Duration {
    linger + LONGEST_REQUEST
}

/// All flights as a writer sees them who has just written.
pub fn seen(linger: Duration) -> Vec<Flight> {
    let rows = fence::flights(over_after(linger), &|id| MARKS.with_borrow(|known| known.contains_key(&id)));
    MARKS.with_borrow_mut(|known| {
        known.retain(|id, _| rows.iter().any(|row| row.id == *id));
        rows.into_iter()
            .map(|row| {
                let marks = row.marks.as_deref().map(|bytes| Rc::new(Marks::from_bytes(bytes)));
                let marks = known.entry(row.id).or_insert_with(|| marks.unwrap_or_default());
                Flight { id: row.id, marks: Rc::clone(marks), state: state(&row) }
            })
            .collect()
    })
}

fn state(row: &fence::FlightRow) -> State {
    if !row.is_ended {
        return State::Open { sent: row.is_sent };
    }
    let unclear = (!row.unclear.is_empty()).then(|| Marks::from_bytes(&row.unclear));
    State::Ended(End { is_past: row.was_ended, gone: Marks::from_bytes(&row.gone), unclear })
}

/// Call it before anything is declared that changes what rows mean, with no table locked yet: flights that know nothing of
/// it are over then, and none is closed before the transaction ends. `limit` is how long that may take.
pub fn declare(limit: Duration, linger: Duration) -> Result<()> {
    lock::declare();
    let deadline = Instant::now() + limit;
    for id in fence::flights(over_after(linger), &|_| true)
        .into_iter()
        .filter(|flight| !flight.is_ended)
        .map(|flight| flight.id)
    {
        if !fence::join(id, deadline.saturating_duration_since(Instant::now())) {
            return Err(Error::StillInFlight);
        }
        // Of a leader that died, or whose transaction failed: joined, but not over.
        while fence::flights(over_after(linger), &|_| true)
            .iter()
            .any(|flight| flight.id == id && !flight.is_ended && flight.is_sent)
        {
            if Instant::now() >= deadline {
                return Err(Error::StillInFlight);
            }
            wait::pause(LOOK_AT_SENT);
        }
    }
    Ok(())
}

/// How often it is looked whether a request is over that nobody holds a lock for.
const LOOK_AT_SENT: Duration = Duration::from_millis(50);
