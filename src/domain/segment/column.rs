//! A text for each object of a segment: mostly the same as the one before.

use super::builder::{shared_start, write_number};

/// Collects a column; buffers are reused after `clear`.
#[derive(Default)]
pub struct Column {
    count: usize,
    starts: Vec<u8>,
    lengths: Vec<u8>,
    bytes: Vec<u8>,
    last: Vec<u8>,
}

impl Column {
    /// The text of the object at `place`; those before it that have none get an empty one.
    pub fn set(&mut self, place: usize, text: &str) {
        self.pad(place);
        let start = shared_start(&self.last, text.as_bytes());
        write_number(&mut self.starts, start as u64);
        write_number(&mut self.lengths, (text.len() - start) as u64);
        self.bytes.extend_from_slice(&text.as_bytes()[start..]);
        self.last.clear();
        self.last.extend_from_slice(text.as_bytes());
        self.count += 1;
    }

    fn pad(&mut self, count: usize) {
        while self.count < count {
            self.set(self.count, "");
        }
    }

    /// Whether some object has a text.
    pub fn is_present(&self) -> bool {
        self.count > 0
    }

    /// Bytes of its own.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the column of `count` objects.
    pub fn write(&mut self, count: usize, body: &mut Vec<u8>) {
        self.pad(count);
        for part in [&self.starts, &self.lengths, &self.bytes] {
            body.extend_from_slice(part);
        }
    }

    /// Empty again.
    pub fn clear(&mut self) {
        self.count = 0;
        for buffer in [&mut self.starts, &mut self.lengths, &mut self.bytes, &mut self.last] {
            buffer.clear();
        }
    }
}
