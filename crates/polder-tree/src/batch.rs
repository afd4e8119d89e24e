//! Changes of many keys, in any trees of one pool, as one: `docs/durability.md`, "Batches".
//!
//! A try of a batch is one function of numbered steps (`batch/attempt.rs`); what it finds in its
//! way is cleared away here, without a latch, and then all of it is tried again. A page that is missing is
//! loaded together with those that later tries would miss (`many/warm.rs`).
//!
//! * `BATCH-1` Leaves are latched in the order of space and key, and all of them before anything is
//!   changed. A thread that holds latches does not wait for the device, only for other latches.
//!   A batch holds at most half of the pool's pages, so that others can go on.
//! * `BATCH-2` Nothing is changed before every expectation holds and all leaves have room for what
//!   they get. Then one group is logged, and the changes are made in place: none can fail.

mod attempt;
mod op;

use polder_format::{Lsn, PageNo};
use polder_pool::journal::{group_bytes, mark_bytes};
use polder_pool::{AccessHint, Obstacles, PoolError, Translation, waits};
use polder_structure::levels::{EXAMINED_EACH, Rounds, examine};
use polder_structure::page::broken;

use crate::descent::{Target, TreePages};
use crate::error::TreeError;
use crate::many::Warmed;
use crate::overflow::free_pages;
use crate::reshape::Newcomer;
use crate::stored::{Stored, check_key};
use crate::way::leaf;

use attempt::{Done, InTheWay, Part, try_batch};

pub use op::{BatchAction, BatchOp, BatchOutcome, Expected};

/// What an entry takes in a leaf besides key and value, at most.
const ENTRY_BYTES: usize = 32;
/// Tries of a whole batch after which it rests longer.
const TRIES_IN_HASTE: u32 = 10;

/// Does a batch: all of it, or nothing. `ops` are in the order of their trees' spaces and keys; of
/// several for one key at most one writes.
///
/// # Errors
/// [`TreeError::BatchTooLarge`], and those of [`Tree::insert`](crate::Tree::insert); nothing has changed then.
pub fn apply_batch<T: Translation>(ops: &[BatchOp<'_, T>]) -> Result<BatchOutcome, TreeError> {
    let Some(first) = ops.first() else {
        return Ok(BatchOutcome::Done { effects: Vec::new(), lsn: Lsn(0) });
    };
    first.tree.space().when_admitted_with(ops.len(), || {
        let mut parts = Vec::with_capacity(ops.len());
        let outcome = make_parts(ops, &mut parts).and_then(|()| run(first, &mut parts));
        if !matches!(outcome, Ok(BatchOutcome::Done { .. })) {
            // What was written for it is not used.
            parts.iter().for_each(|part| free_pages(part.space(), part.linked()));
        }
        outcome
    })
}

/// Writes the pages of long values, one part after the other, so that those are known that were written
/// when it fails.
fn make_parts<'p, T: Translation>(
    ops: &'p [BatchOp<'p, T>],
    parts: &mut Vec<Part<'p, T>>,
) -> Result<(), TreeError> {
    for op in ops {
        let (space, mut stored) = (op.tree.space(), None);
        match op.action {
            BatchAction::Insert(value, _) => stored = Some(Stored::make(space, op.key, value)?),
            BatchAction::Look | BatchAction::Remove => check_key(space, op.key)?,
        }
        parts.push(Part { op, stored, old: None });
    }
    Ok(())
}

/// Tries until the batch is done or cannot be.
fn run<T: Translation>(
    first: &BatchOp<'_, T>,
    parts: &mut [Part<'_, T>],
) -> Result<BatchOutcome, TreeError> {
    let (mut obstacles, mut tries, mut rounds) = (Obstacles::default(), 0, Rounds::default());
    let (mut warmed, mut keys) = (Warmed::default(), Vec::new());
    loop {
        let mut change = first.tree.space().change(most_bytes(parts))?;
        let tried = try_batch(parts, &mut change);
        drop(change);
        let in_the_way = match tried {
            Ok(Done { effects, lsn, underfull, gone }) => {
                // The pages of the long values that went are free. No latch and no log-space reservation
                // is held any more: a thread that has the allocation mutex may wait for the log.
                for part in gone.into_iter().map(|index| &parts[index]) {
                    free_pages(part.space(), part.freed());
                }
                for op in underfull.into_iter().map(|index| parts[index].op) {
                    // The batch is done; a leaf that stays small is no fault.
                    let _ = op.tree.merge_at(op.key);
                }
                return Ok(BatchOutcome::Done { effects, lsn });
            }
            Err(in_the_way) => in_the_way,
        };
        let again = match in_the_way {
            InTheWay::Unexpected(index) => return Ok(BatchOutcome::Unexpected(index)),
            InTheWay::Broken(page) => return Err(broken(page, "keys are not in order").into()),
            InTheWay::TooLarge => {
                let limit = first.tree.space().most_pages_held();
                let needed = count_leaves(parts)?.max(limit + 1);
                return Err(TreeError::BatchTooLarge { needed, limit });
            }
            InTheWay::NoRoom(range) => {
                make_room(&parts[range.clone()])?;
                range.start
            }
            InTheWay::HasLong(index, seen) => {
                let op = parts[index].op;
                if let Some(chain) = op.tree.chain_that_goes(op.key, seen, None)? {
                    parts[index].old = Some(chain);
                }
                index
            }
            InTheWay::Interrupted(index, what) => {
                let (space, key) = (parts[index].space(), parts[index].op.key);
                tries += 1;
                let rest = tries / TRIES_IN_HASTE;
                // WAIT-1
                if rest > 0 && waits::refuses() {
                    return Err(PoolError::WouldWait.into());
                }
                if what.is_missing() {
                    load_ahead(parts, index, &mut keys, &mut warmed)?;
                }
                space.make_way(*what, &mut obstacles)?;
                if tries % EXAMINED_EACH == 0 {
                    // Two ways may lead to one leaf, which the batch holds itself.
                    examine::<TreePages, T>(space, Target::Key(key))?;
                }
                std::thread::sleep(std::time::Duration::from_micros(u64::from(rest.min(1000))));
                continue;
            }
        };
        let part = &parts[again];
        rounds.next::<TreePages, T>(part.space(), Target::Key(part.op.key))?;
    }
}

/// Loads the page that is missing for a part together with those that are for the parts behind it, as
/// far as they are of one tree: a try that meets one missing page will meet others. `keys` are those of
/// the batch, once they are wanted.
#[cold]
fn load_ahead<'p, T: Translation>(
    parts: &[Part<'p, T>],
    index: usize,
    keys: &mut Vec<&'p [u8]>,
    warmed: &mut Warmed,
) -> Result<(), TreeError> {
    if keys.is_empty() {
        keys.extend(parts.iter().map(|part| part.op.key));
    }
    let tree = parts[index].op.tree;
    let space = tree.space().id();
    let end = index + parts[index..].partition_point(|part| part.space().id() == space);
    warmed.reach(tree, &keys[..end], index)
}

/// In how many leaves the keys of the batch lie now.
fn count_leaves<T: Translation>(parts: &[Part<'_, T>]) -> Result<usize, TreeError> {
    let (mut leaves, mut last) = (0, None);
    for part in parts {
        let (space, key) = (part.space(), part.op.key);
        let page = space.run(AccessHint::Normal, |attempt| {
            let leaf = leaf(space, attempt, Target::Key(key))?;
            let page = leaf.id();
            leaf.validate()?;
            Ok(page)
        })?;
        leaves += usize::from(last != Some(page));
        last = Some(page);
    }
    Ok(leaves)
}

/// Splits a leaf for the parts of a batch that concern it.
fn make_room<T: Translation>(parts: &[Part<'_, T>]) -> Result<(), TreeError> {
    let inserts = parts.iter().filter_map(|part| Some((part.op, part.stored.as_ref()?)));
    let inserts: Vec<_> = inserts.collect();
    match inserts.as_slice() {
        [] => Ok(()),
        [(op, stored)] => op.tree.split_leaf(Newcomer::Entry(op.key, stored.as_new())),
        [(first, _), ..] => {
            let entry = |(op, stored): &(&BatchOp<'_, T>, &Stored<'_>)| {
                op.key.len() + stored.logged_len() + ENTRY_BYTES
            };
            let entries: Vec<_> = inserts.iter().map(|part| (part.0.key, entry(part))).collect();
            first.tree.split_leaf(Newcomer::Entries(&entries))
        }
    }
}

/// Bytes of log that the batch takes at most.
fn most_bytes<T: Translation>(parts: &[Part<'_, T>]) -> usize {
    let marks = |pages: &[PageNo]| if pages.is_empty() { 0 } else { mark_bytes(pages) };
    let content = |part: &Part<'_, T>| {
        let value = part.stored.as_ref().map_or(0, Stored::logged_len);
        part.op.key.len() + value + marks(part.linked()) + marks(part.freed())
    };
    group_bytes(parts.len(), parts.iter().map(content).sum())
}
