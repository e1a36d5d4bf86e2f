//! Rows without SQL: a walk over a transition table or a whole table.

use std::marker::PhantomData;

use pgrx::pg_sys;

use super::relation::Relation;

unsafe extern "C-unwind" {
    /// Both without pgrx's guard: `Tuples::next` sets one up around the two, since a guard costs as much as they do.
    #[link_name = "tuplestore_gettupleslot"]
    fn next_in_store(
        store: *mut pg_sys::Tuplestorestate,
        forward: bool,
        copy: bool,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool;
    #[link_name = "slot_getsomeattrs_int"]
    fn deform(slot: *mut pg_sys::TupleTableSlot, columns: std::ffi::c_int);
}

enum Origin {
    Store(*mut pg_sys::Tuplestorestate),
    Scan { scan: pg_sys::TableScanDesc, snapshot: pg_sys::Snapshot },
}

/// A walk over rows; a row is valid until the next one is asked for.
pub struct Tuples<'a> {
    origin: Origin,
    slot: *mut pg_sys::TupleTableSlot,
    /// How many columns of each row are taken apart at once.
    columns: i16,
    /// Where the slot's row lives: the caller may empty other contexts between rows.
    context: pg_sys::MemoryContext,
    relation: PhantomData<&'a ()>,
}

/// One row.
pub struct Row<'a> {
    slot: *mut pg_sys::TupleTableSlot,
    tuples: PhantomData<&'a ()>,
}

impl<'a> Tuples<'a> {
    /// Walks a transition table from its start.
    ///
    /// # Safety
    /// `store` must be null or a tuplestore of `relation`'s rows that outlives `'a`.
    pub unsafe fn of_store(store: *mut pg_sys::Tuplestorestate, relation: &Relation<'a>) -> Option<Self> {
        if store.is_null() {
            return None;
        }
        // SAFETY: the store is valid by contract; the slot is made for its row type.
        unsafe {
            pg_sys::tuplestore_rescan(store);
            let slot = pg_sys::MakeSingleTupleTableSlot(relation.descriptor(), &raw const pg_sys::TTSOpsMinimalTuple);
            Some(Self {
                origin: Origin::Store(store),
                slot,
                columns: 0,
                context: pg_sys::CurrentMemoryContext,
                relation: PhantomData,
            })
        }
    }

    /// Scans every committed row of a table that the caller holds an AccessExclusiveLock on: with that lock, the
    /// newest snapshot sees all that TRUNCATE or DROP would remove.
    pub fn of_table(relation: &Relation<'a>) -> Self {
        // SAFETY: a transaction runs.
        Self::scan(relation, unsafe { pg_sys::GetLatestSnapshot() })
    }

    /// Scans the rows that the running statement sees.
    pub fn of_table_for_statement(relation: &Relation<'a>) -> Self {
        // SAFETY: a statement runs, and with it a snapshot is active.
        Self::scan(relation, unsafe { pg_sys::GetActiveSnapshot() })
    }

    fn scan(relation: &Relation<'a>, snapshot: pg_sys::Snapshot) -> Self {
        // SAFETY: the relation is open and locked; the snapshot is registered until the scan ends.
        unsafe {
            let snapshot = pg_sys::RegisterSnapshot(snapshot);
            let scan = pg_sys::table_beginscan(relation.as_ptr(), snapshot, 0, std::ptr::null_mut());
            let slot = pg_sys::table_slot_create(relation.as_ptr(), std::ptr::null_mut());
            Self {
                origin: Origin::Scan { scan, snapshot },
                slot,
                columns: 0,
                context: pg_sys::CurrentMemoryContext,
                relation: PhantomData,
            }
        }
    }

    /// Says that the first `columns` columns of each row will be read.
    pub fn reading(mut self, columns: i16) -> Self {
        self.columns = columns;
        self
    }

    /// The next row; values of the one before are gone.
    pub fn next(&mut self) -> Option<Row<'_>> {
        // SAFETY: store or scan and slot are valid while self is. A store that has spilled to disk makes each row in
        // the current context and the slot frees it, so that context must be one that nobody empties meanwhile.
        let found = unsafe {
            let callers = pg_sys::MemoryContextSwitchTo(self.context);
            let found = match &self.origin {
                Origin::Store(store) => {
                    let (store, slot, columns) = (*store, self.slot, i32::from(self.columns));
                    // The closure owns nothing that an error, which jumps over it, would leak.
                    pg_sys::ffi::pg_guard_ffi_boundary(|| {
                        let found = next_in_store(store, true, false, slot);
                        if found && columns > 0 {
                            deform(slot, columns);
                        }
                        found
                    })
                }
                Origin::Scan { scan, .. } => {
                    pg_sys::table_scan_getnextslot(*scan, pg_sys::ScanDirection::ForwardScanDirection, self.slot)
                }
            };
            pg_sys::MemoryContextSwitchTo(callers);
            found
        };
        found.then_some(Row { slot: self.slot, tuples: PhantomData })
    }
}

impl Drop for Tuples<'_> {
    fn drop(&mut self) {
        // SAFETY: each was made by this value and is released once.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            if let Origin::Scan { scan, snapshot } = self.origin {
                pg_sys::table_endscan(scan);
                pg_sys::UnregisterSnapshot(snapshot);
            }
        }
    }
}

impl Row<'_> {
    /// The value of a column by its attribute number, or `None` for NULL.
    pub fn attribute(&self, number: i16) -> Option<pg_sys::Datum> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        // SAFETY: callers take numbers from the descriptor that the slot was made with; the slot is deformed up to
        // the column before it is read.
        unsafe {
            let slot = &mut *self.slot;
            if slot.tts_nvalid < number {
                pg_sys::slot_getsomeattrs_int(slot, i32::from(number));
            }
            (!*slot.tts_isnull.add(index)).then(|| *slot.tts_values.add(index))
        }
    }
}
