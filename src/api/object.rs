//! enqueue, cancel, retry, discard.

use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::capture::attach::check_grace;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::resolve::without_signature;
use crate::domain::segment::{RowIds, Segment};
use crate::error::Result;
use crate::pg::wake;
use crate::store::objects::{self, Cancellable, ParkedObject};
use crate::store::settle::{self, Queued, Settled};
use crate::store::{backend, source};

use super::{Answer, required};

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn enqueue(
    locators: Option<Vec<Option<String>>>,
    backend: default!(Option<&str>, "NULL"),
    grace: default!(Option<Interval>, "'0'"),
) -> Answer<i64> {
    let locators: Vec<String> = required("locators", locators)?
        .into_iter()
        .flatten()
        .filter(|locator| !locator.trim_ascii().is_empty())
        .map(|locator| without_signature(&locator).into_owned())
        .collect();
    let grace = required("grace", grace)?;
    check_grace(&grace)?;
    let backend_id = backend.map(backend::id_of).transpose()?;
    for chunk in locators.chunks(Segment::MAX) {
        let segment = Segment::of(chunk.to_vec());
        objects::enqueue(&segment.pack(), count(chunk.len()), backend_id, grace)?;
    }
    wake::at_commit();
    Ok(i64::try_from(locators.len()).unwrap_or(i64::MAX))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn cancel(locators: Option<Vec<Option<String>>>, source: default!(Option<&str>, "NULL")) -> Answer<i64> {
    let locators: Vec<String> = required("locators", locators)?
        .into_iter()
        .flatten()
        .map(|locator| without_signature(&locator).into_owned())
        .collect();
    if let Some(name) = source {
        source::check_known(name)?;
    }
    let mut cancelled = 0;
    for entry in objects::cancellable(locators.clone(), source)? {
        cancelled += cancel_in(&entry, &locators)?;
    }
    Ok(cancelled)
}

/// Takes the named objects out of one entry and records them.
fn cancel_in(entry: &Cancellable, locators: &[String]) -> Result<i64> {
    let segment = Segment::unpack(&entry.payload)?;
    let is_named = |index: &usize| locators.contains(&segment.locators[*index]);
    let (gone, rest): (Vec<_>, Vec<_>) = (0..segment.locators.len()).partition(is_named);
    let (gone, rest) = (segment.select(&gone), segment.select(&rest));
    let rest_packed = rest.pack();
    objects::shrink(entry, (!rest.locators.is_empty()).then(|| (rest_packed.as_slice(), count(rest.locators.len()))))?;
    settle::record(vec![Settled {
        source_id: entry.source_id,
        backend_id: entry.backend_id,
        captured_at: entry.captured_at,
        objects: count(gone.locators.len()),
        outcome: Outcome::Cancelled.as_str(),
        reason: None,
        payload: gone.pack(),
        derivation_id: entry.derivation_id,
    }])?;
    Ok(i64::from(count(gone.locators.len())))
}

fn count(objects: usize) -> i16 {
    i16::try_from(objects).unwrap_or(i16::MAX)
}

type Lines = TableIterator<
    'static,
    (name!(id, i64), name!(source, Option<String>), name!(locator, String), name!(reason, String)),
>;

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns from the type")]
fn retry(
    ids: default!(Option<Vec<i64>>, "NULL"),
    source: default!(Option<&str>, "NULL"),
    preview: default!(bool, "false"),
) -> std::result::Result<
    TableIterator<
        'static,
        (name!(id, i64), name!(source, Option<String>), name!(locator, String), name!(reason, String)),
    >,
    ErrorReport,
> {
    // A whole row is no locator: trying it would ask for an object of that name.
    let mut parked = chosen(ids, source)?;
    parked.retain(|object| object.reason != Reason::LocatorFailed.as_str());
    if !preview {
        let retried = parked.iter().map(retried).collect();
        settle::queue(retried)?;
        objects::unpark(parked.iter().map(|object| object.id).collect())?;
        wake::at_commit();
    }
    Ok(lines(parked))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns from the type")]
fn discard(
    ids: default!(Option<Vec<i64>>, "NULL"),
    source: default!(Option<&str>, "NULL"),
    preview: default!(bool, "false"),
) -> std::result::Result<
    TableIterator<
        'static,
        (name!(id, i64), name!(source, Option<String>), name!(locator, String), name!(reason, String)),
    >,
    ErrorReport,
> {
    let parked = chosen(ids, source)?;
    if !preview {
        settle::record(parked.iter().map(discarded).collect())?;
        objects::unpark(parked.iter().map(|object| object.id).collect())?;
    }
    Ok(lines(parked))
}

fn chosen(ids: Option<Vec<i64>>, source: Option<&str>) -> Result<Vec<ParkedObject>> {
    source.map_or(Ok(()), source::check_known)?;
    objects::parked(ids, source)
}

fn lines(parked: Vec<ParkedObject>) -> Lines {
    TableIterator::new(parked.into_iter().map(|object| (object.id, object.source, object.locator, object.reason)))
}

fn alone(object: &ParkedObject) -> Vec<u8> {
    let row_ids = object.row_id.clone().map_or(RowIds::None, |id| RowIds::Text(vec![id]));
    let (owns, shares) = (object.owns.clone(), object.shares.clone());
    Segment {
        locators: vec![object.locator.clone()],
        row_ids,
        owns: owns.map(|text| vec![text]),
        shares: shares.map(|text| vec![text]),
        parents: object.parent.clone().map(|text| vec![text]),
    }
    .pack()
}

fn retried(object: &ParkedObject) -> Queued {
    Queued {
        source_id: object.source_id,
        backend_id: object.backend_id,
        captured_at: object.captured_at,
        horizon: object.horizon.clone(),
        delay_ms: 0,
        attempts: 0,
        objects: object
            .payload
            .as_deref()
            .and_then(|packed| Segment::unpack(packed).ok())
            .map_or(1, |segment| count(segment.locators.len())),
        payload: object.payload.clone().unwrap_or_else(|| alone(object)),
        last_error: None,
        whole: false,
        derived: object.derived,
    }
}

fn discarded(object: &ParkedObject) -> Settled {
    Settled {
        source_id: object.source_id,
        backend_id: object.backend_id,
        captured_at: object.captured_at,
        objects: 1,
        outcome: Outcome::Discarded.as_str(),
        reason: Some(object.reason.clone()),
        payload: alone(object),
        derivation_id: object.derived.map(|derived| derived.derivation_id),
    }
}
