//! Splitting a full node in two.
//!
//! Why it always succeeds (`NODE-4`). Let *S* be the page size, *f* and *g* the lengths of the
//! fences, *E* the greatest entry with its slot, *T* the bytes of all entries with the new one.
//! The node without the new one fits, so *T* <= *S* - 128 - *f* - *g* + *E*. A key, and so the
//! separator, has at most *S*/8. A prefix only grows when fences come closer, so entries do not.
//!
//! * Leaf: *E* = *S*/4 + 8. Of two neighbouring cuts around the middle of *T* one gives sides of at
//!   most (*T* + *E*)/2 <= 3*S*/4 - 56 - (*f* + *g*)/2. The left side has room for
//!   *S* - 128 - *f* - *S*/8. What is asked, *S*/8 - 72 >= (*f* - *g*)/2, follows from
//!   *f* <= *S*/8 and *S* >= 4096. The right side is the same with *f* and *g* exchanged.
//! * Inner node: *E* = *S*/8 + 16, one separator leaves for the parent, and it must be an old one;
//!   stepping from the new one to a neighbour costs at most *E*. So a side has at most
//!   (*T* + *E*)/2 <= 5*S*/8 - 48 - (*f* + *g*)/2, which is smaller still.
//!
//! At 4 KiB, the tightest, 184 bytes are to spare: the 7 that aligning an inner node's heap may
//! cost, and that every fence is charged with, are among them.

use polder_structure::page::copy_of;

use super::layout::{SLOT_BYTES, capacity, common_prefix, record_bytes};
use super::{NewValue, NodeMut, NodeRef};

/// Where a node is to be split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The first key that belongs to the right node: upper fence of the left one, lower fence of
    /// the right one, separator for the parent.
    pub separator: Vec<u8>,
    /// How many slots stay in the left node.
    left_count: usize,
}

impl NodeRef<'_> {
    /// Where to split this leaf so that `key` with `value` fits on its side afterwards, whether
    /// the key is new or its value has grown: near the middle, but where the entry is the last one
    /// of the leaf or the first one, so that ascending and descending loads leave full leaves.
    ///
    /// `None` only if less than two entries would be there, in which case a valid node has room.
    pub fn choose_leaf_split(self, key: &[u8], value: NewValue<'_>) -> Option<Split> {
        let count = self.count();
        let (slot, is_new) = match self.search(key) {
            Ok(slot) => (slot, false),
            Err(slot) => (slot, true),
        };
        let suffix_len = key.len().saturating_sub(self.prefix_len());
        let changed = SLOT_BYTES + record_bytes(true, suffix_len, value.stored_len());
        // The entries as they will be, with the one at `slot` new or changed.
        let old_index = |index: usize| index - usize::from(is_new && index > slot);
        let entry_bytes = |index: usize| match index {
            _ if index == slot => changed,
            _ => self.entry_bytes(old_index(index)),
        };
        let key_len = |index: usize| match index {
            _ if index == slot => key.len(),
            _ => self.key_len(old_index(index)),
        };
        let entries = count + usize::from(is_new);
        let mut choice = Choice::new(self, (0..entries).map(entry_bytes).sum());
        choice.aim(is_new, slot, count);
        let mut left = 0;
        for cut in 1..entries {
            left += entry_bytes(cut - 1);
            choice.consider(cut, left, choice.all - left, key_len(cut));
        }
        let cut = choice.best?;
        let key_at = |index: usize| match index {
            _ if index == slot => key.to_vec(),
            _ => self.key(old_index(index)),
        };
        let (below, mut separator) = (key_at(cut - 1), key_at(cut));
        separator.truncate(common_prefix(&below, &separator) + 1);
        let left_count = cut - usize::from(is_new && cut > slot);
        Some(Split { separator, left_count })
    }

    /// Where to split this leaf for several newcomers, each a key and the bytes that it takes: so
    /// that both sides get about the same. What is there fits afterwards; the newcomers may need
    /// more splits, or one side may have nothing but them.
    ///
    /// `None` only if there are less than two keys in all.
    pub fn choose_leaf_split_for(self, newcomers: &[(&[u8], usize)]) -> Option<Split> {
        // Each key with its bytes of now and those that come.
        let mut keys: Vec<(Vec<u8>, usize, usize)> =
            (0..self.count()).map(|index| (self.key(index), self.entry_bytes(index), 0)).collect();
        keys.extend(newcomers.iter().map(|(key, bytes)| (key.to_vec(), 0, *bytes)));
        keys.sort_unstable();
        keys.dedup_by(|b, a| {
            let same = a.0 == b.0;
            if same {
                a.1 += b.1;
                a.2 += b.2;
            }
            same
        });
        let (old, all) =
            keys.iter().fold((0, 0), |(old, all), key| (old + key.1, all + key.1 + key.2));
        let mut choice = Choice::new(self, all);
        let (mut left_old, mut left) = (0, 0);
        for (cut, key) in keys.iter().enumerate() {
            if cut > 0 && choice.fits(left_old, old - left_old, key.0.len()) {
                choice.prefer(cut, left);
            }
            left_old += key.1;
            left += key.1 + key.2;
        }
        let cut = choice.best?;
        let mut separator = keys[cut].0.clone();
        separator.truncate(common_prefix(&keys[cut - 1].0, &separator) + 1);
        let left_count = keys[..cut].iter().filter(|key| key.1 > 0).count();
        Some(Split { separator, left_count })
    }

    /// Where to split this inner node so that `separator` fits on its side afterwards. Near the
    /// middle or, as with leaves, at one end. The chosen separator leaves the node: it is the one
    /// for the parent.
    ///
    /// `None` only if there is no separator, in which case a valid node has room.
    pub fn choose_inner_split(self, separator: &[u8]) -> Option<Split> {
        let count = self.count();
        let (Ok(slot) | Err(slot)) = self.search(separator);
        let suffix_len = separator.len().saturating_sub(self.prefix_len());
        let new = SLOT_BYTES + record_bytes(false, suffix_len, 0);
        let old: usize = (0..count).map(|index| self.entry_bytes(index)).sum();
        let mut choice = Choice::new(self, old + new);
        choice.aim(true, slot, count);
        let mut left = 0;
        for middle in 0..count {
            let leaving = self.entry_bytes(middle);
            let left_with_new = left + if slot <= middle { new } else { 0 };
            let right = choice.all - left_with_new - leaving;
            choice.consider(middle, left_with_new, right, self.key_len(middle));
            left += leaving;
        }
        let middle = choice.best?;
        Some(Split { separator: self.key(middle), left_count: middle })
    }

    /// Whether this can have been chosen for this node: the separator lies between the fences,
    /// divides the entries where it says, and has room beside those that stay.
    pub fn admits(self, split: &Split) -> bool {
        let searched = self.search_covered(&split.separator);
        let (Ok(cut) | Err(cut)) = searched;
        let left: usize = (0..cut).map(|index| self.entry_bytes(index)).sum();
        let fences = self.lower_len() + split.separator.len();
        self.compare_to_fences(&split.separator).is_eq()
            && !self.lower_fence_is(&split.separator)
            && cut == split.left_count
            && (self.is_leaf() || searched.is_ok())
            && left <= capacity(self.is_leaf(), self.page.size(), fences)
    }

    /// Bytes of a slot and its record.
    pub(super) fn entry_bytes(self, slot: usize) -> usize {
        SLOT_BYTES + self.record_len(self.slot(slot))
    }

    pub(super) fn key_len(self, slot: usize) -> usize {
        self.prefix_len() + self.slot(slot).suffix_len()
    }

    pub(crate) fn key(self, slot: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.append_key(slot, &mut key);
        key
    }
}

impl Split {
    /// A split that was chosen before: the log tells it.
    pub fn again(separator: &[u8], left_count: usize) -> Split {
        Split { separator: separator.to_vec(), left_count }
    }

    /// How many slots stay in the left node.
    pub fn left_count(&self) -> usize {
        self.left_count
    }
}

impl NodeMut<'_> {
    /// Moves what is at or above the separator to `right`, whose page is `right_page` and may hold
    /// anything. Afterwards each node has the fences of what it covers, and this one's right link
    /// leads to `right`.
    pub fn split_into(&mut self, right: &mut NodeMut<'_>, right_page: u64, split: &Split) {
        let whole = copy_of(self.node().page());
        let old = NodeRef::new(whole.page());
        right.keep_right(old, split);
        self.keep_left(old, right_page, split);
    }

    /// Becomes what `old` has at and above the separator: the right half of a split.
    pub fn keep_right(&mut self, old: NodeRef<'_>, split: &Split) {
        let (count, cut) = (old.count(), split.left_count.min(old.count()));
        let (upper, separator) = (old.upper_fence(), Some(split.separator.as_slice()));
        let (from, first_child) = if old.is_leaf() {
            (cut, 0)
        } else {
            ((cut + 1).min(count), old.link((cut + 1).min(count)))
        };
        self.init(old.level(), separator, upper.as_deref(), old.right_link(), first_child);
        self.push_from(old, from..count);
        self.finish();
    }

    /// Keeps of `old`, a copy of this node, what lies below the separator: the left half of a
    /// split.
    pub fn keep_left(&mut self, old: NodeRef<'_>, right_page: u64, split: &Split) {
        let (cut, lower) = (split.left_count.min(old.count()), old.lower_fence());
        let separator = Some(split.separator.as_slice());
        let first_child = if old.is_leaf() { 0 } else { self.node().link_of(old, 0) };
        self.init(old.level(), lower.as_deref(), separator, right_page, first_child);
        self.push_from(old, 0..cut);
        self.finish();
    }
}

/// The best place to cut so far.
struct Choice {
    /// Bytes of all entries.
    all: usize,
    /// How many of them the left side should get.
    left_aim: usize,
    /// What the left side has room for, not counting its upper fence.
    left_room: usize,
    /// What the right side has room for, not counting its lower fence.
    right_room: usize,
    distance: usize,
    best: Option<usize>,
}

impl Choice {
    fn new(node: NodeRef<'_>, all: usize) -> Choice {
        let room = |fence| capacity(node.is_leaf(), node.page().size(), fence);
        Choice {
            all,
            left_aim: all / 2,
            left_room: room(node.lower_len()),
            right_room: room(node.upper_len()),
            distance: usize::MAX,
            best: None,
        }
    }

    /// Aims at an end of the node if the new entry goes there.
    fn aim(&mut self, is_new: bool, slot: usize, count: usize) {
        if is_new && slot == count {
            self.left_aim = self.all;
        } else if is_new && slot == 0 {
            self.left_aim = 0;
        }
    }

    /// Takes the cut if both sides fit, beside a fence of at most `fence_len`, and it is nearer.
    fn consider(&mut self, cut: usize, left: usize, right: usize, fence_len: usize) {
        if self.fits(left, right, fence_len) {
            self.prefer(cut, left);
        }
    }

    fn fits(&self, left: usize, right: usize, fence_len: usize) -> bool {
        // An odd fence costs an inner node up to 7 bytes more.
        let fence = fence_len + 7;
        left + fence <= self.left_room && right + fence <= self.right_room
    }

    /// Takes the cut if it is nearer.
    fn prefer(&mut self, cut: usize, left: usize) {
        let distance = left.abs_diff(self.left_aim);
        if distance < self.distance {
            (self.distance, self.best) = (distance, Some(cut));
        }
    }
}
