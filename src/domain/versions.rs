//! Which versions of an object a deletion is about, where a bucket keeps several.

use std::str::FromStr;

/// What a deletion removes in a bucket that keeps versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versions {
    /// What the key means now; the store keeps the bytes behind a marker.
    Current,
    /// Every version and marker of the key, and its unfinished uploads.
    All,
    /// Those that were there when the row let it go.
    Captured,
}

impl Versions {
    const ALL: [Versions; 3] = [Versions::Current, Versions::All, Versions::Captured];

    /// The name that SQL uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Versions::Current => "current",
            Versions::All => "all",
            Versions::Captured => "captured",
        }
    }
}

/// A name of no choice of versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown choice of versions; known are current, all and captured")]
pub struct UnknownVersions;

impl FromStr for Versions {
    type Err = UnknownVersions;

    fn from_str(text: &str) -> Result<Self, UnknownVersions> {
        Self::ALL.into_iter().find(|versions| versions.as_str() == text).ok_or(UnknownVersions)
    }
}

/// A version, a marker or an unfinished upload of some key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub key: String,
    /// Of the version, or of the upload.
    pub id: String,
    /// How long ago it was written, by the store's own clock; `None` if the store does not say.
    pub age_us: Option<i64>,
    /// What the key means now.
    pub is_latest: bool,
}

/// A page of a listing, whose keys begin with what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub listed: Vec<Listed>,
    /// Where the next page begins.
    pub next: Option<Mark>,
}

/// A place in a listing: a key, and a version or upload of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub key: String,
    pub id: String,
}

impl Page {
    /// What is of exactly that key, and old enough.
    pub fn of<'a>(
        &'a self,
        key: &'a str,
        versions: Versions,
        captured_ago_us: i64,
    ) -> impl Iterator<Item = &'a Listed> {
        self.listed.iter().filter(move |listed| {
            let is_old = versions != Versions::Captured
                || listed.age_us.is_some_and(|age_us| !super::verify::is_newer(age_us, captured_ago_us));
            listed.key == key && is_old
        })
    }

    /// Whether more of that key may follow. Keys come in order, so what only begins like it comes behind.
    pub fn may_go_on(&self, key: &str) -> bool {
        self.next.is_some() && self.listed.iter().all(|listed| listed.key.as_str() <= key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(key: &str, id: &str, age_s: Option<i64>) -> Listed {
        Listed { key: key.into(), id: id.into(), age_us: age_s.map(|age| age * 1_000_000), is_latest: false }
    }

    #[test]
    fn a_key_that_only_begins_like_it_goes_too() {
        let page = Page {
            listed: vec![listed("a", "1", Some(60)), listed("a", "2", None), listed("a.png", "3", Some(60))],
            next: None,
        };
        let ids = |versions| page.of("a", versions, 30_000_000).map(|one| one.id.as_str()).collect::<Vec<_>>();
        assert_eq!(ids(Versions::All), ["1", "2"]);
        assert_eq!(ids(Versions::Captured), ["1"], "nobody knows when the other was written");
        let none: Vec<_> = page.of("a", Versions::Captured, 90_000_000).collect();
        assert!(none.is_empty(), "written since");
    }

    #[test]
    fn a_listing_of_a_million_other_keys_is_read_to_its_end() {
        let next = Some(Mark { key: "x".into(), id: "1".into() });
        let page = |keys: &[&str]| Page {
            listed: keys.iter().map(|key| listed(key, "1", None)).collect(),
            next: next.clone(),
        };
        assert!(page(&["a", "a"]).may_go_on("a") && page(&[]).may_go_on("a"));
        assert!(!page(&["a", "a.png"]).may_go_on("a"));
        assert!(!Page { next: None, ..page(&["a"]) }.may_go_on("a"));
        for versions in Versions::ALL {
            assert_eq!(versions.as_str().parse(), Ok(versions));
        }
    }
}
