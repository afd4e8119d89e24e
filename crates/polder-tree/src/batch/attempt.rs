//! One try of a batch.

use std::ops::Range;

use polder_format::log::Operation;
use polder_format::{Lsn, PageId, PageNo};
use polder_pool::{Attempt, Change, Exclusive, Interrupted, Restart, Space, Translation};
use polder_structure::Effect;
use polder_structure::page::lsn_of;

use crate::batch::op::{BatchAction, BatchOp, Expected};
use crate::descent::Target;
use crate::node::{NodeMut, NodeRef, Value};
use crate::overflow::{Chain, Long, SeenChain};
use crate::reshape::is_small;
use crate::stored::Stored;
use crate::way::{latch_leaf, leaf};

/// Tries to latch one leaf that others hold, before all latches are released.
const LATCH_TRIES: u32 = 200;

/// One part of a batch, with what is known of it.
pub(super) struct Part<'p, T: Translation> {
    pub(super) op: &'p BatchOp<'p, T>,
    /// The value that it inserts.
    pub(super) stored: Option<Stored<'p>>,
    /// The long value that it replaces or removes.
    pub(super) old: Option<Chain>,
}

impl<'p, T: Translation> Part<'p, T> {
    pub(super) fn space(&self) -> &'p Space<T> {
        self.op.tree.space()
    }

    /// The pages of the value that it inserts.
    pub(super) fn linked(&self) -> &[PageNo] {
        self.stored.as_ref().map_or(&[], Stored::pages)
    }

    /// The pages of the value that goes.
    pub(super) fn freed(&self) -> &[PageNo] {
        self.old.as_ref().map_or(&[], |chain| &chain.pages)
    }

    /// What it inserts: value and version word.
    fn inserted(&self) -> Option<(&Stored<'p>, u64)> {
        match (self.op.action, &self.stored) {
            (BatchAction::Insert(_, version), Some(stored)) => Some((stored, version)),
            _ => None,
        }
    }

    /// What it does to its key, which a search has found in this slot, or not.
    fn effect(&self, slot: Result<usize, usize>) -> Effect {
        match (self.op.action, slot) {
            (BatchAction::Insert(..), Err(_)) => Effect::Added,
            (BatchAction::Remove, Ok(_)) => Effect::Removed,
            _ => Effect::Same,
        }
    }
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

/// A batch that was done.
pub(super) struct Done {
    /// What each part of it did to the number of entries.
    pub(super) effects: Vec<Effect>,
    pub(super) lsn: Lsn,
    /// Parts by which a leaf has become small, one for each such leaf.
    pub(super) underfull: Vec<usize>,
    /// Parts by which long values went.
    pub(super) gone: Vec<usize>,
}

/// Why a try of a batch has changed nothing.
pub(super) enum InTheWay<'p> {
    /// This part expected something else.
    Unexpected(usize),
    /// These parts need room in the leaf that they have in common.
    NoRoom(Range<usize>),
    /// The record that this part replaces has a long value, whose pages must be known.
    HasLong(usize, SeenChain),
    /// The tree of this part stood in the way.
    Interrupted(usize, Box<Interrupted<'p>>),
    /// More leaves than one operation may hold.
    TooLarge,
    /// The keys of this page are not in order.
    Broken(PageId),
}

/// Tries to do the whole batch, or nothing of it.
pub(super) fn try_batch<'p, T: Translation>(
    parts: &[Part<'p, T>],
    change: &mut Change<'p>,
) -> Result<Done, InTheWay<'p>> {
    change.clear();
    // 1. All leaves are latched, in order (BATCH-1).
    let mut leaves = latch_all(parts)?;
    // 2. Every key is found, and holds what is expected of it.
    let slots = find_all(parts, &leaves)?;
    // 3. What goes is known, and each leaf has room for what comes.
    let mut gone = Vec::new();
    for held in &leaves {
        find_long(parts, &slots, held, &mut gone)?;
        if !has_room(parts, &slots, held) {
            return Err(InTheWay::NoRoom(held.ops.clone()));
        }
    }
    // 4. The allocation maps are latched, after all leaves, and marked.
    for (index, part) in parts.iter().enumerate() {
        mark(part, index, change, part.linked(), true)?;
    }
    for index in &gone {
        mark(&parts[*index], *index, change, parts[*index].freed(), false)?;
    }
    // 5. From here on nothing fails (BATCH-2). It is logged first: meanwhile the lines that will be
    // written come into the cache.
    let effects: Vec<Effect> =
        parts.iter().zip(&slots).map(|(part, slot)| part.effect(*slot)).collect();
    let (mut pages, mut changed, mut lsn) = (Vec::new(), Vec::new(), Lsn(0));
    for held in &mut leaves {
        let mut has_changed = false;
        for index in held.ops.clone() {
            has_changed |= push(&parts[index], effects[index], &held.page, change);
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
    for (page, mut range) in pages.into_iter().zip(changed) {
        let mut node = NodeMut::new(page.page_mut());
        edit(&parts[range.clone()], &slots[range.clone()], &mut node);
        if is_small(node.node()) {
            underfull.extend(range.find(|index| effects[*index] == Effect::Removed));
        }
    }
    Ok(Done { effects, lsn, underfull, gone })
}

/// `BATCH-1`.
fn latch_all<'p, T: Translation>(parts: &[Part<'p, T>]) -> Result<Vec<HeldLeaf<'p>>, InTheWay<'p>> {
    let mut leaves: Vec<HeldLeaf<'p>> = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        let (space, key) = (part.space(), part.op.key);
        if let Some(last) = leaves.last_mut()
            && last.page.id().space() == space.id()
            // Keys ascend: it cannot lie below the leaf.
            && last.node().is_below_upper(key)
        {
            last.ops.end = index + 1;
            continue;
        }
        if leaves.len() == space.most_pages_held() {
            return Err(InTheWay::TooLarge);
        }
        let page = try_often(space, index, |attempt| {
            let leaf = leaf(space, attempt, Target::Key(key))?;
            latch_leaf(attempt, leaf)
        })?;
        leaves.push(HeldLeaf { page, ops: index..index + 1 });
    }
    Ok(leaves)
}

/// Finds all keys, in the order of their slots, and whether each part finds what it expects.
fn find_all<'p, T: Translation>(
    parts: &[Part<'_, T>],
    leaves: &[HeldLeaf<'_>],
) -> Result<Slots, InTheWay<'p>> {
    let mut slots = Slots::with_capacity(parts.len());
    for held in leaves {
        let (node, mut before) = (held.node(), 0);
        for index in held.ops.clone() {
            let op = parts[index].op;
            let slot = node.search_covered(op.key);
            let (Ok(at) | Err(at)) = slot;
            if at < before {
                return Err(InTheWay::Broken(held.page.id()));
            }
            before = at;
            if let Some(Expected(expected)) = op.expect
                && slot.ok().map(|slot| node.version(slot)) != expected
            {
                return Err(InTheWay::Unexpected(index));
            }
            slots.push(slot);
        }
    }
    Ok(slots)
}

/// The parts by which long values go. The pages of each must be known.
fn find_long<'p, T: Translation>(
    parts: &[Part<'_, T>],
    slots: &Slots,
    held: &HeldLeaf<'_>,
    gone: &mut Vec<usize>,
) -> Result<(), InTheWay<'p>> {
    let node = held.node();
    for index in held.ops.clone() {
        let part = &parts[index];
        if let (Ok(slot), false) = (slots[index], matches!(part.op.action, BatchAction::Look))
            && let Value::Overflow { len, run, link } = node.value(slot)
        {
            let version = node.version(slot);
            if !part.old.as_ref().is_some_and(|chain| chain.is(part.space(), version, link)) {
                let seen = SeenChain::new(part.space(), version, Long { len, run, link });
                return Err(InTheWay::HasLong(index, seen));
            }
            gone.push(index);
        }
    }
    Ok(())
}

/// Whether a leaf has room for all that it gets. What goes or shrinks is not counted on.
fn has_room<T: Translation>(parts: &[Part<'_, T>], slots: &Slots, held: &HeldLeaf<'_>) -> bool {
    let node = held.node();
    let growth = held.ops.clone().map(|index| match parts[index].inserted() {
        Some((stored, _)) => node.growth(slots[index], parts[index].op.key, stored.as_new()),
        None => 0,
    });
    growth.sum::<usize>() <= node.free_bytes() + node.garbage()
}

/// Makes the changes of a leaf, which has room for them.
fn edit<T: Translation>(
    parts: &[Part<'_, T>],
    slots: &[Result<usize, usize>],
    node: &mut NodeMut<'_>,
) {
    // Keys ascend: each slot has moved by what came and went before it.
    let (mut came, mut went) = (0, 0);
    for (part, slot) in parts.iter().zip(slots) {
        let now = |slot: usize| (slot + came).saturating_sub(went);
        match (part.inserted(), *slot) {
            (Some((stored, version)), Ok(slot)) => {
                let done = node.replace_value(now(slot), version, stored.as_new());
                debug_assert!(done.is_ok(), "BATCH-2: there was room");
            }
            (Some((stored, version)), Err(slot)) => {
                let done = node.insert_entry(now(slot), part.op.key, version, stored.as_new());
                debug_assert!(done.is_ok(), "BATCH-2: there was room");
                came += 1;
            }
            (None, Ok(slot)) if matches!(part.op.action, BatchAction::Remove) => {
                node.remove_entry(now(slot));
                went += 1;
            }
            (None, _) => {}
        }
    }
}

/// Marks pages as in use, or as free.
fn mark<'p, T: Translation>(
    part: &Part<'p, T>,
    index: usize,
    change: &mut Change<'p>,
    pages: &[PageNo],
    used: bool,
) -> Result<(), InTheWay<'p>> {
    if pages.is_empty() {
        return Ok(());
    }
    let space = part.space();
    try_often(space, index, |attempt| change.mark(space, attempt, pages, used))
}

/// Tries a step again while other threads are in its way: a thread that holds the page waits for
/// none of ours, and will release it (`BATCH-1`).
fn try_often<'p, T: Translation, R>(
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
    part: &Part<'_, T>,
    effect: Effect,
    leaf: &Exclusive<'_>,
    change: &mut Change<'_>,
) -> bool {
    let key = part.op.key;
    let record = match part.inserted() {
        Some((stored, version)) => stored.logged(key, version, effect == Effect::Added),
        None if effect == Effect::Removed => Operation::Remove { key },
        None => return false,
    };
    change.push(leaf.id(), &record);
    true
}
