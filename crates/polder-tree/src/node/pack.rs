//! Dividing what lies in neighbouring leaves anew, among fewer of them (as XMerge does: Alhomssi
//! and Leis, 2021).
//!
//! The first leaf stays and takes more from its right neighbours, what has no room in it goes into
//! new pages, and the neighbours are freed: no leaf ever gets another lower fence (`snapshot.rs`).

use super::layout::{SLOT_BYTES, capacity, common_prefix, prefix_of, record_bytes};
use super::{NodeMut, NodeRef};

/// Leaves that are looked at together, at most.
pub const PACKED_AT_ONCE: usize = 8;
/// Leaves that may be made of several, at most.
const MOST_MADE: usize = 4;

/// A place in a run of leaves: which leaf, and which of its slots.
type Place = (usize, usize);

/// How several neighbouring leaves become fewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// How many leaves of the run it takes.
    pub takes: usize,
    /// Where each leaf but the first begins that is made of them.
    begins: Vec<Place>,
}

impl Packing {
    /// How the first leaves of a run can become fewer, each with `reserve` bytes left free: as
    /// many as go into one, else the fewest of which one can be spared.
    ///
    /// The leaves may be changing: what it says is of use once they are latched as they were seen.
    pub fn choose(leaves: &[NodeRef<'_>], reserve: usize) -> Option<Packing> {
        let of = |takes: usize| Packing { takes, begins: begins(&leaves[..takes], reserve) };
        let sizes = 2..=leaves.len().min(PACKED_AT_ONCE);
        let into_one = sizes.clone().map(of).take_while(|packing| packing.makes() == 0).last();
        into_one.or_else(|| {
            sizes.map(of).find(|packing| {
                let made = packing.makes() + 1;
                made < packing.takes && made <= MOST_MADE
            })
        })
    }

    /// How many new pages it needs.
    pub fn makes(&self) -> usize {
        self.begins.len()
    }

    /// What separates the leaves that are made: the shortest keys that do.
    pub fn separators(&self, leaves: &[NodeRef<'_>]) -> Vec<Vec<u8>> {
        let separator = |begin: &Place| {
            let mut key = leaves[begin.0].key(begin.1);
            let before = place_before(leaves, *begin).map(|(leaf, slot)| leaves[leaf].key(slot));
            let len = before.map_or(key.len(), |before| common_prefix(&before, &key) + 1);
            key.truncate(len);
            key
        };
        self.begins.iter().map(separator).collect()
    }

    /// Writes the leaf with this number of those that are made: 0 stays in the page of the first
    /// one, of which `leaves` has a copy then. `right_link`: of the leaf behind it.
    pub fn write(
        &self,
        leaves: &[NodeRef<'_>],
        separators: &[Vec<u8>],
        (number, right_link): (usize, u64),
        node: &mut NodeMut<'_>,
    ) {
        let (first, last) = (leaves[0].lower_fence(), leaves[self.takes - 1].upper_fence());
        let before = number.checked_sub(1);
        let lower = before.map_or(first.as_deref(), |before| Some(&separators[before][..]));
        let upper = separators.get(number).map_or(last.as_deref(), |upper| Some(&upper[..]));
        let from = before.map_or((0, 0), |before| self.begins[before]);
        let to = self.begins.get(number).copied().unwrap_or((self.takes, 0));
        node.init(0, lower, upper, right_link, 0);
        for (index, leaf) in leaves.iter().enumerate().take(self.takes) {
            let begin = if index == from.0 { from.1 } else { 0 };
            let end = if index == to.0 { to.1 } else { leaf.count() };
            if (from.0..=to.0).contains(&index) && begin < end {
                node.push_from(*leaf, begin..end);
            }
        }
        node.finish();
    }
}

/// Where the leaves but the first begin that these become if each is filled in turn.
///
/// It reckons with the prefix that all of them have in common: each has that or a longer one. A
/// separator is taken for as long as the key behind it.
fn begins(leaves: &[NodeRef<'_>], reserve: usize) -> Vec<Place> {
    let (Some(first), Some(last)) = (leaves.first(), leaves.last()) else { return Vec::new() };
    let prefix_len = prefix_of(first.lower_fence().as_deref(), last.upper_fence().as_deref());
    let page_bytes = first.page().size();
    let entries = leaves.iter().enumerate().flat_map(|(index, leaf)| {
        (0..leaf.count()).map(move |slot| {
            let key_len = leaf.key_len(slot);
            let value_len = leaf.stored_len(leaf.slot(slot));
            let record = record_bytes(true, key_len.saturating_sub(prefix_len), value_len);
            ((index, slot), key_len, SLOT_BYTES + record)
        })
    });
    let mut entries = entries.peekable();
    let (mut begins, mut lower_len, mut bytes) = (Vec::new(), first.lower_len(), 0);
    while let Some((place, key_len, entry)) = entries.next() {
        let upper_len = entries.peek().map_or(last.upper_len(), |(_, key_len, _)| *key_len);
        let room = capacity(true, page_bytes, lower_len + upper_len).saturating_sub(reserve);
        if bytes > 0 && bytes + entry > room {
            begins.push(place);
            (lower_len, bytes) = (key_len, 0);
        }
        bytes += entry;
    }
    begins
}

/// The place of the entry before this one.
fn place_before(leaves: &[NodeRef<'_>], (leaf, slot): Place) -> Option<Place> {
    match slot.checked_sub(1) {
        Some(slot) => Some((leaf, slot)),
        None => (0..leaf).rev().find_map(|leaf| Some((leaf, leaves[leaf].count().checked_sub(1)?))),
    }
}

impl NodeRef<'_> {
    /// Whether this inner node has room for separators instead of its children `gone`, none of
    /// which is the first one.
    pub fn has_room_instead(self, gone: std::ops::Range<usize>, separators: &[Vec<u8>]) -> bool {
        let freed: usize = gone.map(|child| self.entry_bytes(child - 1)).sum();
        let entry = |key: &Vec<u8>| SLOT_BYTES + record_bytes(false, self.suffix_of(key).len(), 0);
        separators.iter().map(entry).sum::<usize>() <= self.free_bytes() + self.garbage() + freed
    }
}
