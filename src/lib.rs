//! storage_reaper: when rows go, the S3 objects that they owned go too.
//!
//! Triggers capture what a statement orphaned, a worker inside the server checks that nothing refers to it any
//! more and deletes it. Dependencies point one way: `worker, api, capture → store → pg`, `worker → s3 → domain`;
//! everyone may use `domain`, which uses nobody.

mod api;
mod capture;
mod domain;
mod error;
mod guc;
#[cfg(any(test, feature = "pg_test"))]
mod in_server_tests;
mod pg;
mod s3;
mod store;
mod worker;

use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

// The order of the install script: guard, tables, Rust functions, then what is built on them.
extension_sql_file!("../sql/install/guard.sql", name = "guard", bootstrap);
extension_sql_file!("../sql/install/tables.sql", name = "tables", requires = ["guard"]);
extension_sql_file!("../sql/install/strings.sql", name = "strings", requires = ["guard"]);
extension_sql_file!(
    "../sql/install/views.sql",
    name = "views",
    requires = ["tables", api::inspect::unpack, api::switch::preloaded]
);
extension_sql_file!(
    "../sql/install/triggers.sql",
    name = "triggers",
    requires = ["tables", api::follow::follow_ddl, api::follow::follow_drop]
);
extension_sql_file!("../sql/install/comments_and_grants.sql", name = "comments_and_grants", finalize);

/// Called when the library is loaded: by the postmaster under `shared_preload_libraries`, else by the first session
/// that needs it.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    guc::init();
    capture::ddl::init();
    if pg::preload::in_progress() {
        pg::shared::init();
        if !pg::preload::is_upgrade() {
            worker::register();
        }
    }
}

#[cfg(test)]
pub mod pg_test {
    //! Settings of the server that in-server tests run in.

    /// Called once before the server starts.
    pub fn setup(_options: Vec<&str>) {}

    /// Lines for postgresql.conf.
    pub fn postgresql_conf_options() -> Vec<&'static str> {
        vec!["shared_preload_libraries = 'storage_reaper'", "storage_reaper.database = 'pgrx_tests'"]
    }
}
