//! Whether an object was put back under the same key since its row let it go.

use std::str::FromStr;

/// What is asked of the store before a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Nothing.
    None,
    /// When the object was last written.
    Head,
    /// That, and that the deletion itself depends on the version that was seen, where the store honours it.
    IfMatch(Honour),
}

/// Whether a store deletes a version only, if asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Honour {
    /// It was not probed.
    Unknown,
    Yes,
    /// It deletes whatever there is, or nobody can tell.
    No,
}

/// What a store answers to the deletion of a key that cannot be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// As if it had been there.
    Done,
    /// It says that there is no such key.
    Absent,
    /// The condition does not hold.
    Refused,
    /// It knows no such request.
    NotImplemented,
    /// Anything else: credentials, the bucket, a bad day.
    Other,
}

impl Reply {
    /// By status and error code.
    pub fn of(status: u16, code: &str) -> Self {
        match (status, code) {
            (200 | 204, "") => Self::Done,
            (404, "NoSuchKey") => Self::Absent,
            (412, _) => Self::Refused,
            (_, "NotImplemented" | "MethodNotAllowed") | (405 | 501, _) => Self::NotImplemented,
            _ => Self::Other,
        }
    }
}

/// What a probe has found out: by the reply to a deletion on the condition that the key has some version, and to one without
/// it, where the first does not tell.
pub fn honours(conditional: Reply, unconditional: Option<Reply>) -> Honour {
    match (conditional, unconditional) {
        (Reply::Refused, _) | (Reply::Absent, Some(Reply::Done)) => Honour::Yes,
        // Some stores answer so to every deletion of nothing.
        (Reply::Absent, Some(Reply::Absent)) | (Reply::Done | Reply::NotImplemented, _) => Honour::No,
        _ => Honour::Unknown,
    }
}

/// A name of no way to verify.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown way to verify; known are none, head and if-match")]
pub struct UnknownVerify;

impl Verify {
    const ALL: [Verify; 3] = [Verify::None, Verify::Head, Verify::IfMatch(Honour::Unknown)];

    /// The name that SQL uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verify::None => "none",
            Verify::Head => "head",
            Verify::IfMatch(_) => "if-match",
        }
    }
}

impl FromStr for Verify {
    type Err = UnknownVerify;

    fn from_str(text: &str) -> Result<Self, UnknownVerify> {
        Self::ALL.into_iter().find(|verify| verify.as_str() == text).ok_or(UnknownVerify)
    }
}

/// Both of the store's dates have whole seconds.
const GRANULARITY_US: i64 = 1_000_000;

/// Whether the object may have been written after its row let it go. By the store's own clock: `age_us` is from the last
/// write to the answer, and `since_us` from the capture to the answer. In doubt it was.
pub fn is_newer(age_us: i64, since_us: i64) -> bool {
    age_us.saturating_sub(GRANULARITY_US) < since_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_ignores_a_condition_is_trusted_with_it() {
        let absent = Reply::of(404, "NoSuchKey");
        assert_eq!(honours(Reply::of(412, "PreconditionFailed"), None), Honour::Yes, "it says so");
        assert_eq!((honours(absent, None), honours(absent, Some(Reply::of(204, "")))), (Honour::Unknown, Honour::Yes));
        assert_eq!(honours(absent, Some(absent)), Honour::No, "as without the condition");
        assert_eq!(honours(absent, Some(Reply::of(503, "SlowDown"))), Honour::Unknown);
        assert_eq!(honours(Reply::of(204, ""), None), Honour::No);
        assert_eq!(honours(Reply::of(501, "NotImplemented"), None), Honour::No);
        for (status, code) in
            [(503, "SlowDown"), (403, "AccessDenied"), (400, "ExpiredToken"), (404, "NoSuchBucket"), (404, "")]
        {
            assert_eq!(honours(Reply::of(status, code), None), Honour::Unknown, "{status} {code}");
        }
    }

    #[test]
    fn a_new_object_is_taken_for_the_old_one() {
        assert!(is_newer(5_000_000, 60_000_000), "written five seconds ago, captured a minute ago");
        assert!(!is_newer(60_000_000, 5_000_000));
        assert!(is_newer(5_000_000, 4_500_000), "the dates cannot tell");
        assert!(is_newer(-3_000_000, 1_000_000), "written in the future");
        for verify in Verify::ALL {
            assert_eq!(verify.as_str().parse(), Ok(verify));
        }
    }
}
