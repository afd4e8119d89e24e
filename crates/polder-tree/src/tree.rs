//! The tree: opening, looking up, inserting, removing.

use std::fmt;
use std::mem::MaybeUninit;

use polder_format::log::{LoggedValue, Operation};
use polder_format::{Lsn, PageNo, header_at};
use polder_pool::journal::{group_bytes, image_bytes, mark_bytes};
use polder_pool::{AccessHint, Attempt, Change as LogChange, Optimistic};
use polder_pool::{PoolError, Restart, Space, Translation};

use crate::descent::{ROOT, Rounds, Target, latch_leaf, leaf};
use crate::error::TreeError;
use crate::node::{MAX_VALUE_BYTES, NewValue, NodeMut, NodeRef, Value, max_key_len, must_overflow};
use crate::overflow::Long;

/// Inline values up to this length are copied to the stack before a user sees them.
const STACK_VALUE_BYTES: usize = 1024;

/// A B+tree in a space of a pool. Cheap to clone.
pub struct Tree<T: Translation> {
    pub(crate) space: Space<T>,
}

impl<T: Translation> Clone for Tree<T> {
    fn clone(&self) -> Tree<T> {
        Tree { space: self.space.clone() }
    }
}

impl<T: Translation> fmt::Debug for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({:?})", self.space)
    }
}

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
enum Found<'b, V> {
    Nothing,
    /// These bytes, in the buffer, and what else was read.
    Copied(&'b [u8], V),
    /// A value that does not fit the buffer, or lies in overflow pages.
    Large,
}

/// A value as it goes into a leaf.
pub(crate) enum Stored<'v> {
    Inline(&'v [u8]),
    /// In these pages.
    Long(Long, Vec<PageNo>),
}

impl Stored<'_> {
    pub(crate) fn as_new(&self) -> NewValue<'_> {
        match self {
            Stored::Inline(bytes) => NewValue::Inline(bytes),
            Stored::Long(long, _) => NewValue::Overflow { len: long.len, link: long.link },
        }
    }

    fn as_logged(&self) -> LoggedValue<'_> {
        match self {
            Stored::Inline(bytes) => LoggedValue::Inline(bytes),
            Stored::Long(long, _) => LoggedValue::Long { len: long.len, link: long.link },
        }
    }

    /// The pages of a long value.
    pub(crate) fn pages(&self) -> &[PageNo] {
        match self {
            Stored::Inline(_) => &[],
            Stored::Long(_, pages) => pages,
        }
    }

    /// The record of an insert.
    pub(crate) fn logged<'a>(&'a self, key: &'a [u8], version: u64, added: bool) -> Operation<'a> {
        Operation::Insert { added, version, key, value: self.as_logged() }
    }

    /// Bytes of that record that are neither header nor key.
    pub(crate) fn logged_len(&self) -> usize {
        match self {
            Stored::Inline(bytes) => bytes.len(),
            Stored::Long(..) => 16,
        }
    }
}

/// A value's record as it was found.
pub(crate) struct Record {
    pub(crate) version: u64,
    pub(crate) value: Held,
}

pub(crate) enum Held {
    Bytes(Vec<u8>),
    Long(Long),
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
    /// Makes an empty tree in a new space.
    ///
    /// # Errors
    /// Those of making a page.
    pub fn create(space: Space<T>) -> Result<Tree<T>, TreeError> {
        let root = space.create()?;
        if root.id().page().get() != ROOT {
            let what = "the space of a new tree is not empty";
            return Err(PoolError::Broken { page: root.id(), what }.into());
        }
        let number = [root.id().page()];
        space.patiently_holding(|| {
            let mut change =
                space.change(image_bytes(1, space.page_size()) + mark_bytes(&number))?;
            space.run(AccessHint::Normal, |attempt| {
                change.clear();
                let mut page = root.latch()?;
                page.excuse();
                NodeMut::new(page.page_mut()).init(0, None, None, 0, 0);
                change.mark(&space, attempt, &number, true)?;
                let hole = NodeRef::new(page.page()).hole();
                change.push_image(&mut page, hole);
                change.commit(&mut [&mut page]);
                Ok(())
            })
        })?;
        drop(root);
        Ok(Tree { space })
    }

    /// The tree of a space that has one.
    pub fn open(space: Space<T>) -> Tree<T> {
        Tree { space }
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.space.page_size().bytes()
    }

    pub(crate) fn root() -> PageNo {
        PageNo::new(ROOT).unwrap_or(PageNo::MAX)
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
    ) -> Result<Option<R>, TreeError> {
        let mut buffer = [const { MaybeUninit::uninit() }; STACK_VALUE_BYTES];
        match self.copy_value(key, &mut buffer, |_, _| ())? {
            Found::Nothing => Ok(None),
            Found::Copied(value, ()) => Ok(Some(read(value))),
            Found::Large => Ok(self.get(key)?.map(|value| read(&value))),
        }
    }

    /// Calls `read` with the version word and the value of `key`, as [`Tree::get_with`] does.
    ///
    /// # Errors
    /// Those of loading pages.
    #[inline]
    pub fn versioned_with<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(u64, &[u8]) -> R,
    ) -> Result<Option<R>, TreeError> {
        let mut buffer = [const { MaybeUninit::uninit() }; STACK_VALUE_BYTES];
        match self.copy_value(key, &mut buffer, |node, slot| node.version(slot))? {
            Found::Nothing => Ok(None),
            Found::Copied(value, version) => Ok(Some(read(version, value))),
            Found::Large => Ok(self.versioned(key)?.map(|(version, value)| read(version, &value))),
        }
    }

    /// Copies the value of `key`, if it fits, and what else is to be read of its record: a lookup
    /// of the value alone loads nothing else.
    #[inline(always)]
    fn copy_value<'b, V>(
        &self,
        key: &[u8],
        buffer: &'b mut [MaybeUninit<u8>; STACK_VALUE_BYTES],
        of_record: impl Fn(NodeRef<'_>, usize) -> V,
    ) -> Result<Found<'b, V>, TreeError> {
        let mut copied = None;
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let leaf = leaf(&self.space, attempt, Target::Key(key))?;
            let node = NodeRef::new(leaf.page());
            copied = None;
            let found = match node.search_covered(key) {
                Err(_) => false,
                Ok(slot) => {
                    if let Value::Inline { at, len } = node.value(slot)
                        && len <= STACK_VALUE_BYTES
                    {
                        let len = leaf.page().copy_to_uninit(at, len, buffer).len();
                        copied = Some((len, of_record(node, slot)));
                    }
                    true
                }
            };
            leaf.validate()?;
            Ok(found)
        })?;
        Ok(match (found, copied) {
            (false, _) => Found::Nothing,
            (true, None) => Found::Large,
            (true, Some((len, more))) => {
                // SAFETY: copy_to_uninit has filled the first `len` bytes in the last attempt.
                Found::Copied(unsafe { buffer[..len].assume_init_ref() }, more)
            }
        })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TreeError> {
        Ok(self.versioned(key)?.map(|(_, value)| value))
    }

    /// The version word and the value of `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn versioned(&self, key: &[u8]) -> Result<Option<(u64, Vec<u8>)>, TreeError> {
        loop {
            let Some(record) = self.record(key)? else { return Ok(None) };
            let version = record.version;
            match record.value {
                Held::Bytes(bytes) => return Ok(Some((version, bytes))),
                Held::Long(long) => {
                    if let Some(bytes) = self.read_long(key, version, long)? {
                        return Ok(Some((version, bytes)));
                    }
                }
            }
        }
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn contains_key(&self, key: &[u8]) -> Result<bool, TreeError> {
        Ok(self.version(key)?.is_some())
    }

    /// The version word of `key`'s record.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn version(&self, key: &[u8]) -> Result<Option<u64>, TreeError> {
        let found = self.space.run(AccessHint::Normal, |attempt| {
            let leaf = leaf(&self.space, attempt, Target::Key(key))?;
            let node = NodeRef::new(leaf.page());
            let version = node.search_covered(key).ok().map(|slot| node.version(slot));
            leaf.validate()?;
            Ok(version)
        })?;
        Ok(found)
    }

    /// The record of `key`, as one state of the leaf.
    pub(crate) fn record(&self, key: &[u8]) -> Result<Option<Record>, TreeError> {
        Ok(self.record_and_lsn(key)?.0)
    }

    /// The record, and the LSN of the leaf that has it or would have it.
    fn record_and_lsn(&self, key: &[u8]) -> Result<(Option<Record>, Lsn), TreeError> {
        let mut bytes = Vec::new();
        let found = self.space.run(AccessHint::Normal, |attempt| {
            bytes.clear();
            let leaf = leaf(&self.space, attempt, Target::Key(key))?;
            let node = NodeRef::new(leaf.page());
            let found = node.search_covered(key).ok().map(|slot| {
                let long = match node.value(slot) {
                    Value::Inline { at, len } => {
                        leaf.page().append_to(at, len, &mut bytes);
                        None
                    }
                    Value::Overflow { len, link } => Some(Long { len, link }),
                };
                (node.version(slot), long)
            });
            let lsn = lsn_of(&leaf);
            leaf.validate()?;
            Ok((found, lsn))
        })?;
        let record = found.0.map(|(version, long)| Record {
            version,
            value: long.map_or_else(|| Held::Bytes(bytes), Held::Long),
        });
        Ok((record, found.1))
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), TreeError> {
        let (len, limit) = (key.len(), max_key_len(self.page_bytes()));
        if len > limit { Err(TreeError::KeyTooLong { len, limit }) } else { Ok(()) }
    }

    /// Writes the overflow pages of a value that needs them.
    pub(crate) fn store<'v>(&self, key: &[u8], value: &'v [u8]) -> Result<Stored<'v>, TreeError> {
        self.check_key(key)?;
        if value.len() as u64 > MAX_VALUE_BYTES {
            return Err(TreeError::ValueTooLong { len: value.len() });
        }
        if must_overflow(self.page_bytes(), key.len(), value.len()) {
            let (long, pages) = self.write_long(value)?;
            Ok(Stored::Long(long, pages))
        } else {
            Ok(Stored::Inline(value))
        }
    }

    /// Gives `key` this value and version word.
    ///
    /// # Errors
    /// [`TreeError::KeyTooLong`], [`TreeError::ValueTooLong`], and those of the pool; nothing has
    /// changed then.
    pub fn insert(&self, key: &[u8], value: &[u8], version: u64) -> Result<Applied, TreeError> {
        self.put(key, value, version, Expect::Anything).map(|applied| applied.unwrap_or(NOTHING))
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
            let stored = self.store(key, value)?;
            let result = self.put_stored(key, &stored, version, expect);
            if !matches!(result, Ok(Some(_))) {
                self.free_pages(stored.pages());
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
                        self.free_pages(&old.pages);
                    }
                    return Ok(Some(applied));
                }
                Written::NoRoom => self.split_leaf(key, stored.as_new())?,
                Written::Changed => return Ok(None),
                Written::HasLong => self.know_long(key, &mut old)?,
            }
            rounds.next(self, key)?;
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
        let slot = node.search_covered(key);
        if !expected(node, slot, expect) {
            leaf.validate()?;
            return Ok(Written::Changed);
        }
        if is_unknown_long(node, slot, old) {
            leaf.validate()?;
            return Ok(Written::HasLong);
        }
        if let Ok(slot) = slot {
            node.prefetch_record(slot, stored.as_new());
        }
        let long_gone = slot.is_ok_and(|slot| is_long(node, slot));
        // The upgrade goes through only if the page is still what was searched.
        let mut leaf = latch_leaf(attempt, leaf)?;
        self.mark_long(attempt, change, stored.pages(), if long_gone { &old.pages } else { &[] })?;
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

    /// Long values that come and go with a change of a leaf, which is latched: the maps of their
    /// pages.
    #[inline]
    fn mark_long<'p>(
        &'p self,
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
            if pages.is_empty() { Ok(()) } else { change.mark(&self.space, attempt, pages, used) }
        };
        let marked = mark(linked, true).and_then(|()| mark(freed, false));
        // No latch is held while the next try is waited for.
        marked.inspect_err(|_| change.clear())
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn remove(&self, key: &[u8]) -> Result<Applied, TreeError> {
        self.remove_expected(key, Expect::Anything).map(|applied| applied.unwrap_or(NOTHING))
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
                    rounds.next(self, key)?;
                }
                Written::Done { applied, underfull, long_gone } => {
                    if long_gone {
                        self.free_pages(&old.pages);
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
        let slot = node.search_covered(key);
        if !expected(node, slot, expect) {
            leaf.validate()?;
            return Ok(Written::Changed);
        }
        if is_unknown_long(node, slot, old) {
            leaf.validate()?;
            return Ok(Written::HasLong);
        }
        let Ok(slot) = slot else {
            let applied = Applied { effect: Effect::Same, lsn: lsn_of(&leaf) };
            leaf.validate()?;
            return Ok(Written::Done { applied, underfull: false, long_gone: false });
        };
        let long_gone = is_long(node, slot);
        let mut leaf = latch_leaf(attempt, leaf)?;
        self.mark_long(attempt, change, &[], if long_gone { &old.pages } else { &[] })?;
        change.push(leaf.id(), &Operation::Remove { key });
        let lsn = change.commit(&mut [&mut leaf]);
        let mut node = NodeMut::new(leaf.page_mut());
        node.remove_entry(slot);
        let underfull = is_underfull(node.node());
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
        self.check_key(key)?;
        loop {
            let (record, lsn) = self.record_and_lsn(key)?;
            let unchanged = Applied { effect: Effect::Same, lsn };
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

/// Nothing was changed, and nothing looked at.
const NOTHING: Applied = Applied { effect: Effect::Same, lsn: Lsn(0) };

/// The last change of a page, if the guard validates afterwards.
fn lsn_of(page: &Optimistic<'_>) -> Lsn {
    Lsn(page.page().u64(header_at::LSN))
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

/// Less than a quarter full: worth a look at its neighbour.
pub(crate) fn is_underfull(node: NodeRef<'_>) -> bool {
    node.used_bytes() * 4 < node.usable_bytes()
}
