//! Changing a bucket.
//!
//! Every step leaves `BUCKET-1` to `BUCKET-5` as it found them. A write that would leave the page is
//! dropped by the page itself (`BYTES-3`), so that not even a page that was never checked makes an
//! edit unsound.

use polder_format::{PageKind, header_at};
use polder_pool::bytes::PageMut;
use polder_structure::page::copy_of;

use super::{BucketRef, RECORD_HEADER, SLOT_BYTES, Slot, at};
use crate::hash::{KeyHash, Prefix, Side};
use crate::page::{self, LAYOUT_VERSION};

/// The bucket has no room, even without its garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the bucket has no room")]
pub struct NoRoom;

/// A bucket to change, in a page that is held exclusively.
pub struct BucketMut<'a> {
    page: PageMut<'a>,
}

impl<'a> BucketMut<'a> {
    /// The bucket in `page`: one that was checked, or that [`BucketMut::init`] is about to make.
    #[inline(always)]
    pub fn new(page: PageMut<'a>) -> BucketMut<'a> {
        BucketMut { page }
    }

    /// The same bucket, to read.
    #[inline(always)]
    pub fn bucket(&self) -> BucketRef<'_> {
        BucketRef::new(self.page.as_ref())
    }

    /// Makes an empty bucket of what the page holds, whatever that is. Of the page header only kind and
    /// layout version are written.
    pub fn init(&mut self, prefix: Prefix) {
        self.page.set_u8(header_at::KIND, PageKind::HASH_BUCKET.0);
        self.page.set_u8(header_at::LAYOUT, LAYOUT_VERSION);
        self.page.zero(page::at::LEVEL, at::SLOTS - page::at::LEVEL);
        page::set_prefix(&mut self.page, prefix);
    }

    /// Makes this bucket what `other` is, in another page of the same size.
    pub fn copy_content_from(&mut self, other: BucketRef<'_>) {
        let (from, begin) = (other.page(), page::at::LEVEL);
        self.init(Prefix::ALL);
        self.page.copy_from(from, begin, begin, from.size() - begin);
        // A link that holds a frame does so in the page in which it was swizzled.
        self.page.set_u64(at::NEXT, other.next());
    }

    /// Gives it another prefix, which covers all its hashes as well.
    pub(crate) fn set_prefix(&mut self, prefix: Prefix) {
        page::set_prefix(&mut self.page, prefix);
    }

    /// Sets the link to the next page of the chain, of keys with this hash; zero for none.
    pub fn set_next(&mut self, next: u64, hash: KeyHash) {
        self.page.set_u64(at::NEXT, next);
        self.page.set_u64(at::CHAIN_HASH, if next == 0 { 0 } else { hash.bits() });
    }

    /// Inserts an entry as number `index`, as a search for its key has told.
    #[inline]
    pub fn insert(
        &mut self,
        index: usize,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), NoRoom> {
        let len = RECORD_HEADER + key.len() + value.len();
        self.make_room(SLOT_BYTES + len)?;
        let offset = self.take(len);
        self.write_record(offset, key, value);
        self.insert_slot(index, Slot::new(hash.tag(), offset));
        Ok(())
    }

    /// Gives an entry another value, in place where that is not longer.
    #[inline]
    pub fn replace(&mut self, index: usize, key: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        let bucket = self.bucket();
        let slot = bucket.slot(index);
        let (old_len, new_len) = (bucket.record_len(slot), RECORD_HEADER + key.len() + value.len());
        if new_len <= old_len {
            self.write_record(slot.offset(), key, value);
            self.add_garbage(old_len - new_len);
            return Ok(());
        }
        if new_len > bucket.free_bytes() + bucket.garbage() + old_len {
            return Err(NoRoom);
        }
        self.remove(index);
        self.make_room(SLOT_BYTES + new_len)?;
        let offset = self.take(new_len);
        self.write_record(offset, key, value);
        self.insert_slot(index, Slot::new(slot.tag(), offset));
        Ok(())
    }

    /// Removes an entry.
    #[inline]
    pub fn remove(&mut self, index: usize) {
        let bucket = self.bucket();
        let count = bucket.count();
        debug_assert!(index < count);
        if index >= count {
            return;
        }
        let slot = bucket.slot(index);
        let len = bucket.record_len(slot);
        if slot.offset() == bucket.heap_low() {
            let heap = bucket.heap().saturating_sub(len);
            self.page.set_u16(at::HEAP, heap as u16);
        } else {
            self.add_garbage(len);
        }
        let begin = at::SLOTS + SLOT_BYTES * index;
        self.page.copy_within(begin + SLOT_BYTES, begin, SLOT_BYTES * (count - index - 1));
        self.page.set_u16(at::COUNT, (count - 1) as u16);
        if count == 1 {
            self.page.set_u16(at::HEAP, 0);
            self.page.set_u16(at::GARBAGE, 0);
        }
    }

    /// Moves the entries of the high side to an empty bucket, which gets that half of the prefix; this
    /// one keeps the low half. There is no chain.
    pub fn split_into(&mut self, high: &mut BucketMut<'_>) {
        let whole = copy_of(self.page.as_ref());
        let whole = BucketRef::new(whole.page());
        high.init(whole.prefix().half(Side::High));
        self.keep(Side::Low, whole);
        high.push_side(Side::High, whole);
    }

    /// Keeps one side of `whole`, which is what this bucket holds or a copy of another one.
    pub(crate) fn keep(&mut self, side: Side, whole: BucketRef<'_>) {
        self.init(whole.prefix().half(side));
        self.push_side(side, whole);
    }

    fn push_side(&mut self, side: Side, whole: BucketRef<'_>) {
        let (prefix, mut key) = (whole.prefix(), Vec::new());
        for index in 0..whole.count() {
            if prefix.side(whole.hash(index, &mut key)) == side {
                let count = self.bucket().count();
                self.push_from(count, whole, index);
            }
        }
    }

    /// Takes in the entries of the bucket on the other side. False, and nothing is changed, if they do
    /// not fit.
    pub fn absorb(&mut self, other: BucketRef<'_>) -> bool {
        let bucket = self.bucket();
        if bucket.used_bytes() + other.used_bytes() > bucket.usable_bytes() {
            return false;
        }
        let prefix = bucket.prefix().whole();
        self.compact();
        self.set_prefix(prefix);
        for index in 0..other.count() {
            let bucket = self.bucket();
            let place = bucket.lower_bound(other.slot(index).tag(), bucket.count());
            self.push_from(place, other, index);
        }
        true
    }

    /// Copies an entry of another bucket; there is room for it.
    fn push_from(&mut self, place: usize, from: BucketRef<'_>, index: usize) {
        let slot = from.slot(index);
        let len = from.record_len(slot);
        if self.bucket().free_bytes() < len + SLOT_BYTES {
            // Only if `from` was never checked.
            return;
        }
        let offset = self.take(len);
        self.page.copy_from(from.page(), slot.offset(), offset, len);
        self.insert_slot(place, Slot::new(slot.tag(), offset));
    }

    fn write_record(&mut self, offset: usize, key: &[u8], value: &[u8]) {
        self.page.write_u16(offset, key.len() as u16);
        self.page.write_u16(offset + 2, value.len() as u16);
        self.page.write(offset + RECORD_HEADER, key);
        self.page.write(offset + RECORD_HEADER + key.len(), value);
    }

    /// Sees to it that `bytes` lie free between slots and records.
    fn make_room(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let bucket = self.bucket();
        if bytes <= bucket.free_bytes() {
            return Ok(());
        }
        if bytes > bucket.free_bytes() + bucket.garbage() {
            return Err(NoRoom);
        }
        self.compact();
        Ok(())
    }

    /// Moves all records to the end of the page, so that the garbage becomes free.
    fn compact(&mut self) {
        if self.bucket().garbage() == 0 {
            return;
        }
        let whole = copy_of(self.page.as_ref());
        let old = BucketRef::new(whole.page());
        self.page.set_u16(at::HEAP, 0);
        self.page.set_u16(at::GARBAGE, 0);
        for index in 0..old.count() {
            let slot = old.slot(index);
            let len = old.record_len(slot);
            let offset = self.take(len);
            self.page.copy_from(old.page(), slot.offset(), offset, len);
            self.set_slot(index, Slot::new(slot.tag(), offset));
        }
    }

    /// Takes free bytes for a record.
    fn take(&mut self, len: usize) -> usize {
        let bucket = self.bucket();
        let heap = (bucket.heap() + len).min(bucket.usable_bytes());
        self.page.set_u16(at::HEAP, heap as u16);
        self.page.size() - heap
    }

    fn add_garbage(&mut self, bytes: usize) {
        let garbage = self.bucket().garbage() + bytes;
        self.page.set_u16(at::GARBAGE, garbage as u16);
    }

    fn set_slot(&mut self, index: usize, slot: Slot) {
        self.page.set_u32(at::SLOTS + SLOT_BYTES * index, slot.0);
    }

    fn insert_slot(&mut self, index: usize, slot: Slot) {
        let count = self.bucket().count();
        debug_assert!(index <= count);
        let begin = at::SLOTS + SLOT_BYTES * index;
        self.page.copy_within(begin, begin + SLOT_BYTES, SLOT_BYTES * count.saturating_sub(index));
        self.set_slot(index, slot);
        self.page.set_u16(at::COUNT, (count + 1) as u16);
    }
}
