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
use crate::overflow::{Chain, Long, SeenChain, free_pages};
use crate::read::Held;
use crate::reshape::{Newcomer, is_small};
use crate::stored::{Stored, check_key};
use crate::tree::Tree;
use crate::way::{latch_leaf, leaf};

/// What to do with a key: what the closure of an update answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Leave it as it is.
    Keep,
    /// Give it this value, whether it was there or not.
    Insert(Vec<u8>),
    /// Remove it, if it is there.
    Remove,
}

/// What is to become of a key's record.
#[derive(Clone, Copy)]
enum Wanted<'v> {
    /// It has this value, and this version word.
    Value(&'v Stored<'v>, u64),
    /// It is gone.
    Nothing,
}

impl<'v> Wanted<'v> {
    /// What of it goes into the log: bytes of the record besides the key, and pages that are linked.
    #[inline(always)]
    fn log_content(self) -> (usize, &'v [PageNo]) {
        match self {
            Wanted::Value(stored, _) => (stored.logged_len(), stored.pages()),
            Wanted::Nothing => (0, &[]),
        }
    }
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

/// The long value that is to be replaced or removed, and its chain once that is known.
#[derive(Default)]
struct OldLong {
    seen: SeenChain,
    chain: Chain,
}

impl OldLong {
    fn pages(&self) -> &[PageNo] {
        &self.chain.pages
    }
}

/// Where the value is kept that a write replaces or removes, for a caller that wants it.
///
/// It is copied before the leaf is latched, which happens only if the leaf is still what was copied
/// from. A caller that does not want it gives `()`, and nothing is left of all this.
trait Keep {
    /// What is kept, if it is wanted.
    fn wanted(&mut self) -> Option<&mut Kept>;
}

impl Keep for () {
    #[inline(always)]
    fn wanted(&mut self) -> Option<&mut Kept> {
        None
    }
}

impl Keep for Kept {
    #[inline(always)]
    fn wanted(&mut self) -> Option<&mut Kept> {
        Some(self)
    }
}

/// The value that was there. Each try begins anew, but with what is known of a long value.
#[derive(Default)]
struct Kept {
    found: KeptValue,
    inline: Vec<u8>,
    /// That of the record whose pages are known, too ([`OldLong`]).
    long: Vec<u8>,
}

#[derive(Default)]
enum KeptValue {
    #[default]
    Nothing,
    Inline,
    Long,
}

impl Kept {
    /// Copies what the slot has, if it is that of the key.
    fn copy(&mut self, node: NodeRef<'_>, slot: Result<usize, usize>) {
        self.found = match slot.map(|slot| node.value(slot)) {
            Err(_) => KeptValue::Nothing,
            Ok(Value::Inline { at, len }) => {
                self.inline.clear();
                node.page().append_to(at, len, &mut self.inline);
                KeptValue::Inline
            }
            Ok(Value::Overflow { .. }) => KeptValue::Long,
        };
    }

    fn into_value(self) -> Option<Vec<u8>> {
        match self.found {
            KeptValue::Nothing => None,
            KeptValue::Inline => Some(self.inline),
            KeptValue::Long => Some(self.long),
        }
    }
}

// The callers of `Tree::change`.
const INSERTS: u8 = 0;
const REMOVES: u8 = 1;
const RELINKS: u8 = 2;

/// Which record a write may replace.
#[derive(Clone, Copy)]
enum Expect {
    Anything,
    /// None there (`None`), or one of this version.
    Version(Option<u64>),
    /// One of this version, with the chain that begins here.
    Chain(u64, u64),
}

impl<T: Translation> Tree<T> {
    /// Gives `key` this value and version word.
    ///
    /// # Errors
    /// [`TreeError::KeyTooLong`], [`TreeError::ValueTooLong`], and those of the pool; nothing has
    /// changed then.
    pub fn insert(&self, key: &[u8], value: &[u8], version: u64) -> Result<Applied, TreeError> {
        let put = self.put(key, value, version, Expect::Anything, &mut ());
        put.map(|applied| applied.unwrap_or(Applied::NOTHING))
    }

    /// Gives `key` this value and version word, and gives the value that it had.
    ///
    /// # Errors
    /// Those of [`Tree::insert`].
    pub fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        version: u64,
    ) -> Result<(Applied, Option<Vec<u8>>), TreeError> {
        let mut kept = Kept::default();
        let applied = self.put(key, value, version, Expect::Anything, &mut kept)?;
        Ok((applied.unwrap_or(Applied::NOTHING), kept.into_value()))
    }

    /// `None`: the record is not the expected one.
    fn put(
        &self,
        key: &[u8],
        value: &[u8],
        version: u64,
        expect: Expect,
        kept: &mut impl Keep,
    ) -> Result<Option<Applied>, TreeError> {
        self.space.when_admitted(|| {
            let stored = Stored::make(&self.space, key, value)?;
            let wanted = Wanted::Value(&stored, version);
            let result = self.change::<INSERTS>(key, wanted, expect, kept);
            if !matches!(result, Ok(Some(_))) {
                free_pages(&self.space, stored.pages());
            }
            result
        })
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn remove(&self, key: &[u8]) -> Result<Applied, TreeError> {
        let removed = self.remove_expected(key, Expect::Anything, &mut ());
        removed.map(|applied| applied.unwrap_or(Applied::NOTHING))
    }

    /// Removes `key`, and gives the value that it had.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn take(&self, key: &[u8]) -> Result<(Applied, Option<Vec<u8>>), TreeError> {
        let mut kept = Kept::default();
        let applied = self.remove_expected(key, Expect::Anything, &mut kept)?;
        Ok((applied.unwrap_or(Applied::NOTHING), kept.into_value()))
    }

    fn remove_expected(
        &self,
        key: &[u8],
        expect: Expect,
        kept: &mut impl Keep,
    ) -> Result<Option<Applied>, TreeError> {
        self.space.when_admitted(|| self.change::<REMOVES>(key, Wanted::Nothing, expect, kept))
    }

    /// Changes the record of a key. `None`: it is not the expected one. Each caller has a copy of its
    /// own (`CALLER`): what is tried is inlined only where it is tried in one place.
    #[inline(always)]
    fn change<const CALLER: u8>(
        &self,
        key: &[u8],
        wanted: Wanted<'_>,
        expect: Expect,
        kept: &mut impl Keep,
    ) -> Result<Option<Applied>, TreeError> {
        let (mut old, mut rounds) = (OldLong::default(), Rounds::default());
        loop {
            let (content, linked) = wanted.log_content();
            let mut most = group_bytes(1, key.len() + content);
            if !linked.is_empty() || !old.pages().is_empty() {
                most += mark_bytes(linked) + mark_bytes(old.pages());
            }
            let mut change = self.space.change(most)?;
            // By way of a variable: see `change.rs` of the pool on what moving a structure costs here.
            let mut written = Written::Changed;
            self.space.run(AccessHint::Normal, |attempt| {
                written =
                    self.change_leaf(attempt, &mut change, key, (wanted, expect), &mut old, kept)?;
                Ok(())
            })?;
            drop(change);
            match (written, wanted) {
                (Written::Done { applied, underfull, long_gone }, _) => {
                    if long_gone {
                        free_pages(&self.space, old.pages());
                    }
                    if underfull {
                        // The entry is gone; a leaf that stays small is no fault.
                        let _ = self.merge_at(key);
                    }
                    return Ok(Some(applied));
                }
                (Written::NoRoom, Wanted::Value(stored, _)) => {
                    self.split_leaf(Newcomer::Entry(key, stored.as_new()))?;
                }
                (Written::Changed | Written::NoRoom, _) => return Ok(None),
                (Written::HasLong, _) => self.know_long(key, &mut old, kept)?,
            }
            rounds.next::<TreePages, T>(&self.space, Target::Key(key))?;
        }
    }

    /// Finds out the pages of the long value, and what lies in them if that is wanted; no pages if
    /// the record has been changed meanwhile.
    fn know_long(
        &self,
        key: &[u8],
        old: &mut OldLong,
        kept: &mut impl Keep,
    ) -> Result<(), TreeError> {
        let bytes = kept.wanted().map(|kept| {
            kept.long.clear();
            &mut kept.long
        });
        old.chain = self.chain_that_goes(key, old.seen, bytes)?.unwrap_or_default();
        Ok(())
    }

    /// Has a record lead to another chain, in which the same value lies. False if it is another
    /// record by now; the new chain is freed then.
    #[cold]
    pub(crate) fn replace_chain(
        &self,
        key: &[u8],
        old: (u64, u64),
        new: (Long, Vec<PageNo>),
    ) -> Result<bool, TreeError> {
        let stored = Stored::Long(new.0, new.1);
        let wanted = Wanted::Value(&stored, old.0);
        let result = self.change::<RELINKS>(key, wanted, Expect::Chain(old.0, old.1), &mut ());
        if !matches!(result, Ok(Some(_))) {
            free_pages(&self.space, stored.pages());
        }
        result.map(|applied| applied.is_some())
    }

    #[inline(always)]
    fn change_leaf<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut LogChange<'p>,
        key: &[u8],
        (wanted, expect): (Wanted<'_>, Expect),
        old: &mut OldLong,
        kept: &mut impl Keep,
    ) -> Result<Written, Restart> {
        // 1. The record is looked for without a latch.
        let leaf = leaf(&self.space, attempt, Target::Key(key))?;
        let node = NodeRef::new(leaf.page());
        if let Wanted::Value(stored, _) = wanted {
            node.prefetch_free(stored.as_new());
        }
        let slot = node.search_covered(key);
        if let Some(kept) = kept.wanted() {
            kept.copy(node, slot);
        }
        let in_the_way = match slot {
            _ if !expected(node, slot, expect) => Some(Written::Changed),
            _ if is_unknown_long(&self.space, node, slot, old) => Some(Written::HasLong),
            Err(_) if matches!(wanted, Wanted::Nothing) => {
                let applied = Applied::unchanged(lsn_of(leaf.page()));
                Some(Written::Done { applied, underfull: false, long_gone: false })
            }
            _ => None,
        };
        if let Some(in_the_way) = in_the_way {
            leaf.validate()?;
            return Ok(in_the_way);
        }
        if let (Ok(slot), Wanted::Value(stored, _)) = (slot, wanted) {
            node.prefetch_record(slot, stored.as_new());
        }
        let long_gone = slot.is_ok_and(|slot| is_long(node, slot));
        // 2. The leaf is latched, if it is still what was searched; then the maps of long values.
        let mut leaf = latch_leaf(attempt, leaf)?;
        let gone = if long_gone { old.pages() } else { &[] };
        mark_long(&self.space, attempt, change, wanted.log_content().1, gone)?;
        // 3. Logged first: meanwhile the lines that will be written come into the cache.
        let effect = match (slot, wanted) {
            (_, Wanted::Nothing) => Effect::Removed,
            (Ok(_), _) => Effect::Same,
            (Err(_), _) => Effect::Added,
        };
        match wanted {
            Wanted::Value(stored, version) => {
                if !NodeRef::new(leaf.page()).has_room(slot, key, stored.as_new()) {
                    change.clear();
                    return Ok(Written::NoRoom);
                }
                change.push(leaf.id(), &stored.logged(key, version, effect == Effect::Added));
            }
            Wanted::Nothing => change.push(leaf.id(), &Operation::Remove { key }),
        }
        let lsn = change.commit(&mut [&mut leaf]);
        // 4. The leaf is changed in its place.
        let mut node = NodeMut::new(leaf.page_mut());
        let done = match (slot, wanted) {
            (Ok(slot), Wanted::Value(stored, version)) => {
                node.replace_value(slot, version, stored.as_new())
            }
            (Err(slot), Wanted::Value(stored, version)) => {
                node.insert_entry(slot, key, version, stored.as_new())
            }
            (Ok(slot) | Err(slot), Wanted::Nothing) => {
                node.remove_entry(slot);
                Ok(())
            }
        };
        debug_assert!(done.is_ok(), "there was room");
        let underfull = matches!(wanted, Wanted::Nothing) && is_small(node.node());
        Ok(Written::Done { applied: Applied { effect, lsn }, underfull, long_gone })
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
                Some(Held::Long(long)) => match self.read_long(key, long)? {
                    Some(bytes) => Some(bytes),
                    None => continue,
                },
            };
            let expect = Expect::Version(seen);
            let done = match change(value.as_deref()) {
                Change::Keep => Some(unchanged),
                Change::Insert(new) => self.put(key, &new, version(), expect, &mut ())?,
                Change::Remove if seen.is_none() => Some(unchanged),
                Change::Remove => self.remove_expected(key, expect, &mut ())?,
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

fn expected(node: NodeRef<'_>, slot: Result<usize, usize>, expect: Expect) -> bool {
    match expect {
        Expect::Anything => true,
        Expect::Version(version) => slot.ok().map(|slot| node.version(slot)) == version,
        Expect::Chain(version, link) => slot.is_ok_and(|slot| {
            node.version(slot) == version
                && matches!(node.value(slot), Value::Overflow { link: here, .. } if here == link)
        }),
    }
}

fn is_long(node: NodeRef<'_>, slot: usize) -> bool {
    matches!(node.value(slot), Value::Overflow { .. })
}

/// Whether the record in the slot has a long value other than the known one; `old` is that one
/// then, its pages unknown.
fn is_unknown_long<T: Translation>(
    space: &Space<T>,
    node: NodeRef<'_>,
    slot: Result<usize, usize>,
    old: &mut OldLong,
) -> bool {
    let Ok(slot) = slot else { return false };
    let Value::Overflow { len, run, link } = node.value(slot) else { return false };
    let version = node.version(slot);
    if old.chain.is(space, version, link) {
        return false;
    }
    let seen = SeenChain::new(space, version, Long { len, run, link });
    *old = OldLong { seen, chain: Chain::default() };
    true
}
