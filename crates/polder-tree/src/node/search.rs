//! Finding a key in a node: the hot path of everything.
//!
//! A search touches the node header, the hints, one or two lines of slots, and the record only
//! where heads are equal. It does not touch the fences at the other end of the page: a caller that
//! came down from the root knows that the key is covered and hence begins with the prefix.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use super::layout::{
    HEAD_BYTES, HINTS, INNER_RECORD_HEADER, SLOT_BYTES, Slot, at, head_of, hint_distance, rest_of,
};
use super::{NewValue, NodeRef};

/// How many slots a prefetch asks for: a leaf of small pages has about as many.
const PREFETCHED_SLOTS: usize = 24;

/// How much of a record is asked for before it is read, at most: the processor itself goes on behind.
const MOST_PREFETCHED_BYTES: u32 = 512;

/// Bytes of a record beside the value, about: version, length, and the rest of a short key.
const RECORD_BYTES_AROUND: usize = 16;

/// Counts of slots have no more bits.
const COUNT_BITS: u32 = 16;

/// The longest suffix whose rest is compared as one number.
const SHORT_SUFFIX: usize = HEAD_BYTES + 8;

impl NodeRef<'_> {
    /// Asks the processor for the lines that a search of a leaf reads, so that it waits for all of
    /// them at once. To be called as soon as the address of the page is known.
    #[inline(always)]
    pub fn prefetch(self) {
        for line in (0..at::SLOTS + PREFETCHED_SLOTS * SLOT_BYTES).step_by(64) {
            self.page.prefetch(line);
        }
    }

    /// Asks the processor for the lines with the header and the hints.
    #[inline(always)]
    pub fn prefetch_hints(self) {
        self.page.prefetch(0);
        self.page.prefetch(at::HINTS);
    }

    /// Asks the processor for the record of a slot of a leaf, whose length is taken for that of all.
    #[inline(always)]
    pub fn prefetch_found(self, slot: usize) {
        let heap = self.page.size().saturating_sub(self.heap_low()) as u32;
        let len = (heap / (self.count() as u32).max(1)).min(MOST_PREFETCHED_BYTES);
        let begin = self.slot(slot).offset();
        (begin..begin + len as usize).step_by(64).for_each(|at| self.page.prefetch(at));
    }

    /// Asks the processor for the lines that a new record would be written to, so that they come
    /// while the leaf is searched.
    #[inline(always)]
    pub fn prefetch_free(self, value: NewValue<'_>) {
        let end = self.heap_low();
        let begin = end.saturating_sub(value.stored_len() + RECORD_BYTES_AROUND);
        (begin..end).step_by(64).for_each(|at| self.page.prefetch(at));
        self.page.prefetch(end.saturating_sub(1));
    }

    /// As `prefetch_free`, for a record that will be as long as the others.
    #[inline(always)]
    pub fn prefetch_end_of_free(self) {
        let end = self.heap_low();
        let heap = self.page.size().saturating_sub(end) as u32;
        let len = (heap / (self.count() as u32).max(1)).min(MOST_PREFETCHED_BYTES);
        let begin = end.saturating_sub(len as usize + RECORD_BYTES_AROUND);
        (begin..end).step_by(64).for_each(|at| self.page.prefetch(at));
        self.page.prefetch(end.saturating_sub(1));
    }

    /// As `prefetch_free`, for the record of a slot that will get another value.
    #[inline(always)]
    pub fn prefetch_record(self, slot: usize, value: NewValue<'_>) {
        let begin = self.slot(slot).offset();
        let end = (begin + value.stored_len() + RECORD_BYTES_AROUND).min(self.page.size());
        (begin..end).step_by(64).for_each(|at| self.page.prefetch(at));
    }

    /// Where `key` stands to the fences: `Less` below the lower one, `Greater` at or above the
    /// upper one, `Equal` if the node covers it.
    pub fn compare_to_fences(self, key: &[u8]) -> Ordering {
        if self.has_lower() && self.page.compare(self.lower_at(), self.lower_len(), key).is_gt() {
            return Ordering::Less;
        }
        if self.is_below_upper(key) { Ordering::Equal } else { Ordering::Greater }
    }

    /// Whether `key` lies below the upper fence, if there is one.
    pub fn is_below_upper(self, key: &[u8]) -> bool {
        !self.has_upper() || self.page.compare(self.upper_at(), self.upper_len(), key).is_gt()
    }

    /// The same for the keys just below `key`: `Less` if the lower fence is not below it.
    pub fn compare_below_to_fences(self, key: &[u8]) -> Ordering {
        if self.has_lower() && self.page.compare(self.lower_at(), self.lower_len(), key).is_ge() {
            return Ordering::Less;
        }
        if self.has_upper() && self.page.compare(self.upper_at(), self.upper_len(), key).is_lt() {
            return Ordering::Greater;
        }
        Ordering::Equal
    }

    /// Searches any key, as `slice::binary_search` does.
    #[inline]
    pub fn search(self, key: &[u8]) -> Result<usize, usize> {
        let prefix_len = self.prefix_len();
        let beginning = &key[..prefix_len.min(key.len())];
        match self.page.compare(self.lower_at(), prefix_len, beginning) {
            Ordering::Equal => self.search_covered(key),
            Ordering::Less => Err(self.count()),
            Ordering::Greater => Err(0),
        }
    }

    /// Searches a key that lies within the fences or is the upper one, as `slice::binary_search`
    /// does. For other keys the answer means nothing.
    #[inline]
    pub fn search_covered(self, key: &[u8]) -> Result<usize, usize> {
        let count = self.count();
        let suffix = self.suffix_of(key);
        let head = head_of(suffix);
        let first = self.lower_bound(head, count);
        self.decide(key, (suffix, head), first, count)
    }

    /// The first part of [`NodeRef::search_covered`]: the slot that is the key's if one is, found without
    /// looking at records.
    #[inline(always)]
    pub fn candidate(self, key: &[u8]) -> usize {
        self.lower_bound(head_of(self.suffix_of(key)), self.count())
    }

    /// The second part of [`NodeRef::search_covered`].
    #[inline(always)]
    pub fn search_from(self, key: &[u8], first: usize) -> Result<usize, usize> {
        let suffix = self.suffix_of(key);
        self.decide(key, (suffix, head_of(suffix)), first, self.count())
    }

    /// What a search comes to whose first slot that is not below the head is `first`. (What was read of
    /// the node is handed on: the compiler cannot know that it would be the same again.)
    #[inline(always)]
    fn decide(
        self,
        key: &[u8],
        (suffix, head): (&[u8], u32),
        first: usize,
        count: usize,
    ) -> Result<usize, usize> {
        if first >= count {
            return Err(first);
        }
        let slot = self.slot(first);
        if slot.head() != head {
            return Err(first);
        }
        let Some(rest) = short_rest(key, suffix.len()) else {
            return self.search_equal_heads(key, first);
        };
        if slot.suffix_len() > SHORT_SUFFIX {
            return self.search_equal_heads(key, first);
        }
        // As with heads: rests are filled up with zeros, so where they are equal lengths decide.
        let order = self.page.big_endian(self.rest_at(slot), slot.rest_len()).cmp(&rest);
        match order.then_with(|| slot.suffix_len().cmp(&suffix.len())) {
            Ordering::Equal => Ok(first),
            Ordering::Greater => Err(first),
            Ordering::Less => self.search_equal_heads(key, first + 1),
        }
    }

    /// Whether `key`, which is that of an entry of these, stands below that of the next one, and within
    /// the fences where it is the first or the last. The entry is given by its number and its slot.
    #[inline(always)]
    pub(super) fn stands_right(
        self,
        (index, slot): (usize, Slot),
        count: usize,
        key: &[u8],
    ) -> bool {
        // Mostly heads tell.
        let has_neighbours = index > 0 && index + 1 < count;
        (has_neighbours && slot.padded_head() < self.slot(index + 1).padded_head())
            || self.stands_right_by_key(index, key)
    }

    #[inline(never)]
    fn stands_right_by_key(self, slot: usize, key: &[u8]) -> bool {
        if slot == 0 && self.has_lower() && self.compare_to_fences(key).is_ne() {
            return false;
        }
        if slot + 1 >= self.count() {
            return self.is_below_upper(key);
        }
        let (suffix, next) = (self.suffix_of(key), self.slot(slot + 1));
        next.head() == next.padded_head()
            && self.compare_slot(next, head_of(suffix), suffix).is_gt()
    }

    /// Whether the keys before `slot` are below `key`, and the one in it is not, as far as those two say.
    pub fn is_edge(self, slot: usize, key: &[u8]) -> bool {
        (slot == 0 || self.compare_key(slot - 1, key).is_lt())
            && (slot >= self.count() || self.compare_key(slot, key).is_ge())
    }

    /// Where the key of a slot stands to any key.
    fn compare_key(self, slot: usize, key: &[u8]) -> Ordering {
        let (prefix_len, slot) = (self.prefix_len(), self.slot(slot));
        let beginning = &key[..prefix_len.min(key.len())];
        let suffix = self.suffix_of(key);
        let prefix = self.page.compare(self.lower_at(), prefix_len, beginning);
        prefix.then_with(|| slot.padded_head().cmp(&head_of(suffix))).then_with(|| {
            let rest = self.page.compare(self.rest_at(slot), slot.rest_len(), rest_of(suffix));
            rest.then_with(|| slot.suffix_len().cmp(&suffix.len()))
        })
    }

    /// Where in the page the link begins that leads to `key`: that of the greatest separator at or
    /// below it. `key` is as in [`NodeRef::search_covered`].
    #[inline]
    pub fn child_at(self, key: &[u8]) -> usize {
        match self.search_covered(key) {
            Ok(slot) => self.link_offset(slot + 1),
            Err(slot) => self.link_offset(slot),
        }
    }

    /// The first part of [`NodeRef::child_at`]: looks at the hints, and asks for the slots and the links
    /// that the second part looks at. Gives what that is to be told.
    #[inline(always)]
    pub fn narrow(self, key: &[u8]) -> usize {
        let (first, len) = self.range_of(head_of(self.suffix_of(key)), self.count());
        first << COUNT_BITS | len
    }

    /// The second part of [`NodeRef::child_at`].
    #[inline(always)]
    pub fn child_from(self, key: &[u8], narrowed: usize) -> usize {
        let range = (narrowed >> COUNT_BITS, narrowed & ((1 << COUNT_BITS) - 1));
        let suffix = self.suffix_of(key);
        let head = head_of(suffix);
        match self.decide(key, (suffix, head), self.first_in(head, range), self.count()) {
            Ok(slot) => self.link_offset(slot + 1),
            Err(slot) => self.link_offset(slot),
        }
    }

    /// The number of the link that leads to `key`.
    #[inline]
    pub fn child_index(self, key: &[u8]) -> usize {
        match self.search_covered(key) {
            Ok(slot) => slot + 1,
            Err(slot) => slot,
        }
    }

    /// Where in the page the link begins that leads to the keys just below `key`: that of the
    /// greatest separator below it. `key` is as in [`NodeRef::search_covered`].
    #[inline]
    pub fn child_before(self, key: &[u8]) -> usize {
        self.link_offset(self.child_index_before(key))
    }

    /// The number of the link that leads to the keys just below `key`.
    #[inline]
    pub fn child_index_before(self, key: &[u8]) -> usize {
        let (Ok(slot) | Err(slot)) = self.search_covered(key);
        slot
    }

    /// The first slot below `count` whose head is not below `head`, or `count`.
    #[inline(always)]
    fn lower_bound(self, head: u32, count: usize) -> usize {
        self.first_in(head, self.range_of(head, count))
    }

    /// Where that slot can lie: the first candidate and how many there are, by the hints.
    #[inline(always)]
    fn range_of(self, head: u32, count: usize) -> (usize, usize) {
        match hint_distance(count) {
            0 => (0, count),
            distance => {
                let (first, len) = range_by_hints(self.hints_below(head), distance, count);
                if !self.is_leaf() {
                    self.prefetch_children(first, len);
                }
                (first, len)
            }
        }
    }

    #[inline(always)]
    fn first_in(self, head: u32, (first, len): (usize, usize)) -> usize {
        partition(first, len, |i| self.slot(i).head() < head)
    }

    /// Asks for the slots of an inner node that a search looks at next, and for the links behind
    /// them, which it would else wait for afterwards. Where a node was filled in order, by a bulk
    /// load or a split, and separators have at most four bytes beyond the prefix, link *i* is the
    /// *i*-th from the end of the heap; elsewhere the prediction is in vain.
    #[inline(always)]
    fn prefetch_children(self, first: usize, len: usize) {
        self.page.prefetch(at::SLOTS + SLOT_BYTES * first);
        self.page.prefetch(at::SLOTS + SLOT_BYTES * (first + len));
        let end = self.heap_end();
        self.page.prefetch(end.saturating_sub(INNER_RECORD_HEADER * first));
        self.page.prefetch(end.saturating_sub(INNER_RECORD_HEADER * (first + len)));
    }

    /// How many hints lie below `head`.
    #[inline(always)]
    fn hints_below(self, head: u32) -> usize {
        count_below(self.page.array(at::HINTS), head)
    }

    /// What the node would keep of `key`, were it inserted here.
    #[inline(always)]
    pub(super) fn suffix_of(self, key: &[u8]) -> &[u8] {
        key.get(self.prefix_len()..).unwrap_or_default()
    }

    /// Where the key of a slot stands to the one with this suffix and this head.
    #[inline(always)]
    fn compare_slot(self, slot: Slot, head: u32, suffix: &[u8]) -> Ordering {
        slot.head().cmp(&head).then_with(|| {
            let rest = self.page.compare(self.rest_at(slot), slot.rest_len(), rest_of(suffix));
            rest.then_with(|| slot.suffix_len().cmp(&suffix.len()))
        })
    }

    /// The rest of a search among slots from `first` on, which is the first slot that has the same
    /// head as `key`, or is behind slots that have it and lie below `key`.
    #[inline(never)]
    fn search_equal_heads(self, key: &[u8], first: usize) -> Result<usize, usize> {
        let suffix = self.suffix_of(key);
        let head = head_of(suffix);
        let compare = |slot: Slot| self.compare_slot(slot, head, suffix);
        // Mostly the first one decides: so it is looked at before all others.
        let (mut first, mut end) = (first, self.count());
        let mut middle = first;
        while first < end {
            match compare(self.slot(middle)) {
                Ordering::Less => first = middle + 1,
                Ordering::Greater => end = middle,
                Ordering::Equal => return Ok(middle),
            }
            middle = first + end.saturating_sub(first) / 2;
        }
        Err(first)
    }
}

/// The first of `len` elements from `first` on that does not lie below what is searched, or the one
/// behind them. There is no branch on that: it would be mispredicted half of the time.
#[inline(always)]
fn partition(mut first: usize, len: usize, is_below: impl Fn(usize) -> bool) -> usize {
    let mut left = len;
    while left > 1 {
        let half = left / 2;
        first = select_unpredictable(is_below(first + half - 1), first + half, first);
        left -= half;
    }
    first + usize::from(left == 1 && is_below(first))
}

/// How many of these little-endian numbers lie below `head`. The compiler makes vector
/// instructions of it, which take less time than a search in so few.
#[inline(always)]
fn count_below(hints: [u8; 4 * HINTS], head: u32) -> usize {
    let (hints, _) = hints.as_chunks::<4>();
    hints.iter().map(|hint| u32::from(u32::from_le_bytes(*hint) < head)).sum::<u32>() as usize
}

/// Where the first slot whose head is not below what is searched can lie, if this many hints are
/// below it: the first candidate and how many there are. If it is none of them, it is the one
/// behind.
#[inline(always)]
fn range_by_hints(below: usize, distance: usize, count: usize) -> (usize, usize) {
    let first = below * distance;
    (first, if below < HINTS { distance } else { count - first })
}

/// The rest of a key whose suffix has `suffix_len` bytes, as a big-endian number, filled up with
/// zeros. `None` if it is longer than that, or the key so short that it takes more than one load.
#[inline(always)]
fn short_rest(key: &[u8], suffix_len: usize) -> Option<u64> {
    if suffix_len <= HEAD_BYTES {
        return Some(0);
    }
    let last = u64::from_be_bytes(*key.last_chunk()?);
    (suffix_len <= SHORT_SUFFIX).then(|| last << (8 * (SHORT_SUFFIX - suffix_len)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn hints_are_counted_as_one_by_one(mut hints in any::<[u32; HINTS]>(), head: u32) {
            hints.sort_unstable();
            let bytes: Vec<u8> = hints.iter().flat_map(|hint| hint.to_le_bytes()).collect();
            let bytes: [u8; 4 * HINTS] = bytes.try_into().unwrap();
            for head in hints.into_iter().chain([head, 0, u32::MAX]) {
                let expected = partition(0, HINTS, |i| hints[i] < head);
                prop_assert_eq!(count_below(bytes, head), expected);
            }
        }
    }
}
