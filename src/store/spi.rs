//! The two ways to run a statement.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use pgrx::spi::SpiHeapTupleData;

use crate::error::{Error, Result};
use crate::pg::snapshot::{self, Snapshot};

/// Rows fetched at once.
const ROWS_AT_ONCE: i64 = 10_000;

/// One row of a result.
pub struct Row<'a>(SpiHeapTupleData<'a>);

impl Row<'_> {
    /// A column that may be NULL.
    pub fn optional<T: FromDatum + IntoDatum>(&self, column: &str) -> Result<Option<T>> {
        Ok(self.0.get_by_name::<T, _>(column)?)
    }

    /// A column that is never NULL.
    pub fn required<T: FromDatum + IntoDatum>(&self, column: &'static str) -> Result<T> {
        self.optional(column)?
            .ok_or_else(|| Error::Stored { what: "row", detail: format!("Column \"{column}\" is null.") })
    }
}

/// Rows of a query, on the newest snapshot; it assigns no transaction id.
pub fn read<T>(
    statement: &str,
    arguments: &[DatumWithOid<'_>],
    row: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    read_on(Snapshot::Latest, statement, arguments, row)
}

/// Rows of a query, on the snapshot of the caller's choice.
pub fn read_on<T>(
    snapshot: Snapshot,
    statement: &str,
    arguments: &[DatumWithOid<'_>],
    mut row: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    Spi::connect(|client| {
        let name = snapshot::open(statement, arguments, snapshot)
            .ok_or_else(|| Error::Stored { what: "query", detail: "It holds a null byte.".to_owned() })?;
        let mut cursor = client.find_cursor(&name)?;
        let mut rows = Vec::new();
        loop {
            let before = rows.len();
            for tuple in cursor.fetch(ROWS_AT_ONCE)? {
                rows.push(row(&Row(tuple))?);
            }
            snapshot::free_batch();
            if rows.len() == before {
                return Ok(rows);
            }
        }
    })
}

/// Rows of a statement that writes.
pub fn write<T>(
    statement: &str,
    arguments: &[DatumWithOid<'_>],
    mut row: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    Spi::connect_mut(|client| client.update(statement, None, arguments)?.map(|tuple| row(&Row(tuple))).collect())
}

/// Runs a statement that writes and returns how many rows it touched.
pub fn execute(statement: &str, arguments: &[DatumWithOid<'_>]) -> Result<usize> {
    Spi::connect_mut(|client| Ok(client.update(statement, None, arguments)?.len()))
}
