//! storage_reaper.location.

use crate::domain::backend::BackendId;
use crate::domain::location::{Location, UrlBase};
use crate::error::{Error, Result};

use super::spi;

/// All declared locations.
pub fn all() -> Result<Vec<Location>> {
    spi::read(include_str!("../../sql/queries/location_all.sql"), &[], |row| {
        let base: String = row.required("url_base")?;
        Ok(Location {
            base: UrlBase::parse(&base)
                .map_err(|error| Error::Stored { what: "location", detail: error.to_string() })?,
            backend: BackendId(row.required("backend_id")?),
            bucket: row.required("bucket")?,
            key_prefix: row.required("key_prefix")?,
        })
    })
}

/// Declares a location; `false` when the base is taken.
pub fn insert(base: &UrlBase, backend_id: i32, bucket: &str, key_prefix: &str) -> Result<bool> {
    let found: Vec<String> = spi::write(
        include_str!("../../sql/queries/location_insert.sql"),
        &[base.as_str().into(), backend_id.into(), bucket.into(), key_prefix.into()],
        |row| row.required("url_base"),
    )?;
    Ok(!found.is_empty())
}

/// Removes a location; `false` when there was none.
pub fn delete(base: &str) -> Result<bool> {
    let found: Vec<String> =
        spi::write(include_str!("../../sql/queries/location_delete.sql"), &[base.into()], |row| {
            row.required("url_base")
        })?;
    Ok(!found.is_empty())
}
