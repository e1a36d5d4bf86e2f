//! The hook on utility commands.

use std::ffi::{CStr, c_char};

use once_cell::sync::OnceCell;
use pgrx::pg_sys;
use pgrx::prelude::*;

/// A command that the extension has to see before or after it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// DROP TABLE of these tables.
    DropTables(Vec<pg_sys::Oid>),
    /// DROP SCHEMA of these schemas.
    DropSchemas(Vec<String>),
    /// DROP OWNED BY, of whatever those roles own.
    DropOwned(Vec<String>),
    /// DROP, RENAME or SET TABLESPACE of a database, or CREATE DATABASE with it as template: each waits some seconds
    /// for others to leave.
    LeaveDatabase(pg_sys::Oid),
    /// COMMIT PREPARED: entries of another session become visible.
    CommitPrepared,
}

/// What is called before a command that removes tables.
pub type BeforeDrop = fn(&Command);

static PREVIOUS: OnceCell<pg_sys::ProcessUtility_hook_type> = OnceCell::new();
static BEFORE_DROP: OnceCell<BeforeDrop> = OnceCell::new();

/// Puts the hook in place, once a process.
pub fn install(before_drop: BeforeDrop) {
    // SAFETY: a plain function pointer, set on the main thread; the previous hook is chained.
    unsafe {
        if BEFORE_DROP.set(before_drop).is_ok() && PREVIOUS.set(pg_sys::ProcessUtility_hook).is_ok() {
            pg_sys::ProcessUtility_hook = Some(on_utility);
        }
    }
}

unsafe extern "C-unwind" {
    /// The server's own way, bound without pgrx's guard: an error of the command passes by as if we were not there,
    /// with its position, constraint name and all that a translation would lose.
    #[link_name = "standard_ProcessUtility"]
    fn process_utility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        read_only: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        destination: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// What has to happen before a command. Its own errors refuse the command.
#[pg_guard]
unsafe extern "C-unwind" fn before_utility(statement: *mut pg_sys::PlannedStmt) -> bool {
    // SAFETY: the server hands a valid statement.
    let command = unsafe { command_of((*statement).utilityStmt) };
    match (&command, BEFORE_DROP.get()) {
        (Some(Command::LeaveDatabase(database)), _) => super::shared::stop_workers(*database),
        (Some(Command::CommitPrepared) | None, _) | (_, None) => {}
        (Some(command), Some(before_drop)) => before_drop(command),
    }
    command == Some(Command::CommitPrepared)
}

/// No guard and nothing that needs dropping: the server's errors jump over this frame.
unsafe extern "C-unwind" fn on_utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: the server hands valid pointers; they are passed on unchanged.
    unsafe {
        let wakes = before_utility(statement);
        match PREVIOUS.get() {
            Some(Some(previous)) => {
                previous(statement, query, read_only, context, parameters, environment, destination, completion);
            }
            _ => {
                process_utility(statement, query, read_only, context, parameters, environment, destination, completion)
            }
        }
        if wakes {
            super::wake::now();
        }
    }
}

/// # Safety
/// `node` must be a utility statement.
unsafe fn command_of(node: *mut pg_sys::Node) -> Option<Command> {
    // SAFETY: the tag says which struct a node is.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_DropStmt => drop_command(&*node.cast::<pg_sys::DropStmt>()),
            pg_sys::NodeTag::T_DropOwnedStmt => {
                let statement = &*node.cast::<pg_sys::DropOwnedStmt>();
                let names = list(statement.roles).filter_map(|role| {
                    let role = &*role.cast::<pg_sys::RoleSpec>();
                    let oid = pg_sys::get_rolespec_oid(std::ptr::from_ref(role), true);
                    (oid != pg_sys::InvalidOid).then(|| text(pg_sys::GetUserNameFromId(oid, true))).flatten()
                });
                Some(Command::DropOwned(names.collect()))
            }
            pg_sys::NodeTag::T_DropdbStmt => leave_database((*node.cast::<pg_sys::DropdbStmt>()).dbname),
            pg_sys::NodeTag::T_CreatedbStmt => {
                let template = option((*node.cast::<pg_sys::CreatedbStmt>()).options, "template")?;
                (!(*template).arg.is_null()).then(|| leave_database(pg_sys::defGetString(template))).flatten()
            }
            pg_sys::NodeTag::T_AlterDatabaseStmt => {
                let statement = &*node.cast::<pg_sys::AlterDatabaseStmt>();
                option(statement.options, "tablespace").and_then(|_| leave_database(statement.dbname))
            }
            pg_sys::NodeTag::T_RenameStmt => {
                let statement = &*node.cast::<pg_sys::RenameStmt>();
                (statement.renameType == pg_sys::ObjectType::OBJECT_DATABASE)
                    .then(|| leave_database(statement.subname))
                    .flatten()
            }
            pg_sys::NodeTag::T_TransactionStmt => {
                let statement = &*node.cast::<pg_sys::TransactionStmt>();
                (statement.kind == pg_sys::TransactionStmtKind::TRANS_STMT_COMMIT_PREPARED)
                    .then_some(Command::CommitPrepared)
            }
            _ => None,
        }
    }
}

/// # Safety
/// `options` must be a list of DefElem nodes.
unsafe fn option(options: *mut pg_sys::List, name: &str) -> Option<*mut pg_sys::DefElem> {
    // SAFETY: by contract.
    unsafe {
        list(options)
            .map(|option| option.cast::<pg_sys::DefElem>())
            .find(|option| text((**option).defname).as_deref() == Some(name))
    }
}

/// Only who owns the database makes its worker leave: anybody else's command will be refused.
///
/// # Safety
/// `name` must be NUL-terminated.
unsafe fn leave_database(name: *const c_char) -> Option<Command> {
    // SAFETY: catalog look-ups; the command runs in a transaction.
    unsafe {
        let database = pg_sys::get_database_oid(name, true);
        let is_known = database != pg_sys::InvalidOid;
        (is_known && super::user::owns_database(database)).then_some(Command::LeaveDatabase(database))
    }
}

/// # Safety
/// `statement` must come from the parser.
unsafe fn drop_command(statement: &pg_sys::DropStmt) -> Option<Command> {
    // SAFETY: for tables each object is a list of names, for schemas a string.
    unsafe {
        match statement.removeType {
            pg_sys::ObjectType::OBJECT_TABLE => {
                let tables = list(statement.objects).filter_map(|names| {
                    let range = pg_sys::makeRangeVarFromNameList(names.cast());
                    let oid = pg_sys::RangeVarGetRelidExtended(
                        range,
                        pg_sys::NoLock as i32,
                        pg_sys::RVROption::RVR_MISSING_OK,
                        None,
                        std::ptr::null_mut(),
                    );
                    (oid != pg_sys::InvalidOid).then_some(oid)
                });
                Some(Command::DropTables(tables.collect()))
            }
            pg_sys::ObjectType::OBJECT_SCHEMA => {
                let names = list(statement.objects).filter_map(|name| text((*name.cast::<pg_sys::String>()).sval));
                Some(Command::DropSchemas(names.collect()))
            }
            _ => None,
        }
    }
}

/// # Safety
/// `at` must be null or a list of pointers.
unsafe fn list(at: *mut pg_sys::List) -> impl Iterator<Item = *mut std::ffi::c_void> {
    // SAFETY: a list has `length` cells.
    let length = if at.is_null() { 0 } else { unsafe { (*at).length } };
    (0..usize::try_from(length).unwrap_or_default()).map(move |index| {
        // SAFETY: the index is below length, and cells of a pointer list hold pointers.
        unsafe { (*(*at).elements.add(index)).ptr_value }
    })
}

/// # Safety
/// `at` must be null or NUL-terminated.
unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: by contract.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// Whether the extension is installed in this database and catalogs may be read.
pub fn extension_is_installed() -> bool {
    // SAFETY: a catalog look-up inside a transaction; the name is NUL-terminated.
    unsafe {
        pg_sys::IsTransactionState()
            && pg_sys::get_extension_oid(c"storage_reaper".as_ptr(), true) != pg_sys::InvalidOid
    }
}

/// Tells the current transaction from others of this session.
pub fn transaction() -> u64 {
    // SAFETY: a plain read of this backend's own virtual transaction id.
    u64::from(unsafe { pg_sys::GetTopTransactionId() }.into_inner())
}
