//! Where a cursor stands, and its steps. The tree is the caller's, and the same at each step.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, ControlFlow};

use polder_pool::Translation;
use polder_structure::page::{broken, id};

use super::Entry;
use super::memory::{Lent, Memory};
use crate::bounds::{begin_of, end_of};
use crate::descent::{Course, Target};
use crate::error::TreeError;
use crate::node::{NodeRef, Value};
use crate::overflow::{Long, SeenChain};
use crate::tree::Tree;

/// The entries of the leaf that are wanted in one direction are not known yet.
const UNKNOWN: usize = usize::MAX;

/// The next leaf is asked for by parts of so many bytes, while entries of this one are given: it comes
/// meanwhile, and a cursor that is left behind a few entries has asked for little.
const PART_BYTES: usize = 1024;

/// A place in a tree, in front of an entry or behind the last one: a cursor without its tree. What is
/// wanted is bounded where the steps are made, by the same bound at each step of a direction.
pub struct Place {
    memory: Lent,
    /// How many passes of moving pages had begun when the leaf was copied (`CHAIN-1`).
    pass: u64,
    /// The slot in front of which the cursor stands.
    slot: usize,
    /// The slots of the leaf that are wanted: from `begin` on by steps back, up to `end` by steps
    /// forward. No step needs to compare keys.
    begin: usize,
    end: usize,
    /// Steps back go on down to here, and steps forward up to there, before they look further: whether
    /// there is more in the leaf, and at the next one.
    down_to: usize,
    up_to: usize,
    /// Bytes of the next leaf that were asked for.
    asked: usize,
    /// Where the value of the entry lies that was given last.
    value: Lies,
    /// An entry was given, and its key is in the buffer.
    has_key: bool,
    /// One was given, and its key is kept beside.
    has_given: bool,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} of {}", self.slot, self.memory.leaf.count())
    }
}

impl Place {
    /// In front of the first entry above a bound.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn above<T: Translation>(tree: &Tree<T>, bound: Bound<&[u8]>) -> Result<Place, TreeError> {
        Place::at_edge(tree, bound, false)
    }

    /// Behind the last entry below a bound.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn below<T: Translation>(tree: &Tree<T>, bound: Bound<&[u8]>) -> Result<Place, TreeError> {
        Place::at_edge(tree, bound, true)
    }

    fn at_edge<T: Translation>(
        tree: &Tree<T>,
        bound: Bound<&[u8]>,
        from_above: bool,
    ) -> Result<Place, TreeError> {
        let memory = Lent::take(tree.space.page_size());
        let mut place = Place {
            memory,
            pass: 0,
            slot: 0,
            begin: UNKNOWN,
            end: UNKNOWN,
            down_to: UNKNOWN,
            up_to: 0,
            asked: 0,
            value: Lies::Apart,
            has_key: false,
            has_given: false,
        };
        let target = match bound {
            Bound::Included(key) | Bound::Excluded(key) => Target::Key(key),
            Bound::Unbounded if from_above => Target::Last,
            Bound::Unbounded => Target::First,
        };
        let memory = &mut *place.memory;
        let (copy, pass) = (&mut memory.next_leaf, &mut place.pass);
        memory.walk.begin(tree, target, |leaf| {
            copy.take(leaf);
            *pass = tree.space.passes();
        })?;
        place.arrive();
        let leaf = place.memory.leaf.node();
        place.slot = match bound {
            Bound::Unbounded if from_above => place.memory.leaf.count(),
            Bound::Unbounded => 0,
            // In front of the key, or behind it.
            Bound::Included(key) => edge(leaf, key, from_above)?,
            Bound::Excluded(key) => edge(leaf, key, !from_above)?,
        };
        Ok(place)
    }

    /// The leaf was copied.
    fn arrive(&mut self) {
        self.keep_last_key();
        let memory = &mut *self.memory;
        std::mem::swap(&mut memory.leaf, &mut memory.next_leaf);
        memory.key.begin(memory.leaf.node());
        (self.begin, self.end) = (UNKNOWN, UNKNOWN);
        (self.down_to, self.up_to, self.asked) = (UNKNOWN, 0, 0);
    }

    /// The entry behind the place, which steps over it; none if the next one is not below the bound.
    ///
    /// # Errors
    /// Those of loading pages; the place stays where it is.
    #[inline]
    pub fn next<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        upper: Bound<&[u8]>,
    ) -> Result<Option<Entry<'_>>, TreeError> {
        let there = self.step_up() || self.step_further_up(tree, upper)?;
        Ok(there.then(|| self.entry()))
    }

    /// The entry in front of the place, which steps back over it; none if that one is not above the
    /// bound.
    ///
    /// # Errors
    /// Those of loading pages; the place stays where it is.
    #[inline]
    pub fn previous<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        lower: Bound<&[u8]>,
    ) -> Result<Option<Entry<'_>>, TreeError> {
        let there = self.step_down() || self.step_further_down(tree, lower)?;
        Ok(there.then(|| self.entry()))
    }

    /// Steps over the entry behind the place, if it lies in the leaf with its value and nothing else is
    /// to be done. [`Place::entry`] is that entry then; where this is false, the place stays where it is,
    /// and [`Place::next`] tells why.
    #[inline(always)]
    pub fn step_up(&mut self) -> bool {
        let slot = self.slot;
        let there = slot < self.up_to && self.fetch_short(slot);
        self.slot = slot + usize::from(there);
        there
    }

    /// As [`Place::step_up`], over the entry in front of the place ([`Place::previous`]).
    #[inline(always)]
    pub fn step_down(&mut self) -> bool {
        let slot = self.slot;
        let there = slot > self.down_to && self.fetch_short(slot - 1);
        self.slot = slot - usize::from(there);
        there
    }

    #[inline(never)]
    fn step_further_up<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        upper: Bound<&[u8]>,
    ) -> Result<bool, TreeError> {
        loop {
            if self.slot >= self.up_to && !self.go_up(tree, upper)? {
                return Ok(false);
            }
            let slot = self.slot;
            let there = self.fetch(tree, slot)?;
            self.slot = slot + 1;
            if there {
                return Ok(true);
            }
        }
    }

    #[inline(never)]
    fn step_further_down<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        lower: Bound<&[u8]>,
    ) -> Result<bool, TreeError> {
        loop {
            if self.slot <= self.down_to && !self.go_down(tree, lower)? {
                return Ok(false);
            }
            let slot = self.slot - 1;
            let there = self.fetch(tree, slot)?;
            self.slot = slot;
            if there {
                return Ok(true);
            }
        }
    }

    /// Shows the entries behind the place up to the bound, until `visit` breaks off.
    ///
    /// # Errors
    /// Those of loading pages; the place stands behind the last entry that was shown.
    pub fn try_for_each<T: Translation, B>(
        &mut self,
        tree: &Tree<T>,
        upper: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TreeError> {
        while let Some((key, value)) = self.next(tree, upper)? {
            if let ControlFlow::Break(result) = visit(key, value) {
                return Ok(ControlFlow::Break(result));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The key of the entry that was given last; none before the first one.
    pub fn last_key(&self) -> Option<&[u8]> {
        match self.has_key {
            true => Some(self.memory.key.get()),
            false => Some(&self.memory.last_key[..]).filter(|_| self.has_given),
        }
    }

    /// The buffer gets another key.
    fn keep_last_key(&mut self) {
        if std::mem::take(&mut self.has_key) {
            let memory = &mut *self.memory;
            memory.last_key.clear();
            memory.last_key.extend_from_slice(memory.key.get());
            self.has_given = true;
        }
    }

    /// Makes sure that the entry behind the place is in the leaf and wanted. False if there is none.
    fn go_up<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        upper: Bound<&[u8]>,
    ) -> Result<bool, TreeError> {
        let (limit, behind) = end_of(upper);
        let course = Course::Up(limit);
        loop {
            let Memory { leaf, walk, .. } = &*self.memory;
            if self.end == UNKNOWN {
                let end = limit.map(|key| edge_within(leaf.node(), key, behind));
                self.end = end.unwrap_or(Ok(leaf.count()))?;
            }
            if self.slot < self.end {
                let left = self.end - self.slot;
                let goes_on = self.end == leaf.count();
                let steps = if goes_on { self.look_ahead(tree, course, left) } else { left };
                self.up_to = self.slot + steps;
                return Ok(true);
            }
            // The next leaf begins at the fence.
            let is_beyond = |(fence, key): (&[u8], &[u8])| fence > key || (fence == key && !behind);
            let ends = walk.fence(course).zip(limit).is_some_and(is_beyond);
            if ends || self.end < leaf.count() || !self.load(tree, course)? {
                return Ok(false);
            }
        }
    }

    /// The same of the entry in front of the place.
    fn go_down<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        lower: Bound<&[u8]>,
    ) -> Result<bool, TreeError> {
        let (limit, behind) = begin_of(lower);
        let course = Course::Down(limit);
        loop {
            let Memory { leaf, walk, .. } = &*self.memory;
            if self.begin == UNKNOWN {
                let begin = limit.map(|key| edge_within(leaf.node(), key, behind));
                self.begin = begin.unwrap_or(Ok(0))?;
            }
            if self.slot > self.begin {
                let left = self.slot - self.begin;
                let goes_on = self.begin == 0;
                let steps = if goes_on { self.look_ahead(tree, course, left) } else { left };
                self.down_to = self.slot - steps;
                return Ok(true);
            }
            // The next leaf ends at the fence.
            let ends = walk.fence(course).zip(limit).is_some_and(|(fence, key)| fence <= key);
            if ends || self.begin > 0 || !self.load(tree, course)? {
                return Ok(false);
            }
        }
    }

    /// Asks for a part of the next leaf. Gives after how many steps the next part is to be asked for,
    /// of those that are left in this one.
    fn look_ahead<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        course: Course<'_>,
        left: usize,
    ) -> usize {
        let size = tree.space.page_size().bytes();
        if self.asked >= size {
            return left;
        }
        let parts = (size - self.asked) / PART_BYTES;
        let (steps, end) = match left / parts {
            0 => (left, size),
            steps => (steps, self.asked + PART_BYTES),
        };
        self.memory.walk.prefetch(tree, course, self.asked..end);
        self.asked = end;
        steps
    }

    /// Copies the next leaf, and stands at its near end, or at the fence. False if there is none.
    fn load<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        course: Course<'_>,
    ) -> Result<bool, TreeError> {
        let memory = &mut *self.memory;
        let (copy, mut pass) = (&mut memory.next_leaf, 0);
        let there = memory.walk.step(tree, course, |leaf| {
            copy.take(leaf);
            pass = tree.space.passes();
        })?;
        if !there {
            return Ok(false);
        }
        // CURSOR-1: after a merge the leaf has keys on the other side of the fence that were given before.
        let slot = match (memory.walk.overlap(course), course) {
            (Some(fence), _) => edge(copy.node(), fence, false),
            (None, Course::Up(_)) => Ok(0),
            (None, Course::Down(_)) => Ok(copy.count()),
        };
        let slot = slot.inspect_err(|_| memory.walk.undo())?;
        self.arrive();
        (self.slot, self.pass) = (slot, pass);
        Ok(true)
    }

    /// The entry over which the last step went.
    #[inline(always)]
    pub fn entry(&self) -> Entry<'_> {
        let value = match self.value {
            Lies::InLeaf { at, len } => self.memory.leaf.bytes(at, len),
            Lies::Apart => &self.memory.value,
        };
        (self.memory.key.get(), value)
    }

    /// Finds key and value of a slot of the copy. False if the value lies in overflow pages, or the leaf
    /// contradicts itself.
    #[inline(always)]
    fn fetch_short(&mut self, slot: usize) -> bool {
        let memory = &mut *self.memory;
        let Ok(Value::Inline { at, len }) = memory.leaf.entry(slot, &mut memory.key) else {
            return false;
        };
        self.value = Lies::InLeaf { at, len };
        self.has_key = true;
        true
    }

    /// Finds key and value of a slot of the copy. False if the value lay in overflow pages and the key is
    /// gone.
    fn fetch<T: Translation>(&mut self, tree: &Tree<T>, slot: usize) -> Result<bool, TreeError> {
        if self.fetch_short(slot) {
            return Ok(true);
        }
        let memory = &mut *self.memory;
        match memory.leaf.entry(slot, &mut memory.key) {
            Ok(Value::Overflow { len, run, link }) => {
                self.fetch_long(tree, slot, Long { len, run, link })
            }
            // CURSOR-3
            _ => Err(out_of_order(memory.leaf.node())),
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch_long<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        slot: usize,
        long: Long,
    ) -> Result<bool, TreeError> {
        self.keep_last_key();
        let memory = &mut *self.memory;
        if memory.leaf.key(slot, &mut memory.key).is_err() {
            return Err(out_of_order(memory.leaf.node()));
        }
        let seen = SeenChain { version: memory.leaf.node().version(slot), long, pass: self.pass };
        let key = memory.key.get();
        let value = match tree.read_long(key, seen)? {
            Some(value) => Some(value),
            // It was written since the leaf was copied: as it is now (CURSOR-2).
            None => tree.get(key)?,
        };
        let Some(value) = value else { return Ok(false) };
        memory.value = value;
        self.value = Lies::Apart;
        self.has_key = true;
        Ok(true)
    }
}

/// Where the value of an entry lies.
#[derive(Debug, Clone, Copy)]
enum Lies {
    InLeaf { at: usize, len: usize },
    Apart,
}

/// The first slot at or above `key`, or with `behind` the first one above it.
fn edge(leaf: NodeRef<'_>, key: &[u8], behind: bool) -> Result<usize, TreeError> {
    let (slot, found) = match leaf.search(key) {
        Ok(slot) => (slot, true),
        Err(slot) => (slot, false),
    };
    if !leaf.is_edge(slot, key) {
        return Err(out_of_order(leaf));
    }
    Ok(slot + usize::from(found && behind))
}

/// The same of a key that may lie beyond the fences.
fn edge_within(leaf: NodeRef<'_>, key: &[u8], behind: bool) -> Result<usize, TreeError> {
    match leaf.compare_to_fences(key) {
        Ordering::Equal => edge(leaf, key, behind),
        Ordering::Less => Ok(0),
        Ordering::Greater => Ok(leaf.count()),
    }
}

#[cold]
pub(crate) fn out_of_order(node: NodeRef<'_>) -> TreeError {
    broken(id(node.page()), "keys are not in order, or not within the fences").into()
}
