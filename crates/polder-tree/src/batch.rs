//! Changes of many keys, in any trees of one pool, as one: `docs/durability.md`, "Batches".
//!
//! * `BATCH-1` Leaves are latched in the order of space and key, and all of them before anything is
//!   changed. While latches are held nobody waits for the device, and only for other latches.
//!   A batch holds at most half of the pool's pages, so that others can go on.
//! * `BATCH-2` Nothing is changed before every expectation holds and all leaves have room for what
//!   they get. Then one group is logged, and the changes are made in place: none can fail.

use std::collections::HashMap;
use std::ops::Range;

use polder_format::log::Operation;
use polder_format::{Lsn, PageId, PageNo};
use polder_pool::journal::{group_bytes, mark_bytes};
use polder_pool::{Change, Exclusive, Interrupted, Obstacles, PoolError, Translation};

use crate::descent::{EXAMINED_EACH, Rounds, Target, latch_leaf, leaf};
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

/// A leaf that is held, and which parts of the batch concern it.
struct HeldLeaf<'p> {
    page: Exclusive<'p>,
    ops: Range<usize>,
}

impl HeldLeaf<'_> {
    fn node(&self) -> NodeRef<'_> {
        NodeRef::new(self.page.page())
    }
}

/// Where the key of each part stands in its leaf, as a search has found it before the batch.
type Slots = Vec<Result<usize, usize>>;

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
    /// More leaves than one operation may hold.
    TooLarge,
    /// The keys of this page are not in order.
    Broken(PageId),
}

/// Does a batch: all of it, or nothing. `ops` are in the order of their trees' spaces and keys; of
/// several for one key at most one writes.
///
/// # Errors
/// [`TreeError::BatchTooLarge`], and those of [`Tree::insert`]; nothing has changed then.
pub fn apply_batch<T: Translation>(ops: &[BatchOp<'_, T>]) -> Result<BatchOutcome, TreeError> {
    let Some(first) = ops.first() else {
        return Ok(BatchOutcome::Done { effects: Vec::new(), lsn: Lsn(0) });
    };
    first.tree.space().patiently_with(ops.len(), || store_and_run(first, ops))
}

fn store_and_run<T: Translation>(
    first: &BatchOp<'_, T>,
    ops: &[BatchOp<'_, T>],
) -> Result<BatchOutcome, TreeError> {
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
    let outcome = run(first, ops, &stored);
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
    first: &BatchOp<'_, T>,
    ops: &[BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
) -> Result<BatchOutcome, TreeError> {
    let mut obstacles = Obstacles::default();
    let mut old = OldPages::new();
    let (mut tries, mut rounds) = (0, Rounds::default());
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
            Tried::Broken(page) => {
                return Err(PoolError::Broken { page, what: "keys are not in order" }.into());
            }
            Tried::TooLarge => {
                let limit = first.tree.space().most_pages_held();
                return Err(TreeError::BatchTooLarge { limit });
            }
            Tried::NoRoom(range) => {
                let op = &ops[range.start];
                make_room(&ops[range.clone()], &stored[range])?;
                rounds.next(op.tree, op.key)?;
            }
            Tried::HasLong(index, version, long) => {
                let op = &ops[index];
                if let Some(pages) = op.tree.pages_of_long(op.key, version, long)? {
                    old.insert(index, (version, pages));
                }
                rounds.next(op.tree, op.key)?;
            }
            Tried::Interrupted(index, what) => {
                tries += 1;
                let rest = tries / TRIES_IN_HASTE;
                ops[index].tree.space().make_way(*what, &mut obstacles)?;
                if tries % EXAMINED_EACH == 0 {
                    // Two ways may lead to one leaf, which the batch holds itself.
                    ops[index].tree.examine(ops[index].key)?;
                }
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
    let slots = match find_all(ops, &leaves) {
        Ok(slots) => slots,
        Err(tried) => return tried,
    };
    let mut freed: Vec<(usize, u64)> = Vec::new();
    for held in &leaves {
        if let Err(tried) = check_long(ops, &slots, old, held, &mut freed) {
            return tried;
        }
        if !has_room(ops, stored, &slots, held) {
            return Tried::NoRoom(held.ops.clone());
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
    // BATCH-2: from here on nothing fails.
    let effects: Vec<Effect> =
        ops.iter().zip(&slots).map(|(op, slot)| effect(op.action, *slot)).collect();
    let mut pages = Vec::with_capacity(leaves.len());
    let mut changed = Vec::with_capacity(leaves.len());
    let mut lsn = Lsn(0);
    for held in &mut leaves {
        let mut has_changed = false;
        for index in held.ops.clone() {
            let (op, stored) = (&ops[index], stored[index].as_ref());
            has_changed |= push(op, stored, effects[index], &held.page, change);
        }
        if has_changed {
            changed.push(held.ops.clone());
            pages.push(&mut held.page);
        } else {
            lsn = lsn.max(Lsn(held.page.page().u64(polder_format::header_at::LSN)));
        }
    }
    if !pages.is_empty() {
        // Logged first: meanwhile the lines that will be written come into the cache.
        lsn = change.commit(&mut pages);
    }
    let mut underfull = Vec::new();
    for (page, range) in pages.into_iter().zip(changed) {
        let mut node = NodeMut::new(page.page_mut());
        edit(ops, stored, &slots, range.clone(), &mut node);
        if is_underfull(node.node()) {
            underfull.extend(range.clone().find(|index| effects[*index] == Effect::Removed));
        }
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
    let mut leaves: Vec<HeldLeaf<'p>> = Vec::with_capacity(ops.len());
    for (index, op) in ops.iter().enumerate() {
        if let Some(last) = leaves.last_mut()
            && last.page.id().space() == op.tree.space().id()
            // Keys ascend: it cannot lie below the leaf.
            && last.node().is_below_upper(op.key)
        {
            last.ops.end = index + 1;
            continue;
        }
        if leaves.len() == op.tree.space().most_pages_held() {
            return Err(Tried::TooLarge);
        }
        let mut tries = 0;
        let page = loop {
            let tried = op.tree.space().run_once(|attempt| {
                let leaf = leaf(op.tree.space(), attempt, Target::Key(op.key))?;
                latch_leaf(attempt, leaf)
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
        leaves.push(HeldLeaf { page, ops: index..index + 1 });
    }
    Ok(leaves)
}

/// Finds all keys, in the order of their slots, and whether each part finds what it expects.
fn find_all<'p, T: Translation>(
    ops: &[BatchOp<'_, T>],
    leaves: &[HeldLeaf<'_>],
) -> Result<Slots, Tried<'p>> {
    let mut slots = Slots::with_capacity(ops.len());
    for held in leaves {
        let (node, mut before) = (held.node(), 0);
        for index in held.ops.clone() {
            let slot = node.search_covered(ops[index].key);
            let (Ok(at) | Err(at)) = slot;
            if at < before {
                return Err(Tried::Broken(held.page.id()));
            }
            before = at;
            if let Some(Expected(expected)) = ops[index].expect
                && slot.ok().map(|slot| node.version(slot)) != expected
            {
                return Err(Tried::Unexpected(index));
            }
            slots.push(slot);
        }
    }
    Ok(slots)
}

/// The long values that go: by the part that replaces or removes them, with the version of the
/// record. The pages of each must be known.
fn check_long<'p, T: Translation>(
    ops: &[BatchOp<'_, T>],
    slots: &Slots,
    old: &OldPages,
    held: &HeldLeaf<'_>,
    gone: &mut Vec<(usize, u64)>,
) -> Result<(), Tried<'p>> {
    let node = held.node();
    for index in held.ops.clone() {
        if let (Ok(slot), false) = (slots[index], matches!(ops[index].action, BatchAction::Look))
            && let Value::Overflow { len, link } = node.value(slot)
        {
            let version = node.version(slot);
            if pages_of(old, index, version).is_none() {
                return Err(Tried::HasLong(index, version, Long { len, link }));
            }
            gone.push((index, version));
        }
    }
    Ok(())
}

/// Whether a leaf has room for all that it gets. What goes or shrinks is not counted on.
fn has_room<T: Translation>(
    ops: &[BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
    slots: &Slots,
    held: &HeldLeaf<'_>,
) -> bool {
    let node = held.node();
    let growth = held.ops.clone().map(|index| match &stored[index] {
        Some(stored) if matches!(ops[index].action, BatchAction::Insert(..)) => {
            node.growth(slots[index], ops[index].key, stored.as_new())
        }
        _ => 0,
    });
    growth.sum::<usize>() <= node.free_bytes() + node.garbage()
}

fn effect(action: BatchAction<'_>, slot: Result<usize, usize>) -> Effect {
    match (action, slot) {
        (BatchAction::Insert(..), Err(_)) => Effect::Added,
        (BatchAction::Remove, Ok(_)) => Effect::Removed,
        _ => Effect::Same,
    }
}

/// Makes the changes of a leaf, which has room for them.
fn edit<T: Translation>(
    ops: &[BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
    slots: &Slots,
    range: Range<usize>,
    node: &mut NodeMut<'_>,
) {
    // Keys ascend: each slot has moved by what came and went before it.
    let (mut came, mut went) = (0, 0);
    for index in range {
        let now = |slot: usize| (slot + came).saturating_sub(went);
        match (ops[index].action, &stored[index], slots[index]) {
            (BatchAction::Insert(_, version), Some(stored), Ok(slot)) => {
                let done = node.replace_value(now(slot), version, stored.as_new());
                debug_assert!(done.is_ok(), "there was room");
            }
            (BatchAction::Insert(_, version), Some(stored), Err(slot)) => {
                let key = ops[index].key;
                let done = node.insert_entry(now(slot), key, version, stored.as_new());
                debug_assert!(done.is_ok(), "there was room");
                came += 1;
            }
            (BatchAction::Remove, _, Ok(slot)) => {
                node.remove_entry(now(slot));
                went += 1;
            }
            _ => {}
        }
    }
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
