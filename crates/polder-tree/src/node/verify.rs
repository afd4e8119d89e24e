//! Checking a node whose bytes nobody vouches for.
//!
//! `verify_shape` is for every page that comes from the device: cheap, and enough that no later
//! edit meets a length or an offset outside of its node. `verify_whole` checks `NODE-1` to `NODE-5`.

use polder_format::header_at;
use polder_structure::page::{ensure, lie_apart};

use super::layout::{
    HAS_LOWER, HAS_UPPER, HINTS, LAYOUT_VERSION, MAX_VALUE_BYTES, OVERFLOW, overflow_pages,
};
use super::layout::{SLOT_BYTES, at, hint_distance, kind_of, max_key_len, max_record_bytes};
use super::layout::{head_of, prefix_of};
use super::{NodeRef, Value};

/// What is wrong with a node.
type Fault = &'static str;

impl NodeRef<'_> {
    /// Checks, in time proportional to the count of slots, that counts, lengths and offsets are
    /// possible, and that no link is null.
    pub fn verify_shape(self) -> Result<(), &'static str> {
        ensure(self.kind() == kind_of(self.level()), "kind and level of the node disagree")?;
        let layout = self.page.u8(header_at::LAYOUT);
        ensure(layout == LAYOUT_VERSION, "the node has an unknown layout version")?;
        self.verify_fences()?;

        let slots_end = at::SLOTS + SLOT_BYTES * usize::from(self.page.u16(at::COUNT));
        let (heap_low, heap_end) = (self.page.u32(at::HEAP_LOW) as usize, self.heap_end());
        ensure(slots_end <= heap_low, "the slots reach into the records")?;
        ensure(heap_low <= heap_end, "the records reach into the fences")?;
        let leaf = self.is_leaf();
        ensure(leaf || self.link(0) != 0, "the link of the first child is null")?;
        let mut heap = self.garbage();
        for index in 0..self.count() {
            let offset = self.slot(index).offset();
            ensure(offset >= heap_low, "a record lies outside of the heap")?;
            let key_len = self.prefix_len() + self.slot(index).suffix_len();
            ensure(key_len <= max_key_len(self.page.size()), "a key is too long")?;
            if leaf {
                self.verify_value(index)?
            } else {
                self.verify_link(index)?
            }
            let len = self.record_len(self.slot(index));
            ensure(offset + len <= heap_end, "a record lies outside of the heap")?;
            heap += len;
        }
        ensure(heap == heap_end - heap_low, "records and garbage do not add up to the heap")
    }

    /// Checks everything that can be told from this node alone.
    pub fn verify_whole(self) -> Result<(), &'static str> {
        self.verify_shape()?;
        self.verify_records_apart()?;
        self.verify_hints()?;
        let (lower, upper) = (self.lower_fence(), self.upper_fence());
        ensure(!self.is_leaf() || self.page.u64(at::FIRST_CHILD) == 0, "a leaf has a child")?;

        let (mut key, mut before) = (Vec::new(), Vec::new());
        for index in 0..self.count() {
            key.clear();
            self.append_key(index, &mut key);
            let head = head_of(key.get(self.prefix_len()..).unwrap_or_default());
            ensure(head == self.slot(index).head(), "a head is not filled up with zeros")?;
            ensure(index == 0 || before < key, "keys are not in order")?;
            if let (0, Some(lower)) = (index, &lower) {
                let covered = if self.is_leaf() { *lower <= key } else { *lower < key };
                ensure(covered, "a key lies below the lower fence")?;
            }
            std::mem::swap(&mut key, &mut before);
        }
        let last_covered = self.count() == 0 || upper.is_none_or(|upper| before < upper);
        ensure(last_covered, "a key lies above the upper fence")
    }

    /// Checks that this can be a root: a node that covers all keys.
    pub fn verify_root(self) -> Result<(), &'static str> {
        ensure(self.is_node(), "this is not a node of a tree")?;
        ensure(!self.has_lower() && !self.has_upper(), "the root has a fence")
    }

    /// Checks that the node that link `index` of `0..=count` leads to is what this one says of it.
    pub fn verify_child(self, index: usize, child: NodeRef<'_>) -> Result<(), &'static str> {
        ensure(child.is_node(), "this is not a node of a tree")?;
        let below = u16::from(child.level()) + 1 == u16::from(self.level());
        ensure(below, "the node is not one level below its parent")?;
        let lower = if index == 0 { self.lower_fence() } else { Some(self.key(index - 1)) };
        let upper = if index < self.count() { Some(self.key(index)) } else { self.upper_fence() };
        ensure(child.lower_fence() == lower, "the lower fence is not what the parent says")?;
        ensure(child.upper_fence() == upper, "the upper fence is not what the parent says")
    }

    fn verify_fences(self) -> Result<(), Fault> {
        let flags = self.page.u8(at::FLAGS);
        ensure(flags & !(HAS_LOWER | HAS_UPPER) == 0, "the node has unknown flags")?;
        let (lower_len, upper_len) = (self.lower_len(), self.upper_len());
        let longest = max_key_len(self.page.size());
        ensure(lower_len <= longest && upper_len <= longest, "a fence is too long")?;
        ensure(self.has_lower() || lower_len == 0, "a missing fence has a length")?;
        ensure(self.has_upper() || upper_len == 0, "a missing fence has a length")?;
        let (lower, upper) = (self.lower_fence(), self.upper_fence());
        if let (Some(lower), Some(upper)) = (&lower, &upper) {
            ensure(lower < upper, "the lower fence is not below the upper one")?;
        }
        let prefix_len = prefix_of(lower.as_deref(), upper.as_deref());
        ensure(self.prefix_len() == prefix_len, "the prefix is not what the fences share")
    }

    fn verify_value(self, index: usize) -> Result<(), Fault> {
        let slot = self.slot(index);
        let len = self.record_len(slot);
        ensure(len <= max_record_bytes(self.page.size()), "a record is too long")?;
        if let Value::Overflow { len, run, link } = self.value(index) {
            ensure(
                self.value_word(slot) == OVERFLOW,
                "a value word is neither a length nor the mark of an overflow",
            )?;
            ensure(len <= MAX_VALUE_BYTES, "a value is too long")?;
            let pages = overflow_pages(self.page.size(), len);
            ensure(u64::from(run) <= pages, "a value has a run of too many pages")?;
            ensure(link != 0, "the link of an overflowing value is null")?;
        }
        Ok(())
    }

    fn verify_link(self, index: usize) -> Result<(), Fault> {
        let aligned = self.slot(index).offset().is_multiple_of(8);
        ensure(aligned, "a link is not aligned")?;
        ensure(self.link(index + 1) != 0, "a link is null")
    }

    fn verify_records_apart(self) -> Result<(), Fault> {
        let slots = (0..self.count()).map(|index| self.slot(index));
        let records = slots.map(|slot| (slot.offset(), self.record_len(slot)));
        ensure(lie_apart(records), "two records overlap")
    }

    fn verify_hints(self) -> Result<(), Fault> {
        let distance = hint_distance(self.count());
        let right = (0..HINTS).all(|hint| {
            let head = if distance == 0 { 0 } else { self.slot((hint + 1) * distance).head() };
            self.page.u32(at::HINTS + 4 * hint) == head
        });
        ensure(right, "a hint is not the head of its slot")
    }
}

#[cfg(test)]
mod tests {
    use polder_format::PageSize;
    use polder_pool::bytes::PageBuf;

    use crate::node::{NodeMut, NodeRef};

    #[test]
    fn fences_must_leave_room_for_a_key() {
        let verified = |lower: &[u8], upper: &[u8]| {
            let mut page = PageBuf::new(PageSize::MIN);
            NodeMut::new(page.page_mut()).init(0, Some(lower), Some(upper), 0, 0);
            NodeRef::new(page.page()).verify_shape()
        };
        assert_eq!(verified(b"b", b"c"), Ok(()));
        assert!(verified(b"c", b"c").is_err() && verified(b"d", b"c").is_err());
    }
}
