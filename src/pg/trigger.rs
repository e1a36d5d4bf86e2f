//! The call of a statement trigger.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::relation::Relation;
use super::tuples::Tuples;

/// What the statement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Delete,
    Update,
    Truncate,
}

/// A trigger call, valid while the trigger function runs.
pub struct Trigger {
    data: *mut pg_sys::TriggerData,
}

impl Trigger {
    /// `None` when the function was not called as a trigger.
    ///
    /// # Safety
    /// `call` must be the argument of the running function.
    pub unsafe fn from_call(call: pg_sys::FunctionCallInfo) -> Option<Self> {
        // SAFETY: the caller vouches for `call`; a non-null context is a node with a tag.
        unsafe {
            let context = (*call).context;
            if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
                return None;
            }
            Some(Self { data: context.cast() })
        }
    }

    /// `None` for events that capture is not attached to.
    pub fn event(&self) -> Option<Event> {
        // SAFETY: `data` is valid for the call.
        match unsafe { (*self.data).tg_event } & pg_sys::TRIGGER_EVENT_OPMASK {
            pg_sys::TRIGGER_EVENT_DELETE => Some(Event::Delete),
            pg_sys::TRIGGER_EVENT_UPDATE => Some(Event::Update),
            pg_sys::TRIGGER_EVENT_TRUNCATE => Some(Event::Truncate),
            _ => None,
        }
    }

    /// The first argument of the trigger: the id of its source.
    pub fn source_id(&self) -> Option<i32> {
        // SAFETY: tgargs holds tgnargs NUL-terminated strings.
        unsafe {
            let trigger = (*self.data).tg_trigger;
            if (*trigger).tgnargs < 1 {
                return None;
            }
            CStr::from_ptr(*(*trigger).tgargs).to_str().ok()?.parse().ok()
        }
    }

    /// The table that the trigger is on, locked by the statement.
    pub fn relation(&self) -> Relation<'_> {
        // SAFETY: the executor keeps the relation open and locked during the call.
        unsafe { Relation::borrowed((*self.data).tg_relation) }
    }

    /// Whether the statement touched no row.
    pub fn is_empty(&self) -> bool {
        // SAFETY: a statement trigger with REFERENCING OLD TABLE has a tuplestore; one without has null.
        unsafe {
            let store = (*self.data).tg_oldtable;
            !store.is_null() && pg_sys::tuplestore_tuple_count(store) == 0
        }
    }

    /// How many rows the statement wrote.
    pub fn rows_written(&self) -> i64 {
        // SAFETY: as for is_empty.
        unsafe {
            let store = (*self.data).tg_newtable;
            if store.is_null() { 0 } else { pg_sys::tuplestore_tuple_count(store) }
        }
    }

    /// Whether the rows as they were are at hand.
    pub fn has_old_rows(&self) -> bool {
        // SAFETY: a plain read.
        unsafe { !(*self.data).tg_oldtable.is_null() }
    }

    /// The rows as they were.
    pub fn old_rows(&self) -> Option<Tuples<'_>> {
        // SAFETY: the store and the descriptor of the relation live for the call.
        unsafe { Tuples::of_store((*self.data).tg_oldtable, &self.relation()) }
    }

    /// The rows as they are now.
    pub fn new_rows(&self) -> Option<Tuples<'_>> {
        // SAFETY: as for old_rows.
        unsafe { Tuples::of_store((*self.data).tg_newtable, &self.relation()) }
    }

    /// Makes the transition tables readable by name inside the open SPI connection.
    pub fn register_with_spi(&self) {
        // SAFETY: called within an SPI connection; the data outlives it.
        unsafe { pg_sys::SPI_register_trigger_data(self.data) };
    }
}
