//! Changing a node: entries of leaves, children of inner nodes, and the room for both.
//!
//! Every step leaves `NODE-1` to `NODE-5` as it found them. A write that would leave the page is
//! dropped by the page itself (`BYTES-3`), so that not even a page that was never checked makes an
//! edit unsound.

use polder_format::header_at;
use polder_pool::bytes::PageMut;
use polder_structure::page::copy_of;

use super::layout::{HAS_LOWER, HAS_UPPER, HINTS, LAYOUT_VERSION, LEAF_RECORD_HEADER, OVERFLOW};
use super::layout::{INNER_RECORD_HEADER, SLOT_BYTES, Slot, VALUE_WORD, at, heap_end};
use super::layout::{hint_distance, kind_of, prefix_of, record_bytes, rest_of};
use super::{NewValue, NoRoom, NodeRef};

/// A node to change, in a page that is held exclusively.
pub struct NodeMut<'a> {
    page: PageMut<'a>,
}

impl<'a> NodeMut<'a> {
    /// The node in `page`: one that was checked, or that [`NodeMut::init`] is about to make.
    #[inline(always)]
    pub fn new(page: PageMut<'a>) -> NodeMut<'a> {
        NodeMut { page }
    }

    /// The same node, to read.
    #[inline(always)]
    pub fn node(&self) -> NodeRef<'_> {
        NodeRef::new(self.page.as_ref())
    }

    /// Makes an empty node of what the page holds, whatever that is. Of the page header only kind
    /// and layout version are written. In a leaf (level 0) `first_child` is zero.
    ///
    /// Fences have at most [`max_key_len`](super::max_key_len) bytes.
    pub fn init(
        &mut self,
        level: u8,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        right_link: u64,
        first_child: u64,
    ) {
        let (lower_key, upper_key) = (lower.unwrap_or_default(), upper.unwrap_or_default());
        let size = self.page.size();
        let lower_at = size.saturating_sub(lower_key.len());
        let upper_at = lower_at.saturating_sub(upper_key.len());
        let flags = if lower.is_some() { HAS_LOWER } else { 0 }
            | if upper.is_some() { HAS_UPPER } else { 0 };

        let page = &mut self.page;
        page.set_u8(header_at::KIND, kind_of(level).0);
        page.set_u8(header_at::LAYOUT, LAYOUT_VERSION);
        page.set_u32(at::HEAP_LOW, heap_end(level == 0, size, size - upper_at) as u32);
        page.set_u16(at::COUNT, 0);
        page.set_u16(at::GARBAGE, 0);
        page.set_u16(at::PREFIX, prefix_of(lower, upper) as u16);
        page.set_u16(at::LOWER, lower_key.len() as u16);
        page.set_u16(at::UPPER, upper_key.len() as u16);
        page.set_u8(at::LEVEL, level);
        page.set_u8(at::FLAGS, flags);
        page.set_u64(at::RIGHT, right_link);
        page.set_u64(at::FIRST_CHILD, first_child);
        page.zero(at::HINTS, 4 * HINTS);
        page.write(lower_at, lower_key);
        page.write(upper_at, upper_key);
    }

    /// Makes this node what `other` is, in another page of the same size: kind, layout version and
    /// all behind the page header.
    pub fn copy_content_from(&mut self, other: NodeRef<'_>) {
        let from = other.page();
        self.page.set_u8(header_at::KIND, from.u8(header_at::KIND));
        self.page.set_u8(header_at::LAYOUT, from.u8(header_at::LAYOUT));
        self.page.copy_from(from, at::HEAP_LOW, at::HEAP_LOW, from.size() - at::HEAP_LOW);
        self.make_links_plain();
    }

    /// Links that hold frames do so in the page in which they were swizzled.
    fn make_links_plain(&mut self) {
        let links = if self.node().is_leaf() { 0 } else { self.node().count() + 1 };
        for index in 0..links {
            let (offset, link) = (self.node().link_offset(index), self.node().link(index));
            self.page.set_u64(offset, link);
        }
    }
}

/// Whether an edit will go through.
impl NodeRef<'_> {
    /// Whether a leaf has room for a value: of the entry in a slot (`Ok`), or of a new entry
    /// (`Err`), as a search has found them.
    #[inline]
    pub fn has_room(self, slot: Result<usize, usize>, key: &[u8], value: NewValue<'_>) -> bool {
        self.growth(slot, key, value) <= self.free_bytes() + self.garbage()
    }

    /// By how many bytes a leaf's entries grow with a value (as for [`NodeRef::has_room`]); zero if
    /// it is not longer than what it replaces. Changes whose growths together are not more than the
    /// free bytes and the garbage have room one after the other.
    #[inline]
    pub fn growth(self, slot: Result<usize, usize>, key: &[u8], value: NewValue<'_>) -> usize {
        match slot {
            Ok(slot) => {
                let old = self.slot(slot);
                let new_len = record_bytes(true, old.suffix_len(), value.stored_len());
                new_len.saturating_sub(self.record_len(old))
            }
            Err(_) => {
                SLOT_BYTES + record_bytes(true, self.suffix_of(key).len(), value.stored_len())
            }
        }
    }

    /// Whether this inner node has room for a separator, or has it already.
    pub fn has_room_for_child(self, separator: &[u8]) -> bool {
        let len = record_bytes(false, self.suffix_of(separator).len(), 0);
        SLOT_BYTES + len <= self.free_bytes() + self.garbage()
            || self.search_covered(separator).is_ok()
    }
}

/// Entries of a leaf.
impl NodeMut<'_> {
    /// Inserts an entry as slot `slot`, where a search did not find its key.
    pub fn insert_entry(
        &mut self,
        slot: usize,
        key: &[u8],
        version: u64,
        value: NewValue<'_>,
    ) -> Result<(), NoRoom> {
        debug_assert!(self.node().is_leaf());
        let suffix = self.node().suffix_of(key);
        let len = record_bytes(true, suffix.len(), value.stored_len());
        self.make_room(SLOT_BYTES + len)?;
        let offset = self.take(len);
        self.write_entry(offset, suffix, version, value);
        self.insert_slot(slot, Slot::new(suffix, offset));
        Ok(())
    }

    /// Gives the entry of a slot another value, in place where that is not longer.
    pub fn replace_value(
        &mut self,
        slot: usize,
        version: u64,
        value: NewValue<'_>,
    ) -> Result<(), NoRoom> {
        let node = self.node();
        debug_assert!(node.is_leaf() && slot < node.count());
        let old = node.slot(slot);
        let old_len = node.record_len(old);
        let new_len = record_bytes(true, old.suffix_len(), value.stored_len());
        if new_len <= old_len {
            self.write_value(old.offset(), old.rest_len(), version, value);
            self.add_garbage(old_len - new_len);
            return Ok(());
        }
        if new_len <= node.free_bytes() {
            let offset = self.take(new_len);
            self.page.copy_within(
                old.offset() + LEAF_RECORD_HEADER,
                offset + LEAF_RECORD_HEADER,
                old.rest_len(),
            );
            self.write_value(offset, old.rest_len(), version, value);
            self.set_slot(slot, old.moved_to(offset));
            self.release(old.offset(), old_len);
            return Ok(());
        }
        if new_len > node.free_bytes() + node.garbage() + old_len {
            return Err(NoRoom);
        }
        let mut key = Vec::new();
        node.append_key(slot, &mut key);
        self.remove_entry(slot);
        self.insert_entry(slot, &key, version, value)
    }

    /// Removes the entry of a slot.
    pub fn remove_entry(&mut self, slot: usize) {
        debug_assert!(self.node().is_leaf());
        self.remove_slot(slot);
    }

    fn write_entry(&mut self, offset: usize, suffix: &[u8], version: u64, value: NewValue<'_>) {
        let rest = rest_of(suffix);
        self.page.write(offset + LEAF_RECORD_HEADER, rest);
        self.write_value(offset, rest.len(), version, value);
    }

    /// Writes a record but for the rest of its key, which has `rest_len` bytes.
    fn write_value(&mut self, offset: usize, rest_len: usize, version: u64, value: NewValue<'_>) {
        let value_at = offset + LEAF_RECORD_HEADER + rest_len;
        self.page.write_u64(offset, version);
        match value {
            NewValue::Inline(bytes) => {
                self.page.write_u16(offset + VALUE_WORD, bytes.len() as u16);
                self.page.write(value_at, bytes);
            }
            NewValue::Overflow { len, run, link } => {
                self.page.write_u16(offset + VALUE_WORD, OVERFLOW);
                self.page.write_u64(value_at, len | u64::from(run) << 32);
                self.page.write_u64(value_at + 8, link);
            }
        }
    }
}

/// Children of an inner node.
impl NodeMut<'_> {
    /// Lets `link` lead to the keys from `separator` on, up to the next separator. Where the
    /// separator is there already, its link is replaced.
    pub fn insert_child(&mut self, separator: &[u8], link: u64) -> Result<(), NoRoom> {
        debug_assert!(!self.node().is_leaf());
        match self.node().search_covered(separator) {
            Ok(slot) => {
                let offset = self.node().link_offset(slot + 1);
                self.page.set_u64(offset, link);
            }
            Err(slot) => {
                let suffix = self.node().suffix_of(separator);
                let len = record_bytes(false, suffix.len(), 0);
                self.make_room(SLOT_BYTES + len)?;
                let offset = self.take(len);
                self.write_child(offset, suffix, link);
                self.insert_slot(slot, Slot::new(suffix, offset));
            }
        }
        Ok(())
    }

    /// Removes link `index` of `1..=count` and the separator before it: the child on the left takes
    /// over its keys.
    pub fn remove_child(&mut self, index: usize) {
        debug_assert!(!self.node().is_leaf() && index > 0);
        self.remove_slot(index.saturating_sub(1));
    }

    /// Has link `index` of `0..=count` lead to another page. Gives where the link stands in the page.
    pub fn set_link(&mut self, index: usize, link: u64) -> usize {
        let offset = self.node().link_offset(index);
        self.page.set_u64(offset, link);
        offset
    }

    /// Has the right link lead to another page.
    pub fn set_right_link(&mut self, link: u64) {
        self.page.set_u64(at::RIGHT, link);
    }

    fn write_child(&mut self, offset: usize, suffix: &[u8], link: u64) {
        self.page.set_u64(offset, link);
        self.page.write(offset + INNER_RECORD_HEADER, rest_of(suffix));
    }
}

/// Appending in order: no search, and the hints only at the end ([`NodeMut::finish`]). The caller
/// knows that there is room.
impl NodeMut<'_> {
    pub(super) fn push_entry(&mut self, key: &[u8], version: u64, value: NewValue<'_>) {
        let suffix = self.node().suffix_of(key);
        let offset = self.take(record_bytes(true, suffix.len(), value.stored_len()));
        self.write_entry(offset, suffix, version, value);
        self.push_slot(Slot::new(suffix, offset));
    }

    pub(super) fn push_child(&mut self, separator: &[u8], link: u64) {
        let suffix = self.node().suffix_of(separator);
        let offset = self.take(record_bytes(false, suffix.len(), 0));
        self.write_child(offset, suffix, link);
        self.push_slot(Slot::new(suffix, offset));
    }

    /// Appends slots of another node of the same level, whose prefix may be another one.
    pub(super) fn push_from(&mut self, from: NodeRef<'_>, slots: std::ops::Range<usize>) {
        let same_prefix = from.prefix_len() == self.node().prefix_len();
        let mut key = Vec::new();
        for index in slots {
            let slot = from.slot(index);
            if same_prefix {
                let len = from.record_len(slot);
                let offset = self.take(len);
                self.page.copy_from(from.page(), slot.offset(), offset, len);
                self.push_slot(slot.moved_to(offset));
                if !from.is_leaf() {
                    self.page.set_u64(offset, self.node().link_of(from, index + 1));
                }
                continue;
            }
            key.clear();
            from.append_key(index, &mut key);
            if from.is_leaf() {
                self.push_entry_from(from, slot, &key);
            } else {
                self.push_child(&key, self.node().link_of(from, index + 1));
            }
        }
    }

    fn push_entry_from(&mut self, from: NodeRef<'_>, slot: Slot, key: &[u8]) {
        let suffix = self.node().suffix_of(key);
        let (rest, value_len) = (rest_of(suffix), from.stored_len(slot));
        let offset = self.take(record_bytes(true, suffix.len(), value_len));
        self.page.copy_from(from.page(), slot.offset(), offset, LEAF_RECORD_HEADER);
        self.page.write(offset + LEAF_RECORD_HEADER, rest);
        let value_at = offset + LEAF_RECORD_HEADER + rest.len();
        self.page.copy_from(from.page(), from.value_at(slot), value_at, value_len);
        self.push_slot(Slot::new(suffix, offset));
    }

    fn push_slot(&mut self, slot: Slot) {
        let count = self.node().count();
        self.set_slot(count, slot);
        self.page.set_u16(at::COUNT, (count + 1) as u16);
    }

    /// Ends a run of appended slots.
    pub(super) fn finish(&mut self) {
        if self.node().count() > HINTS {
            self.update_hints(0);
        }
    }
}

/// Room and slots.
impl NodeMut<'_> {
    /// Sees to it that `bytes` lie free between slots and records.
    fn make_room(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let node = self.node();
        if bytes <= node.free_bytes() {
            return Ok(());
        }
        if bytes > node.free_bytes() + node.garbage() {
            return Err(NoRoom);
        }
        self.compact();
        Ok(())
    }

    /// Moves all records to the end of the heap, so that the garbage becomes free.
    fn compact(&mut self) {
        let whole = copy_of(self.page.as_ref());
        let old = NodeRef::new(whole.page());
        let mut low = old.heap_end();
        for index in 0..old.count() {
            let slot = old.slot(index);
            let len = old.record_len(slot);
            low = low.saturating_sub(len);
            self.page.copy_from(old.page(), slot.offset(), low, len);
            self.set_slot(index, slot.moved_to(low));
        }
        self.page.set_u32(at::HEAP_LOW, low as u32);
        self.page.set_u16(at::GARBAGE, 0);
    }

    /// Takes free bytes for a record.
    fn take(&mut self, len: usize) -> usize {
        let offset = self.node().heap_low().saturating_sub(len);
        self.page.set_u32(at::HEAP_LOW, offset as u32);
        offset
    }

    /// Gives back the bytes of a record: to the free ones if it is the lowest, else as garbage.
    fn release(&mut self, offset: usize, len: usize) {
        if offset == self.node().heap_low() {
            self.page.set_u32(at::HEAP_LOW, (offset + len) as u32);
        } else {
            self.add_garbage(len);
        }
    }

    fn add_garbage(&mut self, bytes: usize) {
        let garbage = self.node().garbage() + bytes;
        self.page.set_u16(at::GARBAGE, garbage as u16);
    }

    fn set_slot(&mut self, index: usize, slot: Slot) {
        self.page.set_u64(at::SLOTS + SLOT_BYTES * index, slot.0);
    }

    fn insert_slot(&mut self, index: usize, slot: Slot) {
        let count = self.node().count();
        debug_assert!(index <= count);
        let begin = at::SLOTS + SLOT_BYTES * index;
        let behind = SLOT_BYTES * count.saturating_sub(index);
        self.page.copy_within(begin, begin + SLOT_BYTES, behind);
        self.set_slot(index, slot);
        self.page.set_u16(at::COUNT, (count + 1) as u16);
        self.update_hints(index);
    }

    fn remove_slot(&mut self, index: usize) {
        let node = self.node();
        let count = node.count();
        debug_assert!(index < count);
        if index >= count {
            return;
        }
        let slot = node.slot(index);
        let len = node.record_len(slot);
        self.release(slot.offset(), len);
        let begin = at::SLOTS + SLOT_BYTES * index;
        self.page.copy_within(begin + SLOT_BYTES, begin, SLOT_BYTES * (count - index - 1));
        self.page.set_u16(at::COUNT, (count - 1) as u16);
        if count == 1 {
            self.page.set_u32(at::HEAP_LOW, self.node().heap_end() as u32);
            self.page.set_u16(at::GARBAGE, 0);
        }
        self.update_hints(index);
    }

    /// Makes the hints right after the slots from `changed` on, and their count, have changed.
    ///
    /// If the distance of the hints is another than before, all are wrong; a count that is a
    /// multiple of 17, or one less, says that it may be.
    fn update_hints(&mut self, changed: usize) {
        let count = self.node().count();
        let distance = hint_distance(count);
        let may_step = |count: usize| count.is_multiple_of(HINTS + 1);
        let distance_may_differ = may_step(count) || may_step(count + 1);
        if distance == 0 && !distance_may_differ {
            return;
        }
        let first = if distance_may_differ { 0 } else { changed.div_ceil(distance) };
        for hint in first.saturating_sub(1)..HINTS {
            let head =
                if distance == 0 { 0 } else { self.node().slot((hint + 1) * distance).head() };
            self.page.set_u32(at::HINTS + 4 * hint, head);
        }
    }
}
