//! Changing one key: inserting, removing, and both as an answer to what is there.
//!
//! A record is looked for in its leaf without a latch; the latch is then taken only if the leaf is
//! still what was searched. What a change frees or links elsewhere, the pages of long values, is
//! known before, and marked in the same group of the log.

use polder_format::PageNo;
use polder_format::log::Operation;
use polder_pool::journal::{group_bytes, mark_bytes};
use polder_pool::{AccessHint, Attempt, Change as LogChange, Restart, Space, Translation};
use polder_structure::levels::Rounds;
use polder_structure::page::lsn_of;
use polder_structure::{Applied, Effect};

use crate::descent::{Target, TreePages};
use crate::error::TreeError;
use crate::node::{NodeMut, NodeRef, Value};
use crate::overflow::{Long, free_pages};
use crate::read::Held;
use crate::reshape::{Newcomer, is_small};
use crate::stored::{Stored, check_key};
use crate::tree::Tree;
use crate::way::{latch_leaf, leaf};

/// What to do with a key, decided by [`Tree::update_with`]'s closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Leave it as it is.
    Keep,
    /// Give it this value, whether it was there or not.
    Insert(Vec<u8>),
    /// Remove it, if it is there.
    Remove,
}

/// What writing to a leaf came to.
enum Written {
    Done {
        applied: Applied,
        underfull: bool,
        /// What went was the long value whose pages were known.
        long_gone: bool,
    },
    NoRoom,
    /// The record is not the expected one.
    Changed,
    /// The record has a long value, whose pages must be known before it goes: once it is gone
    /// nothing may fail.
    HasLong,
}

/// The long value that is to be replaced or removed, the version of its record, and its pages once
/// they are known.
struct OldLong {
    version: u64,
    long: Long,
    pages: Vec<PageNo>,
}

impl OldLong {
    fn new() -> OldLong {
        OldLong { version: 0, long: Long { len: 0, link: 0 }, pages: Vec::new() }
    }
}

/// Which record a write may replace.
#[derive(Clone, Copy)]
enum Expect {
    Anything,
    /// None there (`None`), or one of this version.
    Version(Option<u64>),
}

impl<T: Translation> Tree<T> {
    /// Gives `key` this value and version word.
    ///
    /// # Errors
    /// [`TreeError::KeyTooLong`], [`TreeError::ValueTooLong`], and those of the pool; nothing has
    /// changed then.
    pub fn insert(&self, key: &[u8], value: &[u8], version: u64) -> Result<Applied, TreeError> {
        let put = self.put(key, value, version, Expect::Anything);
        put.map(|applied| applied.unwrap_or(Applied::NOTHING))
    }

    /// `None`: the record is not the expected one.
    fn put(
        &self,
        key: &[u8],
        value: &[u8],
        version: u64,
        expect: Expect,
    ) -> Result<Option<Applied>, TreeError> {
        self.space.patiently(|| {
            let stored = Stored::make(&self.space, key, value)?;
            let result = self.put_stored(key, &stored, version, expect);
            if !matches!(result, Ok(Some(_))) {
                free_pages(&self.space, stored.pages());
            }
            result
        })
    }

    fn put_stored(
        &self,
        key: &[u8],
        stored: &Stored<'_>,
        version: u64,
        expect: Expect,
    ) -> Result<Option<Applied>, TreeError> {
        let (mut old, mut rounds) = (OldLong::new(), Rounds::default());
        loop {
            let mut most = group_bytes(1, key.len() + stored.logged_len());
            if !stored.pages().is_empty() || !old.pages.is_empty() {
                most += mark_bytes(stored.pages()) + mark_bytes(&old.pages);
            }
            let mut change = self.space.change(most)?;
            // By way of a variable: see `change.rs` of the pool on what moving a structure costs here.
            let mut written = Written::Changed;
            self.space.run(AccessHint::Normal, |attempt| {
                written = self.write_leaf(
                    attempt,
                    &mut change,
                    key,
                    stored,
                    (version, expect),
                    &mut old,
                )?;
                Ok(())
            })?;
            drop(change);
            match written {
                Written::Done { applied, long_gone, .. } => {
                    if long_gone {
                        free_pages(&self.space, &old.pages);
                    }
                    return Ok(Some(applied));
                }
                Written::NoRoom => self.split_leaf(Newcomer::Entry(key, stored.as_new()))?,
                Written::Changed => return Ok(None),
                Written::HasLong => self.know_long(key, &mut old)?,
            }
            rounds.next::<TreePages, T>(&self.space, Target::Key(key))?;
        }
    }

    /// Finds out the pages of the long value; none if the record has been changed meanwhile.
    fn know_long(&self, key: &[u8], old: &mut OldLong) -> Result<(), TreeError> {
        old.pages = self.pages_of_long(key, old.version, old.long)?.unwrap_or_default();
        Ok(())
    }

    fn write_leaf<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut LogChange<'p>,
        key: &[u8],
        stored: &Stored<'_>,
        (version, expect): (u64, Expect),
        old: &mut OldLong,
    ) -> Result<Written, Restart> {
        let leaf = leaf(&self.space, attempt, Target::Key(key))?;
        let node = NodeRef::new(leaf.page());
        node.prefetch_free(stored.as_new());
        let slot = match find(node, key, expect, old) {
            Ok(slot) => slot,
            Err(in_the_way) => {
                leaf.validate()?;
                return Ok(in_the_way);
            }
        };
        if let Ok(slot) = slot {
            node.prefetch_record(slot, stored.as_new());
        }
        let long_gone = slot.is_ok_and(|slot| is_long(node, slot));
        // The upgrade goes through only if the page is still what was searched.
        let mut leaf = latch_leaf(attempt, leaf)?;
        mark_long(
            &self.space,
            attempt,
            change,
            stored.pages(),
            if long_gone { &old.pages } else { &[] },
        )?;
        let new = stored.as_new();
        if !NodeRef::new(leaf.page()).has_room(slot, key, new) {
            change.clear();
            return Ok(Written::NoRoom);
        }
        let effect = if slot.is_ok() { Effect::Same } else { Effect::Added };
        change.push(leaf.id(), &stored.logged(key, version, effect == Effect::Added));
        // Logged first: meanwhile the lines that will be written come into the cache.
        let lsn = change.commit(&mut [&mut leaf]);
        let mut node = NodeMut::new(leaf.page_mut());
        let done = match slot {
            Ok(slot) => node.replace_value(slot, version, new),
            Err(slot) => node.insert_entry(slot, key, version, new),
        };
        debug_assert!(done.is_ok(), "there was room");
        Ok(Written::Done { applied: Applied { effect, lsn }, underfull: false, long_gone })
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn remove(&self, key: &[u8]) -> Result<Applied, TreeError> {
        let removed = self.remove_expected(key, Expect::Anything);
        removed.map(|applied| applied.unwrap_or(Applied::NOTHING))
    }

    fn remove_expected(&self, key: &[u8], expect: Expect) -> Result<Option<Applied>, TreeError> {
        self.space.patiently(|| self.try_remove(key, expect))
    }

    fn try_remove(&self, key: &[u8], expect: Expect) -> Result<Option<Applied>, TreeError> {
        let (mut old, mut rounds) = (OldLong::new(), Rounds::default());
        loop {
            let most = group_bytes(1, key.len()) + mark_bytes(&old.pages);
            let mut change = self.space.change(most)?;
            let removed = self.space.run(AccessHint::Normal, |attempt| {
                self.remove_from_leaf(attempt, &mut change, key, expect, &mut old)
            })?;
            drop(change);
            match removed {
                Written::HasLong => {
                    self.know_long(key, &mut old)?;
                    rounds.next::<TreePages, T>(&self.space, Target::Key(key))?;
                }
                Written::Done { applied, underfull, long_gone } => {
                    if long_gone {
                        free_pages(&self.space, &old.pages);
                    }
                    if underfull {
                        // The entry is gone; a leaf that stays small is no fault.
                        let _ = self.merge_at(key);
                    }
                    return Ok(Some(applied));
                }
                Written::NoRoom | Written::Changed => return Ok(None),
            }
        }
    }

    fn remove_from_leaf<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut LogChange<'p>,
        key: &[u8],
        expect: Expect,
        old: &mut OldLong,
    ) -> Result<Written, Restart> {
        let leaf = leaf(&self.space, attempt, Target::Key(key))?;
        let node = NodeRef::new(leaf.page());
        let slot = match find(node, key, expect, old) {
            Ok(slot) => slot,
            Err(in_the_way) => {
                leaf.validate()?;
                return Ok(in_the_way);
            }
        };
        let Ok(slot) = slot else {
            let applied = Applied::unchanged(lsn_of(leaf.page()));
            leaf.validate()?;
            return Ok(Written::Done { applied, underfull: false, long_gone: false });
        };
        let long_gone = is_long(node, slot);
        let mut leaf = latch_leaf(attempt, leaf)?;
        mark_long(&self.space, attempt, change, &[], if long_gone { &old.pages } else { &[] })?;
        change.push(leaf.id(), &Operation::Remove { key });
        let lsn = change.commit(&mut [&mut leaf]);
        let mut node = NodeMut::new(leaf.page_mut());
        node.remove_entry(slot);
        let underfull = is_small(node.node());
        let applied = Applied { effect: Effect::Removed, lsn };
        Ok(Written::Done { applied, underfull, long_gone })
    }

    /// Reads, changes and writes one key as one step that no other write of the key comes into.
    ///
    /// `change` gets the value, or `None` without the key. It holds no latch, and is called again
    /// if the key was written meanwhile; `version` gives the version word for what it writes.
    ///
    /// # Errors
    /// Those of [`Tree::insert`].
    pub fn update_with(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Change,
        mut version: impl FnMut() -> u64,
    ) -> Result<Applied, TreeError> {
        check_key(&self.space, key)?;
        loop {
            let (record, lsn) = self.record_and_lsn(key)?;
            let unchanged = Applied::unchanged(lsn);
            let seen = record.as_ref().map(|record| record.version);
            let value = match record.map(|record| record.value) {
                None => None,
                Some(Held::Bytes(bytes)) => Some(bytes),
                Some(Held::Long(long)) => match self.read_long(key, seen.unwrap_or(0), long)? {
                    Some(bytes) => Some(bytes),
                    None => continue,
                },
            };
            let expect = Expect::Version(seen);
            let done = match change(value.as_deref()) {
                Change::Keep => Some(unchanged),
                Change::Insert(new) => self.put(key, &new, version(), expect)?,
                Change::Remove if seen.is_none() => Some(unchanged),
                Change::Remove => self.remove_expected(key, expect)?,
            };
            if let Some(applied) = done {
                return Ok(applied);
            }
        }
    }
}

/// Long values that come and go with a change of a leaf, which is latched: the maps of their
/// pages.
#[inline]
fn mark_long<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    change: &mut LogChange<'p>,
    linked: &[PageNo],
    freed: &[PageNo],
) -> Result<(), Restart> {
    change.clear();
    if linked.is_empty() && freed.is_empty() {
        return Ok(());
    }
    let mut mark = |pages: &[PageNo], used| {
        if pages.is_empty() { Ok(()) } else { change.mark(space, attempt, pages, used) }
    };
    let marked = mark(linked, true).and_then(|()| mark(freed, false));
    // No latch is held while the next try is waited for.
    marked.inspect_err(|_| change.clear())
}

/// The slot of a key as it is searched, if its record is the expected one and its long value, if it has
/// one, is known.
#[inline(always)]
fn find(
    node: NodeRef<'_>,
    key: &[u8],
    expect: Expect,
    old: &mut OldLong,
) -> Result<Result<usize, usize>, Written> {
    let slot = node.search_covered(key);
    if !expected(node, slot, expect) {
        return Err(Written::Changed);
    }
    if is_unknown_long(node, slot, old) {
        return Err(Written::HasLong);
    }
    Ok(slot)
}

fn expected(node: NodeRef<'_>, slot: Result<usize, usize>, expect: Expect) -> bool {
    match expect {
        Expect::Anything => true,
        Expect::Version(version) => slot.ok().map(|slot| node.version(slot)) == version,
    }
}

fn is_long(node: NodeRef<'_>, slot: usize) -> bool {
    matches!(node.value(slot), Value::Overflow { .. })
}

/// Whether the record in the slot has a long value other than the known one; `old` is that one
/// then, its pages unknown.
fn is_unknown_long(node: NodeRef<'_>, slot: Result<usize, usize>, old: &mut OldLong) -> bool {
    let Ok(slot) = slot else { return false };
    let Value::Overflow { len, link } = node.value(slot) else { return false };
    let version = node.version(slot);
    if !old.pages.is_empty() && old.version == version {
        return false;
    }
    *old = OldLong { version, long: Long { len, link }, pages: Vec::new() };
    true
}
