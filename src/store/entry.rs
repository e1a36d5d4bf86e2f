//! storage_reaper.entry: the outbox.

use pgrx::datum::TimestampWithTimeZone;

use crate::error::Result;
use crate::pg::settings::Settings;
use crate::pg::transaction;

use super::derivation::Derived;
use super::spi::{self, Row};

/// Entries of one source that go to one backend, 0 where there is none; strands take turns.
pub type Strand = (i32, i32);

/// Where an entry stands in the outbox.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub strand: Strand,
    pub due_at: TimestampWithTimeZone,
    pub id: i64,
}

impl Key {
    /// From the columns strand_source, strand_backend, due_at and id.
    pub fn of(row: &Row<'_>) -> Result<Self> {
        Ok(Self {
            strand: (row.required("strand_source")?, row.required("strand_backend")?),
            due_at: row.required("due_at")?,
            id: row.required("id")?,
        })
    }
}

/// An entry that the leader works on.
#[derive(Debug, Clone)]
pub struct Claimed {
    pub key: Key,
    pub captured_at: TimestampWithTimeZone,
    /// The same, in microseconds of the epoch.
    pub captured_us: i64,
    /// By TRUNCATE or DROP.
    pub whole: bool,
    /// The next transaction id at its capture, as xid8 text: it goes along when objects are retried.
    pub horizon: String,
    pub source_id: Option<i32>,
    /// Where keys go that name no backend themselves.
    pub backend_id: Option<i32>,
    pub attempts: i16,
    pub payload: Vec<u8>,
    pub last_error: Option<String>,
    pub fault: Option<String>,
    /// Its objects go with others.
    pub derived: Option<Derived>,
    /// What cannot be deleted of it waits for a person; else it is given up.
    pub is_required: bool,
    /// How many objects may lie below one of its prefixes.
    pub max_objects: usize,
}

/// What the claim leaves out.
pub struct Except {
    /// Entries that are claimed already.
    pub claimed: Vec<i64>,
    /// Backends that nothing is sent to for now.
    pub backends: Vec<i32>,
}

/// Whether a claim would find anything; only reads.
pub fn is_anything_due(except: &Except) -> Result<bool> {
    let _by_index = Settings::by_index();
    let found = spi::read(
        include_str!("../../sql/queries/entry_is_due.sql"),
        &[except.claimed.clone().into(), except.backends.clone().into(), transaction::horizon().into()],
        |row| row.required("found"),
    )?;
    Ok(found.first().copied().unwrap_or(false))
}

/// What one claim finds.
pub struct Found {
    pub entries: Vec<Claimed>,
    /// There may be more of it.
    pub is_cut: bool,
}

/// Due entries that no running transaction is older than: about as many as `limit`, in turns of all strands, beginning behind the
/// strand that was served last. Of each strand the oldest come first.
pub fn claim(except: &Except, limit: i64, last: Strand) -> Result<Found> {
    let _by_index = Settings::by_index();
    let mut is_cut = false;
    let entries = spi::write(
        include_str!("../../sql/queries/claim.sql"),
        &[
            except.claimed.clone().into(),
            except.backends.clone().into(),
            limit.into(),
            transaction::horizon().into(),
            last.0.into(),
            last.1.into(),
        ],
        |row| {
            is_cut |= row.required::<bool>("is_last_turn")?;
            Ok(Claimed {
                key: Key::of(row)?,
                captured_at: row.required("captured_at")?,
                captured_us: row.required("captured_us")?,
                whole: row.required("whole")?,
                horizon: row.required("horizon")?,
                source_id: row.optional("source_id")?,
                backend_id: row.optional("backend_id")?,
                attempts: row.required("attempts")?,
                payload: row.required("payload")?,
                last_error: row.optional("last_error")?,
                fault: row.optional("fault")?,
                derived: Derived::of(row)?,
                is_required: row.required("is_required")?,
                max_objects: row
                    .optional::<i32>("max_objects")?
                    .and_then(|most| usize::try_from(most).ok())
                    .unwrap_or(0),
            })
        },
    )?;
    Ok(Found { entries, is_cut })
}

/// When there will be something to claim.
pub struct Outlook {
    /// Something is due that a running transaction holds back.
    pub held_back: bool,
    /// Until the next entry is due, in milliseconds.
    pub next_due_ms: Option<i64>,
}

/// Looks ahead, past what is claimed.
pub fn outlook(except: &Except) -> Result<Outlook> {
    let _by_index = Settings::by_index();
    let found = spi::read(
        include_str!("../../sql/queries/outlook.sql"),
        &[except.claimed.clone().into(), except.backends.clone().into()],
        |row| Ok(Outlook { held_back: row.required("held_back")?, next_due_ms: row.optional("next_due_ms")? }),
    )?;
    Ok(found.into_iter().next().unwrap_or(Outlook { held_back: false, next_due_ms: None }))
}
