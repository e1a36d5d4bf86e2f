//! A query's rows, some at a time, in bounded memory.

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::trigger::Trigger;
use super::value::Format;

/// Rows in memory at once.
const ROWS_AT_ONCE: i64 = 1000;

/// What a query sees.
pub enum Sight<'a> {
    /// What the running statement sees, and the transition tables of its trigger.
    Statement(&'a Trigger),
    /// All that is committed now: what TRUNCATE or DROP is about to remove, whatever snapshot the transaction has.
    Latest,
}

/// Columns of the queries.
const COLUMNS: usize = 4;

/// A row of texts.
pub struct Texts {
    values: [pg_sys::Datum; COLUMNS],
    nulls: [bool; COLUMNS],
}

impl Texts {
    /// The text of a column.
    pub fn text(&self, column: usize) -> Option<String> {
        let mut found = None;
        self.with(column, &mut |text| found = Some(text.to_owned()));
        found
    }

    /// Hands the text of a column, counted from 0, to `take`, unless it is NULL.
    pub fn with(&self, column: usize, take: &mut dyn FnMut(&str)) {
        if !self.nulls[column] {
            Format::Text.each_text(self.values[column], take);
        }
    }
}

/// Hands every row of a query that yields four texts to `take`. Errors are raised.
pub fn each(query: &str, sight: &Sight<'_>, take: &mut dyn FnMut(&Texts)) {
    let Ok(query) = std::ffi::CString::new(query) else { return };
    let outcome = Spi::connect(|_| -> spi::Result<()> {
        // SAFETY: inside an SPI connection, which frees plan and portal on the way out, also by an error. The snapshot
        // is popped by the abort otherwise.
        unsafe {
            match sight {
                Sight::Statement(trigger) => trigger.register_with_spi(),
                Sight::Latest => pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot()),
            }
            let plan = pg_sys::SPI_prepare(query.as_ptr(), 0, std::ptr::null_mut());
            if plan.is_null() {
                Spi::check_status(pg_sys::SPI_result)?;
            }
            // Read-only: it sees the active snapshot and takes no newer one.
            let portal = pg_sys::SPI_cursor_open(std::ptr::null(), plan, std::ptr::null_mut(), std::ptr::null(), true);
            while fetch(portal, take) {}
            pg_sys::SPI_cursor_close(portal);
            if matches!(sight, Sight::Latest) {
                pg_sys::PopActiveSnapshot();
            }
        }
        Ok(())
    });
    if let Err(error) = outcome {
        pg_sys::panic::ErrorReport::new(PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, error.to_string(), "cursor")
            .report(PgLogLevel::ERROR);
    }
}

/// Takes the next rows, and says whether there were any.
///
/// # Safety
/// `portal` must be open, within an SPI connection, and yield four columns of type text.
unsafe fn fetch(portal: pg_sys::Portal, take: &mut dyn FnMut(&Texts)) -> bool {
    // SAFETY: by contract; the rows live until their table is freed below.
    unsafe {
        pg_sys::SPI_cursor_fetch(portal, true, ROWS_AT_ONCE);
        let table = pg_sys::SPI_tuptable;
        let count = pg_sys::SPI_processed;
        for row in 0..usize::try_from(count).unwrap_or_default() {
            let (tuple, descriptor) = (*(*table).vals.add(row), (*table).tupdesc);
            let mut nulls = [false; COLUMNS];
            let values = [1, 2, 3, 4].map(|column: usize| {
                pg_sys::SPI_getbinval(tuple, descriptor, column as i32, &raw mut nulls[column - 1])
            });
            take(&Texts { values, nulls });
        }
        pg_sys::SPI_freetuptable(table);
        count > 0
    }
}
