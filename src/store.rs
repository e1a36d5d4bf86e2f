//! SPI: a function a statement file, rows into structs.

pub mod armed;
pub mod backend;
pub mod breaker;
pub mod catalog;
pub mod derivation;
pub mod discover;
pub mod doctor;
pub mod document;
pub mod entry;
pub mod flight;
pub mod guard;
pub mod location;
pub mod locator_sql;
pub mod objects;
pub mod probe;
pub mod purge;
mod query_plan;
pub mod settle;
pub mod source;
mod spi;
