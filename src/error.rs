//! Every error that a user can meet, and its SQLSTATE, DETAIL and HINT.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::domain::segment::SegmentError;

/// What SQL functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// An error for the user. The message follows PostgreSQL's style: lower case, no full stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A named thing that is not there. `kind` is a noun: backend, location, source.
    #[error("{kind} \"{name}\" does not exist")]
    Unknown { kind: &'static str, name: String },
    /// A name that is taken.
    #[error("{kind} \"{name}\" already exists")]
    Exists { kind: &'static str, name: String },
    /// A backend or location that something still names.
    #[error("cannot drop {kind} \"{name}\" because {by} still use it")]
    InUse { kind: &'static str, name: String, by: &'static str },
    /// A value that makes no sense.
    #[error("invalid value for parameter \"{parameter}\"")]
    Invalid { parameter: &'static str, detail: String, hint: &'static str },
    /// A NULL where none makes sense.
    #[error("parameter \"{0}\" must not be null")]
    Null(&'static str),
    /// Something that is not an ordinary or partitioned table.
    #[error("cannot {verb} \"{relation}\"")]
    NotAttachable { verb: &'static str, relation: String, what: &'static str },
    /// A column that the table lacks.
    #[error("column \"{column}\" of relation \"{relation}\" does not exist")]
    UnknownColumn { relation: String, column: String },
    /// A locator column of a type that holds no locators.
    #[error("column \"{column}\" cannot hold locators")]
    LocatorType { column: String, detail: String, hint: &'static str },
    /// A table that would be read as a whole before each deletion.
    #[error("no index on table \"{relation}\" finds the rows that name an object")]
    NoIndex { relation: String, hint: String },
    /// A table that cannot be asked, so that nothing may be deleted.
    #[error("the table or column of {0} does not exist any more")]
    ReferenceGone(String),
    /// The caller does not own the table.
    #[error("must be owner of table \"{0}\"")]
    NotOwner(String),
    /// A truncation that the source forbids.
    #[error("cannot truncate table \"{0}\" because its rows own objects")]
    TruncateForbidden(String),
    /// A drop that happened before its rows could be read.
    #[error("cannot drop table \"{0}\" because the objects of its rows would be lost")]
    DropNotCaptured(String),
    /// Requests that know nothing of what is about to be declared.
    #[error("deletions are under way that know nothing of this change")]
    StillInFlight,
    /// No worker slot is free.
    #[error("could not start a worker for this database")]
    NoWorkerSlot,
    /// A worker that did not come up.
    #[error("the worker stopped before it was ready")]
    WorkerStopped,
    /// A packed column that does not unpack.
    #[error("damaged segment in the outbox or history: {0}")]
    Segment(#[from] SegmentError),
    /// A stored setting that no longer parses.
    #[error("stored {what} is damaged")]
    Stored { what: &'static str, detail: String },
    /// An error code of the server programming interface.
    #[error("internal query failed: {0}")]
    Spi(#[from] pgrx::spi::Error),
}

impl Error {
    /// Shorthand for the most common kind.
    pub fn invalid(parameter: &'static str, detail: impl std::fmt::Display, hint: &'static str) -> Self {
        Self::Invalid { parameter, detail: detail.to_string(), hint }
    }

    fn sqlstate(&self) -> PgSqlErrorCode {
        match self {
            Self::Unknown { .. } => PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
            Self::Exists { .. } => PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
            Self::InUse { .. } => PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            Self::Invalid { .. } => PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            Self::Null(_) => PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            Self::NotAttachable { .. } => PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            Self::UnknownColumn { .. } => PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
            Self::LocatorType { .. } => PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
            Self::ReferenceGone(_) => PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            Self::NotOwner(_) => PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            Self::NoIndex { .. } => PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::TruncateForbidden(_) => PgSqlErrorCode::ERRCODE_RESTRICT_VIOLATION,
            Self::DropNotCaptured(_) | Self::WorkerStopped => PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::NoWorkerSlot => PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            Self::StillInFlight => PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
            Self::Segment(_) | Self::Stored { .. } => PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
            Self::Spi(_) => PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            Self::Invalid { detail, .. } | Self::LocatorType { detail, .. } | Self::Stored { detail, .. } => {
                Some(detail.clone())
            }
            Self::NotAttachable { what, .. } => Some((*what).to_owned()),
            Self::NoIndex { .. } => {
                Some("Before an object is deleted, the table is searched for rows that still name it.".to_owned())
            }
            Self::DropNotCaptured(_) => Some("Its rows were not read before it went.".to_owned()),
            Self::StillInFlight => Some("They did not end within storage_reaper.fence_timeout.".to_owned()),
            Self::NoWorkerSlot => Some("All background worker slots are in use.".to_owned()),
            _ => None,
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::NoIndex { hint, .. } => Some(hint),
            Self::Unknown { kind: "backend", .. } => Some("See the view storage_reaper.backends."),
            Self::Unknown { kind: "source", .. } => Some("See the view storage_reaper.sources."),
            Self::Unknown { kind: "reference", .. } => Some("See the view storage_reaper.protections."),
            Self::Unknown { .. } => Some("See the view storage_reaper.locations."),
            Self::Exists { kind: "backend", .. } => Some("Change it with storage_reaper.alter_backend()."),
            Self::Exists { kind: "source", .. } => Some("Give the source another name => '…'."),
            Self::InUse { kind: "location", .. } => Some("Call storage_reaper.drop_purge() first."),
            Self::InUse { .. } => Some("Detach the sources, drop the locations and let the queue empty first."),
            Self::Invalid { hint, .. } | Self::LocatorType { hint, .. } => Some(hint),
            Self::Null(_) => Some("Give it a value, or leave it out where it has a default."),
            Self::UnknownColumn { .. } => Some("Columns are named as they are stored, without quotes."),
            Self::ReferenceGone(_) => {
                Some("Take it back with storage_reaper.unprotect() or detach(), or declare it anew.")
            }
            Self::NotOwner(_) => Some("Let the table's owner call this, or a superuser."),
            Self::NotAttachable { verb: "attach", .. } => Some("Attach an ordinary or partitioned table."),
            Self::NotAttachable { .. } => Some("Name a table or a view."),
            Self::TruncateForbidden(_) => {
                Some("Delete the rows, or attach the table again with on_truncate => 'capture'.")
            }
            Self::DropNotCaptured(_) => Some(
                "Drop the table by its name, or truncate or detach it first. Without shared_preload_libraries, run LOAD 'storage_reaper' before.",
            ),
            Self::NoWorkerSlot => Some("Raise max_worker_processes."),
            Self::StillInFlight => Some(
                "Call storage_reaper.pause(), wait until they are over, and try again; or raise storage_reaper.fence_timeout.",
            ),
            Self::WorkerStopped => Some("The server log says why."),
            _ => None,
        }
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        let mut report = ErrorReport::new(error.sqlstate(), error.to_string(), "storage_reaper");
        if let Some(detail) = error.detail() {
            report = report.set_detail(detail);
        }
        if let Some(hint) = error.hint() {
            report = report.set_hint(hint.to_owned());
        }
        report
    }
}
