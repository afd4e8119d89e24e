//! A leaf that was copied, and whose entries are lent from there.
//!
//! A key does not lie in one piece: its prefix is a fence's, its head stands in the slot, its rest in
//! the record. So it is put together in a buffer, where the prefix stays from one entry to the next. The
//! value is lent where it lies in the copy.

use polder_format::PageSize;
use polder_pool::bytes::PageBuf;

use super::layout::{HEAD_BYTES, LEAF_RECORD_HEADER, Slot, VALUE_WORD, max_key_len};
use super::{NodeRef, OVERFLOW, Value};

/// What is copied of the rest of each key at once; most keys have no more.
const SHORT_REST: usize = 8;

/// A hole of fewer bytes is copied with what lies around it.
const SMALL_HOLE: usize = 512;

/// The entry contradicts the leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfOrder;

/// A copy of a leaf.
pub(crate) struct CopiedLeaf {
    page: PageBuf,
    count: usize,
    /// Where records begin. What lies before them is not copied, and may be of any other leaf.
    heap: usize,
}

impl CopiedLeaf {
    /// An empty one, for pages of this size.
    pub(crate) fn new(size: PageSize) -> CopiedLeaf {
        CopiedLeaf { page: PageBuf::new(size), count: 0, heap: size.bytes() }
    }

    /// Copies a leaf, which may be changing: the copy counts once the page has been validated.
    #[inline]
    pub(crate) fn take(&mut self, leaf: NodeRef<'_>) {
        let (hole, size) = (leaf.hole(), leaf.page().size());
        let mut copy = self.page.page_mut();
        if hole.len() < SMALL_HOLE {
            copy.copy_from(leaf.page(), 0, 0, size);
        } else {
            copy.copy_from(leaf.page(), 0, 0, hole.start);
            copy.copy_from(leaf.page(), hole.end, hole.end, size - hole.end);
        }
        self.count = self.node().count();
        self.heap = self.node().hole().end;
    }

    /// The node. What lies in its hole is not that of the leaf.
    #[inline(always)]
    pub(crate) fn node(&self) -> NodeRef<'_> {
        NodeRef::new(self.page.page())
    }

    /// How many entries it has.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The bytes of a value that lies in the leaf.
    #[inline(always)]
    pub(crate) fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.page.bytes().get(at..at + len).unwrap_or_default()
    }

    /// Puts the key of a slot together, and gives its value; where that is a long one, the key is left
    /// to [`CopiedLeaf::key`].
    ///
    /// # Errors
    /// If the entry does not lie among the leaf's records, or its key does not lie between those beside
    /// it and within the fences.
    #[inline(always)]
    pub(crate) fn entry(&self, slot: usize, key: &mut KeyBuf) -> Result<Value, OutOfOrder> {
        let node = self.node();
        let (page, entry) = (node.page(), node.slot(slot));
        let begin = entry.offset() + LEAF_RECORD_HEADER + entry.rest_len();
        if entry.offset() < self.heap || begin > page.size() {
            return Err(OutOfOrder);
        }
        let word = page.unaligned_u16(entry.offset() + VALUE_WORD);
        if word & OVERFLOW != 0 {
            return Ok(node.value(slot));
        }
        let len = usize::from(word);
        if len > page.size() - begin {
            return Err(OutOfOrder);
        }
        self.put_key(slot, entry, key)?;
        Ok(Value::Inline { at: begin, len })
    }

    /// Puts the key of a slot together.
    ///
    /// # Errors
    /// If the key does not lie between those beside it and within the fences.
    pub(crate) fn key(&self, slot: usize, key: &mut KeyBuf) -> Result<(), OutOfOrder> {
        self.put_key(slot, self.node().slot(slot), key)
    }

    #[inline(always)]
    fn put_key(&self, slot: usize, entry: Slot, key: &mut KeyBuf) -> Result<(), OutOfOrder> {
        let node = self.node();
        let is_right =
            key.put(node, entry) && node.stands_right((slot, entry), self.count, key.get());
        if is_right { Ok(()) } else { Err(OutOfOrder) }
    }
}

/// Room for one key of a leaf.
pub(crate) struct KeyBuf {
    bytes: Box<[u8]>,
    prefix_len: usize,
    len: usize,
    /// The longest key.
    most: usize,
}

impl KeyBuf {
    /// Of keys in pages of this size.
    pub(crate) fn new(size: PageSize) -> KeyBuf {
        let most = max_key_len(size.bytes());
        let bytes = vec![0; most + HEAD_BYTES + SHORT_REST].into_boxed_slice();
        KeyBuf { bytes, prefix_len: 0, len: 0, most }
    }

    /// The key.
    #[inline(always)]
    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The keys that are put here from now on are those of this leaf, which was copied.
    #[inline]
    pub(crate) fn begin(&mut self, leaf: NodeRef<'_>) {
        self.prefix_len = leaf.prefix_len();
        // One that is longer than any key fits no key.
        if let Some(prefix) = self.bytes.get_mut(..self.prefix_len) {
            leaf.page().copy_to(leaf.lower_at(), prefix);
        }
    }

    /// Puts the key of this slot behind the prefix. False if it is longer than any key.
    #[inline(always)]
    fn put(&mut self, leaf: NodeRef<'_>, slot: Slot) -> bool {
        let at = self.prefix_len;
        let len = at + slot.suffix_len();
        if len > self.most {
            return false;
        }
        self.len = len;
        let rest_at = slot.offset() + LEAF_RECORD_HEADER;
        let Some(room) = self.bytes.get_mut(at..) else { return false };
        // More than the key has, where it is short: its length says what counts.
        if let Some((head, room)) = room.split_first_chunk_mut::<HEAD_BYTES>() {
            *head = slot.head().to_be_bytes();
            if let Some(rest) = room.first_chunk_mut::<SHORT_REST>() {
                *rest = leaf.page().array(rest_at);
            }
            if slot.rest_len() > SHORT_REST {
                leaf.page().copy_to(rest_at, &mut room[..slot.rest_len()]);
            }
        }
        true
    }
}
