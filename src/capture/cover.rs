//! Triggers on a table and on everything below it.

use crate::error::Result;
use crate::pg::watch;
use crate::store::{catalog, source as sources};

/// Covers a source that has just been declared, perhaps with other columns than before.
pub fn cover_anew(source: i32) -> Result<()> {
    put_triggers(source)?;
    sources::record_covered(source, true)?;
    announce(source)
}

/// Puts the missing triggers of a source on its table, partitions and children, and tells every session.
pub fn cover(source: i32) -> Result<()> {
    put_triggers(source)?;
    sources::record_covered(source, false)?;
    announce(source)
}

fn put_triggers(source: i32) -> Result<()> {
    for statement in catalog::missing_triggers(source)? {
        catalog::run(&statement)?;
    }
    Ok(())
}

/// Takes a source's triggers off.
pub fn uncover(source: i32) -> Result<()> {
    for statement in catalog::present_triggers(source, false)? {
        catalog::run(&statement)?;
    }
    Ok(())
}

/// Takes the fence off.
pub fn unfence(source: i32) -> Result<()> {
    for statement in catalog::present_triggers(source, true)? {
        catalog::run(&statement)?;
    }
    Ok(())
}

/// Tells every session that what it knows of a source is out of date.
pub fn announce(source: i32) -> Result<()> {
    // A fence may know the source as one whose rows it holds.
    let tables = catalog::covered(source)?.into_iter().chain(catalog::fenced()?);
    tables.for_each(watch::announce);
    Ok(())
}
