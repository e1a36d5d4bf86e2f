//! create_backend, alter_backend, drop_backend, create_location, drop_location.

use pgrx::prelude::*;

use crate::capture::declare;
use crate::domain::backend::{Addressing, Backend, BackendId, Kind};
use crate::domain::credentials::CredentialName;
use crate::domain::endpoint::{Endpoint, check_bucket_name};
use crate::domain::location::UrlBase;
use crate::domain::probe::is_folder;
use crate::domain::vendor;
use crate::domain::verify::Verify;
use crate::domain::versions::Versions;
use crate::error::{Error, Result};
use crate::pg::{settings, wake};
use crate::store::{backend, location, probe, purge};

use super::{Answer, required};

/// What a caller says of a backend; `None` keeps what is there, or takes the default.
struct Wanted<'a> {
    kind: Option<&'a str>,
    endpoint: Option<&'a str>,
    bucket: Option<&'a str>,
    region: Option<&'a str>,
    addressing: Option<&'a str>,
    credentials: Option<&'a str>,
    verify: Option<&'a str>,
    versions: Option<&'a str>,
    batch_size: Option<i32>,
    rate_limit: Option<i32>,
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[expect(clippy::too_many_arguments, reason = "SQL callers name them")]
fn create_backend(
    name: Option<&str>,
    kind: Option<&str>,
    endpoint: Option<&str>,
    bucket: Option<&str>,
    region: default!(Option<&str>, "NULL"),
    addressing: default!(Option<&str>, "'auto'"),
    credentials: default!(Option<&str>, "'environment'"),
    verify: default!(Option<&str>, "'none'"),
    versions: default!(Option<&str>, "'current'"),
    batch_size: default!(Option<i32>, "NULL"),
    rate_limit: default!(Option<i32>, "NULL"),
) -> Answer<()> {
    let name = required("name", name)?.to_owned();
    if name.trim().is_empty() {
        return Err(Error::invalid("name", "It is blank.", "Give the backend a short name, such as 'media'.").into());
    }
    let wanted = Wanted {
        kind: Some(required("kind", kind)?),
        endpoint: Some(required("endpoint", endpoint)?),
        bucket: Some(required("bucket", bucket)?),
        region,
        addressing: Some(required("addressing", addressing)?),
        credentials: Some(required("credentials", credentials)?),
        verify: Some(required("verify", verify)?),
        versions: Some(required("versions", versions)?),
        batch_size,
        rate_limit,
    };
    let credentials = credentials.unwrap_or_default();
    let created = checked(name, None, &wanted).inspect_err(hide)?;
    if !backend::insert(&created, credentials)? {
        return Err(Error::Exists { kind: "backend", name: created.name }.into());
    }
    if kind == Some("auto") {
        probe::want(&created.name, "")?;
        wake::at_commit();
    }
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[expect(clippy::too_many_arguments, reason = "SQL callers name them")]
fn alter_backend(
    name: Option<&str>,
    endpoint: default!(Option<&str>, "NULL"),
    region: default!(Option<&str>, "NULL"),
    bucket: default!(Option<&str>, "NULL"),
    addressing: default!(Option<&str>, "NULL"),
    credentials: default!(Option<&str>, "NULL"),
    verify: default!(Option<&str>, "NULL"),
    versions: default!(Option<&str>, "NULL"),
    batch_size: default!(Option<i32>, "NULL"),
    rate_limit: default!(Option<i32>, "NULL"),
) -> Answer<()> {
    let name = required("name", name)?;
    let present = backend::all()?.into_iter().find(|backend| backend.name == name);
    let present = present.ok_or_else(|| Error::Unknown { kind: "backend", name: name.to_owned() })?;
    let kept = backend::credentials_of(present.id)?;
    let wanted = Wanted {
        kind: None,
        endpoint,
        bucket,
        region,
        addressing,
        credentials,
        verify,
        versions,
        batch_size,
        rate_limit,
    };
    let changed = checked(name.to_owned(), Some(&present), &wanted).inspect_err(hide)?;
    let has_moved = changed.bucket != present.bucket || changed.endpoint != present.endpoint;
    let queued = if has_moved { backend::queued(present.id)? } else { 0 };
    if queued > 0 {
        ereport!(
            PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            format!("{queued} objects in the queue or parked will be looked for in the new place"),
            "They were captured while the backend was at another endpoint or bucket. If it is not the same content under a new address, alter it back, let the queue empty, and create a backend of another name."
        );
    }
    if has_moved {
        // Rows mean other objects then.
        declare::begin()?;
    }
    backend::update(&changed, credentials.unwrap_or(&kept))?;
    wake::at_commit();
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn probe_backend(name: Option<&str>, prefix: default!(Option<&str>, "''")) -> Answer<()> {
    let name = required("name", name)?;
    let prefix = required("prefix", prefix)?;
    if !is_folder(prefix) {
        let detail = "It is not a prefix of keys that ends with a slash.";
        return Err(Error::invalid("prefix", detail, "Give a prefix such as 'images/', or leave it out.").into());
    }
    probe::want(name, prefix)?;
    wake::at_commit();
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn drop_backend(name: Option<&str>) -> Answer<()> {
    let name = required("name", name)?;
    let id = backend::id_of(name)?;
    if let Some(by) = backend::used_by(id)? {
        return Err(Error::InUse { kind: "backend", name: name.to_owned(), by }.into());
    }
    backend::delete(id)?;
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn create_location(
    url_base: Option<&str>,
    backend: Option<&str>,
    bucket: default!(Option<&str>, "NULL"),
    key_prefix: default!(Option<&str>, "''"),
) -> Answer<()> {
    let base = UrlBase::parse(required("url_base", url_base)?)
        .map_err(|error| Error::invalid("url_base", error, "Give a URL such as 'https://cdn.example.com/'."))?;
    let (authority, path) = base.authority_and_path();
    if vendor::is_of_api(authority, path) {
        let told = "It is part of an API, below which keys are written in another way.";
        return Err(Error::invalid("url_base", told, "URLs of such an API are read without a location.").into());
    }
    let name = required("backend", backend)?;
    let key_prefix = required("key_prefix", key_prefix)?;
    let backends = backend::all()?;
    let backend = backends
        .iter()
        .find(|backend| backend.name == name)
        .ok_or_else(|| Error::Unknown { kind: "backend", name: name.to_owned() })?;
    let bucket = bucket.unwrap_or(&backend.bucket);
    check_bucket(bucket)?;
    check_addressing(backend.addressing, &backend.endpoint, bucket)?;
    if !key_prefix.is_empty() && !key_prefix.ends_with('/') {
        return Err(Error::invalid(
            "key_prefix",
            "It does not end with a slash, so that \"images\" would stand for \"images2\" too.",
            "Give a prefix such as 'images/'.",
        )
        .into());
    }
    declare::begin()?;
    if !location::insert(&base, backend.id.0, bucket, key_prefix)? {
        return Err(Error::Exists { kind: "location", name: base.as_str().to_owned() }.into());
    }
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn drop_location(url_base: Option<&str>) -> Answer<()> {
    let base = UrlBase::normal(required("url_base", url_base)?);
    if purge::all()?.iter().any(|purge| purge.url_base == base) {
        return Err(Error::InUse { kind: "location", name: base, by: "purges" }.into());
    }
    declare::begin()?;
    if !location::delete(&base)? {
        return Err(Error::Unknown { kind: "location", name: base }.into());
    }
    Ok(())
}

/// A refused endpoint or credentials name may hold a secret.
fn hide(error: &Error) {
    if matches!(error, Error::Invalid { parameter: "endpoint" | "credentials", .. }) {
        settings::hide_statement();
    }
}

fn check_addressing(addressing: Addressing, endpoint: &Endpoint, bucket: &str) -> Result<()> {
    addressing
        .check(endpoint, bucket)
        .map_err(|error| Error::invalid("addressing", error, "Use addressing => 'path', or 'auto'."))
}

fn check_bucket(bucket: &str) -> Result<()> {
    check_bucket_name(bucket).map_err(|error| {
        Error::invalid("bucket", error, "Bucket names have 3 to 63 lower-case letters, digits, dots and hyphens.")
    })
}

/// Puts what is wanted over what is present and checks the whole.
fn checked(name: String, present: Option<&Backend>, wanted: &Wanted<'_>) -> Result<Backend> {
    let endpoint = chosen("endpoint", wanted.endpoint, present.map(|present| present.endpoint.clone()), |endpoint| {
        Endpoint::parse(endpoint).map_err(|error| {
            Error::invalid("endpoint", error, "Give the API address, such as 'https://s3.eu-west-1.amazonaws.com'.")
        })
    })?;
    let kind = chosen("kind", wanted.kind, present.map(|present| present.kind), |kind| match kind {
        "auto" => Ok(Kind::of_host(endpoint.host())),
        kind => kind.parse().map_err(|_| {
            let names = Kind::names().collect::<Vec<_>>().join(", ");
            let detail = format!("It is none of {names}.");
            Error::invalid("kind", detail, "Use one of them, or 'auto' to have the endpoint's host tell.")
        }),
    })?;
    let bucket = wanted.bucket.or(present.map(|present| present.bucket.as_str())).unwrap_or_default().to_owned();
    check_bucket(&bucket)?;
    endpoint.check_bucket(&bucket).map_err(|error| {
        Error::invalid("endpoint", error, "Leave the bucket out of the endpoint; it has a parameter of its own.")
    })?;
    let addressing =
        chosen("addressing", wanted.addressing, present.map(|present| present.addressing), |style| match style {
            "auto" => Ok(Addressing::choose(kind, &endpoint, &bucket)),
            style => style
                .parse::<Addressing>()
                .map_err(|error| Error::invalid("addressing", error, "The choices are auto, path and virtual.")),
        })?;
    check_addressing(addressing, &endpoint, &bucket)?;
    let credentials = chosen(
        "credentials",
        wanted.credentials,
        present.map(|present| present.credentials.clone()),
        |name| {
            name.parse::<CredentialName>().map_err(|error| {
                Error::invalid(
                    "credentials",
                    error,
                    "Name where the secret lies: 'profile:NAME', 'environment', 'role:ARN' or 'instance'. Secrets never go through SQL.",
                )
            })
        },
    )?;
    let of_host = vendor::region(endpoint.host()).unwrap_or(kind.profile().region);
    let region = wanted.region.or(present.map(|present| present.region.as_str())).unwrap_or(of_host);
    if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return Err(Error::invalid(
            "region",
            "It holds other characters than letters, digits and hyphens.",
            "Give a region such as 'eu-west-1'.",
        ));
    }
    let id = present.map_or(BackendId(0), |present| present.id);
    let verify = chosen("verify", wanted.verify, present.map(|present| present.verify), |verify| {
        verify
            .parse::<Verify>()
            .map_err(|error| Error::invalid("verify", error, "Leave it out, or use 'head' or 'if-match'."))
    })?;
    let versions = chosen("versions", wanted.versions, present.map(|present| present.versions), |versions| {
        versions
            .parse::<Versions>()
            .map_err(|error| Error::invalid("versions", error, "Leave it out, or use 'all' or 'captured'."))
    })?;
    let batch_size = limit("batch_size", wanted.batch_size, present.and_then(|present| present.batch_size), 1000)?;
    let rate_limit = limit("rate_limit", wanted.rate_limit, present.and_then(|present| present.rate_limit), i32::MAX)?;
    let region = region.to_owned();
    Ok(Backend {
        id,
        name,
        kind,
        endpoint,
        region,
        bucket,
        addressing,
        credentials,
        verify,
        versions,
        batch_size,
        rate_limit,
        takes_batches: None,
        keeps_versions: None,
    })
}

/// What is wanted, read, or else what is present.
fn chosen<T>(
    parameter: &'static str,
    wanted: Option<&str>,
    present: Option<T>,
    read: impl FnOnce(&str) -> Result<T>,
) -> Result<T> {
    match wanted {
        Some(wanted) => read(wanted),
        None => present.ok_or(Error::Null(parameter)),
    }
}

/// A limit that is given, lifted with 0, or left as it is.
fn limit(name: &'static str, wanted: Option<i32>, present: Option<u32>, most: i32) -> Result<Option<u32>> {
    match wanted {
        None => Ok(present),
        Some(0) => Ok(None),
        Some(wanted) if (1..=most).contains(&wanted) => Ok(u32::try_from(wanted).ok()),
        Some(_) => Err(Error::invalid(
            name,
            format!("It is not between 1 and {most}."),
            "Give such a number, or 0 for no limit of its own.",
        )),
    }
}
