//! What the scenarios, the demo and the benches of storage_reaper stand on:
//! throw-away PostgreSQL clusters, real S3 servers on loopback, a scripted HTTP server, and waiting without sleeping.
//!
//! Everything that is started here lives in a directory of its own below the system's temporary directory,
//! listens on a private socket or on loopback, and ends with the process that started it, however that ends.

pub mod account;
pub mod benchmarks;
pub mod cluster;
pub mod database;
pub mod fault;
pub mod listen;
pub mod process;
pub mod proxy;
pub mod scenario;
pub mod soak;
pub mod store;
pub mod tls;
pub mod wait;
