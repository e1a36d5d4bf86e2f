//! Appends to the outbox without SQL: no plan, no privilege of the caller, no name looked up twice.

use std::cell::Cell;

use pgrx::pg_sys;

/// A row of storage_reaper.entry, apart from its id.
pub struct Entry<'a> {
    pub source_id: i32,
    /// Where plain keys go, as the source has it now: what is captured stays with its store.
    pub backend_id: Option<i32>,
    pub grace_us: i64,
    pub objects: i16,
    pub payload: &'a [u8],
    pub fault: Option<&'a str>,
    /// No row is left of the table.
    pub is_whole: bool,
}

/// Columns of storage_reaper.entry in their order, those of its key first; an upgrade may only add columns behind them.
mod column {
    pub const SOURCE_ID: usize = 0;
    pub const BACKEND_ID: usize = 1;
    pub const DUE_AT: usize = 2;
    pub const ID: usize = 3;
    pub const HORIZON: usize = 4;
    pub const CAPTURED_AT: usize = 5;
    pub const ATTEMPTS: usize = 6;
    pub const OBJECTS: usize = 7;
    pub const PAYLOAD: usize = 8;
    pub const FAULT: usize = 10;
    pub const WHOLE: usize = 11;
    /// With those that only the worker sets.
    pub const COUNT: usize = 14;
}

#[derive(Clone, Copy)]
struct Tables {
    entry: pg_sys::Oid,
    sequence: pg_sys::Oid,
}

thread_local! {
    static TABLES: Cell<Option<Tables>> = const { Cell::new(None) };
}

unsafe extern "C-unwind" {
    /// commands/sequence.h, which pgrx does not bind.
    fn nextval_internal(relation: pg_sys::Oid, check_permissions: bool) -> i64;
}

/// Forgets the oids when either table changed; called from the relation cache's invalidation.
pub fn forget(relation: pg_sys::Oid) {
    TABLES.set(
        TABLES
            .get()
            .filter(|known| relation != pg_sys::InvalidOid && relation != known.entry && relation != known.sequence),
    );
}

fn tables() -> Tables {
    if let Some(known) = TABLES.get() {
        return known;
    }
    // SAFETY: syscache look-ups by NUL-terminated names; the schema and tables belong to the extension whose trigger
    // is running.
    let found = unsafe {
        let schema = pg_sys::get_namespace_oid(c"storage_reaper".as_ptr(), false);
        Tables {
            entry: pg_sys::get_relname_relid(c"entry".as_ptr(), schema),
            sequence: pg_sys::get_relname_relid(c"entry_id".as_ptr(), schema),
        }
    };
    TABLES.set(Some(found));
    found
}

fn next_id(sequence: pg_sys::Oid) -> i64 {
    // SAFETY: the sequence is the extension's own; the boundary turns an error of the server into an unwind.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| nextval_internal(sequence, false)) }
}

/// Writes one entry in the current transaction. Insert-only: it can neither wait nor deadlock.
pub fn append(entry: &Entry<'_>) {
    let tables = tables();
    let mut values = [pg_sys::Datum::from(0_usize); column::COUNT];
    let mut nulls = [true; column::COUNT];
    let mut set = |index: usize, value: pg_sys::Datum| {
        values[index] = value;
        nulls[index] = false;
    };
    // SAFETY: the tables are the extension's own; the datums match the columns' types; the relation is opened and
    // closed here, its lock kept to the end of the transaction as for any INSERT.
    unsafe {
        let now = pg_sys::GetCurrentTimestamp();
        set(column::DUE_AT, pg_sys::Datum::from(now.saturating_add(entry.grace_us)));
        set(column::ID, pg_sys::Datum::from(next_id(tables.sequence)));
        set(column::HORIZON, pg_sys::Datum::from(pg_sys::ReadNextFullTransactionId().value));
        set(column::CAPTURED_AT, pg_sys::Datum::from(now));
        set(column::SOURCE_ID, pg_sys::Datum::from(entry.source_id));
        set(column::BACKEND_ID, pg_sys::Datum::from(entry.backend_id.unwrap_or(0)));
        set(column::ATTEMPTS, pg_sys::Datum::from(0_i16));
        set(column::OBJECTS, pg_sys::Datum::from(entry.objects));
        set(column::PAYLOAD, varlena(entry.payload));
        set(column::WHOLE, pg_sys::Datum::from(entry.is_whole));
        if let Some(fault) = entry.fault {
            set(column::FAULT, varlena(fault.as_bytes()));
        }
        let relation = pg_sys::table_open(tables.entry, pg_sys::RowExclusiveLock as i32);
        let tuple = pg_sys::heap_form_tuple((*relation).rd_att, values.as_mut_ptr(), nulls.as_mut_ptr());
        insert(relation, tuple, &mut values, &mut nulls);
        pg_sys::table_close(relation, pg_sys::NoLock as i32);
    }
}

/// Inserts the tuple and its index entry. The table has one index, its primary key; opening it alone is half the
/// work of the general way, which is taken should somebody have added another.
///
/// # Safety
/// `relation` must be storage_reaper.entry, open and locked, and `tuple` one of its rows with these values.
unsafe fn insert(
    relation: pg_sys::Relation,
    tuple: pg_sys::HeapTuple,
    values: &mut [pg_sys::Datum; column::COUNT],
    nulls: &mut [bool; column::COUNT],
) {
    // SAFETY: by contract; the first four columns are the key's, in its order, and the sequence keeps ids apart, so no
    // uniqueness has to be checked.
    unsafe {
        let indexes = pg_sys::RelationGetIndexList(relation);
        if (*indexes).length != 1 {
            pg_sys::CatalogTupleInsert(relation, tuple);
            return;
        }
        pg_sys::simple_heap_insert(relation, tuple);
        let index = pg_sys::index_open((*(*indexes).elements).oid_value, pg_sys::RowExclusiveLock as i32);
        pg_sys::index_insert(
            index,
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            &raw mut (*tuple).t_self,
            relation,
            pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
            false,
            pg_sys::BuildIndexInfo(index),
        );
        pg_sys::index_close(index, pg_sys::NoLock as i32);
    }
}

/// A palloc'd varlena: bytea and text look alike.
///
/// # Safety
/// Must run in a memory context that outlives the use of the result.
unsafe fn varlena(bytes: &[u8]) -> pg_sys::Datum {
    let size = bytes.len() + pg_sys::VARHDRSZ;
    // SAFETY: `size` bytes are allocated and filled.
    unsafe {
        let at = pg_sys::palloc(size);
        pgrx::varlena::set_varsize_4b(at.cast(), i32::try_from(size).unwrap_or(i32::MAX));
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast::<u8>().add(pg_sys::VARHDRSZ), bytes.len());
        pg_sys::Datum::from(at)
    }
}
