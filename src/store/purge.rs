//! storage_reaper.purge and purge_entry: caches, and what they are still to be told.

use std::time::Duration;

use pgrx::datum::TimestampWithTimeZone;

use crate::domain::endpoint::Endpoint;
use crate::domain::purge::Purge;
use crate::domain::segment::Segment;
use crate::error::{Error, Result};

use super::spi;

/// All declared purges. One that this version cannot read is left out, and said in the log: nothing waits for it.
pub fn all() -> Result<Vec<Purge>> {
    let found = spi::read(include_str!("../../sql/queries/purge_all.sql"), &[], |row| {
        let (kind, address): (String, String) = (row.required("kind")?, row.required("address")?);
        let url_base: String = row.required("url_base")?;
        let (Ok(service), Ok(address)) = (kind.parse(), Endpoint::parse(&address)) else {
            pgrx::log!("storage_reaper: purge \"{url_base}\" cannot be read");
            return Ok(None);
        };
        Ok(Some(Purge {
            id: row.required("id")?,
            url_base,
            service,
            address,
            zone: row.optional("zone")?,
            body: row.optional("body")?,
            secret: row.optional("secret")?,
            batch_size: u16::try_from(row.required::<i16>("batch_size")?).unwrap_or(1),
        }))
    })?;
    Ok(found.into_iter().flatten().collect())
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

/// Since when, until when and after how many refusals URLs wait.
#[derive(Default)]
struct Waiting {
    wait: Duration,
    since: Option<TimestampWithTimeZone>,
    attempts: u32,
}

/// Puts URLs where they wait.
pub fn queue(untold: Vec<Untold>) -> Result<()> {
    insert_entries(untold, &Waiting::default())
}

fn insert_entries(untold: Vec<Untold>, waiting: &Waiting) -> Result<()> {
    if untold.is_empty() {
        return Ok(());
    }
    let mut columns = (vec![], vec![], vec![]);
    for Untold { purge_id, urls } in untold {
        columns.0.push(purge_id);
        columns.1.push(i16::try_from(urls.len()).unwrap_or(i16::MAX));
        columns.2.push(Segment::of(urls).pack());
    }
    let wait_ms = i64::try_from(waiting.wait.as_millis()).unwrap_or(i64::MAX);
    let attempts = i16::try_from(waiting.attempts).unwrap_or(i16::MAX);
    spi::execute(
        include_str!("../../sql/queries/purge_entry_insert.sql"),
        &[columns.0.into(), wait_ms.into(), waiting.since.into(), attempts.into(), columns.1.into(), columns.2.into()],
    )
    .map(drop)
}

/// Where URLs wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PurgeKey {
    pub due_at: TimestampWithTimeZone,
    pub id: i64,
}

/// URLs whose time has come.
pub struct DuePurge {
    pub purge_id: i32,
    pub key: PurgeKey,
    /// How often the service refused just these.
    pub attempts: u32,
    /// None, if this version cannot read them.
    pub urls: Vec<String>,
}

/// Up to so many entries of each purge that is not at rest, apart from those that are under way.
pub fn due(under_way: Vec<i64>, at_rest: Vec<i32>, most_each: usize) -> Result<Vec<DuePurge>> {
    let most = i64::try_from(most_each).unwrap_or(i64::MAX);
    let statement = include_str!("../../sql/queries/purge_entry_due.sql");
    spi::read(statement, &[under_way.into(), at_rest.into(), most.into()], |row| {
        let payload: Vec<u8> = row.required("payload")?;
        Ok(DuePurge {
            purge_id: row.required("purge_id")?,
            key: PurgeKey { due_at: row.required("due_at")?, id: row.required("id")? },
            attempts: u32::try_from(row.required::<i16>("attempts")?).unwrap_or_default(),
            urls: Segment::unpack(&payload).map(|segment| segment.locators).unwrap_or_default(),
        })
    })
}

/// Until the next ones are due, in milliseconds.
pub fn next_due_ms() -> Result<Option<i64>> {
    let found = spi::read(include_str!("../../sql/queries/purge_entry_next.sql"), &[], |row| row.optional("wait_ms"))?;
    Ok(found.into_iter().next().flatten())
}

/// What was taken out.
struct Taken {
    are_all: bool,
    urls: i64,
    since: Option<TimestampWithTimeZone>,
}

fn take(purge_id: i32, keys: &[PurgeKey]) -> Result<Taken> {
    let (due, ids): (Vec<_>, Vec<_>) = keys.iter().map(|key| (key.due_at, key.id)).unzip();
    let statement = include_str!("../../sql/queries/purge_entry_take.sql");
    let taken = spi::write(statement, &[purge_id.into(), due.into(), ids.into()], |row| {
        let entries: i64 = row.required("entries")?;
        let are_all = usize::try_from(entries) == Ok(keys.len());
        Ok(Taken { are_all, urls: row.required("urls")?, since: row.optional("created_at")? })
    })?;
    Ok(taken.into_iter().next().unwrap_or(Taken { are_all: false, urls: 0, since: None }))
}

/// They were told, or are given up. Says whether all of them could be taken out.
pub fn end(purge_id: i32, keys: &[PurgeKey], is_done: bool, error: Option<&str>) -> Result<bool> {
    let taken = take(purge_id, keys)?;
    let arguments = [purge_id.into(), taken.urls.into(), is_done.into(), error.into()];
    spi::execute(include_str!("../../sql/queries/purge_count.sql"), &arguments)?;
    Ok(taken.are_all)
}

/// They are told in these lots, after a while. An error if not all of them can be taken out.
pub fn split(purge_id: i32, keys: &[PurgeKey], wait: Duration, attempts: u32, lots: &[&[String]]) -> Result<()> {
    let taken = take(purge_id, keys)?;
    if !taken.are_all {
        // The transaction must not commit: some would be told by nobody.
        return Err(Error::Stored { what: "purge", detail: "Somebody is changing it.".to_owned() });
    }
    let untold = lots.iter().map(|urls| Untold { purge_id, urls: urls.to_vec() }).collect();
    insert_entries(untold, &Waiting { wait, since: taken.since, attempts })
}

/// The service does not listen, and why.
pub fn failed(purge_id: i32, error: &str) -> Result<()> {
    spi::execute(include_str!("../../sql/queries/purge_failed.sql"), &[purge_id.into(), error.into()]).map(drop)
}

/// Gives up what is old.
pub fn forget() -> Result<()> {
    spi::execute(include_str!("../../sql/queries/purge_entry_forget.sql"), &[]).map(drop)
}
