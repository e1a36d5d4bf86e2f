//! Every `unsafe` of the extension: PostgreSQL's own structures behind safe, small types.

pub mod activity;
pub mod cursor;
pub mod encoding;
pub mod fence;
pub mod json;
pub mod lock;
pub mod memory;
pub mod outbox;
pub mod preload;
pub mod relation;
pub mod settings;
pub mod shared;
pub mod signals;
pub mod snapshot;
pub mod subtransaction;
pub mod timeout;
pub mod transaction;
pub mod trigger;
pub mod tuples;
pub mod user;
pub mod utility;
pub mod value;
pub mod wait;
pub mod wake;
pub mod watch;
