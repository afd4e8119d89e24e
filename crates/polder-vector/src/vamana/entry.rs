//! Entries: what a search looks at of each vector to which a link leads.
//!
//! ```text
//!   entry  | node 5 | state 1 | - 2 | label 8 | addend 4 | factor 4 | code |
//! ```

use polder_pool::bytes::Run;

use super::code::{Code, Parts};
use super::layout::{CODE, Kind, Layout, OWN, entry_bytes};
use super::slots::{Slot, SlotPageMut};
use crate::node_id::NodeId;

const ADDEND: usize = OWN;
const FACTOR: usize = OWN + 4;

impl<'a> Slot<'a> {
    /// What of a distance does not come from the code.
    #[inline(always)]
    pub(super) fn parts(self) -> Parts {
        let number = |at| f32::from_bits(self.page.u32(self.at + at));
        Parts { addend: number(ADDEND), factor: number(FACTOR) }
    }

    #[inline(always)]
    pub(super) fn code(self, layout: &Layout) -> Run<'a> {
        self.page.run(self.at + CODE, layout.code)
    }

    /// Asks the processor for all of an entry.
    #[inline(always)]
    pub(super) fn prefetch_entry(self, layout: &Layout) {
        // Of what begins in the middle of a line there may be one more.
        self.page.run(self.at & !63, (self.at & 63) + entry_bytes(layout.code)).prefetch();
    }
}

impl SlotPageMut<'_> {
    /// Puts the entry of a vector in a place that is free.
    pub(super) fn insert_entry(
        &mut self,
        layout: &Layout,
        slot: usize,
        names: (NodeId, u64),
        code: &Code,
    ) {
        let at = self.take(layout, Kind::Codes, slot, names);
        self.page.set_u32(at + ADDEND, code.parts.addend.to_bits());
        self.page.set_u32(at + FACTOR, code.parts.factor.to_bits());
        self.page.write(at + CODE, &code.to_bytes());
    }
}
