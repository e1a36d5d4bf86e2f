//! HTTP without PostgreSQL: signed requests to stores, and what their answers mean.

pub mod answer;
pub mod client;
mod clock;
mod credentials;
pub mod document;
pub mod fault;
#[cfg(test)]
mod fuzz;
pub mod io;
pub mod list;
mod lock;
mod probe;
pub mod purge;
mod request;
mod transport;
mod turns;
mod verify;
mod versions;
mod xml;
