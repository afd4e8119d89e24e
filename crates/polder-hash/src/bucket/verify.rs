//! Checking a bucket whose bytes nobody vouches for.
//!
//! `verify_shape` is for every page that comes from the device: cheap, and enough that no later edit
//! meets a length or an offset outside of its page. `verify_whole` checks `BUCKET-1` to `BUCKET-5`.

use polder_structure::page::{ensure, lie_apart};

use super::{BucketRef, RECORD_HEADER, SLOT_BYTES, at, max_entry_len};
use crate::page;

impl BucketRef<'_> {
    /// Checks, in time proportional to the count of slots, that counts, lengths and offsets are
    /// possible.
    pub fn verify_shape(self) -> Result<(), &'static str> {
        ensure(self.is_bucket() && page::level(self.page) == 0, "this is no bucket")?;
        page::verify(self.page)?;
        let slots_end = at::SLOTS + SLOT_BYTES * usize::from(self.page.u16(at::COUNT));
        let heap_low = self.heap_low();
        ensure(slots_end <= heap_low, "the slots of a bucket reach into its records")?;
        let (mut heap, mut before) = (self.garbage(), 0);
        for index in 0..self.count() {
            let slot = self.slot(index);
            ensure(slot.tag() >= before, "the slots of a bucket are not in order")?;
            before = slot.tag();
            ensure(slot.offset() >= heap_low, "an entry lies outside of the heap")?;
            let len = self.record_len(slot);
            let longest = RECORD_HEADER + max_entry_len(self.page.size());
            ensure(len <= longest, "an entry is too long")?;
            ensure(slot.offset() + len <= self.page.size(), "an entry lies outside of the heap")?;
            heap += len;
        }
        ensure(heap == self.heap(), "entries and garbage do not add up to the heap")?;
        let hash = self.chain_hash();
        match self.has_next() {
            false => ensure(hash.bits() == 0, "there is the hash of a chain, and no chain"),
            true => ensure(self.prefix().covers(hash), "a chain has a hash of another bucket"),
        }
    }

    /// Checks everything that can be told from this bucket alone.
    pub fn verify_whole(self) -> Result<(), &'static str> {
        self.verify_shape()?;
        let slots = (0..self.count()).map(|index| self.slot(index));
        let records = slots.map(|slot| (slot.offset(), self.record_len(slot)));
        ensure(lie_apart(records), "two entries overlap")?;

        let (prefix, mut keys) = (self.prefix(), Vec::new());
        for index in 0..self.count() {
            let mut key = Vec::new();
            let hash = self.hash(index, &mut key);
            ensure(prefix.covers(hash), "the hash of a key does not begin with the prefix")?;
            ensure(hash.tag() == self.slot(index).tag(), "a tag is not that of its key's hash")?;
            let in_chain = !self.has_next() || hash == self.chain_hash();
            ensure(in_chain, "a key has another hash than its chain")?;
            keys.push(key);
        }
        keys.sort_unstable();
        ensure(keys.windows(2).all(|pair| pair[0] != pair[1]), "a key is there twice")
    }
}
