//! storage_reaper.document: what documents in storage name, as the worker has read them.

use pgrx::pg_sys;

use crate::domain::backend::BackendId;
use crate::domain::document::{Digest, Reading};
use crate::domain::object::Object;
use crate::error::{Error, Result};
use crate::pg::settings::Settings;

use super::locator_sql::SPELLINGS;
use super::spi;

/// A document as it was read.
pub struct Read {
    pub source_id: i32,
    pub digest: Digest,
    pub object: Object,
    pub reading: Reading,
    pub etag: Option<String>,
    pub prints: Vec<i64>,
}

/// Which documents of a reference were read, in that way.
pub fn known(source_id: i32, reading: &Reading) -> Result<Vec<Digest>> {
    let (format, member) = (reading.format.as_str(), reading.member.as_deref());
    let arguments = [source_id.into(), format.into(), member.into(), reading.immutable.into()];
    let statement = include_str!("../../sql/queries/document_known.sql");
    let found: Vec<String> = spi::read(statement, &arguments, |row| row.required("digest"))?;
    Ok(found.iter().filter_map(|hex| Digest::from_hex(hex)).collect())
}

/// What the store called the versions that were read.
pub fn etags(source_id: i32, reading: &Reading, digests: &[Digest]) -> Result<Vec<(Digest, String)>> {
    let hex: Vec<String> = digests.iter().map(|digest| digest.to_hex()).collect();
    let (format, member) = (reading.format.as_str(), reading.member.as_deref());
    let arguments = [source_id.into(), hex.into(), format.into(), member.into(), reading.immutable.into()];
    let found = spi::read(include_str!("../../sql/queries/document_etags.sql"), &arguments, |row| {
        Ok((row.required::<String>("digest")?, row.required("etag")?))
    })?;
    Ok(found.into_iter().filter_map(|(hex, etag)| Some((Digest::from_hex(&hex)?, etag))).collect())
}

/// Writes what was read.
pub fn save(read: &Read) -> Result<()> {
    let Read { object, reading, .. } = read;
    let arguments = [
        read.source_id.into(),
        read.digest.to_hex().into(),
        object.backend.0.into(),
        object.bucket.as_str().into(),
        object.key.as_str().into(),
        reading.format.as_str().into(),
        reading.member.as_deref().into(),
        reading.immutable.into(),
        read.etag.as_deref().into(),
        read.prints.clone().into(),
    ];
    spi::execute(include_str!("../../sql/queries/document_save.sql"), &arguments).map(drop)
}

/// Forgets documents that no row names any more.
pub fn remove(source_id: i32, digests: &[Digest]) -> Result<()> {
    let hex: Vec<String> = digests.iter().map(|digest| digest.to_hex()).collect();
    spi::execute(include_str!("../../sql/queries/document_remove.sql"), &[source_id.into(), hex.into()]).map(drop)
}

/// Forgets what was read for a reference.
pub fn forget(source_id: i32) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/document_forget.sql"), &[source_id.into()]).map(drop)
}

/// The table's oid: another one after the extension was dropped and created again.
pub fn table() -> Result<pg_sys::Oid> {
    let found = spi::read(include_str!("../../sql/queries/document_table.sql"), &[], |row| row.required("found"))?;
    found.into_iter().next().ok_or_else(|| Error::Stored { what: "document", detail: "It has no table.".to_owned() })
}

/// A document that names what has a fingerprint.
pub struct Naming {
    pub print: i64,
    pub document: Object,
}

/// Documents that name what has one of the fingerprints; a few for each.
pub fn naming(source_id: i32, reading: &Reading, prints: Vec<i64>) -> Result<Vec<Naming>> {
    let _settings = Settings::by_index();
    let most = i64::try_from(SPELLINGS).unwrap_or(i64::MAX);
    let (format, member) = (reading.format.as_str(), reading.member.as_deref());
    let arguments = [source_id.into(), prints.into(), most.into(), format.into(), member.into()];
    spi::read(include_str!("../../sql/queries/document_naming.sql"), &arguments, |row| {
        let document = Object {
            backend: BackendId(row.required("backend_id")?),
            bucket: row.required("bucket")?,
            key: row.required("key")?,
        };
        Ok(Naming { print: row.required("print")?, document })
    })
}
