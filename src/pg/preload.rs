//! What may only be done while the postmaster loads its libraries.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Whether the library is being loaded through `shared_preload_libraries`.
pub fn in_progress() -> bool {
    // SAFETY: a plain flag of the server, read on its main thread.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Whether pg_upgrade runs the server, which must find it as it left it.
pub fn is_upgrade() -> bool {
    // SAFETY: a plain flag of the server, read on its main thread.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Makes a mistyped `prefix.setting` an error instead of a silent placeholder.
pub fn reserve_prefix(prefix: &'static CStr) {
    // SAFETY: the string is NUL-terminated and lives for ever; called on the main thread after the last definition.
    unsafe { pg_sys::MarkGUCPrefixReserved(prefix.as_ptr()) }
}
