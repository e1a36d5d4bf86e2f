//! What storage_reaper knows about objects, without PostgreSQL, HTTP, a clock or chance.

pub mod backend;
pub mod backoff;
pub mod batch;
pub mod breaker;
pub mod credentials;
pub mod derive;
pub mod discover;
pub mod document;
pub mod embedded;
pub mod endpoint;
pub mod flight;
pub mod fold;
pub mod location;
pub mod object;
pub mod outcome;
pub mod pace;
pub mod probe;
pub mod profile;
pub mod purge;
pub mod resolve;
pub mod segment;
pub mod suspect;
pub mod template;

mod url;
pub mod vendor;
pub mod verify;
pub mod versions;
