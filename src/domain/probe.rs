//! Asking a store what it can do, with a key that cannot be there.

use super::object::{LONGEST_KEY, has_steps, is_slashes};

/// What a probe has found out; `None` where that cannot be told, or was not asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub takes_batches: Option<bool>,
    pub keeps_versions: Option<bool>,
    pub honours_if_match: Option<bool>,
    /// What the store says to a deletion that it does not carry out.
    pub refusal: Option<String>,
}

const NAME: &str = "storage_reaper-probe-";
/// A number of 128 bits.
const DIGITS: usize = 32;

/// Below a folder, or at the root of the bucket where it would be too long.
pub fn absent_key(folder: &str, chance: u128) -> String {
    let folder = if folder.len() + NAME.len() + DIGITS <= LONGEST_KEY { folder } else { "" };
    format!("{folder}{NAME}{chance:0DIGITS$x}")
}

/// Whether a store can be asked below a prefix: it is a folder, or nothing for the root of the bucket.
pub fn is_folder(prefix: &str) -> bool {
    let is_folder = prefix.is_empty() || prefix.ends_with('/') && !is_slashes(prefix);
    is_folder && !has_steps(prefix) && absent_key(prefix, 0).starts_with(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_lands_elsewhere() {
        assert_eq!(absent_key("a/", 255), format!("a/storage_reaper-probe-{}ff", "0".repeat(30)));
        let long = "x".repeat(LONGEST_KEY - NAME.len() - DIGITS - 1) + "/";
        assert_eq!(absent_key(&long, 0).len(), LONGEST_KEY);
        assert!(is_folder(&long) && is_folder("") && is_folder("a/b/"));
        for prefix in ["a", "/", "//", "../", "a/./", &("x".to_owned() + &long)] {
            assert!(!is_folder(prefix), "{prefix}");
        }
    }
}
