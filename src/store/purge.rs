//! storage_reaper.purge and purge_entry: caches, and what they are still to be told.

use std::time::Duration;

use pgrx::datum::TimestampWithTimeZone;

use crate::domain::endpoint::Endpoint;
use crate::domain::purge::Purge;
use crate::domain::segment::Segment;
use crate::error::{Error, Result};

use super::spi;

/// All declared purges.
pub fn all() -> Result<Vec<Purge>> {
    let damaged = |detail: String| Error::Stored { what: "purge", detail };
    spi::read(include_str!("../../sql/queries/purge_all.sql"), &[], |row| {
        let (kind, address): (String, String) = (row.required("kind")?, row.required("address")?);
        Ok(Purge {
            id: row.required("id")?,
            url_base: row.required("url_base")?,
            service: kind.parse().map_err(|_| damaged(format!("Unknown kind \"{kind}\".")))?,
            address: Endpoint::parse(&address).map_err(|error| damaged(error.to_string()))?,
            zone: row.optional("zone")?,
            body: row.optional("body")?,
            secret: row.optional("secret")?,
            batch_size: u16::try_from(row.required::<i16>("batch_size")?).unwrap_or(1),
        })
    })
}

/// Declares a purge; `false` when its base has one.
pub fn insert(purge: &Purge) -> Result<bool> {
    let found: Vec<i32> = spi::write(
        include_str!("../../sql/queries/purge_insert.sql"),
        &[
            purge.url_base.as_str().into(),
            purge.service.as_str().into(),
            purge.address.as_str().into(),
            purge.zone.as_deref().into(),
            purge.body.as_deref().into(),
            purge.secret.as_deref().into(),
            i16::try_from(purge.batch_size).unwrap_or(i16::MAX).into(),
        ],
        |row| row.required("id"),
    )?;
    Ok(!found.is_empty())
}

/// Forgets a purge with what it was to tell; `false` when there was none.
pub fn delete(url_base: &str) -> Result<bool> {
    let found: Vec<i32> =
        spi::write(include_str!("../../sql/queries/purge_delete.sql"), &[url_base.into()], |row| row.required("id"))?;
    Ok(!found.is_empty())
}

/// URLs that a service is to be told of.
pub struct Untold {
    pub purge_id: i32,
    pub urls: Vec<String>,
}

/// Puts URLs where they wait.
pub fn queue(untold: Vec<Untold>) -> Result<()> {
    if untold.is_empty() {
        return Ok(());
    }
    let mut columns = (vec![], vec![], vec![]);
    for Untold { purge_id, urls } in untold {
        columns.0.push(purge_id);
        columns.1.push(i16::try_from(urls.len()).unwrap_or(i16::MAX));
        columns.2.push(Segment::of(urls).pack());
    }
    let statement = include_str!("../../sql/queries/purge_entry_insert.sql");
    spi::execute(statement, &[columns.0.into(), columns.1.into(), columns.2.into()]).map(drop)
}

/// Where URLs wait that are told together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PurgeKey {
    pub purge_id: i32,
    pub due_at: TimestampWithTimeZone,
    pub id: i64,
}

/// URLs whose time has come.
pub struct DuePurge {
    pub key: PurgeKey,
    /// How often the service refused just these.
    pub attempts: u32,
    /// They wait for longer than a cache keeps anything, as a rule.
    pub is_old: bool,
    pub urls: Vec<String>,
}

/// Up to so many of each purge that is not at rest, apart from those that are under way.
pub fn due(under_way: Vec<i64>, at_rest: Vec<i32>, most_each: usize) -> Result<Vec<DuePurge>> {
    let most = i64::try_from(most_each).unwrap_or(i64::MAX);
    let statement = include_str!("../../sql/queries/purge_entry_due.sql");
    spi::read(statement, &[under_way.into(), at_rest.into(), most.into()], |row| {
        let payload: Vec<u8> = row.required("payload")?;
        Ok(DuePurge {
            key: PurgeKey {
                purge_id: row.required("purge_id")?,
                due_at: row.required("due_at")?,
                id: row.required("id")?,
            },
            attempts: u32::try_from(row.required::<i16>("attempts")?).unwrap_or_default(),
            is_old: row.required("is_old")?,
            urls: Segment::unpack(&payload)?.locators,
        })
    })
}

/// Until the next ones are due, in milliseconds.
pub fn next_due_ms() -> Result<Option<i64>> {
    let found = spi::read(include_str!("../../sql/queries/purge_entry_next.sql"), &[], |row| row.optional("wait_ms"))?;
    Ok(found.into_iter().next().flatten())
}

/// They were told, or are given up.
pub fn end(key: PurgeKey, is_done: bool, error: Option<&str>) -> Result<()> {
    let statement = include_str!("../../sql/queries/purge_entry_end.sql");
    let PurgeKey { purge_id, due_at, id } = key;
    spi::execute(statement, &[purge_id.into(), due_at.into(), id.into(), is_done.into(), error.into()]).map(drop)
}

/// They are told later.
pub fn delay(key: PurgeKey, wait: Duration, attempts: u32, error: &str) -> Result<()> {
    let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    let attempts = i16::try_from(attempts).unwrap_or(i16::MAX);
    let PurgeKey { purge_id, due_at, id } = key;
    spi::execute(
        include_str!("../../sql/queries/purge_entry_delay.sql"),
        &[purge_id.into(), due_at.into(), id.into(), wait_ms.into(), attempts.into(), error.into()],
    )
    .map(drop)
}
