//! How many other pages were accessed since a page was: the reuse distance, in memory that does not
//! grow.
//!
//! Each access takes the next of a row of slots, and the page leaves the slot that it had. So the pages
//! stand in the order of their last accesses, with gaps, and the distance is the number of slots in use
//! behind the page's own: bits that are counted word by word, and groups of words that know their
//! counts. When the row is at its end the slots in use move together, and only the pages that came last
//! are kept.

#![cfg(not(loom))]

/// No slot.
const NONE: u16 = u16::MAX;
/// Words of 64 slots that share a count.
const GROUP: usize = 4;

/// Pages in the order of their last accesses. Pages are known by hashes, of which no two are equal.
#[derive(Debug)]
pub(super) struct Recency {
    /// Which page took the slot, in use or not any more.
    pages: Box<[u64]>,
    /// A bit for each slot in use.
    used: Box<[u64]>,
    /// How many are in use of each group of words.
    groups: Box<[u16]>,
    /// Slots by the hash of their page, with open addressing: a power of two, at least twice as many as
    /// slots. A page keeps its place in it while its slot changes.
    index: Box<[u16]>,
    /// The slot of the next access.
    next: usize,
    /// Pages that are kept at least: distances are known below this.
    kept: usize,
}

impl Recency {
    /// The most pages that can be kept.
    pub(super) const MOST_KEPT: usize = 1 << 14;

    /// Knows distances below `kept`, of at most [`Recency::MOST_KEPT`].
    pub(super) fn new(kept: usize) -> Recency {
        let kept = kept.clamp(1, Self::MOST_KEPT);
        let slots = 2 * kept;
        Recency {
            pages: vec![0; slots].into(),
            used: vec![0; slots.div_ceil(64)].into(),
            groups: vec![0; slots.div_ceil(64 * GROUP)].into(),
            index: vec![NONE; (2 * slots).next_power_of_two()].into(),
            next: 0,
            kept,
        }
    }

    /// Distances are known below this.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Memory in bytes, at most, for each page that is kept.
    pub(super) const BYTES_PER_PAGE: usize = 2 * (size_of::<u64>() + 4 * size_of::<u16>()) + 1;

    /// An access to a page. Gives how many others there were since the last one to it; `None` if there
    /// was none, or if it was so long ago that the page is not known any more.
    pub(super) fn access(&mut self, page: u64) -> Option<usize> {
        if self.next == self.pages.len() {
            self.close_ranks();
        }
        let at = self.place_of(page);
        let slot = self.index[at];
        let distance = (slot != NONE).then(|| {
            let distance = self.used_behind(slot.into());
            self.set_used(slot.into(), false);
            distance
        });
        self.index[at] = self.next as u16;
        self.pages[self.next] = page;
        self.set_used(self.next, true);
        self.next += 1;
        distance
    }

    /// Where in the index the page is, or is to be.
    fn place_of(&self, page: u64) -> usize {
        let mask = self.index.len() - 1;
        let mut at = page as usize & mask;
        while self.index[at] != NONE && self.pages[usize::from(self.index[at])] != page {
            at = (at + 1) & mask;
        }
        at
    }

    fn set_used(&mut self, slot: usize, used: bool) {
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        debug_assert_ne!(self.used[word] & bit != 0, used);
        self.used[word] ^= bit;
        let group = &mut self.groups[word / GROUP];
        *group = if used { *group + 1 } else { *group - 1 };
    }

    /// How many slots behind this one are in use.
    fn used_behind(&self, slot: usize) -> usize {
        let (word, group) = (slot / 64, slot / 64 / GROUP);
        let in_word = (self.used[word] >> (slot % 64) >> 1).count_ones();
        let end = ((group + 1) * GROUP).min(self.used.len());
        let in_group: u32 = self.used[word + 1..end].iter().map(|word| word.count_ones()).sum();
        let behind: usize = self.groups[group + 1..].iter().map(|used| usize::from(*used)).sum();
        in_word as usize + in_group as usize + behind
    }

    /// The slots in use move to the front of the row, and the oldest pages are forgotten.
    fn close_ranks(&mut self) {
        let used: usize = self.groups.iter().map(|used| usize::from(*used)).sum();
        let mut forgotten = used.saturating_sub(self.kept);
        let mut next = 0;
        for slot in 0..self.pages.len() {
            if self.used[slot / 64] >> (slot % 64) & 1 == 0 {
                continue;
            }
            if forgotten > 0 {
                forgotten -= 1;
                continue;
            }
            self.pages[next] = self.pages[slot];
            next += 1;
        }
        self.next = next;
        self.used.fill(0);
        self.groups.fill(0);
        self.index.fill(NONE);
        for slot in 0..next {
            let at = self.place_of(self.pages[slot]);
            self.index[at] = slot as u16;
            self.set_used(slot, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a list that is searched.
    #[test]
    fn distances_are_those_of_a_list() {
        for (kept, pages) in [(1, 3), (7, 30), (100, 90), (100, 150), (1000, 1500), (1000, 40_000)]
        {
            let mut recency = Recency::new(kept);
            // The last one at the front.
            let mut list: Vec<u64> = Vec::new();
            let mut random = fastrand::Rng::with_seed(7);
            let (mut near, mut far) = (0, 0);
            for _ in 0..20_000 {
                // Small numbers more often than large ones.
                let page = random
                    .u64(..pages)
                    .min(random.u64(..pages))
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let expected = list.iter().position(|known| *known == page);
                let found = recency.access(page);
                if expected.is_some_and(|distance| distance < kept) {
                    assert_eq!(found, expected, "{kept} of {pages}");
                    near += 1;
                } else {
                    assert!(found.is_none() || found == expected, "{kept} of {pages}");
                    far += 1;
                }
                if let Some(at) = expected {
                    list.remove(at);
                }
                list.insert(0, page);
            }
            assert!(near > 0 && far > 0, "{kept} of {pages}: {near} {far}");
        }
    }

    #[test]
    fn memory_is_what_is_said() {
        for kept in [1, 64, 1000, 4097, Recency::MOST_KEPT] {
            let recency = Recency::new(kept);
            let bytes = size_of_val(&*recency.pages)
                + size_of_val(&*recency.used)
                + size_of_val(&*recency.groups)
                + size_of_val(&*recency.index);
            assert!(bytes <= kept * Recency::BYTES_PER_PAGE + 64, "{kept}: {bytes}");
        }
    }
}
