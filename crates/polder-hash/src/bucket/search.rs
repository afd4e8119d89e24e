//! Finding a key in a bucket.

use super::{BucketRef, RECORD_HEADER, at};
use crate::hash::KeyHash;

/// Slots that a search goes by one after the other before it halves what is left: hashes that are
/// spread evenly are found long before.
const STEPS: usize = 64;

/// Bytes of slots that a prefetch asks for: all of a bucket with entries of 24 bytes in the smallest
/// pages. With one line instead, lookups by `examples/beside_tree` take a fifth longer.
const PREFETCHED: usize = 8 * 64;

impl BucketRef<'_> {
    /// Asks the processor for the lines that a search reads, so that it waits for all of them at once.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        for line in (at::SLOTS..at::SLOTS + PREFETCHED).step_by(64) {
            self.page.prefetch(line);
        }
    }

    /// Searches a key with this hash: the number of its entry, or that which a new one gets.
    #[inline]
    pub fn search(self, key: &[u8], hash: KeyHash) -> Result<usize, usize> {
        let (tag, count) = (hash.tag(), self.count());
        let first = self.lower_bound(tag, count);
        for index in first..count {
            let slot = self.slot(index);
            if slot.tag() != tag {
                break;
            }
            let (key_len, _) = self.lens(slot.offset());
            let at = slot.offset() + RECORD_HEADER;
            if key_len == key.len() && self.page.compare(at, key_len, key).is_eq() {
                return Ok(index);
            }
        }
        Err(first)
    }

    /// The first slot with this tag or a higher one, or `count`: from where the tag would be if tags
    /// lay at even distances.
    #[inline(always)]
    pub(super) fn lower_bound(self, tag: u16, count: usize) -> usize {
        let guess = (usize::from(tag) * count) >> 16;
        let (mut low, mut high) = (guess, guess);
        if low < count && self.slot(low).tag() < tag {
            low += 1;
            while low < count && self.slot(low).tag() < tag {
                if low - guess == STEPS {
                    return self.halve(tag, low, count);
                }
                low += 1;
            }
            return low;
        }
        while high > 0 && self.slot(high - 1).tag() >= tag {
            if guess - high == STEPS {
                return self.halve(tag, 0, high);
            }
            high -= 1;
        }
        high
    }

    #[cold]
    fn halve(self, tag: u16, mut low: usize, mut high: usize) -> usize {
        while low < high {
            let middle = (low + high) / 2;
            if self.slot(middle).tag() < tag { low = middle + 1 } else { high = middle }
        }
        low
    }
}
