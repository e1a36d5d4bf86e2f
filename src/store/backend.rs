//! storage_reaper.backend.

use crate::domain::backend::{Addressing, Backend, BackendId, Kind};
use crate::domain::endpoint::Endpoint;
use crate::domain::verify::{Honour, UnknownVerify, Verify};
use crate::domain::versions::UnknownVersions;
use crate::error::{Error, Result};

use super::spi::{self, Row};

/// The id of a backend by name.
pub fn id_of(name: &str) -> Result<i32> {
    spi::read(include_str!("../../sql/queries/backend_id.sql"), &[name.into()], |row| row.required("id"))?
        .into_iter()
        .next()
        .ok_or_else(|| Error::Unknown { kind: "backend", name: name.to_owned() })
}

/// All backends.
pub fn all() -> Result<Vec<Backend>> {
    spi::read(include_str!("../../sql/queries/backend_all.sql"), &[], backend)
}

fn backend(row: &Row<'_>) -> Result<Backend> {
    let damaged = |detail: String| Error::Stored { what: "backend", detail };
    Ok(Backend {
        id: BackendId(row.required("id")?),
        name: row.required("name")?,
        kind: row.required::<String>("kind")?.parse::<Kind>().map_err(|error| damaged(error.to_string()))?,
        endpoint: Endpoint::parse(&row.required::<String>("endpoint")?).map_err(|error| damaged(error.to_string()))?,
        region: row.required("region")?,
        bucket: row.required("bucket")?,
        addressing: row
            .required::<String>("addressing")?
            .parse::<Addressing>()
            .map_err(|error| damaged(error.to_string()))?,
        credentials: row
            .required::<String>("credentials")?
            .parse()
            .map_err(|_| damaged("Its credentials are not a known name.".to_owned()))?,
        verify: match row
            .required::<String>("verify")?
            .parse()
            .map_err(|error: UnknownVerify| damaged(error.to_string()))?
        {
            Verify::IfMatch(_) => Verify::IfMatch(match row.optional("honours_if_match")? {
                Some(true) => Honour::Yes,
                Some(false) => Honour::No,
                None => Honour::Unknown,
            }),
            other => other,
        },
        versions: row
            .required::<String>("versions")?
            .parse()
            .map_err(|error: UnknownVersions| damaged(error.to_string()))?,
        batch_size: row.optional::<i32>("batch_size")?.and_then(|size| u32::try_from(size).ok()),
        rate_limit: row.optional::<i32>("rate_limit")?.and_then(|limit| u32::try_from(limit).ok()),
        takes_batches: row.optional("takes_batches")?,
        keeps_versions: row.optional("keeps_versions")?,
    })
}

/// Writes a new backend; `false` when the name is taken.
pub fn insert(backend: &Backend, credentials: &str) -> Result<bool> {
    write(include_str!("../../sql/queries/backend_insert.sql"), backend, credentials)
}

/// Writes a changed backend and lets it go, in case it was held.
pub fn update(backend: &Backend, credentials: &str) -> Result<bool> {
    write(include_str!("../../sql/queries/backend_update.sql"), backend, credentials)
}

fn write(statement: &str, backend: &Backend, credentials: &str) -> Result<bool> {
    let ids: Vec<i32> = spi::write(
        statement,
        &[
            backend.name.as_str().into(),
            backend.kind.as_str().into(),
            backend.endpoint.as_str().into(),
            backend.bucket.as_str().into(),
            backend.region.as_str().into(),
            backend.addressing.as_str().into(),
            credentials.into(),
            backend.verify.as_str().into(),
            backend.versions.as_str().into(),
            number(backend.batch_size).into(),
            number(backend.rate_limit).into(),
        ],
        |row| row.required("id"),
    )?;
    Ok(!ids.is_empty())
}

fn number(limit: Option<u32>) -> Option<i32> {
    limit.and_then(|limit| i32::try_from(limit).ok())
}

/// The credentials' name as it was given.
pub fn credentials_of(id: BackendId) -> Result<String> {
    Ok(spi::read(include_str!("../../sql/queries/backend_credentials.sql"), &[id.0.into()], |row| {
        row.required("credentials")
    })?
    .into_iter()
    .next()
    .unwrap_or_default())
}

/// What still uses a backend, as a plural noun.
pub fn used_by(id: i32) -> Result<Option<&'static str>> {
    let found: Vec<String> =
        spi::read(include_str!("../../sql/queries/backend_used_by.sql"), &[id.into()], |row| row.required("what"))?;
    Ok(found.first().map(|what| match what.as_str() {
        "source" => "sources",
        "location" => "locations",
        "queue" => "queued objects",
        _ => "parked objects",
    }))
}

/// Objects in the queue or parked whose plain keys go to the backend.
pub fn queued(id: BackendId) -> Result<i64> {
    let found: Vec<i64> =
        spi::read(include_str!("../../sql/queries/backend_queued.sql"), &[id.0.into()], |row| row.required("objects"))?;
    Ok(found.first().copied().unwrap_or(0))
}

/// Removes a backend and lets history keep its outcomes without a name.
pub fn delete(id: i32) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/backend_delete.sql"), &[id.into()]).map(drop)
}

/// Pauses or resumes a backend.
pub fn set_paused(name: &str, paused: bool) -> Result<()> {
    let touched: Vec<i32> =
        spi::write(include_str!("../../sql/queries/backend_set_paused.sql"), &[name.into(), paused.into()], |row| {
            row.required("id")
        })?;
    if touched.is_empty() { Err(Error::Unknown { kind: "backend", name: name.to_owned() }) } else { Ok(()) }
}

/// What can be found out of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// A deletion may depend on a version.
    HonoursIfMatch,
    /// It knows DeleteObjects.
    TakesBatches,
    /// The bucket hides objects behind markers.
    KeepsVersions,
}

impl Ability {
    const fn column(self) -> &'static str {
        match self {
            Self::HonoursIfMatch => "honours_if_match",
            Self::TakesBatches => "takes_batches",
            Self::KeepsVersions => "keeps_versions",
        }
    }

    /// What people should know, as the predicate of a sentence.
    pub const fn told(self, is_so: bool) -> Option<&'static str> {
        match (self, is_so) {
            (Self::HonoursIfMatch, false) => {
                Some("does not make a deletion depend on a version: verify 'if-match' does what 'head' does")
            }
            (Self::TakesBatches, false) => Some("takes no batches; deleting one by one"),
            (Self::KeepsVersions, true) => Some("keeps versions: deletions free no bytes there"),
            _ => None,
        }
    }
}

/// Records what was found out; altering the backend forgets it. Says whether that was news.
pub fn set_ability(backend: &Backend, ability: Ability, is_so: bool) -> Result<bool> {
    let statement = include_str!("../../sql/queries/backend_set_ability.sql");
    let (endpoint, bucket) = (backend.endpoint.as_str(), backend.bucket.as_str());
    let column = ability.column();
    Ok(spi::execute(statement, &[backend.id.0.into(), column.into(), is_so.into(), endpoint.into(), bucket.into()])?
        > 0)
}

/// Records by how many seconds a store's clock is ahead of ours. Returns its name if that was news.
pub fn set_clock(id: BackendId, ahead_s: i64) -> Result<Option<String>> {
    let statement = include_str!("../../sql/queries/backend_set_clock.sql");
    let names = spi::write(statement, &[id.0.into(), ahead_s.into()], |row| row.required("name"))?;
    Ok(names.into_iter().next())
}

/// Nothing is known of the clocks of stores.
pub fn forget_clocks() -> Result<()> {
    spi::execute(include_str!("../../sql/queries/backend_forget_clocks.sql"), &[]).map(drop)
}

/// Records why nothing is sent to a backend, or that it works again.
pub fn set_held(id: BackendId, reason: Option<&str>) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/backend_set_held.sql"), &[id.0.into(), reason.into()]).map(drop)
}
