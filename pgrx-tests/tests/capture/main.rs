//! What a statement lets go is captured, each object once, and nothing else is.

mod attach;
mod drop;
mod large;
mod locators;
mod partitions;
mod rights;
mod snapshots;
mod statements;
mod transactions;
mod truncate;
