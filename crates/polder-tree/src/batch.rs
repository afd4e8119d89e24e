//! Changes of many keys, in any trees of one pool, as one: `docs/durability.md`, "Batches".
//!
//! * `BATCH-1` Leaves are latched in the order of space and key, and all of them before anything is
//!   changed. While latches are held nobody waits for the device, and only for other latches.
//! * `BATCH-2` The changes are made to copies of the leaves. Only when all have room, and every
//!   expectation holds, one group is logged, and the copies become the leaves.

use std::collections::HashMap;
use std::ops::Range;

use polder_format::log::Operation;
use polder_format::{Lsn, PageNo};
use polder_pool::bytes::PageBuf;
use polder_pool::journal::{group_bytes, mark_bytes};
use polder_pool::{Change, Exclusive, Interrupted, Obstacles, PoolError, Translation};

use crate::descent::{Target, leaf};
use crate::error::TreeError;
use crate::node::{NodeMut, NodeRef, Value};
use crate::overflow::Long;
use crate::tree::{Effect, Stored, Tree, is_underfull};

/// Tries to latch one leaf that others hold, before all are let go.
const LATCH_TRIES: u32 = 200;
/// What an entry takes in a leaf besides key and value, at most.
const ENTRY_BYTES: usize = 32;
/// Tries of a whole batch after which it rests longer.
const TRIES_IN_HASTE: u32 = 10;

/// One key of a batch.
#[derive(Debug)]
pub struct BatchOp<'b, T: Translation> {
    /// Its tree.
    pub tree: &'b Tree<T>,
    /// The key.
    pub key: &'b [u8],
    /// What must be true of the key before the batch.
    pub expect: Option<Expected>,
    /// What is to be done.
    pub action: BatchAction<'b>,
}

/// What is expected of a key: a record with this version word, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected(pub Option<u64>);

/// What a batch does to a key.
#[derive(Debug, Clone, Copy)]
pub enum BatchAction<'b> {
    /// Nothing: the key is only looked at.
    Look,
    /// Gives it this value and version word.
    Insert(&'b [u8], u64),
    /// Removes it, if it is there.
    Remove,
}

/// What became of a batch.
#[derive(Debug)]
pub enum BatchOutcome {
    /// It was done.
    Done {
        /// What each part of it did to the number of entries.
        effects: Vec<Effect>,
        /// Once the log is durable up to here, so is the batch.
        lsn: Lsn,
    },
    /// Nothing was done: this part of it expected something else.
    Unexpected(usize),
}

/// A leaf that is held, what it will be, and which parts of the batch concern it.
struct HeldLeaf<'p> {
    page: Exclusive<'p>,
    new: PageBuf,
    ops: Range<usize>,
}

/// The pages of long values that a batch replaces, by the part that does so, and the version words of
/// their records.
type OldPages = HashMap<usize, (u64, Vec<PageNo>)>;

/// The pages, if they are those of the record with this version.
fn pages_of(old: &OldPages, index: usize, version: u64) -> Option<&[PageNo]> {
    let (known, pages) = old.get(&index)?;
    (*known == version).then_some(pages)
}

/// What a try of a batch came to.
enum Tried<'p> {
    Done(Vec<Effect>, Lsn, Vec<usize>),
    Unexpected(usize),
    /// These parts need room in the leaf that they have in common.
    NoRoom(Range<usize>),
    /// The record that this part replaces has a long value, whose pages must be known.
    HasLong(usize, u64, Long),
    /// The tree of this part stood in the way.
    Interrupted(usize, Box<Interrupted<'p>>),
}

/// Does a batch: all of it, or nothing. `ops` are in the order of their trees' spaces and keys; of
/// several for one key at most one writes.
///
/// # Errors
/// Those of [`Tree::insert`]; nothing has changed then.
pub fn apply_batch<T: Translation>(ops: &[BatchOp<'_, T>]) -> Result<BatchOutcome, TreeError> {
    let mut stored: Vec<Option<Stored<'_>>> = Vec::with_capacity(ops.len());
    for op in ops {
        let made = match op.action {
            BatchAction::Insert(value, _) => op.tree.store(op.key, value).map(Some),
            _ => op.tree.check_key(op.key).map(|()| None),
        };
        match made {
            Ok(made) => stored.push(made),
            Err(error) => {
                give_up(ops, &stored);
                return Err(error);
            }
        }
    }
    let outcome = run(ops, &stored);
    if !matches!(outcome, Ok(BatchOutcome::Done { .. })) {
        give_up(ops, &stored);
    }
    outcome
}

/// Frees the pages of long values that were written and are not used.
fn give_up<T: Translation>(ops: &[BatchOp<'_, T>], stored: &[Option<Stored<'_>>]) {
    for (op, stored) in ops.iter().zip(stored) {
        stored.iter().for_each(|stored| op.tree.free_pages(stored.pages()));
    }
}

fn run<T: Translation>(
    ops: &[BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
) -> Result<BatchOutcome, TreeError> {
    let Some(first) = ops.first() else {
        return Ok(BatchOutcome::Done { effects: Vec::new(), lsn: Lsn(0) });
    };
    let mut obstacles = Obstacles::default();
    let mut old = OldPages::new();
    let mut tries = 0;
    loop {
        let mut change = first.tree.space().change(most_bytes(ops, stored, &old))?;
        let tried = try_batch(ops, stored, &old, &mut change);
        drop(change);
        match tried {
            Tried::Done(effects, lsn, underfull) => {
                for index in underfull {
                    // The batch is done; a leaf that stays small is no fault.
                    let _ = ops[index].tree.merge_at(ops[index].key);
                }
                return Ok(BatchOutcome::Done { effects, lsn });
            }
            Tried::Unexpected(index) => return Ok(BatchOutcome::Unexpected(index)),
            Tried::NoRoom(range) => make_room(&ops[range.clone()], &stored[range])?,
            Tried::HasLong(index, version, long) => {
                let op = &ops[index];
                if let Some(pages) = op.tree.pages_of_long(op.key, version, long)? {
                    old.insert(index, (version, pages));
                }
            }
            Tried::Interrupted(index, what) => {
                tries += 1;
                let rest = tries / TRIES_IN_HASTE;
                ops[index].tree.space().make_way(*what, &mut obstacles)?;
                std::thread::sleep(std::time::Duration::from_micros(u64::from(rest.min(1000))));
            }
        }
    }
}

/// Splits a leaf for the parts of a batch that concern it.
fn make_room<T: Translation>(
    ops: &[BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
) -> Result<(), TreeError> {
    let inserts = ops.iter().zip(stored).filter_map(|(op, stored)| Some((op, stored.as_ref()?)));
    let inserts: Vec<_> = inserts.collect();
    match inserts.as_slice() {
        [] => Ok(()),
        [(op, stored)] => op.tree.split_leaf(op.key, stored.as_new()),
        [(first, _), ..] => {
            let bytes = |(op, stored): &(&BatchOp<'_, T>, &Stored<'_>)| {
                op.key.len() + stored.logged_len() + ENTRY_BYTES
            };
            let entries: Vec<_> = inserts.iter().map(|entry| (entry.0.key, bytes(entry))).collect();
            first.tree.split_leaf_for(&entries)
        }
    }
}

/// Bytes of log that the batch takes at most.
fn most_bytes<T: Translation>(
    ops: &[BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
    old: &OldPages,
) -> usize {
    let content = |(op, stored): (&BatchOp<'_, T>, &Option<Stored<'_>>)| {
        let value = stored.as_ref().map_or(0, Stored::logged_len);
        let pages = stored.as_ref().map_or(&[][..], Stored::pages);
        let marks = if pages.is_empty() { 0 } else { mark_bytes(pages) };
        op.key.len() + value + marks
    };
    let freed: usize = old.values().map(|(_, pages)| mark_bytes(pages)).sum();
    let contents: usize = ops.iter().zip(stored).map(content).sum();
    group_bytes(ops.len(), contents + freed)
}

fn try_batch<'p, T: Translation>(
    ops: &'p [BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
    old: &OldPages,
    change: &mut Change<'p>,
) -> Tried<'p> {
    change.clear();
    let mut leaves = match latch_all(ops) {
        Ok(leaves) => leaves,
        Err(tried) => return tried,
    };
    let mut effects = vec![Effect::Same; ops.len()];
    for held in &leaves {
        for index in held.ops.clone() {
            if !is_expected(&ops[index], NodeRef::new(held.page.page())) {
                return Tried::Unexpected(index);
            }
        }
    }
    let mut freed: Vec<(usize, u64)> = Vec::new();
    for held in &mut leaves {
        for index in held.ops.clone() {
            let is_known = |version| pages_of(old, index, version).is_some();
            match edit(&ops[index], stored[index].as_ref(), is_known, &mut held.new) {
                Ok((effect, gone)) => {
                    effects[index] = effect;
                    freed.extend(gone.map(|version| (index, version)));
                }
                Err(Edit::NoRoom) => return Tried::NoRoom(held.ops.clone()),
                Err(Edit::HasLong(version, long)) => return Tried::HasLong(index, version, long),
            }
        }
    }
    // The allocation maps, after all leaves.
    for (index, stored) in stored.iter().enumerate() {
        let pages = stored.as_ref().map_or(&[][..], Stored::pages);
        if let Err(tried) = mark(ops, index, change, pages, true) {
            return tried;
        }
    }
    for (index, version) in &freed {
        let pages = pages_of(old, *index, *version).unwrap_or_default();
        if let Err(tried) = mark(ops, *index, change, pages, false) {
            return tried;
        }
    }
    // From here on nothing fails.
    let mut pages = Vec::new();
    let mut lsn = Lsn(0);
    let mut underfull = Vec::new();
    for held in &mut leaves {
        let mut changed = false;
        for index in held.ops.clone() {
            changed |=
                push(&ops[index], stored[index].as_ref(), effects[index], &held.page, change);
        }
        if !changed {
            lsn = lsn.max(Lsn(held.page.page().u64(polder_format::header_at::LSN)));
            continue;
        }
        let new = NodeRef::new(held.new.page());
        NodeMut::new(held.page.page_mut()).copy_content_from(new);
        let removed = held.ops.clone().find(|index| effects[*index] == Effect::Removed);
        if is_underfull(new) {
            underfull.extend(removed);
        }
        pages.push(&mut held.page);
    }
    if !pages.is_empty() {
        lsn = change.commit(&mut pages);
    }
    drop(leaves);
    for (index, version) in freed {
        let pages = pages_of(old, index, version).unwrap_or_default();
        ops[index].tree.free_pages(pages);
    }
    Tried::Done(effects, lsn, underfull)
}

/// `BATCH-1`.
fn latch_all<'p, T: Translation>(
    ops: &'p [BatchOp<'_, T>],
) -> Result<Vec<HeldLeaf<'p>>, Tried<'p>> {
    let mut leaves: Vec<HeldLeaf<'p>> = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        if let Some(last) = leaves.last_mut()
            && last.page.id().space() == op.tree.space().id()
            && NodeRef::new(last.page.page()).compare_to_fences(op.key).is_eq()
        {
            last.ops.end = index + 1;
            continue;
        }
        let mut tries = 0;
        let page = loop {
            let tried = op.tree.space().run_once(|attempt| {
                let leaf = leaf(op.tree.space(), attempt, Target::Key(op.key))?;
                let leaf = attempt.upgrade(leaf)?;
                if NodeRef::new(leaf.page()).compare_to_fences(op.key).is_ne() {
                    let what = "the tree leads to a leaf that does not cover the key";
                    return Err(attempt.fail(PoolError::Broken { page: leaf.id(), what }));
                }
                Ok(leaf)
            });
            match tried {
                Ok(page) => break page,
                // Whoever holds the leaf waits for none of ours: he will let go of it.
                Err(what) if what.is_conflict() && tries < LATCH_TRIES => {
                    tries += 1;
                    std::thread::yield_now();
                }
                Err(what) => return Err(Tried::Interrupted(index, what)),
            }
        };
        let mut new = PageBuf::new(op.tree.space().page_size());
        new.copy_from(page.page());
        leaves.push(HeldLeaf { page, new, ops: index..index + 1 });
    }
    Ok(leaves)
}

fn is_expected<T: Translation>(op: &BatchOp<'_, T>, node: NodeRef<'_>) -> bool {
    let Some(Expected(expected)) = op.expect else { return true };
    node.search_covered(op.key).ok().map(|slot| node.version(slot)) == expected
}

enum Edit {
    NoRoom,
    HasLong(u64, Long),
}

/// Changes the copy of a leaf. Gives also the version of the record whose long value goes, which must
/// be one whose pages are known.
fn edit<T: Translation>(
    op: &BatchOp<'_, T>,
    stored: Option<&Stored<'_>>,
    is_known: impl Fn(u64) -> bool,
    leaf: &mut PageBuf,
) -> Result<(Effect, Option<u64>), Edit> {
    let node = NodeRef::new(leaf.page());
    let slot = node.search_covered(op.key);
    if matches!(op.action, BatchAction::Look) {
        return Ok((Effect::Same, None));
    }
    let mut gone = None;
    if let Ok(slot) = slot
        && let Value::Overflow { len, link } = node.value(slot)
    {
        let version = node.version(slot);
        if !is_known(version) {
            return Err(Edit::HasLong(version, Long { len, link }));
        }
        gone = Some(version);
    }
    let mut node = NodeMut::new(leaf.page_mut());
    let effect = match (op.action, stored, slot) {
        (BatchAction::Insert(_, version), Some(stored), Ok(slot)) => {
            let done = node.replace_value(slot, version, stored.as_new());
            done.map(|()| Effect::Same).map_err(|_| Edit::NoRoom)?
        }
        (BatchAction::Insert(_, version), Some(stored), Err(slot)) => {
            let done = node.insert_entry(slot, op.key, version, stored.as_new());
            done.map(|()| Effect::Added).map_err(|_| Edit::NoRoom)?
        }
        (BatchAction::Remove, _, Ok(slot)) => {
            node.remove_entry(slot);
            Effect::Removed
        }
        _ => Effect::Same,
    };
    Ok((effect, gone))
}

fn mark<'p, T: Translation>(
    ops: &'p [BatchOp<'_, T>],
    index: usize,
    change: &mut Change<'p>,
    pages: &[PageNo],
    used: bool,
) -> Result<(), Tried<'p>> {
    if pages.is_empty() {
        return Ok(());
    }
    let space = ops[index].tree.space();
    let mut tries = 0;
    loop {
        let marked = space.run_once(|attempt| change.mark(space, attempt, pages, used));
        match marked {
            Ok(()) => return Ok(()),
            Err(what) if what.is_conflict() && tries < LATCH_TRIES => {
                tries += 1;
                std::thread::yield_now();
            }
            Err(what) => return Err(Tried::Interrupted(index, what)),
        }
    }
}

/// Logs one part of a batch; false if it changes nothing.
fn push<T: Translation>(
    op: &BatchOp<'_, T>,
    stored: Option<&Stored<'_>>,
    effect: Effect,
    leaf: &Exclusive<'_>,
    change: &mut Change<'_>,
) -> bool {
    match (op.action, stored) {
        (BatchAction::Insert(_, version), Some(stored)) => {
            let record = stored.logged(op.key, version, effect == Effect::Added);
            change.push(leaf.id(), &record);
            true
        }
        (BatchAction::Remove, _) if effect == Effect::Removed => {
            change.push(leaf.id(), &Operation::Remove { key: op.key });
            true
        }
        _ => false,
    }
}
