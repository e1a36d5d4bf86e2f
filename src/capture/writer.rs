//! Packs locators into segments and appends them to the outbox.

use std::borrow::Cow;
use std::cell::RefCell;

use crate::domain::resolve::without_signature;
use crate::domain::segment::{Packer, Segment, SegmentBuilder};
use crate::pg::memory::Scratch;
use crate::pg::outbox::{self, Entry};
use crate::pg::wake;

use super::locator::RowId;
use super::plan::Plan;

/// Bytes of locators after which a segment is written, however few they are.
const LARGEST: usize = 4 << 20;

thread_local! {
    /// Buffers of the last statement, kept so that a single-row statement allocates nothing.
    static BUFFERS: RefCell<Option<(SegmentBuilder, Packer)>> = const { RefCell::new(None) };
}

/// Collects the objects of one statement.
pub struct Writer<'a> {
    plan: &'a Plan,
    fault: Option<&'a str>,
    builder: SegmentBuilder,
    packer: Packer,
    scratch: Scratch,
    wrote: bool,
    is_whole: bool,
    extras: (Option<String>, Option<String>),
}

impl<'a> Writer<'a> {
    /// `fault` says why the locators are whole rows instead.
    pub fn new(plan: &'a Plan, fault: Option<&'a str>) -> Self {
        let (builder, packer) = BUFFERS.take().unwrap_or_else(|| (SegmentBuilder::new(), Packer::new()));
        Self {
            plan,
            fault,
            builder,
            packer,
            scratch: Scratch::enter(),
            wrote: false,
            is_whole: false,
            extras: (None, None),
        }
    }

    /// The table loses all its rows.
    pub fn of_whole_table(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Whether whole rows stand for locators that could not be computed.
    pub fn takes_rows(&self) -> bool {
        self.fault.is_some()
    }

    /// What the row of the objects to come can own, and what it shares.
    pub fn row_has(&mut self, owns: Option<String>, shares: Option<String>) {
        self.extras = (owns, shares);
    }

    /// Adds an object; a full segment is written at once.
    pub fn push(&mut self, locator: &str, id: &RowId) {
        let locator = &*if self.takes_rows() { Cow::Borrowed(locator) } else { without_signature(locator) };
        self.builder.next_has(self.extras.0.as_deref(), self.extras.1.as_deref());
        match id {
            RowId::None => self.builder.push(locator),
            RowId::Integer(id) => self.builder.push_with_int(locator, *id),
            RowId::Text(id) => self.builder.push_with_text(locator, id),
        }
        if self.builder.len() == Segment::MAX || self.builder.bytes() >= LARGEST {
            self.flush();
        }
    }

    /// Frees what reading a row took.
    pub fn row_done(&mut self) {
        self.scratch.row_done();
    }

    /// Writes what is left and asks for the worker, once a transaction.
    pub fn finish(mut self) {
        self.flush();
        if self.wrote {
            wake::at_commit();
        }
        BUFFERS.set(Some((self.builder, self.packer)));
    }

    fn flush(&mut self) {
        let Ok(objects) = i16::try_from(self.builder.len()) else { return };
        if objects == 0 {
            return;
        }
        let payload = self.builder.finish(&mut self.packer);
        // Whoever calls may be in a context that lives as long as the statement, which may write thousands of entries.
        let _within = self.scratch.within();
        outbox::append(&Entry {
            source_id: self.plan.source_id,
            backend_id: self.plan.backend_id,
            grace_us: self.plan.grace_us,
            objects,
            payload: &payload,
            fault: self.fault,
            is_whole: self.is_whole,
        });
        self.wrote = true;
    }
}
