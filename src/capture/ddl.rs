//! Commands that change or remove attached tables.

use std::cell::RefCell;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::error::{Error, Result};
use crate::pg::relation::Relation;
use crate::pg::user::{self, ActingAs};
use crate::pg::utility::Command;
use crate::pg::{lock, subtransaction, utility};
use crate::store::catalog::{self, Doomed};
use crate::store::{flight, source};

use super::{cover, declare, drop, plan};

thread_local! {
    /// Tables whose rows have been captured for a drop, with the transaction and subtransaction: the event trigger lets
    /// only those go.
    static CAPTURED: RefCell<Vec<(pg_sys::Oid, u64, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Puts the utility hook in place.
pub fn init() {
    utility::install(before_drop);
}

/// Captures what the command is about to remove. A command that then fails rolls the capture back with it.
fn before_drop(command: &Command) {
    if !utility::extension_is_installed() {
        return;
    }
    let outcome = doomed(command).and_then(|tables| tables.iter().try_for_each(capture));
    if let Err(error) = outcome {
        ErrorReport::from(error).report(PgLogLevel::ERROR);
    }
}

fn doomed(command: &Command) -> Result<Vec<Doomed>> {
    let role = user::current();
    let _rights = ActingAs::extension();
    match command {
        Command::DropTables(tables) => catalog::doomed_tables(tables.clone(), role),
        Command::DropSchemas(schemas) => catalog::doomed_schemas(schemas.clone(), role),
        Command::DropOwned(roles) => catalog::doomed_owned(roles.clone(), role),
        Command::CommitPrepared | Command::LeaveDatabase(_) => Ok(Vec::new()),
    }
}

fn capture(doomed: &Doomed) -> Result<()> {
    // Nobody takes the locks who could not drop the table: it is then not among the doomed.
    if let Some(parent) = doomed.parent {
        lock::exclusive(parent);
    }
    if !lock::exclusive(doomed.relation) {
        return Ok(());
    }
    let relation = Relation::open_locked(doomed.relation);
    if let Some(plan) = plan::find(&relation, doomed.source)? {
        drop::capture_table(&relation, &plan);
    }
    let captured = (doomed.relation, utility::transaction(), subtransaction::current());
    CAPTURED.with_borrow_mut(|tables| tables.push(captured));
    subtransaction::on_abort(|aborted| {
        // Those below the aborted one have higher numbers, those above it lower ones.
        CAPTURED.with_borrow_mut(|tables| tables.retain(|&(_, _, within)| within < aborted));
    });
    Ok(())
}

/// After CREATE TABLE or ALTER TABLE: renamed columns are followed, and new partitions and children are covered.
pub fn follow(relation: pg_sys::Oid) -> Result<()> {
    source::follow_renames(relation)?;
    let sources = catalog::sources_above(relation)?;
    if !sources.is_empty() && flight::is_fenced()? {
        // Rows may have come with a partition, or another column may name objects now.
        declare::begin()?;
    }
    sources.iter().copied().try_for_each(cover::cover)
}

/// After a drop: refuses it when the table was covered and its rows were not read before.
pub fn dropped(relation: pg_sys::Oid, identity: &str, triggers: &[String]) -> Result<()> {
    let was_covered = triggers.iter().any(|name| name.starts_with("storage_reaper_") && name.ends_with("_delete"));
    if was_covered && !was_captured(relation) {
        return Err(Error::DropNotCaptured(identity.to_owned()));
    }
    source::mark_dropped(relation)
}

fn was_captured(relation: pg_sys::Oid) -> bool {
    let now = utility::transaction();
    CAPTURED.with_borrow_mut(|tables| {
        tables.retain(|&(_, transaction, _)| transaction == now);
        tables.iter().any(|&(table, ..)| table == relation)
    })
}
