//! Segments: up to 1000 locators and row ids, packed into one value.
//!
//! Format: a version byte, then the body as it is (1) or as one zstd frame (2). The body: number of locators, kind of
//! row ids; of each locator how many bytes it begins and ends with like the one before, and how many are its own; row
//! ids; and the own bytes one behind the other. What locators share is left out before the compressor sees it, which
//! halves its work. Behind them, where there are any: what each row can own, what it shares, and what each object goes with. Columns laid out apart compress far better than rows: sequential integer ids cost next to nothing.

mod builder;
mod column;
mod read;
#[cfg(test)]
mod tests;

pub use builder::{Packer, SegmentBuilder};

/// What a segment holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub locators: Vec<String>,
    pub row_ids: RowIds,
    /// Within which prefix each locator's row owns objects; empty for nothing.
    pub owns: Option<Vec<String>>,
    /// By which value rows share the object; empty for none.
    pub shares: Option<Vec<String>>,
    /// With which object, as a locator, each one goes; empty for none.
    pub parents: Option<Vec<String>>,
}

/// Primary keys of the rows that the locators came from, in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowIds {
    None,
    Int(Vec<i64>),
    Text(Vec<String>),
}

/// Why a packed value does not unpack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    #[error("it has an unknown version")]
    Version,
    #[error("it is cut short")]
    Short,
    #[error("it has bytes behind its end")]
    Trailing,
    #[error("it does not decompress")]
    Compression,
    #[error("a text in it is not UTF-8")]
    Utf8,
    #[error("it is larger than a segment can be")]
    TooLarge,
}

const RAW: u8 = 1;
const ZSTD: u8 = 2;

const NO_IDS: u8 = 0;
const INT_IDS: u8 = 1;
const TEXT_IDS: u8 = 2;

const HAS_OWNS: u8 = 1;
const HAS_SHARES: u8 = 2;
const HAS_PARENTS: u8 = 4;

/// Capture ends a segment at a few megabytes; more is damage or malice.
const LARGEST: usize = 64 << 20;

impl Segment {
    /// Locators in one segment: what one DeleteObjects request takes.
    pub const MAX: usize = 1000;

    /// Locators of no row.
    pub fn of(locators: Vec<String>) -> Self {
        Self { locators, row_ids: RowIds::None, owns: None, shares: None, parents: None }
    }

    /// Packs with a compressor of its own; capture keeps one instead.
    pub fn pack(&self) -> Vec<u8> {
        let mut builder = SegmentBuilder::new();
        for (index, locator) in self.locators.iter().enumerate() {
            builder.next_has(self.owns(index), self.shares(index));
            builder.next_goes_with(self.parent(index));
            match &self.row_ids {
                RowIds::None => builder.push(locator),
                RowIds::Int(ids) => builder.push_with_int(locator, ids[index]),
                RowIds::Text(ids) => builder.push_with_text(locator, &ids[index]),
            }
        }
        builder.finish(&mut Packer::new())
    }

    /// Reads a packed value. Never panics, whatever the bytes.
    pub fn unpack(packed: &[u8]) -> Result<Self, SegmentError> {
        read::unpack(packed)
    }

    /// The row id of a locator as text.
    pub fn row_id(&self, index: usize) -> Option<String> {
        match &self.row_ids {
            RowIds::None => None,
            RowIds::Int(ids) => ids.get(index).map(i64::to_string),
            RowIds::Text(ids) => ids.get(index).cloned(),
        }
    }

    /// Within which prefix the row of a locator owns objects; `None` for anywhere.
    pub fn owns(&self, index: usize) -> Option<&str> {
        self.owns.as_ref()?.get(index).map(String::as_str)
    }

    /// By which value rows share an object.
    pub fn shares(&self, index: usize) -> Option<&str> {
        self.shares.as_ref()?.get(index).map(String::as_str)
    }

    /// With which object one goes.
    pub fn parent(&self, index: usize) -> Option<&str> {
        self.parents.as_ref()?.get(index).map(String::as_str)
    }

    /// The segment of the locators at these places.
    pub fn select(&self, places: &[usize]) -> Self {
        let of = |texts: &Vec<String>| places.iter().map(|&place| texts[place].clone()).collect();
        Self {
            owns: self.owns.as_ref().map(of),
            shares: self.shares.as_ref().map(of),
            parents: self.parents.as_ref().map(of),
            locators: places.iter().map(|&place| self.locators[place].clone()).collect(),
            row_ids: match &self.row_ids {
                RowIds::None => RowIds::None,
                RowIds::Int(ids) => RowIds::Int(places.iter().map(|&place| ids[place]).collect()),
                RowIds::Text(ids) => RowIds::Text(places.iter().map(|&place| ids[place].clone()).collect()),
            },
        }
    }
}
