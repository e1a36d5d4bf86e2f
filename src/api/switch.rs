//! arm, disarm, pause, resume, release, start_worker, wake, preloaded.

use pgrx::prelude::*;

use crate::capture::cover;
use crate::error::Error;
use crate::pg::{shared, user, wake as waking};
use crate::store::{armed, backend, breaker, source};

use super::{Answer, discover, required};

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn arm() -> Answer<String> {
    for id in source::rebind()? {
        cover::cover(id)?;
    }
    armed::arm(&user::caller_name())?;
    waking::at_commit();
    discover::warn();
    Ok("armed".to_owned())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn disarm() -> Answer<String> {
    armed::disarm()?;
    waking::at_commit();
    Ok("observe".to_owned())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn pause(source: default!(Option<&str>, "NULL"), backend: default!(Option<&str>, "NULL")) -> Answer<()> {
    set_paused(source, backend, true)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn resume(source: default!(Option<&str>, "NULL"), backend: default!(Option<&str>, "NULL")) -> Answer<()> {
    set_paused(source, backend, false)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn release(source: Option<&str>) -> Answer<()> {
    let name = required("source", source)?;
    source::check_known(name)?;
    breaker::release(name)?;
    waking::at_commit();
    Ok(())
}

fn set_paused(source: Option<&str>, backend: Option<&str>, paused: bool) -> Answer<()> {
    match (source, backend) {
        (None, None) => armed::set_paused(paused)?,
        (source, backend) => {
            source.map_or(Ok(()), |name| source::set_paused(name, paused))?;
            backend.map_or(Ok(()), |name| backend::set_paused(name, paused))?;
        }
    }
    waking::at_commit();
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn start_worker() -> Answer<i32> {
    match crate::worker::start_dynamic() {
        crate::worker::Start::Running(pid) => Ok(pid),
        crate::worker::Start::NoSlot => Err(Error::NoWorkerSlot.into()),
        crate::worker::Start::Stopped => Err(Error::WorkerStopped.into()),
    }
}

#[pg_extern]
fn wake() {
    waking::at_commit();
}

#[pg_extern]
fn preloaded() -> bool {
    shared::is_available()
}
