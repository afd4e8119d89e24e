//! Changes of many keys, in any trees of one pool, as one: `docs/durability.md`, "Batches".
//!
//! A try of a batch is one function of numbered steps (`batch/attempt.rs`); what it finds in its way is
//! seen to here, without a latch, and then all of it is tried again.
//!
//! * `BATCH-1` Leaves are latched in the order of space and key, and all of them before anything is
//!   changed. While latches are held nobody waits for the device, and only for other latches.
//!   A batch holds at most half of the pool's pages, so that others can go on.
//! * `BATCH-2` Nothing is changed before every expectation holds and all leaves have room for what
//!   they get. Then one group is logged, and the changes are made in place: none can fail.

mod attempt;
mod op;

use polder_format::Lsn;
use polder_pool::journal::{group_bytes, mark_bytes};
use polder_pool::{Obstacles, Translation};
use polder_structure::levels::{EXAMINED_EACH, Rounds, examine};
use polder_structure::page::broken;

use crate::descent::{Target, TreePages};
use crate::error::TreeError;
use crate::overflow::free_pages;
use crate::reshape::Newcomer;
use crate::stored::{Stored, check_key};

use attempt::{Done, InTheWay, OldPages, try_batch};

pub use op::{BatchAction, BatchOp, BatchOutcome, Expected};

/// What an entry takes in a leaf besides key and value, at most.
const ENTRY_BYTES: usize = 32;
/// Tries of a whole batch after which it rests longer.
const TRIES_IN_HASTE: u32 = 10;

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
            BatchAction::Insert(value, _) => Stored::make(op.tree.space(), op.key, value).map(Some),
            _ => check_key(op.tree.space(), op.key).map(|()| None),
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
        stored.iter().for_each(|stored| free_pages(op.tree.space(), stored.pages()));
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
        let in_the_way = match tried {
            Ok(Done { effects, lsn, underfull }) => {
                for index in underfull {
                    // The batch is done; a leaf that stays small is no fault.
                    let _ = ops[index].tree.merge_at(ops[index].key);
                }
                return Ok(BatchOutcome::Done { effects, lsn });
            }
            Err(in_the_way) => in_the_way,
        };
        match in_the_way {
            InTheWay::Unexpected(index) => return Ok(BatchOutcome::Unexpected(index)),
            InTheWay::Broken(page) => {
                return Err(broken(page, "keys are not in order").into());
            }
            InTheWay::TooLarge => {
                let limit = first.tree.space().most_pages_held();
                return Err(TreeError::BatchTooLarge { limit });
            }
            InTheWay::NoRoom(range) => {
                let op = &ops[range.start];
                make_room(&ops[range.clone()], &stored[range])?;
                rounds.next::<TreePages, T>(op.tree.space(), Target::Key(op.key))?;
            }
            InTheWay::HasLong(index, version, long) => {
                let op = &ops[index];
                if let Some(pages) = op.tree.pages_of_long(op.key, version, long)? {
                    old.insert(index, (version, pages));
                }
                rounds.next::<TreePages, T>(op.tree.space(), Target::Key(op.key))?;
            }
            InTheWay::Interrupted(index, what) => {
                tries += 1;
                let rest = tries / TRIES_IN_HASTE;
                ops[index].tree.space().make_way(*what, &mut obstacles)?;
                if tries % EXAMINED_EACH == 0 {
                    // Two ways may lead to one leaf, which the batch holds itself.
                    let op = &ops[index];
                    examine::<TreePages, T>(op.tree.space(), Target::Key(op.key))?;
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
        [(op, stored)] => op.tree.split_leaf(Newcomer::Entry(op.key, stored.as_new())),
        [(first, _), ..] => {
            let bytes = |(op, stored): &(&BatchOp<'_, T>, &Stored<'_>)| {
                op.key.len() + stored.logged_len() + ENTRY_BYTES
            };
            let entries: Vec<_> = inserts.iter().map(|entry| (entry.0.key, bytes(entry))).collect();
            first.tree.split_leaf(Newcomer::Entries(&entries))
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
