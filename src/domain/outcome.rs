//! What became of an object, and why.

use std::fmt;
use std::str::FromStr;

/// How an entry's object ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The store confirmed the deletion.
    Deleted,
    /// A marker hides it: the bucket has versions, and no byte was freed.
    DeleteMarker,
    /// The store says that there is no such object.
    Absent,
    /// Something still needs it.
    Kept,
    /// It was written again under its key since.
    Superseded,
    /// Set aside for a person.
    Parked,
    /// Taken back before it was due.
    Cancelled,
    /// A person decided that nothing should happen, or nobody has to care.
    Discarded,
    /// A prefix: what lies below it was queued.
    Expanded,
}

impl Outcome {
    const ALL: [Outcome; 9] = [
        Outcome::Deleted,
        Outcome::DeleteMarker,
        Outcome::Absent,
        Outcome::Kept,
        Outcome::Superseded,
        Outcome::Parked,
        Outcome::Cancelled,
        Outcome::Discarded,
        Outcome::Expanded,
    ];

    /// The name that SQL shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Deleted => "deleted",
            Outcome::DeleteMarker => "delete_marker",
            Outcome::Absent => "absent",
            Outcome::Kept => "kept",
            Outcome::Superseded => "superseded",
            Outcome::Parked => "parked",
            Outcome::Cancelled => "cancelled",
            Outcome::Discarded => "discarded",
            Outcome::Expanded => "expanded",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name of no outcome or reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown name")]
pub struct UnknownName;

impl FromStr for Outcome {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Outcome, UnknownName> {
        Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or(UnknownName)
    }
}

/// Why an object ended as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Under no declared location.
    NotOwned,
    /// Names a bucket or nothing at all.
    EmptyKey,
    /// Two parsers would read it differently.
    AmbiguousUrl,
    /// A percent escape that decodes to nothing.
    BadEscape,
    /// No request can carry the key.
    UnaddressableKey,
    /// Longer than any store allows.
    KeyTooLong,
    /// A row still names it.
    Referenced,
    /// No backend to ask.
    NoBackend,
    /// The value could not be computed.
    LocatorFailed,
    /// A segment that this version cannot read; it is kept as it is.
    DamagedSegment,
    /// Tried often enough.
    AttemptsExhausted,
    /// Not with these credentials, however often it was tried.
    AccessDenied,
    /// A lock without an end.
    Locked,
    /// Nothing safe follows from the key by the rule.
    Underivable,
    /// More lies below the prefix than the rule allows.
    PrefixTooLarge,
}

impl Reason {
    const ALL: [Reason; 15] = [
        Reason::NotOwned,
        Reason::EmptyKey,
        Reason::AmbiguousUrl,
        Reason::BadEscape,
        Reason::UnaddressableKey,
        Reason::KeyTooLong,
        Reason::Referenced,
        Reason::NoBackend,
        Reason::LocatorFailed,
        Reason::DamagedSegment,
        Reason::AttemptsExhausted,
        Reason::AccessDenied,
        Reason::Locked,
        Reason::Underivable,
        Reason::PrefixTooLarge,
    ];

    /// The name that SQL shows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::NotOwned => "not_owned",
            Reason::EmptyKey => "empty_key",
            Reason::AmbiguousUrl => "ambiguous_url",
            Reason::BadEscape => "bad_escape",
            Reason::UnaddressableKey => "unaddressable_key",
            Reason::KeyTooLong => "key_too_long",
            Reason::Referenced => "referenced",
            Reason::NoBackend => "no_backend",
            Reason::LocatorFailed => "locator_failed",
            Reason::DamagedSegment => "damaged_segment",
            Reason::AttemptsExhausted => "attempts_exhausted",
            Reason::AccessDenied => "access_denied",
            Reason::Locked => "locked",
            Reason::Underivable => "underivable",
            Reason::PrefixTooLarge => "prefix_too_large",
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Reason::NotOwned => "the value is under no declared location of any backend",
            Reason::EmptyKey => "the value names a bucket or nothing, but no object",
            Reason::AmbiguousUrl => "the URL can be read in more than one way, so it may name another object",
            Reason::BadEscape => "the URL holds a percent escape that does not decode to text",
            Reason::UnaddressableKey => "no request that this store understands can carry the key",
            Reason::KeyTooLong => "the key has more than 1024 bytes",
            Reason::Referenced => "a row still names the object",
            Reason::NoBackend => "the value is a plain key, and its source names no backend",
            Reason::LocatorFailed => "the locator could not be computed from the row",
            Reason::DamagedSegment => "the packed objects cannot be read by this version",
            Reason::AttemptsExhausted => "every allowed attempt failed",
            Reason::AccessDenied => "the store let the credentials delete other objects, but never this one",
            Reason::Underivable => "what derive() declares yields no key that is safe to delete for this object",
            Reason::PrefixTooLarge => "more objects lie below the prefix than derive() allows",
            Reason::Locked => "a legal hold or a lock without a known end keeps it in the store",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl FromStr for Reason {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Reason, UnknownName> {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(UnknownName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_differ() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.as_str().parse(), Ok(outcome));
        }
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
        assert_eq!("".parse::<Reason>(), Err(UnknownName));
    }
}
