//! create_purge and drop_purge.

use pgrx::prelude::*;

use crate::domain::credentials::token_profile;
use crate::domain::endpoint::Endpoint;
use crate::domain::location::UrlBase;
use crate::domain::purge::{Purge, PurgeError, Service};
use crate::error::{Error, Result};
use crate::pg::settings;
use crate::store::{location, purge};

use super::{Answer, required};

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn create_purge(
    url_base: Option<&str>,
    kind: Option<&str>,
    address: default!(Option<&str>, "NULL"),
    zone: default!(Option<&str>, "NULL"),
    body: default!(Option<&str>, "NULL"),
    secret: default!(Option<&str>, "NULL"),
    batch_size: default!(Option<i32>, "NULL"),
) -> Answer<()> {
    let url_base = UrlBase::normal(required("url_base", url_base)?);
    let kind = required("kind", kind)?;
    let service: Service =
        kind.parse().map_err(|error| Error::invalid("kind", error, "Use http for anything that takes a POST."))?;
    if !location::all()?.iter().any(|location| location.base.as_str() == url_base) {
        return Err(Error::Unknown { kind: "location", name: url_base }.into());
    }
    let declared = Purge {
        id: 0,
        url_base,
        service,
        address: address_of(service, address).inspect_err(hide)?,
        zone: zone.map(str::to_owned),
        body: body.map(str::to_owned),
        secret: secret.map(profile_of).transpose().inspect_err(hide)?,
        batch_size: batch_size.map_or(Ok(service.batch_size()), size_of)?,
    };
    declared.check().map_err(refused).inspect_err(hide)?;
    if !purge::insert(&declared)? {
        return Err(Error::Exists { kind: "purge", name: declared.url_base }.into());
    }
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn drop_purge(url_base: Option<&str>) -> Answer<()> {
    let url_base = UrlBase::normal(required("url_base", url_base)?);
    if !purge::delete(&url_base)? {
        return Err(Error::Unknown { kind: "purge", name: url_base }.into());
    }
    Ok(())
}

/// A refused address, body or name may hold a token.
fn hide(error: &Error) {
    if matches!(error, Error::Invalid { parameter: "address" | "body" | "secret", .. }) {
        settings::hide_statement();
    }
}

fn address_of(service: Service, address: Option<&str>) -> Result<Endpoint> {
    let hint = "Give the URL that the request goes to, without user, query and fragment; the token belongs into the credentials file.";
    let text = address.or(service.address());
    let text = text.ok_or_else(|| Error::invalid("address", PurgeError::NoAddress, hint))?;
    Endpoint::parse(text).map_err(|error| Error::invalid("address", error, hint))
}

fn profile_of(secret: &str) -> Result<String> {
    let hint = "Put api_token = … under that profile of storage_reaper.credentials_file.";
    token_profile(secret).map_err(|error| Error::invalid("secret", error, hint))
}

fn size_of(urls: i32) -> Result<u16> {
    let hint = "Give 1 to 1000 URLs.";
    let size = u16::try_from(urls).ok().filter(|size| (1..=1000).contains(size));
    size.ok_or_else(|| Error::invalid("batch_size", format!("The value is {urls}."), hint))
}

fn refused(error: PurgeError) -> Error {
    let (parameter, hint) = match error {
        PurgeError::Zone => ("zone", "Cloudflare shows it as the zone ID."),
        PurgeError::Body => ("body", "Write it like {\"urls\": {urls}}."),
        PurgeError::NoSecret => ("secret", "Give it as profile:NAME."),
        PurgeError::Clear => ("address", "Use https."),
        PurgeError::NoAddress => ("address", "Give the URL that the request goes to."),
    };
    Error::invalid(parameter, error.to_string(), hint)
}
