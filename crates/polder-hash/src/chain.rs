//! Buckets that no split makes smaller: more keys with one and the same hash than a page holds.
//!
//! Such a bucket goes on in further pages, up to [`MAX_CHAIN`] in all; all of its keys have the
//! chain's hash (`BUCKET-5`), so that no other hash leads into the chain. A key with another hash
//! that comes to the bucket splits it first, which moves no entry: one side is empty, and the
//! chain stays with its first page.
//!
//! * `HCHAIN-1` An operation that changes a page of a chain holds all of them exclusively, from
//!   the first one on.
//! * `HCHAIN-2` A reader of a chain validates all of its pages when the last one has been read. So
//!   what was seen is one state, and a key that moves from page to page is seen once.
//!
//! The bound is what makes that possible: an operation holds few pages at once, and keeps them
//! resident while it runs.

use polder_format::Lsn;
use polder_format::log::Operation;
use polder_pool::bytes::PageRef;
use polder_pool::journal::{full_page_image_bytes, group_bytes, mark_bytes};
use polder_pool::{AccessHint, Attempt, Change, Exclusive, LinkRef, NewPage, Optimistic};
use polder_pool::{Restart, Translation};
use polder_structure::levels::{confirm, too_deep};
use polder_structure::page::{bytes_of, fail, lsn_of};
use polder_structure::{Applied, Effect};

use crate::bucket::{BucketMut, BucketRef, at};
use crate::descent::bucket;
use crate::error::HashError;
use crate::handle::{HashIndex, inserted};
use crate::hash::{KeyHash, Prefix};
use crate::page::{MAX_CHAIN, verify_below};
use crate::reshape::push_page;

/// What a write to a chain came to.
enum Written {
    Done(Applied),
    /// The bucket has no chain any more, or one of another hash.
    Elsewhere,
    NoRoom,
}

/// How making a chain longer ended.
enum Grown {
    /// It is, or need not be.
    Done {
        used: bool,
    },
    Crowded,
}

/// A key's page in its chain, and the number of its entry there.
type Found = Option<(usize, usize)>;

fn search(pages: &[Optimistic<'_>], key: &[u8], hash: KeyHash) -> Found {
    let entry = |page: &Optimistic<'_>| BucketRef::new(page.page()).search(key, hash).ok();
    pages.iter().enumerate().find_map(|(i, page)| Some((i, entry(page)?)))
}

/// Holds all pages of a chain exclusively, from the first one on (`HCHAIN-1`).
fn upgrade_all<'p>(
    attempt: &mut Attempt<'p>,
    pages: Vec<Optimistic<'p>>,
) -> Result<Vec<Exclusive<'p>>, Restart> {
    pages.into_iter().map(|page| attempt.upgrade(page)).collect()
}

/// Validates all pages of a chain (`HCHAIN-2`).
pub(crate) fn validate_all(pages: &[Optimistic<'_>]) -> Result<(), Restart> {
    pages.iter().try_for_each(Optimistic::validate)
}

/// Adds records of a page's link to the next one.
fn push_next(change: &mut Change<'_>, page: &Exclusive<'_>) {
    let next = BucketRef::new(page.page()).next();
    let mut bytes = bytes_of(page, at::NEXT..at::CHAIN_HASH + 8);
    bytes[..8].copy_from_slice(&next.to_le_bytes());
    change.push(page.id(), &Operation::Patch { offset: at::NEXT as u32, backed: 0, bytes: &bytes });
}

impl<T: Translation> HashIndex<T> {
    /// The bucket for a hash and the pages that it goes on in.
    pub(crate) fn chain<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        hash: KeyHash,
    ) -> Result<Vec<Optimistic<'p>>, Restart> {
        let first = bucket(&self.space, attempt, hash)?;
        self.rest_of_chain(attempt, first, vec![first])
    }

    /// A chain of which these pages are known, `last` being the last one of them.
    fn rest_of_chain<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        mut last: Optimistic<'p>,
        mut pages: Vec<Optimistic<'p>>,
    ) -> Result<Vec<Optimistic<'p>>, Restart> {
        while BucketRef::new(last.page()).has_next() {
            if pages.len() == MAX_CHAIN {
                // Pages of different times can be more than there were at any time.
                validate_all(&pages)?;
                return Err(too_deep(attempt, last));
            }
            let prefix = Prefix::only(BucketRef::new(last.page()).chain_hash());
            let link = LinkRef::InPage(last.page(), at::NEXT);
            last = self.space.follow(attempt, link, Some(&last))?;
            confirm(attempt, &[last], verify_below(last.page(), 0, prefix))?;
            pages.push(last);
        }
        Ok(pages)
    }

    /// Reads the value of a key that its bucket does not have, but perhaps the chain behind it.
    #[cold]
    pub(crate) fn read_chain<R>(
        &self,
        key: &[u8],
        hash: KeyHash,
        mut read: impl FnMut(PageRef<'_>, crate::bucket::Run) -> R,
    ) -> Result<Option<R>, HashError> {
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let pages = self.chain(attempt, hash)?;
            let found = search(&pages, key, hash).map(|(page, entry)| {
                let bucket = BucketRef::new(pages[page].page());
                read(bucket.page(), bucket.value(entry))
            });
            validate_all(&pages)?;
            Ok(found)
        })?;
        Ok(found)
    }

    /// Inserts into a bucket with a chain. `None` if it has none any more, or one of another hash.
    #[cold]
    pub(crate) fn insert_into_chain(
        &self,
        key: &[u8],
        hash: KeyHash,
        value: &[u8],
    ) -> Result<Option<Applied>, HashError> {
        loop {
            let most = group_bytes(2, 2 * key.len() + value.len());
            let mut change = self.space.change(most)?;
            let written = self.space.run(AccessHint::Normal, |attempt| {
                change.clear();
                let pages = self.chain(attempt, hash)?;
                write(attempt, &mut change, pages, (key, hash, value))
            })?;
            drop(change);
            match written {
                Written::Done(applied) => return Ok(Some(applied)),
                Written::Elsewhere => return Ok(None),
                Written::NoRoom => self.lengthen_chain(hash, key.len() + value.len())?,
            }
        }
    }

    /// Gives a bucket whose keys all have this hash one page more, if an entry of so many bytes has room
    /// in none.
    pub(crate) fn lengthen_chain(&self, hash: KeyHash, len: usize) -> Result<(), HashError> {
        let new = self.space.create()?;
        let number = [new.id().page()];
        let most = full_page_image_bytes(1, self.space.page_size()) + group_bytes(1, 16);
        let result = self.space.change(most + mark_bytes(&number)).and_then(|mut change| {
            self.space.run(AccessHint::Normal, |attempt| {
                change.clear();
                self.try_lengthen(attempt, &mut change, &new, hash, len)
            })
        });
        if !matches!(result, Ok(Grown::Done { used: true })) {
            drop(new);
            self.space.free(number[0]);
        }
        if matches!(result?, Grown::Crowded) { Err(HashError::Crowded) } else { Ok(()) }
    }

    fn try_lengthen<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        new: &NewPage<'p>,
        hash: KeyHash,
        len: usize,
    ) -> Result<Grown, Restart> {
        let pages = self.chain(attempt, hash)?;
        let mut pages = upgrade_all(attempt, pages)?;
        let first = BucketRef::new(pages[0].page());
        let of_others = first.has_next() && first.chain_hash() != hash;
        let buckets = || pages.iter().map(|page| BucketRef::new(page.page()));
        let has_room = buckets().any(|bucket| bucket.has_room(Err(0), len, 0));
        if of_others || has_room {
            return Ok(Grown::Done { used: false });
        }
        if !buckets().all(|bucket| bucket.all_have(hash)) {
            if !first.has_next() {
                return Ok(Grown::Done { used: false });
            }
            return Err(fail(attempt, pages[0].id(), "a chain has keys with another hash"));
        }
        if pages.len() == MAX_CHAIN {
            return Ok(Grown::Crowded);
        }
        let Some(last) = pages.last_mut() else { return Err(Restart) };
        let mut held = new.latch()?;
        change.mark(&self.space, attempt, &[new.id().page()], true)?;
        BucketMut::new(held.page_mut()).init(Prefix::only(hash));
        BucketMut::new(last.page_mut()).set_next(new.id().to_bits(), hash);
        push_next(change, last);
        push_page(change, &mut held);
        change.commit(&mut [last, &mut held]);
        Ok(Grown::Done { used: true })
    }

    /// Removes a key from a bucket with a chain.
    #[cold]
    pub(crate) fn remove_from_chain(
        &self,
        key: &[u8],
        hash: KeyHash,
    ) -> Result<Applied, HashError> {
        let mut change = self.space.change(group_bytes(1, key.len()))?;
        let (applied, empty) = self.space.run(AccessHint::Normal, |attempt| {
            change.clear();
            let pages = self.chain(attempt, hash)?;
            let Some((page, entry)) = search(&pages, key, hash) else {
                let lsn = pages.iter().map(|page| lsn_of(page.page())).max().unwrap_or(Lsn(0));
                validate_all(&pages)?;
                return Ok((Applied::unchanged(lsn), false));
            };
            let mut pages = upgrade_all(attempt, pages)?;
            let held = &mut pages[page];
            change.push(held.id(), &Operation::Remove { key });
            let lsn = change.commit(&mut [held]);
            BucketMut::new(held.page_mut()).remove(entry);
            let empty = page > 0 && BucketRef::new(held.page()).count() == 0;
            Ok((Applied { effect: Effect::Removed, lsn }, empty))
        })?;
        drop(change);
        if empty {
            // The entry is gone; an empty page in a chain is no fault.
            let _ = self.shorten_chain(hash);
        }
        Ok(applied)
    }

    /// Takes an empty page out of the chain for a hash, if there is one behind the first.
    fn shorten_chain(&self, hash: KeyHash) -> Result<(), HashError> {
        let mut change = self.space.change(group_bytes(3, 32))?;
        let freed = self.space.run(AccessHint::Normal, |attempt| {
            change.clear();
            let pages = self.chain(attempt, hash)?;
            let mut pages = upgrade_all(attempt, pages)?;
            let is_empty = |page: &Exclusive<'_>| BucketRef::new(page.page()).count() == 0;
            let Some(empty) = pages.iter().skip(1).position(is_empty).map(|i| i + 1) else {
                return Ok(None);
            };
            let gone = pages.remove(empty);
            let before = &mut pages[empty - 1];
            change.mark(&self.space, attempt, &[gone.id().page()], false)?;
            let next = BucketRef::new(gone.page()).next();
            BucketMut::new(before.page_mut()).set_next(next, hash);
            push_next(&mut change, before);
            change.commit(&mut [before]);
            drop(pages);
            Ok(Some(self.space.discard(gone)))
        })?;
        drop(change);
        freed.into_iter().for_each(|page| self.space.give_back(page));
        Ok(())
    }
}

fn write<'p>(
    attempt: &mut Attempt<'p>,
    change: &mut Change<'p>,
    pages: Vec<Optimistic<'p>>,
    (key, hash, value): (&[u8], KeyHash, &[u8]),
) -> Result<Written, Restart> {
    let first = BucketRef::new(pages[0].page());
    if !first.has_next() || first.chain_hash() != hash {
        pages[0].validate()?;
        return Ok(Written::Elsewhere);
    }
    let found = search(&pages, key, hash);
    let mut pages = upgrade_all(attempt, pages)?;
    let room = |page: &Exclusive<'_>, entry: Result<usize, usize>| {
        BucketRef::new(page.page()).has_room(entry, key.len(), value.len())
    };
    if let Some((page, entry)) = found.filter(|(page, entry)| room(&pages[*page], Ok(*entry))) {
        let held = &mut pages[page];
        change.push(held.id(), &inserted(key, value, false));
        let lsn = change.commit(&mut [held]);
        let replaced = BucketMut::new(held.page_mut()).replace(entry, key, value);
        debug_assert!(replaced.is_ok(), "there was room");
        return Ok(Written::Done(Applied { effect: Effect::Same, lsn }));
    }
    let Some(to) = pages.iter().position(|page| room(page, Err(0))) else {
        return Ok(Written::NoRoom);
    };
    let insert = |held: &mut Exclusive<'_>| {
        let (Ok(at) | Err(at)) = BucketRef::new(held.page()).search(key, hash);
        let done = BucketMut::new(held.page_mut()).insert(at, hash, key, value);
        debug_assert!(done.is_ok(), "there was room");
    };
    let id = pages[to].id();
    let Some((from, entry)) = found else {
        change.push(id, &inserted(key, value, true));
        let lsn = change.commit(&mut [&mut pages[to]]);
        insert(&mut pages[to]);
        return Ok(Written::Done(Applied { effect: Effect::Added, lsn }));
    };
    // To another page of the chain, in one group: one entry less, and one more.
    let Ok([old, new]) = pages.get_disjoint_mut([from, to]) else { return Err(Restart) };
    change.push(old.id(), &Operation::Remove { key });
    change.push(id, &inserted(key, value, true));
    let lsn = change.commit(&mut [old, new]);
    BucketMut::new(old.page_mut()).remove(entry);
    insert(new);
    Ok(Written::Done(Applied { effect: Effect::Same, lsn }))
}

#[cfg(test)]
mod tests {
    use polder_format::{ChecksumSeed, PageSize, StoreId};
    use polder_pool::{Array, Pool, PoolConfig};
    use polder_testkit::{FaultPlan, SimDisk};

    use super::*;
    use crate::KINDS;
    use crate::hash::step;

    /// A key with the hash that all of these keys have.
    fn key(number: u64) -> Vec<u8> {
        let behind_first = step(step(16) ^ number);
        [number.to_le_bytes(), behind_first.to_le_bytes()].concat()
    }

    /// A reader is on its way in a chain of as many pages as there can be. One that it has passed goes,
    /// and another one comes at the end: it sees one page more than there ever were.
    #[test]
    fn a_chain_that_changes_under_a_reader_is_no_circle() {
        let config = PoolConfig::new(8 << 20, PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
        let disk = Box::new(SimDisk::new(FaultPlan::new(1)));
        let pool: Pool<Array> = Pool::open(disk, &config, &KINDS).unwrap();
        let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
        let hash = KeyHash::of(&key(0));
        let fill = |from: u64| {
            (from..).find(|number| index.insert(&key(*number), &[1; 900]).is_err()).unwrap()
        };
        let refused = fill(0);
        let mut tries = 0;
        let found = index.space.run(AccessHint::Normal, |attempt| {
            let mut pages = index.chain(attempt, hash)?;
            assert_eq!(pages.len(), MAX_CHAIN);
            tries += 1;
            if tries == 1 {
                pages.truncate(3);
                let gone = (0..refused).filter(|number| {
                    let entry = BucketRef::new(pages[1].page()).search(&key(*number), hash);
                    entry.is_ok()
                });
                for number in gone.collect::<Vec<_>>() {
                    index.remove(&key(number)).unwrap();
                }
                fill(refused);
            }
            let last = pages[pages.len() - 1];
            let pages = index.rest_of_chain(attempt, last, pages)?;
            validate_all(&pages)?;
            Ok(pages.len())
        });
        assert_eq!(found.unwrap(), MAX_CHAIN);
        assert_eq!(tries, 2);
    }
}
