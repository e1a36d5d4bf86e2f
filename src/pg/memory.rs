//! Scratch memory that is emptied now and then.

use pgrx::pg_sys;

/// Detoasted values between two resets are few enough not to matter.
const ROWS_BETWEEN_RESETS: u32 = 512;

/// A memory context that is current while this value lives.
pub struct Scratch {
    context: pg_sys::MemoryContext,
    previous: pg_sys::MemoryContext,
    rows: u32,
}

impl Scratch {
    /// Makes the context and switches to it.
    pub fn enter() -> Self {
        // SAFETY: the new context is a child of the current one, so an abort frees it too.
        unsafe {
            let context = pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"storage_reaper capture".as_ptr(),
                0,
                8 * 1024,
                8 * 1024 * 1024,
            );
            Self { context, previous: pg_sys::MemoryContextSwitchTo(context), rows: 0 }
        }
    }

    /// Makes the context current while the returned value lives.
    pub fn within(&self) -> Within {
        // SAFETY: the context lives as long as self; the previous one is put back on drop.
        Within(unsafe { pg_sys::MemoryContextSwitchTo(self.context) })
    }

    /// A row is done with: nothing allocated for it is used any more.
    pub fn row_done(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_BETWEEN_RESETS) {
            // SAFETY: only values of finished rows are in it.
            unsafe { pg_sys::MemoryContextReset(self.context) };
        }
    }
}

/// The scratch context is current.
pub struct Within(pg_sys::MemoryContext);

impl Drop for Within {
    fn drop(&mut self) {
        // SAFETY: the context that was current before; it outlives this value.
        unsafe { pg_sys::MemoryContextSwitchTo(self.0) };
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: the previous context outlives this one; also while an error unwinds, since the transaction is
        // aborted only afterwards.
        unsafe {
            pg_sys::MemoryContextSwitchTo(self.previous);
            pg_sys::MemoryContextDelete(self.context);
        }
    }
}
