//! Stories that happened to others who deleted objects after rows: each with its smallest input and its whole kind.

mod copies;
mod keys;
mod loss;
mod postgres;
mod security;
mod urls;
