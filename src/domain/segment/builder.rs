//! Packing, without an allocation a locator.

use super::column::Column;
use super::{HAS_OWNS, HAS_PARENTS, HAS_SHARES, INT_IDS, NO_IDS, RAW, TEXT_IDS, ZSTD};

/// Below this a zstd frame's own bytes outweigh what it saves.
const WORTH_COMPRESSING: usize = 256;
/// The fastest level that still codes random characters by their frequency: a hex digit takes half a byte.
const LEVEL: i32 = 1;

/// A compressor that is kept between segments; making one costs more than packing a segment.
pub struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

/// Collects one segment; buffers are reused after `finish`.
pub struct SegmentBuilder {
    count: usize,
    /// Shared beginnings, shared ends and own lengths, each a column of numbers.
    starts: Vec<u8>,
    ends: Vec<u8>,
    lengths: Vec<u8>,
    bytes: Vec<u8>,
    last: Vec<u8>,
    kind: u8,
    /// The row ids so far: deltas of integers, or lengths of texts.
    ids: Vec<u8>,
    id_bytes: Vec<u8>,
    last_id: i64,
    owns: Column,
    shares: Column,
    parents: Column,
    body: Vec<u8>,
}

impl Packer {
    /// Nothing is allocated before the first segment that is worth compressing.
    pub fn new() -> Self {
        Self { compressor: None }
    }

    fn compress(&mut self, body: &[u8]) -> Option<Vec<u8>> {
        if self.compressor.is_none() {
            self.compressor = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        self.compressor.as_mut()?.compress(body).ok()
    }
}

impl SegmentBuilder {
    /// An empty segment.
    pub fn new() -> Self {
        Self {
            count: 0,
            starts: Vec::new(),
            ends: Vec::new(),
            lengths: Vec::new(),
            bytes: Vec::new(),
            last: Vec::new(),
            kind: NO_IDS,
            ids: Vec::new(),
            id_bytes: Vec::new(),
            last_id: 0,
            owns: Column::default(),
            shares: Column::default(),
            parents: Column::default(),
            body: Vec::new(),
        }
    }

    /// Locators so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Bytes that it takes so far, before compression.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.id_bytes.len() + self.owns.bytes() + self.shares.bytes() + self.parents.bytes()
    }

    /// What the row of the next locator can own, and what it shares with other rows.
    pub fn next_has(&mut self, owns: Option<&str>, shares: Option<&str>) {
        if let Some(owns) = owns {
            self.owns.set(self.count, owns);
        }
        if let Some(shares) = shares {
            self.shares.set(self.count, shares);
        }
    }

    /// With which object the next one goes.
    pub fn next_goes_with(&mut self, parent: Option<&str>) {
        if let Some(parent) = parent {
            self.parents.set(self.count, parent);
        }
    }

    /// Adds a locator whose row has no id.
    pub fn push(&mut self, locator: &str) {
        if self.kind == TEXT_IDS || (self.kind == INT_IDS && self.count > 0) {
            // A segment has ids for all its locators or for none; an empty text stands for none.
            self.become_text();
            self.push_text_id("");
        }
        self.push_locator(locator);
    }

    /// Adds a locator of a row with an integer key.
    pub fn push_with_int(&mut self, locator: &str, id: i64) {
        if self.count == 0 {
            self.kind = INT_IDS;
        }
        if self.kind == INT_IDS {
            write_number(&mut self.ids, zigzag(id.wrapping_sub(self.last_id)));
            self.last_id = id;
        } else {
            self.become_text();
            self.push_text_id(&id.to_string());
        }
        self.push_locator(locator);
    }

    /// Adds a locator of a row with any other key.
    pub fn push_with_text(&mut self, locator: &str, id: &str) {
        self.become_text();
        self.push_text_id(id);
        self.push_locator(locator);
    }

    /// The packed segment; the builder is empty again.
    pub fn finish(&mut self, packer: &mut Packer) -> Vec<u8> {
        self.body.clear();
        write_number(&mut self.body, self.count as u64);
        self.body.push(self.kind);
        let has = |column: &Column, flag| if column.is_present() { flag } else { 0 };
        self.body.push(has(&self.owns, HAS_OWNS) | has(&self.shares, HAS_SHARES) | has(&self.parents, HAS_PARENTS));
        for column in [&self.starts, &self.ends, &self.lengths, &self.ids, &self.id_bytes, &self.bytes] {
            self.body.extend_from_slice(column);
        }
        for column in [&mut self.owns, &mut self.shares, &mut self.parents] {
            if column.is_present() {
                column.write(self.count, &mut self.body);
            }
        }
        let compressed = if self.body.len() < WORTH_COMPRESSING { None } else { packer.compress(&self.body) };
        let packed = match compressed.filter(|frame| frame.len() < self.body.len()) {
            Some(frame) => tagged(ZSTD, &frame),
            None => tagged(RAW, &self.body),
        };
        self.clear();
        packed
    }

    fn clear(&mut self) {
        self.count = 0;
        self.kind = NO_IDS;
        self.last_id = 0;
        self.owns.clear();
        self.shares.clear();
        self.parents.clear();
        for buffer in [
            &mut self.starts,
            &mut self.ends,
            &mut self.lengths,
            &mut self.bytes,
            &mut self.last,
            &mut self.ids,
            &mut self.id_bytes,
        ] {
            buffer.clear();
        }
    }

    fn push_locator(&mut self, locator: &str) {
        let locator = locator.as_bytes();
        let start = shared_start(&self.last, locator);
        let end = shared_end(&self.last[start..], &locator[start..]);
        let own = &locator[start..locator.len() - end];
        write_number(&mut self.starts, start as u64);
        write_number(&mut self.ends, end as u64);
        write_number(&mut self.lengths, own.len() as u64);
        self.bytes.extend_from_slice(own);
        self.last.clear();
        self.last.extend_from_slice(locator);
        self.count += 1;
    }

    fn push_text_id(&mut self, id: &str) {
        write_number(&mut self.ids, id.len() as u64);
        self.id_bytes.extend_from_slice(id.as_bytes());
    }

    /// Rewrites what ids there are as texts; happens only when a table's rows have ids of different kinds.
    fn become_text(&mut self) {
        if self.kind == TEXT_IDS {
            return;
        }
        let deltas = std::mem::take(&mut self.ids);
        let mut at = 0;
        let mut id = 0_i64;
        for _ in 0..self.count {
            if self.kind == INT_IDS {
                if let Some(delta) = super::read::number(&deltas, &mut at) {
                    id = id.wrapping_add(super::read::unzigzag(delta));
                }
                self.push_text_id(&id.to_string());
            } else {
                self.push_text_id("");
            }
        }
        self.kind = TEXT_IDS;
    }
}

/// Bytes compared at once: what fits a register.
const WORD: usize = 8;

/// How many bytes two texts begin with alike.
pub(super) fn shared_start(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(WORD).zip(b.chunks_exact(WORD)).take_while(|(a, b)| a == b).count();
    let at = words * WORD;
    at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
}

/// How many bytes two texts end with alike.
fn shared_end(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

fn tagged(version: u8, content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(content.len() + 1);
    packed.push(version);
    packed.extend_from_slice(content);
    packed
}

/// LEB128.
pub(super) fn write_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}
