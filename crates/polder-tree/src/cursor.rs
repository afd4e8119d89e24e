//! Going through a tree in order, forward and backward.
//!
//! A cursor holds no latch and no pin between steps. It keeps a copy of one leaf, taken as one
//! state of it, and gives out its entries from there; behind its last entry it goes on to the leaf
//! that covers the upper fence (before its first, to the one below the lower fence), whatever has
//! been split or merged meanwhile. So:
//!
//! * `CURSOR-1` Each key that is there all the time is given exactly once, in order.
//! * `CURSOR-2` Keys that come or go while the cursor is on its way are given or not; what is given
//!   was there, with that value, at some time since the cursor was made.
//! * `CURSOR-3` Each key is beyond the one before it, in the direction of the step, and each leaf covers
//!   what it was asked for, or the step ends with an error. So no file makes a cursor go on for ever.

use std::fmt;

use polder_format::PageNo;
use polder_pool::bytes::PageBuf;
use polder_pool::{AccessHint, Attempt, Optimistic, Restart, Space, Translation};
use polder_structure::Levels;
use polder_structure::levels::{confirm, descend};
use polder_structure::page::{broken, id, page_of};

use crate::descent::{Target, TreePages};
use crate::error::TreeError;
use crate::node::{NodeRef, Value};
use crate::overflow::{Long, SeenChain};
use crate::tree::Tree;
use crate::way::leaf;

/// Leaves that a cursor reads before it counts as a scan.
const SCAN_FROM: u32 = 4;

/// Leaves that are asked for ahead of a scan that comes to some that are not in memory.
const AHEAD: usize = 16;
/// Leaves behind such a one for which it goes on asking.
const COLD: u32 = 64;

/// A position in a tree, in front of an entry or behind the last one.
pub struct Cursor<T: Translation> {
    tree: Tree<T>,
    leaf: PageBuf,
    /// Where the next leaf is copied to, so that the cursor keeps its own if that fails.
    next_leaf: PageBuf,
    /// How many passes of moving pages had begun when the leaf was copied (`CHAIN-1`).
    pass: u64,
    /// The slot in front of which the cursor stands.
    slot: usize,
    count: usize,
    leaves: u32,
    /// For so many leaves more those ahead of them are asked for.
    cold: u32,
    ahead: Vec<PageNo>,
    key: Vec<u8>,
    value: Vec<u8>,
    fence: Vec<u8>,
}

impl<T: Translation> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({:?}, slot {} of {})", self.tree, self.slot, self.count)
    }
}

/// An entry that a cursor lends until its next step.
pub type Entry<'c> = (&'c [u8], &'c [u8]);

impl<T: Translation> Tree<T> {
    fn cursor(&self) -> Cursor<T> {
        Cursor {
            tree: self.clone(),
            leaf: PageBuf::new(self.space.page_size()),
            next_leaf: PageBuf::new(self.space.page_size()),
            pass: 0,
            slot: 0,
            count: 0,
            leaves: 0,
            cold: 0,
            ahead: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            fence: Vec::new(),
        }
    }

    /// A cursor in front of the first entry.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_first(&self) -> Result<Cursor<T>, TreeError> {
        let mut cursor = self.cursor();
        cursor.load(Target::First, None)?;
        Ok(cursor)
    }

    /// A cursor behind the last entry.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_last(&self) -> Result<Cursor<T>, TreeError> {
        let mut cursor = self.cursor();
        cursor.load(Target::Last, None)?;
        cursor.slot = cursor.count;
        Ok(cursor)
    }

    /// A cursor in front of the first entry at or above `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_at(&self, key: &[u8]) -> Result<Cursor<T>, TreeError> {
        let mut cursor = self.cursor();
        cursor.load(Target::Key(key), Some(key))?;
        Ok(cursor)
    }

    /// A cursor in front of the first entry above `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_behind(&self, key: &[u8]) -> Result<Cursor<T>, TreeError> {
        let mut cursor = self.cursor_at(key)?;
        cursor.slot += usize::from(cursor.node().search(key).is_ok());
        Ok(cursor)
    }
}

impl<T: Translation> Cursor<T> {
    fn node(&self) -> NodeRef<'_> {
        NodeRef::new(self.leaf.page())
    }

    fn hint(&mut self) -> AccessHint {
        self.leaves = self.leaves.saturating_add(1);
        if self.leaves > SCAN_FROM { AccessHint::Scan } else { AccessHint::Normal }
    }

    /// Copies the leaf for `target`, and stands in front of the first entry in it, or of the first one
    /// at or above `from`. On an error the cursor stays where it is.
    ///
    /// Always from the root: what a right link in the copy leads to may have been freed since, and
    /// still be found resident, as it was (a fault that came too late loads it).
    fn load(&mut self, target: Target<'_>, from: Option<&[u8]>) -> Result<(), TreeError> {
        let hint = self.hint();
        let Cursor { tree, next_leaf: copy, ahead, cold, .. } = self;
        let mut pass = 0;
        let waited = tree.space.run(hint, |attempt| {
            ahead.clear();
            let leaf = match target {
                Target::Key(key) if *cold > 0 => leaf_and_next(&tree.space, attempt, key, ahead)?,
                _ => leaf(&tree.space, attempt, target)?,
            };
            copy.copy_from(leaf.page());
            pass = tree.space.passes();
            leaf.validate()?;
            let seen = TreePages::covers(copy.page(), target);
            confirm(attempt, &[leaf], seen)?; // CURSOR-3: the leaf covers the target
            Ok(attempt.has_waited())
        })?;
        let asks = !ahead.is_empty() && tree.space.load_ahead(ahead.drain(..)) > 0;
        *cold = match hint {
            AccessHint::Scan if waited || asks => COLD,
            _ => cold.saturating_sub(1),
        };
        let node = NodeRef::new(copy.page());
        let slot = match from {
            Some(key) => position(node, key).ok_or_else(|| out_of_order(node))?,
            None => 0,
        };
        std::mem::swap(&mut self.leaf, &mut self.next_leaf);
        self.pass = pass;
        self.count = self.node().count();
        self.slot = slot;
        Ok(())
    }

    /// Copies the next leaf. False if there is none.
    fn load_next(&mut self) -> Result<bool, TreeError> {
        if !self.node().has_upper() {
            return Ok(false);
        }
        self.load_beyond(|node, key| node.append_upper_fence(key), |fence| Target::Key(fence))?;
        // The next leaf comes into the cache while this one's entries are given out. Nothing is
        // read there, so that a right link that is no longer true does no harm.
        self.tree.space.prefetch(page_of(self.node().right_link()));
        Ok(true)
    }

    /// Copies the leaf before this one. False if there is none.
    fn load_before(&mut self) -> Result<bool, TreeError> {
        if !self.node().has_lower() {
            return Ok(false);
        }
        self.load_beyond(|node, key| node.append_lower_fence(key), |fence| Target::Before(fence))?;
        Ok(true)
    }

    /// Copies the leaf beyond a fence of this one, and stands at the fence. `CURSOR-1`: after a merge the
    /// leaf that covers it begins below it, with keys that were given before.
    fn load_beyond(
        &mut self,
        append: impl Fn(NodeRef<'_>, &mut Vec<u8>),
        target: impl Fn(&[u8]) -> Target<'_>,
    ) -> Result<(), TreeError> {
        let mut fence = std::mem::take(&mut self.fence);
        fence.clear();
        append(self.node(), &mut fence);
        let loaded = self.load(target(&fence), Some(&fence));
        self.fence = fence;
        loaded
    }

    /// The entry behind the cursor, which steps over it.
    ///
    /// # Errors
    /// Those of loading pages; the cursor stays where it is.
    #[allow(clippy::should_implement_trait)] // It lends.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, TreeError> {
        self.step(false)
    }

    /// The entry in front of the cursor, which steps back over it.
    ///
    /// # Errors
    /// Those of loading pages; the cursor stays where it is.
    #[inline]
    pub fn previous(&mut self) -> Result<Option<Entry<'_>>, TreeError> {
        self.step(true)
    }

    #[inline(always)]
    fn step(&mut self, back: bool) -> Result<Option<Entry<'_>>, TreeError> {
        loop {
            while if back { self.slot == 0 } else { self.slot >= self.count } {
                if !(if back { self.load_before()? } else { self.load_next()? }) {
                    return Ok(None);
                }
            }
            let slot = self.slot - usize::from(back);
            let there = self.fetch(slot)?;
            self.slot = slot + usize::from(!back);
            if there {
                return Ok(Some((&self.key, &self.value)));
            }
        }
    }

    /// Key and value of a slot of the copy. False if the value lay in overflow pages and the key
    /// is gone.
    fn fetch(&mut self, slot: usize) -> Result<bool, TreeError> {
        let node = NodeRef::new(self.leaf.page());
        self.key.clear();
        node.append_key(slot, &mut self.key);
        // CURSOR-3: a key that is out of order ends the step.
        if !node.stands_right(slot, &self.key) {
            return Err(out_of_order(node));
        }
        self.value.clear();
        match node.value(slot) {
            Value::Inline { at, len } => node.page().append_to(at, len, &mut self.value),
            Value::Overflow { len, run, link } => {
                let (version, pass) = (node.version(slot), self.pass);
                let seen = SeenChain { version, long: Long { len, run, link }, pass };
                let value = match self.tree.read_long(&self.key, seen)? {
                    Some(value) => Some(value),
                    // It was written since the leaf was copied: as it is now (CURSOR-2).
                    None => self.tree.get(&self.key)?,
                };
                let Some(value) = value else { return Ok(false) };
                self.value = value;
            }
        }
        Ok(true)
    }
}

/// The leaf for `key`, and the numbers of those behind it that its parent knows.
fn leaf_and_next<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    key: &[u8],
    next: &mut Vec<PageNo>,
) -> Result<Optimistic<'p>, Restart> {
    let place = descend::<TreePages, T>(space, attempt, Target::Key(key), 0)?;
    if let Some((parent, index)) = place.parent {
        let node = NodeRef::new(parent.page());
        let first = index + 1;
        let last = node.count().min(first + AHEAD - 1);
        next.extend((first..=last).map(|index| page_of(node.link(index))));
        parent.validate()?;
    }
    Ok(place.page)
}

/// The first slot at or above `key`; `None` if its neighbours say that it is not.
fn position(node: NodeRef<'_>, key: &[u8]) -> Option<usize> {
    let (Ok(slot) | Err(slot)) = node.search(key);
    let below = slot == 0 || node.key(slot - 1).as_slice() < key;
    let above = slot == node.count() || node.key(slot).as_slice() >= key;
    (below && above).then_some(slot)
}

#[cold]
fn out_of_order(node: NodeRef<'_>) -> TreeError {
    broken(id(node.page()), "keys are not in order, or not within the fences").into()
}
