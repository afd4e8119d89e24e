//! Bulk load: nodes filled to the brim from keys in ascending order.
//!
//! The upper fence of a node, and so its prefix and what fits, is known only when the first key
//! behind it is. So a builder collects entries until no fence could make them fit, then emits the
//! most that do and keeps the rest, an entry or two, for the next node.

use std::ops::Range;

use super::layout::{OVERFLOW_REFERENCE_BYTES, SLOT_BYTES, capacity, common_prefix, record_bytes};
use super::{NewValue, NodeMut};

/// Collects the entries of one level, and emits nodes.
///
/// ```text
/// for each key:  push_entry or push_child; while is_full: emit
/// at the end:    while not fits_last: emit; then emit_last
/// ```
#[derive(Debug)]
pub struct NodeBuilder {
    page_bytes: usize,
    level: u8,
    lower: Option<Vec<u8>>,
    first_child: u64,
    /// Keys and inline values of `entries`.
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// The longest prefix that any upper fence behind the last entry can leave.
    prefix_len: usize,
    /// Bytes of slots and records with that prefix.
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    key: Range<usize>,
    payload: Payload,
}

#[derive(Debug, Clone)]
enum Payload {
    Inline { version: u64, value: Range<usize> },
    Overflow { version: u64, len: u64, run: u32, link: u64 },
    Child { link: u64 },
}

impl NodeBuilder {
    /// For the leaves of a tree with pages of `page_bytes`.
    pub fn leaves(page_bytes: usize) -> NodeBuilder {
        NodeBuilder::inner(page_bytes, 0, 0)
    }

    /// For the nodes of a `level` above the leaves. `first_child` is the leftmost node of the level
    /// below.
    pub fn inner(page_bytes: usize, level: u8, first_child: u64) -> NodeBuilder {
        NodeBuilder {
            page_bytes,
            level,
            lower: None,
            first_child,
            arena: Vec::new(),
            entries: Vec::new(),
            prefix_len: 0,
            bytes: 0,
        }
    }

    /// Adds the entry of a leaf, whose key is above all before.
    pub fn push_entry(&mut self, key: &[u8], version: u64, value: NewValue<'_>) {
        debug_assert!(self.level == 0);
        let key = self.keep(key);
        let payload = match value {
            NewValue::Inline(bytes) => Payload::Inline { version, value: self.keep(bytes) },
            NewValue::Overflow { len, run, link } => Payload::Overflow { version, len, run, link },
        };
        self.push(Entry { key, payload });
    }

    /// Adds a child that covers the keys from `separator` on, which is above all before.
    pub fn push_child(&mut self, separator: &[u8], link: u64) {
        debug_assert!(self.level > 0);
        let key = self.keep(separator);
        self.push(Entry { key, payload: Payload::Child { link } });
    }

    /// Whether a node can be emitted: no upper fence would let it hold all that is here.
    pub fn is_full(&self) -> bool {
        let lower_len = self.lower.as_ref().map_or(0, Vec::len);
        self.bytes > capacity(self.level == 0, self.page_bytes, lower_len)
    }

    /// Whether all that is here fits in a last node, which has no upper fence.
    pub fn fits_last(&self) -> bool {
        self.fits(self.entries.len(), None)
    }

    /// Makes `node` hold as much as it can and returns its upper fence, which is the separator
    /// between it and the next node, `right_link`. Something is left for that one.
    pub fn emit(&mut self, node: &mut NodeMut<'_>, right_link: u64) -> Vec<u8> {
        // One leaf entry fits with any fences (NODE-4), and so does an inner node without any.
        let least = usize::from(self.level == 0);
        let most = self.entries.len().saturating_sub(1);
        let mut taken = most;
        let mut upper = self.separator_before(taken);
        while taken > least && !self.fits(taken, Some(&upper)) {
            taken -= 1;
            upper = self.separator_before(taken);
        }
        self.write(node, taken, Some(&upper), right_link);

        let mut gone = taken;
        if let Some(Entry { payload: Payload::Child { link }, .. }) = self.entries.get(taken) {
            self.first_child = *link;
            gone += 1;
        }
        self.forget(gone);
        self.lower = Some(upper.clone());
        self.count_again();
        upper
    }

    /// Makes `node` hold all that is left.
    pub fn emit_last(self, node: &mut NodeMut<'_>) {
        self.write(node, self.entries.len(), None, 0);
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.arena.len();
        self.arena.extend_from_slice(bytes);
        begin..self.arena.len()
    }

    fn push(&mut self, entry: Entry) {
        let prefix_len = self.prefix_up_to(&self.arena[entry.key.clone()]);
        self.bytes += self.entry_bytes(&entry, prefix_len);
        self.entries.push(entry);
        if prefix_len != self.prefix_len {
            self.count_again();
        }
    }

    fn count_again(&mut self) {
        let last = self.entries.last().map(|last| self.prefix_up_to(&self.arena[last.key.clone()]));
        self.prefix_len = last.unwrap_or(0);
        self.bytes = self.bytes_of(self.entries.len(), self.prefix_len);
    }

    /// The prefix of a node with this upper fence.
    fn prefix_up_to(&self, upper: &[u8]) -> usize {
        self.lower.as_ref().map_or(0, |lower| common_prefix(lower, upper))
    }

    fn bytes_of(&self, count: usize, prefix_len: usize) -> usize {
        self.entries[..count].iter().map(|entry| self.entry_bytes(entry, prefix_len)).sum()
    }

    fn entry_bytes(&self, entry: &Entry, prefix_len: usize) -> usize {
        let value_len = match &entry.payload {
            Payload::Inline { value, .. } => value.len(),
            Payload::Overflow { .. } => OVERFLOW_REFERENCE_BYTES,
            Payload::Child { .. } => 0,
        };
        let suffix_len = entry.key.len().saturating_sub(prefix_len);
        SLOT_BYTES + record_bytes(self.level == 0, suffix_len, value_len)
    }

    /// Whether the first `count` entries fit in a node with this upper fence.
    fn fits(&self, count: usize, upper: Option<&[u8]>) -> bool {
        let lower_len = self.lower.as_ref().map_or(0, Vec::len);
        let fence_bytes = lower_len + upper.map_or(0, <[u8]>::len);
        let prefix_len = upper.map_or(0, |upper| self.prefix_up_to(upper));
        let room = capacity(self.level == 0, self.page_bytes, fence_bytes);
        self.bytes_of(count, prefix_len) <= room
    }

    /// What separates the first `count` entries from the others: in an inner node the next
    /// separator, in a leaf the shortest key that does.
    fn separator_before(&self, count: usize) -> Vec<u8> {
        let key_at = |index: usize| {
            let entry = self.entries.get(index);
            entry.map_or(&[][..], |entry| &self.arena[entry.key.clone()])
        };
        let next = key_at(count);
        if self.level > 0 || count == 0 {
            return next.to_vec();
        }
        let len = common_prefix(key_at(count - 1), next) + 1;
        next[..len.min(next.len())].to_vec()
    }

    fn write(&self, node: &mut NodeMut<'_>, count: usize, upper: Option<&[u8]>, right_link: u64) {
        node.init(self.level, self.lower.as_deref(), upper, right_link, self.first_child);
        for entry in &self.entries[..count] {
            let key = &self.arena[entry.key.clone()];
            match &entry.payload {
                Payload::Inline { version, value } => {
                    node.push_entry(key, *version, NewValue::Inline(&self.arena[value.clone()]));
                }
                &Payload::Overflow { version, len, run, link } => {
                    node.push_entry(key, version, NewValue::Overflow { len, run, link });
                }
                Payload::Child { link } => node.push_child(key, *link),
            }
        }
        node.finish();
    }

    /// Drops the first `count` entries and their bytes.
    fn forget(&mut self, count: usize) {
        self.entries.drain(..count);
        let begin = self.entries.first().map_or(self.arena.len(), |entry| entry.key.start);
        self.arena.drain(..begin);
        for entry in &mut self.entries {
            entry.key = entry.key.start - begin..entry.key.end - begin;
            if let Payload::Inline { value, .. } = &mut entry.payload {
                *value = value.start - begin..value.end - begin;
            }
        }
    }
}
