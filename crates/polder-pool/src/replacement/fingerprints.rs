//! The ids of pages that went not long ago, as fingerprints: the ghost lists of S3-FIFO.
//!
//! A table of 32-bit slots, in buckets of which each lies in one cache line. A slot holds 16 bits of the page's
//! hash and the time when the page went, counted in pages that went. So a list is as long as its
//! times say, and the oldest entry of a bucket gives way to a new one. (S3-FIFO, 4.2, describes such
//! a table.)
//!
//! There is no lock: a slot is one word. Two threads that choose the same slot lose one of the two
//! entries, a page may pass for another one by its fingerprint (one in some thousands does), and of
//! a full bucket the oldest entry is forgotten early. Each of that makes one guess worse and breaks
//! nothing, so that all is Relaxed.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use polder_format::PageId;

/// Slots that share a bucket.
const BUCKET: usize = 8;
const BUCKET_BYTES: usize = BUCKET * size_of::<AtomicU32>();
/// Steps of time in which a list of full length passes.
const STEPS: u32 = 256;

/// See the module.
pub(super) struct Fingerprints {
    /// Each has a fingerprint, which is never 0, in the upper half, and a time; 0: no page. Of zeros
    /// at first, so that memory is taken only for what is used.
    slots: Box<[AtomicU32]>,
    /// Where the first bucket begins, so that each lies in one cache line.
    first: usize,
    buckets: u64,
    /// Pages that are added in a step of time.
    step: u64,
    /// Steps for which a page is known.
    most_steps: u16,
    added: AtomicU64,
}

/// Not the slots, which are as many as frames.
impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprints({:?} added)", self.added)
    }
}

impl Fingerprints {
    /// Knows the last `length` pages that were added.
    pub(super) fn new(length: u32) -> Fingerprints {
        let length = length.max(1);
        let buckets = Self::bytes(length.into()).div_ceil(BUCKET_BYTES as u64);
        let slots = Box::new_zeroed_slice((buckets as usize + 1) * BUCKET);
        // SAFETY: zero is a value of an atomic number.
        let slots: Box<[AtomicU32]> = unsafe { slots.assume_init() };
        let first = slots.as_ptr().align_offset(BUCKET_BYTES).min(BUCKET);
        let step = length.div_ceil(STEPS);
        Fingerprints {
            slots,
            first,
            buckets,
            step: step.into(),
            most_steps: length.div_ceil(step) as u16,
            added: AtomicU64::new(0),
        }
    }

    /// Memory of a list of this length: half as many slots again as pages, so that few buckets are
    /// full.
    pub(super) const fn bytes(length: u64) -> u64 {
        length * 3 / 2 * size_of::<AtomicU32>() as u64
    }

    /// Whether nothing was ever added.
    pub(super) fn is_new(&self) -> bool {
        self.added.load(Ordering::Relaxed) == 0
    }

    /// The bucket of the page, and its fingerprint in the upper half of a slot.
    fn find(&self, page: PageId) -> (&[AtomicU32], u32) {
        // Each bit of the hash depends on all bits of the id.
        let mixed = page.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let bucket = ((hash >> 32) * self.buckets) >> 32;
        let fingerprint = ((hash as u32) >> 16).max(1) << 16;
        (&self.slots[self.first + bucket as usize * BUCKET..][..BUCKET], fingerprint)
    }

    fn now(&self) -> u16 {
        (self.added.load(Ordering::Relaxed) / self.step) as u16
    }

    /// Remembers the page.
    pub(super) fn add(&self, page: PageId) {
        let now = (self.added.fetch_add(1, Ordering::Relaxed) / self.step) as u16;
        let (bucket, fingerprint) = self.find(page);
        let oldest = bucket.iter().max_by_key(|slot| match slot.load(Ordering::Relaxed) {
            0 => u32::MAX,
            same if same & 0xFFFF_0000 == fingerprint => u32::MAX,
            other => now.wrapping_sub(other as u16).into(),
        });
        if let Some(slot) = oldest {
            slot.store(fingerprint | u32::from(now), Ordering::Relaxed);
        }
    }

    /// Forgets the page. False if it was not known.
    pub(super) fn remove(&self, page: PageId) -> bool {
        let ((bucket, fingerprint), now) = (self.find(page), self.now());
        bucket.iter().any(|slot| {
            let found = slot.load(Ordering::Relaxed);
            let is_it = found & 0xFFFF_0000 == fingerprint
                && now.wrapping_sub(found as u16) <= self.most_steps;
            let relaxed = Ordering::Relaxed;
            is_it && slot.compare_exchange(found, 0, relaxed, relaxed).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::replacement::dice::Dice;
    use crate::replacement::testing::page;

    /// Of pages that should be known hardly any is forgotten, and of others hardly any is known.
    #[test]
    fn they_are_nearly_those_of_an_exact_list() {
        for length in [1u32, 7, 100, 1000, 20_000] {
            let (list, dice) = (Fingerprints::new(length), Dice::new());
            // Which pages were added, and how many had been before each of them.
            let (mut model, mut added) = (HashMap::new(), 0);
            let (mut asked, mut forgotten, mut mistaken) = (0, 0, 0);
            for _ in 0..20_000.max(length * 3) {
                let id = page(u64::from(dice.below(3 * length)));
                if dice.below(8) > 0 {
                    if model.insert(id, added).is_none() {
                        list.add(id);
                        added += 1;
                    } else {
                        model.remove(&id);
                        list.remove(id);
                    }
                    continue;
                }
                let passed = model.remove(&id).map(|before| added - before);
                let known = list.remove(id);
                asked += 1;
                let step = length.div_ceil(STEPS);
                forgotten += u32::from(passed.is_some_and(|n| n + step <= length) && !known);
                mistaken += u32::from(passed.is_none_or(|n| n > length + step) && known);
            }
            let what = format!("{length}: {forgotten} forgotten, {mistaken} mistaken of {asked}");
            assert!(asked > 1000 && forgotten * 20 < asked && mistaken * 200 < asked, "{what}");
        }
    }

    #[test]
    fn a_page_is_forgotten_when_as_many_came_as_the_list_is_long() {
        for length in [1u32, 16, 255, 256, 5000] {
            let list = Fingerprints::new(length);
            assert!(list.is_new() && !list.remove(page(0)));
            for turn in 0..70_000u64 {
                list.add(page(turn));
                assert!(list.remove(page(turn)), "{length}: the last one is known");
                assert!(!list.remove(page(turn)), "{length}: once");
            }
            list.add(page(1));
            // A step more, as times are in steps.
            let later = u64::from(length) + u64::from(length.div_ceil(STEPS));
            (0..later).for_each(|no| list.add(page(1_000_000 + no)));
            assert!(!list.remove(page(1)), "{length}");
        }
    }
}
