//! Whose rights count.

use pgrx::pg_sys;

use super::settings::Settings;

/// The bootstrap superuser, who owns what nobody else does; its oid is fixed by the server.
const BOOTSTRAP: pg_sys::Oid = pg_sys::Oid::from_u32(10);

/// Runs as another user until dropped, in a security-restricted operation and with only pg_catalog searched: the
/// session's search path could make an operator of any statement a function of the session's choice, which would then
/// run with the other user's rights. Raised errors restore everything too: the server does it on abort.
pub struct ActingAs {
    user: pg_sys::Oid,
    context: i32,
    _settings: Settings,
}

impl ActingAs {
    /// As the table's owner, with the restrictions under which the server runs the owner's code for others.
    pub fn owner_of(relation: pg_sys::Oid) -> Option<Self> {
        // SAFETY: a syscache look-up; a missing table gives a null tuple.
        let owner = unsafe {
            let tuple =
                pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as i32, pg_sys::Datum::from(relation));
            if tuple.is_null() {
                return None;
            }
            let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relowner;
            pg_sys::ReleaseSysCache(tuple);
            owner
        };
        Some(Self::switch(owner))
    }

    /// As the bootstrap superuser, for reading the extension's own tables with fixed statements.
    pub fn extension() -> Self {
        Self::switch(BOOTSTRAP)
    }

    fn switch(to: pg_sys::Oid) -> Self {
        let settings = Settings::pinned();
        let mut user = pg_sys::InvalidOid;
        let mut context = 0;
        let flags = pg_sys::SECURITY_RESTRICTED_OPERATION | pg_sys::SECURITY_LOCAL_USERID_CHANGE;
        let flags = i32::try_from(flags).unwrap_or_default();
        // SAFETY: out-parameters are valid; the previous identity is restored on drop or by the abort of the
        // (sub)transaction.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            pg_sys::SetUserIdAndSecContext(to, context | flags);
        }
        Self { user, context, _settings: settings }
    }
}

impl Drop for ActingAs {
    fn drop(&mut self) {
        // SAFETY: puts back what GetUserIdAndSecContext gave.
        unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.context) };
    }
}

/// The role whose rights count now.
pub fn current() -> pg_sys::Oid {
    // SAFETY: a plain read of the session's state.
    unsafe { pg_sys::GetUserId() }
}

/// Whether a role owns the table, or is a superuser. Ask it of the current role, not of the session's: code of an owner
/// also runs in sessions of superusers and in the worker, and must not gain their rights.
pub fn owns(role: pg_sys::Oid, relation: pg_sys::Oid) -> bool {
    // SAFETY: syscache look-ups.
    unsafe {
        #[cfg(feature = "pg15")]
        let owns = pg_sys::pg_class_ownercheck(relation, role);
        #[cfg(not(feature = "pg15"))]
        let owns = pg_sys::object_ownercheck(pg_sys::RelationRelationId, relation, role);
        owns
    }
}

/// The name of the role that called the running SECURITY DEFINER function.
pub fn caller_name() -> String {
    // SAFETY: GetUserNameFromId returns a palloc'd C string, or null for a role dropped meanwhile.
    unsafe {
        let name = pg_sys::GetUserNameFromId(pg_sys::GetOuterUserId(), true);
        if name.is_null() {
            return String::from("unknown");
        }
        std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

/// Whether the current role owns the database, or is a superuser.
pub fn owns_database(database: pg_sys::Oid) -> bool {
    // SAFETY: syscache look-ups.
    unsafe {
        let role = pg_sys::GetUserId();
        #[cfg(feature = "pg15")]
        let owns = pg_sys::pg_database_ownercheck(database, role);
        #[cfg(not(feature = "pg15"))]
        let owns = pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, database, role);
        owns
    }
}
