//! The index: opening, looking up, inserting, removing.

use std::fmt;
use std::mem::MaybeUninit;

use polder_format::log::{LoggedValue, Operation};
use polder_format::{Lsn, header_at};
use polder_pool::journal::{group_bytes, image_bytes, mark_bytes};
use polder_pool::{AccessHint, Attempt, Change, Exclusive, Optimistic};
use polder_pool::{Restart, Space, Translation};

use crate::bucket::{BucketMut, BucketRef, max_entry_len};
use crate::descent::{ROOT, bucket};
use crate::error::HashError;
use crate::hash::{KeyHash, Prefix};
use crate::page::broken;
use crate::reshape::push_bucket;

/// Values up to this length are copied to the stack before a user sees them.
const STACK_VALUE_BYTES: usize = 1024;

/// A hash index in a space of a pool. Cheap to clone.
///
/// ```
/// # use polder_format::{ChecksumSeed, PageSize, StoreId};
/// # use polder_pool::{Array, Pool, PoolConfig};
/// # use polder_testkit::{FaultPlan, SimDisk};
/// use polder_hash::{Effect, HashIndex, KINDS};
///
/// # let (size, seed) = (PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
/// # let config = PoolConfig::new(PoolConfig::least_budget(size), size, seed);
/// # let device = Box::new(SimDisk::new(FaultPlan::new(1)));
/// let pool: Pool<Array> = Pool::open(device, &config, &KINDS)?;
/// let index = HashIndex::create(pool.create_space()?)?;
/// assert_eq!(index.insert(b"polder", b"land")?.effect, Effect::Added);
/// assert_eq!(index.insert(b"polder", b"new land")?.effect, Effect::Same);
/// assert_eq!(index.get(b"polder")?.as_deref(), Some(&b"new land"[..]));
/// assert_eq!(index.get_with(b"polder", <[u8]>::len)?, Some(8));
/// assert_eq!(index.remove(b"polder")?.effect, Effect::Removed);
/// assert!(!index.contains_key(b"polder")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HashIndex<T: Translation> {
    pub(crate) space: Space<T>,
}

impl<T: Translation> Clone for HashIndex<T> {
    fn clone(&self) -> HashIndex<T> {
        HashIndex { space: self.space.clone() }
    }
}

impl<T: Translation> fmt::Debug for HashIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashIndex({:?})", self.space)
    }
}

/// What a change did to the number of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A key is new.
    Added,
    /// A key that was there is gone.
    Removed,
    /// As many as before.
    Same,
}

/// A change that was made, and logged if the pool has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// What it did to the number of entries.
    pub effect: Effect,
    /// Once the log is durable up to here, so is the change. If nothing was changed: what the answer
    /// rests on.
    pub lsn: Lsn,
}

/// What a lookup found.
enum Found {
    Nothing,
    /// This many bytes in the buffer.
    Copied(usize),
    /// A value that does not fit the buffer.
    Large,
    /// Nothing in the bucket, which has a chain of keys with this hash.
    Chained,
}

/// What writing to a bucket came to.
enum Written {
    Done { applied: Applied, underfull: bool },
    NoRoom,
    Chained,
}

impl<T: Translation> HashIndex<T> {
    /// Makes an empty index in a new space.
    ///
    /// # Errors
    /// Those of making a page; [`PoolError::Broken`](polder_pool::PoolError::Broken) if the space is
    /// not empty.
    pub fn create(space: Space<T>) -> Result<HashIndex<T>, HashError> {
        let root = space.create()?;
        let number = [root.id().page()];
        if number[0].get() != ROOT {
            let error = broken(root.id(), "the space of a new hash index is not empty");
            drop(root);
            space.free(number[0]);
            return Err(error.into());
        }
        space.patiently_holding(|| {
            let mut change =
                space.change(image_bytes(1, space.page_size()) + mark_bytes(&number))?;
            space.run(AccessHint::Normal, |attempt| {
                change.clear();
                let mut page = root.latch()?;
                page.excuse();
                BucketMut::new(page.page_mut()).init(Prefix::ALL);
                change.mark(&space, attempt, &number, true)?;
                push_bucket(&mut change, &mut page);
                change.commit(&mut [&mut page]);
                Ok(())
            })
        })?;
        drop(root);
        Ok(HashIndex { space })
    }

    /// The index of a space that has one.
    pub fn open(space: Space<T>) -> HashIndex<T> {
        HashIndex { space }
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }

    /// The longest entry in bytes, key and value together.
    pub fn max_entry_len(&self) -> usize {
        max_entry_len(self.space.page_size().bytes())
    }

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
                        Found::Large
                    }
                }
                Err(_) => absent(bucket, hash),
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
            Found::Large | Found::Chained => Ok(self.get(key)?.map(|value| read(&value))),
        }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, HashError> {
        let hash = KeyHash::of(key);
        let mut bytes = Vec::new();
        let found = self.space.run(AccessHint::Normal, |attempt| {
            bytes.clear();
            let page = bucket(&self.space, attempt, hash)?;
            let bucket = BucketRef::new(page.page());
            let found = match bucket.search(key, hash) {
                Ok(entry) => {
                    let value = bucket.value(entry);
                    page.page().append_to(value.at, value.len, &mut bytes);
                    Found::Large
                }
                Err(_) => absent(bucket, hash),
            };
            page.validate()?;
            Ok(found)
        })?;
        match found {
            Found::Chained => self.read_chain(key, hash, |page, value| {
                let mut bytes = Vec::new();
                page.append_to(value.at, value.len, &mut bytes);
                bytes
            }),
            Found::Nothing => Ok(None),
            _ => Ok(Some(bytes)),
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn contains_key(&self, key: &[u8]) -> Result<bool, HashError> {
        let hash = KeyHash::of(key);
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let page = bucket(&self.space, attempt, hash)?;
            let bucket = BucketRef::new(page.page());
            let entry = bucket.search(key, hash);
            let found = if entry.is_ok() { Found::Large } else { absent(bucket, hash) };
            page.validate()?;
            Ok(found)
        })?;
        match found {
            Found::Chained => Ok(self.read_chain(key, hash, |_, _| ())?.is_some()),
            Found::Nothing => Ok(false),
            _ => Ok(true),
        }
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
        self.space.patiently(|| self.try_insert(key, KeyHash::of(key), value))
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
                Written::NoRoom => self.split_bucket(key, hash, value)?,
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
        let mut page = attempt.upgrade(page)?;
        check_kind(attempt, &page)?;
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
        self.space.patiently(|| self.try_remove(key, KeyHash::of(key)))
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
            let applied = Applied { effect: Effect::Same, lsn: lsn_of(&page) };
            page.validate()?;
            return Ok(Written::Done { applied, underfull: false });
        };
        let mut page = attempt.upgrade(page)?;
        check_kind(attempt, &page)?;
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

/// Nobody writes to a page that is no bucket, whatever leads there.
#[inline]
fn check_kind(attempt: &mut Attempt<'_>, page: &Exclusive<'_>) -> Result<(), Restart> {
    match BucketRef::new(page.page()).is_bucket() {
        true => Ok(()),
        false => Err(attempt.fail(broken(page.id(), "this is no bucket of a hash index"))),
    }
}

/// What it means that a bucket does not have a key.
#[inline]
fn absent(bucket: BucketRef<'_>, hash: KeyHash) -> Found {
    match bucket.has_next() && bucket.chain_hash() == hash {
        true => Found::Chained,
        false => Found::Nothing,
    }
}

/// The record of an insert. Entries have no version word.
pub(crate) fn inserted<'a>(key: &'a [u8], value: &'a [u8], added: bool) -> Operation<'a> {
    Operation::Insert { added, version: 0, key, value: LoggedValue::Inline(value) }
}

/// The last change of a page, if the guard validates afterwards.
pub(crate) fn lsn_of(page: &Optimistic<'_>) -> Lsn {
    Lsn(page.page().u64(header_at::LSN))
}
