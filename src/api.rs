//! The SQL functions. Each checks its arguments, calls one room, and converts errors once.

pub mod backend;
pub mod derive;
pub mod discover;
pub mod doctor;
pub mod follow;
pub mod inspect;
pub mod object;
pub mod purge;
pub mod source;
pub mod switch;

use pgrx::pg_sys::panic::ErrorReport;

use crate::error::Error;

/// What a SQL function returns: errors keep their SQLSTATE, DETAIL and HINT.
type Answer<T> = std::result::Result<T, ErrorReport>;

/// An argument that may not be NULL.
fn required<T>(parameter: &'static str, value: Option<T>) -> Result<T, Error> {
    value.ok_or(Error::Null(parameter))
}
