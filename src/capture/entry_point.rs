//! The C functions behind `storage_reaper.capture()`, `fence()` and `strings()`.

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::domain::embedded::Named;
use crate::pg::fence::{Raised, raise};
use crate::pg::json;
use crate::pg::trigger::{Event, Trigger};
use crate::pg::value::Format;

use super::{drop, fence, plan, statement, update};

/// Tells the server that the function below follows the version-1 calling convention.
#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_storage_reaper_capture() -> &'static pg_sys::Pg_finfo_record {
    const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &VERSION_1
}

/// The trigger function. It runs as whoever runs the statement and needs no privilege of theirs.
///
/// # Safety
/// Called by the server's function manager only.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn storage_reaper_capture(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function manager passes its own call structure.
    let trigger = unsafe { Trigger::from_call(call) };
    if let Some(trigger) = trigger {
        if let Err(error) = capture(&trigger) {
            ErrorReport::from(error).report(PgLogLevel::ERROR);
        }
    } else {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
            "storage_reaper.capture() must be called as a trigger"
        );
    }
    pg_sys::Datum::from(0_usize)
}

/// Tells the server that the function below follows the version-1 calling convention.
#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_storage_reaper_fence() -> &'static pg_sys::Pg_finfo_record {
    const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &VERSION_1
}

/// The trigger function of the fence. It owns nothing, so that its own error may jump over it.
///
/// # Safety
/// Called by the server's function manager only.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn storage_reaper_fence(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the function manager passes its own call structure; nothing here needs to be dropped.
    unsafe {
        let data = fence_refusal(call);
        if !data.is_null() {
            raise(data);
        }
    }
    pg_sys::Datum::from(0_usize)
}

/// The error to raise, or null.
#[pg_guard]
unsafe extern "C-unwind" fn fence_refusal(call: pg_sys::FunctionCallInfo) -> *mut pg_sys::ErrorData {
    // SAFETY: by contract of the caller.
    let Some(trigger) = (unsafe { Trigger::from_call(call) }) else {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
            "storage_reaper.fence() must be called as a trigger"
        );
    };
    match fence::check(&trigger) {
        Ok(refusal) => refusal.map_or(std::ptr::null_mut(), Raised::into_raw),
        Err(error) => {
            ErrorReport::from(error).report(PgLogLevel::ERROR);
            std::ptr::null_mut()
        }
    }
}

fn capture(trigger: &Trigger) -> crate::error::Result<()> {
    let Some(event) = trigger.event() else { return Ok(()) };
    if event != Event::Truncate && trigger.is_empty() {
        return Ok(());
    }
    let relation = trigger.relation();
    let Some(source) = trigger.source_id() else { return Ok(()) };
    let Some(plan) = plan::find(&relation, source)? else { return Ok(()) };
    match event {
        Event::Delete => statement::capture_delete(trigger, &plan),
        Event::Update if plan.on_update => update::capture_update(trigger, &plan),
        Event::Update => {}
        Event::Truncate => drop::capture_truncate(&relation, &plan)?,
    }
    Ok(())
}

/// Tells the server that the function below follows the version-1 calling convention.
#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_storage_reaper_strings() -> &'static pg_sys::Pg_finfo_record {
    const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &VERSION_1
}

/// `strings(jsonb)` and `strings(jsonb, text)`; both are STRICT.
///
/// # Safety
/// Called by the server's function manager only.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn storage_reaper_strings(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the declarations give a jsonb and perhaps a text, neither NULL.
    unsafe {
        let arguments = (*call).args.as_slice(usize::try_from((*call).nargs).unwrap_or_default());
        let mut member = None;
        if let Some(argument) = arguments.get(1) {
            Format::Text.each_text(argument.value, &mut |text| member = Some(text.to_owned()));
        }
        let mut named = Named::default();
        json::each_text(arguments[0].value, member.as_deref(), &mut |text| named.note(text));
        named.texts().into_datum().unwrap_or(pg_sys::Datum::from(0_usize))
    }
}
