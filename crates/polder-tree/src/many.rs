//! Looking up many keys at once: the descents are interleaved (`polder_structure::many`).
//!
//! | file | |
//! |---|---|
//! | `many/ranges.rs` | many ranges, leaf by leaf |
//! | `many/warm.rs` | leaves of keys that will be written are made ready |
//!
//! Keys that follow each other share their way where they can: equal ones are one job; and where all
//! keys come in order, a job is a run of them, which are looked up in the same leaf as long as that
//! covers them. A run that has to wait for a page gives its second half to another descent, so that sparse
//! keys wait for as many pages at once as the device reads.
//!
//! Values are copied out of their leaves, as a single lookup does it, one behind the other into a
//! buffer. They are delivered from there once no page is in flight, or after each round if none is
//! (`MANY-4`), so that users are called with no part of the tree in hand, and may do with it what they
//! like. Of what overflows, each value is looked up by itself.

mod ranges;
mod warm;

use std::ops::Range;

use polder_pool::bytes::PageRef;
use polder_pool::{Optimistic, Restart, Translation};
use polder_structure::many::{Jobs, Read, each};

use crate::descent::TreePages;
use crate::error::TreeError;
use crate::node::{NodeRef, Value};
use crate::tree::Tree;

pub use ranges::Bounds;
pub use warm::Warmed;

/// Keys in a run that one descent begins with.
const RUN_KEYS: usize = 16;
/// Bytes of values that are kept before they are delivered, about.
const KEPT_BYTES: usize = 1 << 20;
/// Answers that are.
const KEPT_ANSWERS: usize = 1 << 14;

/// Why not all keys, or ranges, could be looked up.
#[derive(Debug, Clone, thiserror::Error)]
#[error("number {index}, counted from 0, could not be looked up")]
pub struct ManyError {
    /// Which key, or range.
    pub index: usize,
    /// What is wrong.
    pub source: TreeError,
}

impl<T: Translation> Tree<T> {
    /// Calls `read` for each of `keys`, with its index and its value, or `None` without the key: in any
    /// order.
    ///
    /// Many lookups are under way at once, in memory and out of it, by this one thread. Each is one of
    /// its own: between two of them others may write.
    ///
    /// # Errors
    /// The first one that was met, with the index of its key. Keys for which `read` has not been called
    /// by then are not looked up.
    pub fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), ManyError> {
        self.look_up(Want::Value, keys, read).map(drop)
    }

    /// Calls `read` for each of `keys`, with its index and whether it is there, as [`Tree::get_many`] does.
    ///
    /// # Errors
    /// As [`Tree::get_many`].
    pub fn contains_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, bool),
    ) -> Result<(), ManyError> {
        let found = &mut |index, value: Option<&[u8]>| read(index, value.is_some());
        self.look_up(Want::Presence, keys, found).map(drop)
    }

    fn look_up(
        &self,
        want: Want,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<usize, ManyError> {
        let run_keys = if keys.is_sorted() { RUN_KEYS } else { 1 };
        let mut lookups = Lookups {
            tree: self,
            want,
            keys,
            run_keys,
            next: 0,
            answers: Vec::new(),
            bytes: Vec::new(),
            read,
        };
        each::<TreePages, T, _>(&self.space, &mut lookups)
            .map_err(|(run, source)| ManyError { index: run.begin, source })
    }
}

/// What a lookup is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    /// The value.
    Value,
    /// Whether there is one.
    Presence,
    /// The leaf alone, which will be written: nothing is answered.
    Leaf,
}

/// Keys that are looked up one after the other: in order, or all equal. There is at least one.
#[derive(Debug, Clone, Copy)]
struct Run {
    begin: usize,
    end: usize,
}

/// What was found for some keys, which are equal.
struct Answer {
    keys: Range<usize>,
    /// Where the value lies in the buffer, if there is one.
    value: Option<Range<usize>>,
}

struct Lookups<'k, 'r, T: Translation> {
    tree: &'k Tree<T>,
    want: Want,
    keys: &'k [&'k [u8]],
    /// How many keys a run begins with, at most.
    run_keys: usize,
    /// The first key that nobody has begun to look up.
    next: usize,
    answers: Vec<Answer>,
    bytes: Vec<u8>,
    read: &'r mut dyn FnMut(usize, Option<&[u8]>),
}

impl<'k, T: Translation> Lookups<'k, '_, T> {
    #[inline(always)]
    fn key(&self, run: Run) -> &'k [u8] {
        self.keys[run.begin]
    }

    /// The end of the keys of the run that are equal to its first.
    #[inline(always)]
    fn equal_end(&self, run: Run) -> usize {
        let key = self.keys[run.begin];
        let mut end = run.begin + 1;
        while end < run.end && self.keys[end] == key {
            end += 1;
        }
        end
    }

    /// Keeps the value in a slot of a leaf. False if it does not lie there.
    #[inline(always)]
    fn keep(&mut self, node: NodeRef<'_>, slot: Option<usize>, keys: Range<usize>) -> bool {
        let begin = self.bytes.len();
        if self.want == Want::Leaf {
            return true;
        }
        if let Some(slot) = slot.filter(|_| self.want == Want::Value) {
            let Value::Inline { at, len } = node.value(slot) else { return false };
            node.page().append_to(at, len, &mut self.bytes);
        }
        let value = slot.map(|_| begin..self.bytes.len());
        self.answers.push(Answer { keys, value });
        true
    }
}

impl<T: Translation> Jobs<TreePages> for Lookups<'_, '_, T> {
    type Job = Run;
    type Error = TreeError;

    #[inline(always)]
    fn next(&mut self) -> Option<Run> {
        let begin = self.next;
        if begin == self.keys.len() {
            return None;
        }
        let end = (begin + self.run_keys).min(self.keys.len());
        // Keys that are equal to the last one come along.
        self.next = self.equal_end(Run { begin: end - 1, end: self.keys.len() });
        Some(Run { begin, end: self.next })
    }

    #[inline(always)]
    fn narrow(&self, run: Run, page: PageRef<'_>) -> usize {
        NodeRef::new(page).narrow(self.key(run))
    }

    #[inline(always)]
    fn link_in(&self, run: Run, page: PageRef<'_>, narrowed: usize) -> usize {
        NodeRef::new(page).child_from(self.key(run), narrowed)
    }

    #[inline(always)]
    fn search(&self, run: Run, page: PageRef<'_>) -> usize {
        let node = NodeRef::new(page);
        let slot = node.candidate(self.key(run));
        node.prefetch_found(slot);
        if self.want == Want::Leaf {
            node.prefetch_end_of_free();
        }
        slot
    }

    #[inline(always)]
    fn read(
        &mut self,
        mut run: Run,
        found: usize,
        page: &Optimistic<'_>,
    ) -> Result<Read<Run>, Restart> {
        let node = NodeRef::new(page.page());
        let (answers, bytes) = (self.answers.len(), self.bytes.len());
        let mut slot = node.search_from(self.key(run), found).ok();
        let read = loop {
            let end = self.equal_end(run);
            if !self.keep(node, slot, run.begin..end) {
                break Read::Singly;
            }
            if end == run.end {
                break Read::Done;
            }
            run.begin = end;
            // The next key is not below the one before it, so that this is all to be asked.
            if !node.is_below_upper(self.key(run)) {
                break Read::Rest(run);
            }
            slot = node.search_covered(self.key(run)).ok();
        };
        let stands = page.validate();
        if stands.is_err() || (matches!(read, Read::Singly) && answers == self.answers.len()) {
            self.answers.truncate(answers);
            self.bytes.truncate(bytes);
        } else if matches!(read, Read::Singly) {
            // What came before the value that overflows is answered.
            return Ok(Read::Rest(run));
        }
        stands.map(|()| read)
    }

    fn split(&self, run: &mut Run) -> Option<Run> {
        if self.equal_end(*run) == run.end {
            return None;
        }
        let rest = Run { begin: run.begin.midpoint(run.end), end: run.end };
        run.end = rest.begin;
        Some(rest)
    }

    #[cold]
    fn run_singly(&mut self, run: Run) -> Result<Option<Run>, TreeError> {
        let end = self.equal_end(run);
        let key = self.key(run);
        let read = &mut *self.read;
        match self.want {
            Want::Value => {
                let value = self.tree.get(key)?;
                (run.begin..end).for_each(|index| read(index, value.as_deref()));
            }
            Want::Presence => {
                let value = self.tree.contains_key(key)?.then_some(&[][..]);
                (run.begin..end).for_each(|index| read(index, value));
            }
            // Evicts what is dirty, too, so that others find a frame.
            Want::Leaf => drop(self.tree.contains_key(key)?),
        }
        Ok((end < run.end).then_some(Run { begin: end, end: run.end }))
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.bytes.len() >= KEPT_BYTES || self.answers.len() >= KEPT_ANSWERS
    }

    #[inline(always)]
    fn deliver(&mut self) {
        for answer in self.answers.drain(..) {
            let value = answer.value.map(|range| &self.bytes[range]);
            answer.keys.for_each(|index| (self.read)(index, value));
        }
        self.bytes.clear();
    }
}
