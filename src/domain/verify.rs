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

/// What a probe has found out, by the status of a deletion of a key that cannot be there, on the condition that it has some
/// version. `unconditional` asks for the same without the condition, where the first does not tell.
pub fn honours(conditional: u16, unconditional: Option<u16>) -> Honour {
    match (conditional, unconditional) {
        (412, _) => Honour::Yes,
        // Some stores answer so to every deletion of nothing.
        (404, None) => Honour::Unknown,
        (404, Some(200 | 204)) => Honour::Yes,
        (200 | 204 | 400 | 404 | 405 | 501, _) => Honour::No,
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
        assert_eq!(honours(412, None), Honour::Yes, "it says so");
        assert_eq!((honours(404, None), honours(404, Some(204))), (Honour::Unknown, Honour::Yes));
        assert_eq!(honours(404, Some(404)), Honour::No, "as without the condition");
        assert_eq!((honours(204, None), honours(501, None)), (Honour::No, Honour::No));
        assert_eq!((honours(503, None), honours(403, None)), (Honour::Unknown, Honour::Unknown));
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
