//! What the event triggers call.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::capture::ddl;

use super::Answer;

#[pg_extern]
fn follow_ddl(relation: pg_sys::Oid) -> Answer<()> {
    Ok(ddl::follow(relation)?)
}

#[pg_extern]
fn follow_drop(relation: pg_sys::Oid, identity: &str, triggers: Vec<String>) -> Answer<()> {
    Ok(ddl::dropped(relation, identity, &triggers)?)
}
