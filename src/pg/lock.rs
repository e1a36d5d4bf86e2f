//! Locks by oid, the lock of whoever leads, and those of flights.

use std::cell::{Cell, RefCell};

use pgrx::pg_sys;
use pgrx::prelude::*;

/// Takes the lock that TRUNCATE and DROP take, and says whether the table still exists under it.
pub fn exclusive(relation: pg_sys::Oid) -> bool {
    // SAFETY: LockRelationOid accepts any oid; the lock is kept to the end of the transaction. The look-up afterwards
    // sees a concurrent drop, since taking the lock processes invalidations.
    unsafe {
        pg_sys::LockRelationOid(relation, pg_sys::AccessExclusiveLock as i32);
        pg_sys::get_rel_relkind(relation) != 0
    }
}

/// Keeps partitions from being created or attached until the transaction ends; CREATE TRIGGER takes the same lock.
pub fn against_partitions(relation: pg_sys::Oid) {
    // SAFETY: LockRelationOid accepts any oid.
    unsafe { pg_sys::LockRelationOid(relation, pg_sys::ShareRowExclusiveLock as i32) };
}

/// The lock of the one worker that drains this database: "SREA" and "PER1" in ASCII. It is of a kind that no SQL
/// function can take, so that nobody keeps the worker from leading.
fn leadership() -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: a plain read of this process's database.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: 0x5352_4541,
        locktag_field3: 0x5045_5231,
        locktag_field4: 2,
        locktag_type: pg_sys::LockTagType::LOCKTAG_USERLOCK as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// Tries to become the leader, for the life of the process.
pub fn try_lead() -> bool {
    // SAFETY: a session lock outlives transactions; without waiting it answers at once.
    let got = unsafe { pg_sys::LockAcquire(&leadership(), pg_sys::ExclusiveLock as i32, true, true) };
    got != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Whether this process still leads: pg_advisory_unlock_all(), in somebody's expression, gives this lock up as well.
pub fn leads() -> bool {
    holds(&leadership())
}

fn holds(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: looks into this process's own table of locks.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let held = pg_sys::LockHeldByMe(tag, pg_sys::ExclusiveLock as i32);
        #[cfg(feature = "pg18")]
        let held = pg_sys::LockHeldByMe(tag, pg_sys::ExclusiveLock as i32, false);
        held
    }
}

/// The lock of a flight. The leader closes it before it asks the guard; writers of fenced tables join it. Of the method of
/// tables' locks, which pg_advisory_unlock_all(), in somebody's expression, leaves alone; but a transaction of this process
/// that fails gives them all up, and then the flight's row tells writers what they would have waited for.
fn flight(id: i64) -> pg_sys::LOCKTAG {
    let [low, high] = [id & 0xffff_ffff, id >> 32].map(|half| u32::try_from(half).unwrap_or_default());
    pg_sys::LOCKTAG {
        // SAFETY: a plain read of this process's database.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: high,
        locktag_field3: low,
        locktag_field4: 3,
        locktag_type: pg_sys::LockTagType::LOCKTAG_USERLOCK as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    }
}

/// The lock of declarations: whoever changes what rows mean shares it until that is committed, and no flight is closed
/// meanwhile.
fn declarations() -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG { locktag_field4: 4, ..flight(0) }
}

/// Keeps flights from being closed until the transaction ends.
pub fn declare() {
    // SAFETY: a transaction's lock; the leader holds the other mode for a moment only, and never waits for it.
    unsafe { pg_sys::LockAcquire(&declarations(), pg_sys::ShareLock as i32, false, false) };
}

/// Closes a flight, unless a writer has joined it or something is being declared. It stays closed across transactions, until
/// it is opened.
pub fn close_flight(id: i64) -> bool {
    // SAFETY: session locks; without waiting they answer at once.
    unsafe {
        let got = pg_sys::LockAcquire(&declarations(), pg_sys::ExclusiveLock as i32, true, true);
        if got == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            return false;
        }
        let is_closed = close(id);
        pg_sys::LockRelease(&declarations(), pg_sys::ExclusiveLock as i32, true);
        is_closed
    }
}

/// A transaction that failed has given up the locks of all flights: they are closed again. A writer that came in between has
/// seen by the flight's row that it was sent.
pub fn close_again() {
    for (id, was_open) in CLOSED.take() {
        let is_lost = !holds(&flight(id));
        if is_lost {
            close(id);
        }
        CLOSED.with_borrow_mut(|closed| {
            closed.retain(|(closed, _)| *closed != id);
            closed.push((id, was_open || is_lost));
        });
    }
}

fn close(id: i64) -> bool {
    // SAFETY: a session lock outlives transactions; without waiting it answers at once.
    let got = unsafe { pg_sys::LockAcquire(&flight(id), pg_sys::ExclusiveLock as i32, true, true) };
    let is_closed = got != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL;
    if is_closed {
        CLOSED.with_borrow_mut(|closed| closed.push((id, false)));
        open_at_exit();
    }
    is_closed
}

thread_local! {
    /// Flights that this process has closed, and whether they were open meanwhile.
    static CLOSED: RefCell<Vec<(i64, bool)>> = const { RefCell::new(Vec::new()) };
    static OPENS_AT_EXIT: Cell<bool> = const { Cell::new(false) };
}

/// The server gives up such locks with a transaction that fails, but not of a process that ends outside of one: writers
/// would wait for ever.
fn open_at_exit() {
    if !OPENS_AT_EXIT.replace(true) {
        // SAFETY: the callback lives as long as the library; it runs while the process still has its place in shared
        // memory.
        unsafe { pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(0_usize)) };
    }
}

#[pg_guard]
extern "C-unwind" fn on_exit(_code: i32, _argument: pg_sys::Datum) {
    CLOSED.take().into_iter().for_each(|(id, _)| open_flight(id));
}

/// Whether the flight was closed by this process, and never open since.
pub fn has_kept_closed(id: i64) -> bool {
    holds(&flight(id)) && CLOSED.with_borrow(|closed| closed.contains(&(id, false)))
}

/// Lets writers go on that wait for a flight.
pub fn open_flight(id: i64) {
    CLOSED.with_borrow_mut(|closed| closed.retain(|(closed, _)| *closed != id));
    if holds(&flight(id)) {
        // SAFETY: this process holds the lock.
        unsafe { pg_sys::LockRelease(&flight(id), pg_sys::ExclusiveLock as i32, true) };
    }
}

/// Joins a flight until the transaction ends, prepared or not. While it is closed this waits as long as `lock_timeout`
/// says, and raises like any wait for a lock.
pub fn join_flight(id: i64) {
    // SAFETY: a transaction's lock, taken as the server takes those of tables.
    unsafe { pg_sys::LockAcquire(&flight(id), pg_sys::ShareLock as i32, false, false) };
}
