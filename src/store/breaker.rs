//! What the mass-delete breaker looks at, and the sources that it holds.

use std::collections::HashMap;

use crate::domain::breaker::Lot;
use crate::error::Result;

use super::spi;

/// Lots by the id of their source.
pub type Lots = HashMap<i32, Vec<Lot>>;

fn lots(statement: &str, window_us: i64) -> Result<Lots> {
    let mut lots = Lots::new();
    for (id, lot) in spi::read(statement, &[window_us.into()], |row| {
        let objects = u64::try_from(row.required::<i64>("objects")?).unwrap_or_default();
        let lot = Lot { captured_us: row.required("captured_us")?, objects, is_whole: row.required("whole")? };
        Ok((row.required::<i32>("id")?, lot))
    })? {
        lots.entry(id).or_default().push(lot);
    }
    Ok(lots)
}

/// What will be due within the window, of sources that are not held.
pub fn ahead(window_us: i64) -> Result<Lots> {
    lots(include_str!("../../sql/queries/breaker_ahead.sql"), window_us)
}

/// What was deleted within the window.
pub fn gone(window_us: i64) -> Result<Lots> {
    lots(include_str!("../../sql/queries/breaker_gone.sql"), window_us)
}

/// A source as the breaker sees it.
pub struct Standing {
    /// What was captured before does not count.
    pub released_us: Option<i64>,
    /// An estimate of the rows that are left.
    pub live: u64,
}

/// Looks a source up.
pub fn standing(id: i32) -> Result<Standing> {
    let found = spi::read(include_str!("../../sql/queries/breaker_source.sql"), &[id.into()], |row| {
        let live = u64::try_from(row.required::<i64>("live")?).unwrap_or_default();
        Ok(Standing { released_us: row.optional("released_us")?, live })
    })?;
    Ok(found.into_iter().next().unwrap_or(Standing { released_us: None, live: 0 }))
}

/// Holds a source; returns its name unless it is held already.
pub fn hold(id: i32, reason: &str) -> Result<Option<String>> {
    let names = spi::write(include_str!("../../sql/queries/breaker_hold.sql"), &[id.into(), reason.into()], |row| {
        row.required("name")
    })?;
    Ok(names.into_iter().next())
}

/// Lets sources of that name go on.
pub fn release(name: &str) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/breaker_release.sql"), &[name.into()]).map(drop)
}
