//! One try of a batch.

use std::collections::HashMap;
use std::ops::Range;

use polder_format::log::Operation;
use polder_format::{Lsn, PageId, PageNo};
use polder_pool::{Attempt, Change, Exclusive, Interrupted, Restart, Space, Translation};
use polder_structure::Effect;
use polder_structure::page::lsn_of;

use crate::batch::op::{BatchAction, BatchOp, Expected};
use crate::descent::Target;
use crate::node::{NodeMut, NodeRef, Value};
use crate::overflow::{Long, free_pages};
use crate::reshape::is_small;
use crate::stored::Stored;
use crate::way::{latch_leaf, leaf};

/// Tries to latch one leaf that others hold, before all are let go.
const LATCH_TRIES: u32 = 200;

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
pub(super) type OldPages = HashMap<usize, (u64, Vec<PageNo>)>;

/// The pages, if they are those of the record with this version.
fn pages_of(old: &OldPages, index: usize, version: u64) -> Option<&[PageNo]> {
    let (known, pages) = old.get(&index)?;
    (*known == version).then_some(pages)
}

/// A batch that was done.
pub(super) struct Done {
    /// What each part of it did to the number of entries.
    pub(super) effects: Vec<Effect>,
    pub(super) lsn: Lsn,
    /// Parts by which a leaf has become small, one for each such leaf.
    pub(super) underfull: Vec<usize>,
}

/// Why a try of a batch has changed nothing.
pub(super) enum InTheWay<'p> {
    /// This part expected something else.
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

/// Tries to do the whole batch, or nothing of it.
pub(super) fn try_batch<'p, T: Translation>(
    ops: &'p [BatchOp<'_, T>],
    stored: &[Option<Stored<'_>>],
    old: &OldPages,
    change: &mut Change<'p>,
) -> Result<Done, InTheWay<'p>> {
    change.clear();
    // 1. All leaves are latched, in order (BATCH-1).
    let mut leaves = latch_all(ops)?;
    // 2. Every key is found, and holds what is expected of it.
    let slots = find_all(ops, &leaves)?;
    // 3. What goes is known, and each leaf has room for what comes.
    let mut gone = Vec::new();
    for held in &leaves {
        find_long(ops, &slots, old, held, &mut gone)?;
        if !has_room(ops, stored, &slots, held) {
            return Err(InTheWay::NoRoom(held.ops.clone()));
        }
    }
    // 4. The allocation maps are latched, after all leaves, and marked.
    for (index, stored) in stored.iter().enumerate() {
        mark(ops, index, change, stored.as_ref().map_or(&[], Stored::pages), true)?;
    }
    for (index, version) in &gone {
        mark(ops, *index, change, pages_of(old, *index, *version).unwrap_or_default(), false)?;
    }
    // 5. From here on nothing fails (BATCH-2). Logged first: meanwhile the lines that will be written
    // come into the cache.
    let effects: Vec<Effect> =
        ops.iter().zip(&slots).map(|(op, slot)| effect(op.action, *slot)).collect();
    let (mut pages, mut changed, mut lsn) = (Vec::new(), Vec::new(), Lsn(0));
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
            lsn = lsn.max(lsn_of(held.page.page()));
        }
    }
    if !pages.is_empty() {
        lsn = change.commit(&mut pages);
    }
    // 6. The changes are made in place.
    let mut underfull = Vec::new();
    for (page, range) in pages.into_iter().zip(changed) {
        let mut node = NodeMut::new(page.page_mut());
        edit(ops, stored, &slots, range.clone(), &mut node);
        if is_small(node.node()) {
            underfull.extend(range.clone().find(|index| effects[*index] == Effect::Removed));
        }
    }
    // 7. Nothing is latched any more: the pages of long values that went are free.
    drop(leaves);
    for (index, version) in gone {
        let pages = pages_of(old, index, version).unwrap_or_default();
        free_pages(ops[index].tree.space(), pages);
    }
    Ok(Done { effects, lsn, underfull })
}

/// `BATCH-1`.
fn latch_all<'p, T: Translation>(
    ops: &'p [BatchOp<'_, T>],
) -> Result<Vec<HeldLeaf<'p>>, InTheWay<'p>> {
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
            return Err(InTheWay::TooLarge);
        }
        let page = tried_often(op.tree.space(), index, |attempt| {
            let leaf = leaf(op.tree.space(), attempt, Target::Key(op.key))?;
            latch_leaf(attempt, leaf)
        })?;
        leaves.push(HeldLeaf { page, ops: index..index + 1 });
    }
    Ok(leaves)
}

/// Finds all keys, in the order of their slots, and whether each part finds what it expects.
fn find_all<'p, T: Translation>(
    ops: &[BatchOp<'_, T>],
    leaves: &[HeldLeaf<'_>],
) -> Result<Slots, InTheWay<'p>> {
    let mut slots = Slots::with_capacity(ops.len());
    for held in leaves {
        let (node, mut before) = (held.node(), 0);
        for index in held.ops.clone() {
            let slot = node.search_covered(ops[index].key);
            let (Ok(at) | Err(at)) = slot;
            if at < before {
                return Err(InTheWay::Broken(held.page.id()));
            }
            before = at;
            if let Some(Expected(expected)) = ops[index].expect
                && slot.ok().map(|slot| node.version(slot)) != expected
            {
                return Err(InTheWay::Unexpected(index));
            }
            slots.push(slot);
        }
    }
    Ok(slots)
}

/// The long values that go: by the part that replaces or removes them, with the version of the
/// record. The pages of each must be known.
fn find_long<'p, T: Translation>(
    ops: &[BatchOp<'_, T>],
    slots: &Slots,
    old: &OldPages,
    held: &HeldLeaf<'_>,
    gone: &mut Vec<(usize, u64)>,
) -> Result<(), InTheWay<'p>> {
    let node = held.node();
    for index in held.ops.clone() {
        if let (Ok(slot), false) = (slots[index], matches!(ops[index].action, BatchAction::Look))
            && let Value::Overflow { len, link } = node.value(slot)
        {
            let version = node.version(slot);
            if pages_of(old, index, version).is_none() {
                return Err(InTheWay::HasLong(index, version, Long { len, link }));
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
) -> Result<(), InTheWay<'p>> {
    if pages.is_empty() {
        return Ok(());
    }
    let space = ops[index].tree.space();
    tried_often(space, index, |attempt| change.mark(space, attempt, pages, used))
}

/// What a try gives that others may be in the way of: whoever holds the page waits for none of ours,
/// and will let go of it (`BATCH-1`).
fn tried_often<'p, T: Translation, R>(
    space: &'p Space<T>,
    index: usize,
    mut attempt: impl FnMut(&mut Attempt<'p>) -> Result<R, Restart>,
) -> Result<R, InTheWay<'p>> {
    let mut tries = 0;
    loop {
        match space.run_once(&mut attempt) {
            Ok(result) => return Ok(result),
            Err(what) if what.is_conflict() && tries < LATCH_TRIES => {
                tries += 1;
                std::thread::yield_now();
            }
            Err(what) => return Err(InTheWay::Interrupted(index, what)),
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
