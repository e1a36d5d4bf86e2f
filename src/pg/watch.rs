//! Tells caches of this backend when a table changed.

use std::cell::{Cell, RefCell};

use pgrx::pg_sys;
use pgrx::prelude::*;

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    static CHANGED: RefCell<Vec<pg_sys::Oid>> = const { RefCell::new(Vec::new()) };
    static EVERYTHING: Cell<bool> = const { Cell::new(false) };
}

/// More than this, and everything is forgotten instead of remembering what changed.
const REMEMBERED: usize = 64;

/// What changed since the last call: `None` for everything.
pub fn take_changes() -> Option<Vec<pg_sys::Oid>> {
    if !REGISTERED.replace(true) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(on_change), pg_sys::Datum::from(0_usize)) };
        return None;
    }
    if EVERYTHING.replace(false) {
        CHANGED.take();
        return None;
    }
    Some(CHANGED.take())
}

/// Grows whenever this backend hears that something in the catalog changed, which it does at the latest when it gets a lock
/// that the change had to have.
pub fn catalog_changes() -> u64 {
    // SAFETY: a plain read of a counter, on the main thread, which alone changes it.
    unsafe { pg_sys::SharedInvalidMessageCounter }
}

/// Tells every backend that what is known of `relation` is out of date, from the next commit on.
pub fn announce(relation: pg_sys::Oid) {
    // SAFETY: raises only for a relation that does not exist, which callers have just read from the catalog.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) };
}

/// Runs at unpredictable moments, so it only takes notes and allocates at most a few dozen oids.
#[pg_guard]
unsafe extern "C-unwind" fn on_change(_argument: pg_sys::Datum, relation: pg_sys::Oid) {
    super::outbox::forget(relation);
    if relation == pg_sys::InvalidOid {
        EVERYTHING.set(true);
        return;
    }
    CHANGED.with_borrow_mut(|changed| {
        if changed.len() < REMEMBERED {
            changed.push(relation);
        } else {
            EVERYTHING.set(true);
        }
    });
}
