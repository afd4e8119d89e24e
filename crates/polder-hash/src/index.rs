//! Looking up, inserting, removing.

use std::mem::MaybeUninit;

use polder_format::PageKind;
use polder_format::log::Operation;
use polder_pool::bytes::PageRef;
use polder_pool::journal::group_bytes;
use polder_pool::{AccessHint, Attempt, Change, Exclusive, Optimistic, Restart, Translation};
use polder_structure::page::{latch_kind, lsn_of};
use polder_structure::{Applied, Effect};

use crate::bucket::{BucketMut, BucketRef, Run};
use crate::descent::bucket;
use crate::error::HashError;
use crate::handle::{HashIndex, inserted};
use crate::hash::KeyHash;
use crate::reshape::Newcomer;

/// Values up to this length are copied to the stack before a user sees them.
const STACK_VALUE_BYTES: usize = 1024;

/// What a lookup found.
enum Found {
    Nothing,
    /// This many bytes in the buffer.
    Copied(usize),
    /// A value that does not fit the buffer, or nothing in a bucket that has a chain of keys with this
    /// hash.
    Elsewhere,
}

/// What writing to a bucket came to.
enum Written {
    Done { applied: Applied, underfull: bool },
    NoRoom,
    Chained,
}

impl<T: Translation> HashIndex<T> {
    /// Calls `read` with the value of `key`. Gives what it gave, or `None` without the key.
    ///
    /// `read` sees a copy that no writer can touch. A lookup of a resident key takes no lock, stores
    /// nothing that other threads see and allocates nothing if the value has at most 1 KiB.
    ///
    /// # Errors
    /// Those of loading pages.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, HashError> {
        let hash = KeyHash::of(key);
        let mut buffer = [const { MaybeUninit::uninit() }; STACK_VALUE_BYTES];
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let page = bucket(&self.space, attempt, hash)?;
            let bucket = BucketRef::new(page.page());
            let found = match bucket.search(key, hash) {
                Ok(entry) => {
                    let value = bucket.value(entry);
                    if value.len <= STACK_VALUE_BYTES {
                        let copy = page.page().copy_to_uninit(value.at, value.len, &mut buffer);
                        Found::Copied(copy.len())
                    } else {
                        Found::Elsewhere
                    }
                }
                Err(_) if has_chain(bucket, hash) => Found::Elsewhere,
                Err(_) => Found::Nothing,
            };
            page.validate()?;
            Ok(found)
        })?;
        match found {
            Found::Nothing => Ok(None),
            Found::Copied(len) => {
                // SAFETY: copy_to_uninit has filled the first `len` bytes in the last attempt.
                Ok(Some(read(unsafe { buffer[..len].assume_init_ref() })))
            }
            Found::Elsewhere => Ok(self.get(key)?.map(|value| read(&value))),
        }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, HashError> {
        let mut bytes = Vec::new();
        let found = self.look_up(key, |page, value| {
            bytes.clear();
            page.append_to(value.at, value.len, &mut bytes);
        })?;
        Ok(found.map(|()| bytes))
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn contains_key(&self, key: &[u8]) -> Result<bool, HashError> {
        Ok(self.look_up(key, |_, _| ())?.is_some())
    }

    /// What `read` gives of the value of `key`, in its bucket or the chain behind it. The bytes count
    /// once this has returned: `read` is called again if they were changed meanwhile.
    fn look_up<R>(
        &self,
        key: &[u8],
        mut read: impl FnMut(PageRef<'_>, Run) -> R,
    ) -> Result<Option<R>, HashError> {
        let hash = KeyHash::of(key);
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let page = bucket(&self.space, attempt, hash)?;
            let bucket = BucketRef::new(page.page());
            let found = match bucket.search(key, hash) {
                Ok(entry) => Ok(Some(read(page.page(), bucket.value(entry)))),
                Err(_) if has_chain(bucket, hash) => Err(()),
                Err(_) => Ok(None),
            };
            page.validate()?;
            Ok(found)
        })?;
        found.map_or_else(|()| self.read_chain(key, hash, read), Ok)
    }

    /// Gives `key` this value, whether it was there or not.
    ///
    /// # Errors
    /// [`HashError::EntryTooLong`], [`HashError::Crowded`], and those of the pool; nothing has changed
    /// then.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<Applied, HashError> {
        let (len, limit) = (key.len() + value.len(), self.max_entry_len());
        if len > limit {
            return Err(HashError::EntryTooLong { len, limit });
        }
        self.space.when_admitted(|| self.try_insert(key, KeyHash::of(key), value))
    }

    fn try_insert(&self, key: &[u8], hash: KeyHash, value: &[u8]) -> Result<Applied, HashError> {
        let len = key.len() + value.len();
        loop {
            let mut change = self.space.change(group_bytes(1, len))?;
            // By way of a variable: see `change.rs` of the pool on what moving a structure costs here.
            let mut written = Written::NoRoom;
            self.space.run(AccessHint::Normal, |attempt| {
                written = self.write_bucket(attempt, &mut change, key, hash, value)?;
                Ok(())
            })?;
            drop(change);
            match written {
                Written::Done { applied, .. } => return Ok(applied),
                Written::NoRoom => {
                    if !self.split_bucket(Newcomer { key, hash, value })? {
                        self.lengthen_chain(hash, len)?;
                    }
                }
                Written::Chained => {
                    if let Some(applied) = self.insert_into_chain(key, hash, value)? {
                        return Ok(applied);
                    }
                }
            }
        }
    }

    fn write_bucket<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        key: &[u8],
        hash: KeyHash,
        value: &[u8],
    ) -> Result<Written, Restart> {
        let page = bucket(&self.space, attempt, hash)?;
        let bucket = BucketRef::new(page.page());
        if bucket.has_next() {
            // BUCKET-5: a key with another hash than the chain's has to split the bucket first.
            let of_chain = bucket.chain_hash() == hash;
            page.validate()?;
            return Ok(if of_chain { Written::Chained } else { Written::NoRoom });
        }
        let entry = bucket.search(key, hash);
        // The upgrade goes through only if the page is still what was searched.
        let mut page = latch_bucket(attempt, page)?;
        if !BucketRef::new(page.page()).has_room(entry, key.len(), value.len()) {
            return Ok(Written::NoRoom);
        }
        change.clear();
        change.push(page.id(), &inserted(key, value, entry.is_err()));
        let lsn = change.commit(&mut [&mut page]);
        let mut bucket = BucketMut::new(page.page_mut());
        let done = match entry {
            Ok(entry) => bucket.replace(entry, key, value),
            Err(place) => bucket.insert(place, hash, key, value),
        };
        debug_assert!(done.is_ok(), "there was room");
        let effect = if entry.is_ok() { Effect::Same } else { Effect::Added };
        Ok(Written::Done { applied: Applied { effect, lsn }, underfull: false })
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn remove(&self, key: &[u8]) -> Result<Applied, HashError> {
        self.space.when_admitted(|| self.try_remove(key, KeyHash::of(key)))
    }

    fn try_remove(&self, key: &[u8], hash: KeyHash) -> Result<Applied, HashError> {
        let mut change = self.space.change(group_bytes(1, key.len()))?;
        let removed = self.space.run(AccessHint::Normal, |attempt| {
            self.remove_from_bucket(attempt, &mut change, key, hash)
        })?;
        drop(change);
        match removed {
            Written::Done { applied, underfull } => {
                if underfull {
                    // The entry is gone; a bucket that stays small is no fault.
                    let _ = self.merge_at(hash);
                }
                Ok(applied)
            }
            Written::NoRoom | Written::Chained => {
                let applied = self.remove_from_chain(key, hash)?;
                if applied.effect == Effect::Removed {
                    let _ = self.merge_at(hash);
                }
                Ok(applied)
            }
        }
    }

    fn remove_from_bucket<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        key: &[u8],
        hash: KeyHash,
    ) -> Result<Written, Restart> {
        let page = bucket(&self.space, attempt, hash)?;
        let bucket = BucketRef::new(page.page());
        if bucket.has_next() {
            page.validate()?;
            return Ok(Written::Chained);
        }
        let Ok(entry) = bucket.search(key, hash) else {
            let applied = Applied::unchanged(lsn_of(page.page()));
            page.validate()?;
            return Ok(Written::Done { applied, underfull: false });
        };
        let mut page = latch_bucket(attempt, page)?;
        change.clear();
        change.push(page.id(), &Operation::Remove { key });
        let lsn = change.commit(&mut [&mut page]);
        let mut bucket = BucketMut::new(page.page_mut());
        bucket.remove(entry);
        let bucket = bucket.bucket();
        // Less than a quarter full: worth a look at its buddy.
        let underfull = bucket.used_bytes() * 4 < bucket.usable_bytes();
        let applied = Applied { effect: Effect::Removed, lsn };
        Ok(Written::Done { applied, underfull })
    }
}

/// Latches a bucket to change it.
#[inline]
fn latch_bucket<'p>(
    attempt: &mut Attempt<'p>,
    page: Optimistic<'p>,
) -> Result<Exclusive<'p>, Restart> {
    latch_kind(attempt, page, PageKind::HASH_BUCKET, "this is no bucket of a hash index")
}

/// Whether a key with this hash that a bucket does not have may be in a chain behind it.
#[inline]
fn has_chain(bucket: BucketRef<'_>, hash: KeyHash) -> bool {
    bucket.has_next() && bucket.chain_hash() == hash
}
