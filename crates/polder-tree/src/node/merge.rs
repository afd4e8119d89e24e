//! Joining two neighbours.

use polder_structure::page::copy_of;

use super::layout::{SLOT_BYTES, capacity, prefix_of, record_bytes};
use super::{NoRoom, NodeMut, NodeRef};

impl NodeRef<'_> {
    /// Whether this node and its right neighbour fit in one. The answer is exact: the prefix that
    /// the joined fences leave is counted.
    pub fn can_merge(self, right: NodeRef<'_>) -> bool {
        let leaf = self.is_leaf();
        let (lower, upper) = (self.lower_fence(), right.upper_fence());
        let prefix_len = prefix_of(lower.as_deref(), upper.as_deref());
        let room = capacity(leaf, self.page().size(), self.lower_len() + right.upper_len());
        let separator_bytes =
            if leaf { 0 } else { bytes_of(leaf, right.lower_len(), prefix_len, 0) };
        let both = self.bytes_with_prefix(prefix_len) + right.bytes_with_prefix(prefix_len);
        self.level() == right.level() && both + separator_bytes <= room
    }

    /// Bytes of all slots and records if the prefix had this length.
    fn bytes_with_prefix(self, prefix_len: usize) -> usize {
        let leaf = self.is_leaf();
        let entry_bytes = |index| {
            let slot = self.slot(index);
            let value_len = if leaf { self.stored_len(slot) } else { 0 };
            bytes_of(leaf, self.prefix_len() + slot.suffix_len(), prefix_len, value_len)
        };
        (0..self.count()).map(entry_bytes).sum()
    }
}

fn bytes_of(leaf: bool, key_len: usize, prefix_len: usize, value_len: usize) -> usize {
    SLOT_BYTES + record_bytes(leaf, key_len.saturating_sub(prefix_len), value_len)
}

impl NodeMut<'_> {
    /// Takes over everything from the right neighbour, which the caller then frees: its entries,
    /// its upper fence and its right link. In an inner node the neighbour's lower fence comes back
    /// as the separator between the two.
    pub fn merge_right(&mut self, right: NodeRef<'_>) -> Result<(), NoRoom> {
        if !self.node().can_merge(right) {
            return Err(NoRoom);
        }
        let whole = copy_of(self.node().page());
        let left = NodeRef::new(whole.page());
        let (lower, upper) = (left.lower_fence(), right.upper_fence());
        let first_child = if left.is_leaf() { 0 } else { self.node().link_of(left, 0) };
        let right_link = right.right_link();
        self.init(left.level(), lower.as_deref(), upper.as_deref(), right_link, first_child);
        self.push_from(left, 0..left.count());
        if !left.is_leaf() {
            let separator = right.lower_fence().unwrap_or_default();
            self.push_child(&separator, right.link(0));
        }
        self.push_from(right, 0..right.count());
        self.finish();
        Ok(())
    }
}
