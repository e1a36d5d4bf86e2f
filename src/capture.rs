//! Capture: what a statement orphaned goes into the outbox, in the statement's own transaction.

pub mod attach;
pub mod cover;
pub mod ddl;
pub mod declare;
pub mod discover;
mod drop;
mod entry_point;
mod fence;
mod locator;
mod plan;
pub mod protect;
mod statement;
mod update;
mod writer;
