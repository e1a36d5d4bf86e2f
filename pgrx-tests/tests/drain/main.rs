//! Objects leave a real store when they should, and only then. STORE says which store.

mod breaker;
mod derived;
mod disturbed;
mod documents;
mod fair;
mod guard;
mod keys;
mod owned;
mod protect;
mod rows;
mod superseded;
mod way;
