//! Settings: one typed accessor each, so that nobody else sees raw units.

use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::time::Duration;

use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

use crate::pg::preload;

/// A name that exists on every server, so that a fresh install starts its worker at once.
static DATABASE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"postgres"));
static CREDENTIALS_FILE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static CONFIG_FILE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static CA_FILE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static CLIENT_CERTIFICATE_FILE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static PROXY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
/// What DeleteObjects takes at most.
static BATCH_SIZE: GucSetting<i32> = GucSetting::<i32>::new(1000);
/// Enough for 3000 single deletions a second behind a round trip of 20 ms; who asks to slow down gets less.
static CONCURRENCY: GucSetting<i32> = GucSetting::<i32>::new(64);
static CONNECT_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(5_000);
/// Slow stores need seconds for 1000 keys.
static REQUEST_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(30_000);
/// Few documents of an application are larger, and the worker holds one for each request in memory.
static DOCUMENT_SIZE_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(16 * 1024);
/// An indexed reference check takes milliseconds; one that takes this long lacks its index.
static GUARD_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(10_000);
/// Most deletions take a fraction of a second.
static FENCE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(5_000);
/// As long as stores accept a signed request.
static FENCE_LINGER: GucSetting<i32> = GucSetting::<i32>::new(15 * 60);
static RETRY_BASE: GucSetting<i32> = GucSetting::<i32>::new(30);
static RETRY_MAX: GucSetting<i32> = GucSetting::<i32>::new(6 * 3600);
/// Many applications delete some hundred objects at once, by design.
static BREAKER_OBJECTS: GucSetting<i32> = GucSetting::<i32>::new(1000);
static BREAKER_PERCENT: GucSetting<i32> = GucSetting::<i32>::new(10);
static BREAKER_WINDOW: GucSetting<i32> = GucSetting::<i32>::new(3600);
/// With the two above, about four days before a person is asked.
static MAX_ATTEMPTS: GucSetting<i32> = GucSetting::<i32>::new(20);
static HISTORY_RETENTION: GucSetting<i32> = GucSetting::<i32>::new(30 * 24 * 60);
/// Only a worker that does not lead depends on it: commits wake the one that does.
static NAP: GucSetting<i32> = GucSetting::<i32>::new(60_000);

/// Defines every setting; called once when the library is loaded.
pub fn init() {
    text(
        c"storage_reaper.database",
        c"Database that the preloaded worker serves.",
        c"Other databases call storage_reaper.start_worker().",
        &DATABASE,
        // The server takes postmaster settings only while it preloads; later nothing reads this one.
        if preload::in_progress() { GucContext::Postmaster } else { GucContext::Sighup },
        GucFlags::default(),
    );
    file(
        c"storage_reaper.credentials_file",
        c"Shared credentials file that credentials => 'profile:NAME' reads.",
        &CREDENTIALS_FILE,
    );
    file(c"storage_reaper.config_file", c"Shared config file that credentials => 'profile:NAME' reads.", &CONFIG_FILE);
    file(c"storage_reaper.ca_file", c"PEM file with certificate authorities to trust beside the system's.", &CA_FILE);
    file(
        c"storage_reaper.client_certificate_file",
        c"PEM file with the certificate and private key that stores are shown who ask for one.",
        &CLIENT_CERTIFICATE_FILE,
    );
    text(
        c"storage_reaper.proxy",
        c"URL of the HTTP proxy that requests go through.",
        c"Without a user: a setting is no place for a password. Metadata services of clouds are reached without it.",
        &PROXY,
        GucContext::Sighup,
        // Who writes a password into it after all should not show it to everybody.
        GucFlags::SUPERUSER_ONLY,
    );
    number(
        c"storage_reaper.batch_size",
        c"Objects in one delete request.",
        c"Stores take up to 1000.",
        &BATCH_SIZE,
        (1, 1000),
        GucFlags::default(),
    );
    number(
        c"storage_reaper.concurrency",
        c"Delete requests in flight at once to one backend, at most.",
        c"A backend that asks to slow down gets fewer.",
        &CONCURRENCY,
        (1, 1024),
        GucFlags::default(),
    );
    number(
        c"storage_reaper.connect_timeout",
        c"Time to connect to a backend.",
        c"",
        &CONNECT_TIMEOUT,
        (10, 600_000),
        GucFlags::UNIT_MS,
    );
    number(
        c"storage_reaper.request_timeout",
        c"Time for one whole request.",
        c"",
        &REQUEST_TIMEOUT,
        (10, 600_000),
        GucFlags::UNIT_MS,
    );
    number(
        c"storage_reaper.guard_timeout",
        c"Time for one reference check; when it is over, nothing is deleted.",
        c"",
        &GUARD_TIMEOUT,
        (10, 3_600_000),
        GucFlags::UNIT_MS,
    );
    number(
        c"storage_reaper.document_size_limit",
        c"Size of a document in storage that is searched for references.",
        c"While a row names a larger one, nothing is deleted.",
        &DOCUMENT_SIZE_LIMIT,
        (1, 1024 * 1024),
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_int_guc(
        c"storage_reaper.fence_timeout",
        c"How long a writer of a fenced table waits for an object in flight that it names.",
        c"Then its statement fails.",
        &FENCE_TIMEOUT,
        1,
        600_000,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    number(
        c"storage_reaper.fence_linger",
        c"How long an object counts as in flight after a request for it got no answer.",
        c"The request may still be on its way.",
        &FENCE_LINGER,
        (0, 86_400),
        GucFlags::UNIT_S,
    );
    number(
        c"storage_reaper.retry_base",
        c"Wait before the first retry of an object; doubles with each attempt.",
        c"",
        &RETRY_BASE,
        (1, 86_400),
        GucFlags::UNIT_S,
    );
    number(
        c"storage_reaper.retry_max",
        c"Longest wait between attempts.",
        c"",
        &RETRY_MAX,
        (1, 604_800),
        GucFlags::UNIT_S,
    );
    number(
        c"storage_reaper.max_attempts",
        c"Attempts before an object is parked.",
        c"",
        &MAX_ATTEMPTS,
        (1, 1000),
        GucFlags::default(),
    );
    number(
        c"storage_reaper.breaker_objects",
        c"Objects that a source may lose within breaker_window, whatever part of its rows they are.",
        c"-1 turns the mass-delete breaker off.",
        &BREAKER_OBJECTS,
        (-1, i32::MAX),
        GucFlags::default(),
    );
    number(
        c"storage_reaper.breaker_percent",
        c"Part of a source's rows that it may lose within breaker_window, in percent.",
        c"A source that loses more than this and more than breaker_objects is held until storage_reaper.release().",
        &BREAKER_PERCENT,
        (0, 100),
        GucFlags::default(),
    );
    number(
        c"storage_reaper.breaker_window",
        c"Time within which losses of a source count together.",
        c"",
        &BREAKER_WINDOW,
        (1, 604_800),
        GucFlags::UNIT_S,
    );
    number(
        c"storage_reaper.history_retention",
        c"How long outcomes stay in history.",
        c"",
        &HISTORY_RETENTION,
        (1, 5_256_000),
        GucFlags::UNIT_MIN,
    );
    number(
        c"storage_reaper.nap",
        c"Longest sleep of a worker.",
        c"Commits wake the one that leads; another one tries to lead this often.",
        &NAP,
        (100, 3_600_000),
        GucFlags::UNIT_MS,
    );
    preload::reserve_prefix(c"storage_reaper");
}

fn text(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<Option<CString>>,
    context: GucContext,
    flags: GucFlags,
) {
    GucRegistry::define_string_guc(name, short, long, setting, context, flags);
}

/// A path says where secrets lie, so only superusers see it.
fn file(name: &'static CStr, short: &'static CStr, setting: &'static GucSetting<Option<CString>>) {
    text(
        name,
        short,
        c"An absolute path, readable by the server's user only.",
        setting,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
}

fn number(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    range: (i32, i32),
    flags: GucFlags,
) {
    GucRegistry::define_int_guc(name, short, long, setting, range.0, range.1, GucContext::Sighup, flags);
}

fn path(setting: &GucSetting<Option<CString>>) -> Option<PathBuf> {
    let value = setting.get()?.into_string().ok()?;
    (!value.is_empty()).then(|| PathBuf::from(value))
}

fn count(setting: &GucSetting<i32>) -> usize {
    usize::try_from(setting.get()).unwrap_or(1)
}

fn millis(setting: &GucSetting<i32>) -> Duration {
    Duration::from_millis(u64::try_from(setting.get()).unwrap_or_default())
}

fn seconds(setting: &GucSetting<i32>) -> Duration {
    Duration::from_secs(u64::try_from(setting.get()).unwrap_or_default())
}

/// The database of the preloaded worker.
pub fn database() -> Option<String> {
    DATABASE.get()?.into_string().ok()
}

/// What the I/O thread needs to know.
pub fn io_settings() -> crate::s3::io::Settings {
    crate::s3::io::Settings {
        connect_timeout: millis(&CONNECT_TIMEOUT),
        request_timeout: millis(&REQUEST_TIMEOUT),
        credentials_file: path(&CREDENTIALS_FILE),
        config_file: path(&CONFIG_FILE),
        ca_file: path(&CA_FILE),
        client_certificate_file: path(&CLIENT_CERTIFICATE_FILE),
        proxy: PROXY.get().and_then(|proxy| proxy.into_string().ok()).filter(|proxy| !proxy.is_empty()),
    }
}

/// Objects in one request.
pub fn batch_size() -> usize {
    count(&BATCH_SIZE)
}

/// Requests in flight at once.
pub fn concurrency() -> usize {
    count(&CONCURRENCY)
}

/// Time for one reference check.
pub fn guard_timeout() -> Duration {
    millis(&GUARD_TIMEOUT)
}

/// The most bytes that a document may have.
pub fn document_size_limit() -> usize {
    count(&DOCUMENT_SIZE_LIMIT) * 1024
}

/// How long a writer waits for an object in flight.
pub fn fence_timeout() -> Duration {
    millis(&FENCE_TIMEOUT)
}

/// How long an object counts as in flight after a request without an answer.
pub fn fence_linger() -> Duration {
    seconds(&FENCE_LINGER)
}

/// How an object's attempts are spaced and when they end.
pub fn backoff() -> crate::domain::backoff::Backoff {
    crate::domain::backoff::Backoff {
        base: seconds(&RETRY_BASE),
        max: seconds(&RETRY_MAX),
        attempts: u32::try_from(MAX_ATTEMPTS.get()).unwrap_or(1),
    }
}

/// The limits of the mass-delete breaker, unless it is off.
pub fn breaker() -> Option<crate::domain::breaker::Limits> {
    let objects = u64::try_from(BREAKER_OBJECTS.get()).ok()?;
    Some(crate::domain::breaker::Limits {
        objects,
        percent: u64::try_from(BREAKER_PERCENT.get()).unwrap_or_default(),
        window_us: i64::from(BREAKER_WINDOW.get()) * 1_000_000,
    })
}

/// Age at which outcomes leave history.
pub fn history_retention() -> Duration {
    Duration::from_secs(u64::try_from(HISTORY_RETENTION.get()).unwrap_or(1) * 60)
}

/// Longest sleep of a worker.
pub fn nap() -> Duration {
    millis(&NAP)
}
