//! Shared memory: which worker serves which database, so that a commit can wake it without a query.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use once_cell::sync::OnceCell;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// More than `max_worker_processes` usually allows; a worker that finds no slot looks for work by itself.
const SLOTS: usize = 64;

/// One running worker. `database` is written before `pid`, and `pid` is zero while the slot is free.
#[repr(C)]
struct Slot {
    database: AtomicU32,
    pid: AtomicI32,
    /// What the worker says of flights, if it leads.
    flights: AtomicU32,
}

/// The worker does not lead, or has not looked yet.
const UNKNOWN: u32 = 0;
/// No writer has to look for flights.
const NONE: u32 = 1;
/// There are flights, or were a moment ago.
const SOME: u32 = 2;

#[repr(C)]
struct Shared {
    slots: [Slot; SLOTS],
}

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());
static PREVIOUS_REQUEST: OnceCell<pg_sys::shmem_request_hook_type> = OnceCell::new();
static PREVIOUS_STARTUP: OnceCell<pg_sys::shmem_startup_hook_type> = OnceCell::new();

/// Asks for the memory; only while libraries are preloaded.
pub fn init() {
    // SAFETY: hooks are plain function pointers, set by the postmaster before it has children.
    unsafe {
        if PREVIOUS_REQUEST.set(pg_sys::shmem_request_hook).is_ok() {
            pg_sys::shmem_request_hook = Some(on_request);
        }
        if PREVIOUS_STARTUP.set(pg_sys::shmem_startup_hook).is_ok() {
            pg_sys::shmem_startup_hook = Some(on_startup);
        }
    }
}

#[pg_guard]
extern "C-unwind" fn on_request() {
    // SAFETY: called by the postmaster at the time it sums up requests; the previous hook is chained.
    unsafe {
        if let Some(Some(previous)) = PREVIOUS_REQUEST.get() {
            previous();
        }
        pg_sys::RequestAddinShmemSpace(size_of::<Shared>());
    }
}

#[pg_guard]
extern "C-unwind" fn on_startup() {
    // SAFETY: called once by the postmaster when shared memory is there and no child runs yet, so the segment needs
    // no lock; zeroed bytes are a valid `Shared`.
    unsafe {
        if let Some(Some(previous)) = PREVIOUS_STARTUP.get() {
            previous();
        }
        let mut found = false;
        let at = pg_sys::ShmemInitStruct(c"storage_reaper".as_ptr(), size_of::<Shared>(), &mut found);
        if !found {
            std::ptr::write_bytes(at.cast::<u8>(), 0, size_of::<Shared>());
        }
        SHARED.store(at.cast::<Shared>(), Ordering::Release);
    }
}

fn shared() -> Option<&'static Shared> {
    // SAFETY: set once by the postmaster to memory that outlives every process; only atomics inside.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// Whether the library was preloaded.
pub fn is_available() -> bool {
    shared().is_some()
}

/// Takes a slot for this process until it exits. Returns whether commits can wake it.
pub fn announce() -> bool {
    let Some(shared) = shared() else { return false };
    // SAFETY: plain reads of this backend's own identity.
    let (pid, database) = unsafe { (pg_sys::MyProcPid, pg_sys::MyDatabaseId.to_u32()) };
    for slot in &shared.slots {
        // -1 reserves the slot, so that nobody signals a pid before its database is known.
        if slot.pid.compare_exchange(0, -1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            slot.database.store(database, Ordering::Release);
            slot.flights.store(UNKNOWN, Ordering::SeqCst);
            slot.pid.store(pid, Ordering::Release);
            // SAFETY: the callback takes no argument and may run in any state of this process.
            unsafe { pg_sys::on_shmem_exit(Some(on_exit), pg_sys::Datum::from(0_usize)) };
            return true;
        }
    }
    false
}

extern "C-unwind" fn on_exit(_code: i32, _argument: pg_sys::Datum) {
    let Some(shared) = shared() else { return };
    // SAFETY: a plain read of this process's id.
    let pid = unsafe { pg_sys::MyProcPid };
    for slot in &shared.slots {
        if slot.pid.load(Ordering::Acquire) == pid {
            slot.flights.store(UNKNOWN, Ordering::SeqCst);
        }
        let _ = slot.pid.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The leader says whether there are flights. Before it marks one it says so, and a writer looks after it has written:
/// whoever does not see this has written before the mark, and is waited for.
pub fn announce_flights(any: bool) {
    let Some(shared) = shared() else { return };
    // SAFETY: a plain read of this process's id.
    let pid = unsafe { pg_sys::MyProcPid };
    for slot in shared.slots.iter().filter(|slot| slot.pid.load(Ordering::Acquire) == pid) {
        slot.flights.store(if any { SOME } else { NONE }, Ordering::SeqCst);
    }
}

/// Whether a writer has to look for flights in its database.
pub fn may_be_flights() -> bool {
    let Some(shared) = shared() else { return true };
    // SAFETY: a plain read of this backend's database.
    let here = unsafe { pg_sys::MyDatabaseId.to_u32() };
    let mut leader_says = UNKNOWN;
    for slot in &shared.slots {
        if slot.pid.load(Ordering::Acquire) > 0 && slot.database.load(Ordering::Acquire) == here {
            leader_says = leader_says.max(slot.flights.load(Ordering::SeqCst));
        }
    }
    leader_says != NONE
}

/// Ends the workers of a database that is about to be dropped or copied; the command itself waits until they have left.
pub fn stop_workers(database: pg_sys::Oid) {
    let Some(shared) = shared() else { return };
    for slot in &shared.slots {
        let pid = slot.pid.load(Ordering::Acquire);
        if pid > 0 && slot.database.load(Ordering::Acquire) == database.to_u32() {
            // SAFETY: a slot names a live worker of ours; should it have ended in between, nobody or at worst another
            // process of this server is told to end, as pg_terminate_backend would.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
    }
}

/// Sets the latch of every worker of this database. Never raises: it runs in commit callbacks.
pub fn wake_workers() {
    let Some(shared) = shared() else { return };
    // SAFETY: plain read of this backend's database.
    let here = unsafe { pg_sys::MyDatabaseId.to_u32() };
    for slot in &shared.slots {
        let pid = slot.pid.load(Ordering::Acquire);
        if pid > 0 && slot.database.load(Ordering::Acquire) == here {
            set_latch(pid);
        }
    }
}

fn set_latch(pid: i32) {
    // SAFETY: BackendPidGetProc takes and releases ProcArrayLock itself; a PGPROC is never freed, so a process that
    // ends in between costs its successor one spurious wake-up.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid);
        if !process.is_null() {
            pg_sys::SetLatch(&raw mut (*process).procLatch);
        }
    }
}
