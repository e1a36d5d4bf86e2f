//! Open relations.

use std::ffi::CStr;
use std::marker::PhantomData;

use pgrx::pg_sys;

/// An open relation; closed on drop when this value opened it. Locks stay until the transaction ends.
pub struct Relation<'a> {
    pointer: pg_sys::Relation,
    owned: bool,
    borrow: PhantomData<&'a ()>,
}

impl<'a> Relation<'a> {
    /// Wraps a relation that somebody else keeps open.
    ///
    /// # Safety
    /// `pointer` must stay open and locked for `'a`.
    pub unsafe fn borrowed(pointer: pg_sys::Relation) -> Self {
        Self { pointer, owned: false, borrow: PhantomData }
    }

    /// Opens a table that exists and that this transaction has locked exclusively.
    pub fn open_locked(oid: pg_sys::Oid) -> Relation<'static> {
        // SAFETY: table_open raises for a missing oid; NoLock is right since the caller holds one.
        let pointer = unsafe { pg_sys::table_open(oid, pg_sys::NoLock as i32) };
        Relation { pointer, owned: true, borrow: PhantomData }
    }

    /// Opens a table of the extension to be read, whoever the user is.
    pub fn open_own(name: &CStr) -> Option<Relation<'static>> {
        // SAFETY: syscache look-ups by NUL-terminated names; the lock is that of any reader and kept to the end of the
        // transaction.
        let pointer = unsafe {
            let schema = pg_sys::get_namespace_oid(c"storage_reaper".as_ptr(), true);
            let oid = pg_sys::get_relname_relid(name.as_ptr(), schema);
            if oid == pg_sys::InvalidOid {
                return None;
            }
            pg_sys::table_open(oid, pg_sys::AccessShareLock as i32)
        };
        Some(Relation { pointer, owned: true, borrow: PhantomData })
    }

    /// The raw pointer, for this folder only.
    pub(super) fn as_ptr(&self) -> pg_sys::Relation {
        self.pointer
    }

    pub(super) fn descriptor(&self) -> pg_sys::TupleDesc {
        // SAFETY: an open relation has a descriptor.
        unsafe { (*self.pointer).rd_att }
    }

    /// The oid of the table.
    pub fn oid(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open.
        unsafe { (*self.pointer).rd_id }
    }

    /// The table's name, for messages.
    pub fn name(&self) -> String {
        // SAFETY: relname is NUL-terminated inside NAMEDATALEN.
        unsafe { CStr::from_ptr((*(*self.pointer).rd_rel).relname.data.as_ptr()) }.to_string_lossy().into_owned()
    }

    /// Whether it stores rows itself (a partitioned table does not).
    pub fn has_storage(&self) -> bool {
        // SAFETY: the relation is open.
        (unsafe { (*(*self.pointer).rd_rel).relkind }) as u8 == pg_sys::RELKIND_RELATION
    }

    /// The type of a live column.
    pub fn column_type(&self, number: i16) -> Option<pg_sys::Oid> {
        // SAFETY: a syscache look-up; it answers InvalidOid for a dropped or missing column.
        let kind = unsafe { pg_sys::get_atttype(self.oid(), number) };
        (kind != pg_sys::InvalidOid).then_some(kind)
    }
}

impl Drop for Relation<'_> {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: opened by this value, closed once; the lock is kept.
            unsafe { pg_sys::table_close(self.pointer, pg_sys::NoLock as i32) };
        }
    }
}
