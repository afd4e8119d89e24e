//! Going through a tree in order, forward and backward.
//!
//! A cursor holds no latch and no pin between steps. It keeps a copy of one leaf, taken as one
//! state of it, and lends its entries from there; behind its last entry it goes on to the next leaf
//! (`walk.rs`). To lend them from the page itself would mean to hold it while the caller's code runs, or
//! to lend bytes that a writer may change. So:
//!
//! * `CURSOR-1` Each key that is there all the time is given exactly once, in order.
//! * `CURSOR-2` Keys that come or go while the cursor is on its way are given or not; what is given
//!   was there, with that value, at some time since the cursor was made.
//! * `CURSOR-3` Each key is beyond the one before it, in the direction of the step, and each leaf covers
//!   what it was asked for, or the step ends with an error. So no file makes a cursor go on for ever.
//!
//! | file | |
//! |---|---|
//! | `cursor/place.rs` | where a cursor stands: the leaf that it has copied, and its steps |
//! | `cursor/memory.rs` | the memory for that, which a thread uses again |

mod memory;
mod place;

use std::fmt;
use std::ops::Bound;

use polder_pool::Translation;

use crate::error::TreeError;
use crate::tree::Tree;

pub use place::Place;

/// A position in a tree, in front of an entry or behind the last one.
pub struct Cursor<T: Translation> {
    tree: Tree<T>,
    place: Place,
}

impl<T: Translation> fmt::Debug for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({:?}, {:?})", self.tree, self.place)
    }
}

/// An entry that a cursor lends until its next step.
pub type Entry<'c> = (&'c [u8], &'c [u8]);

impl<T: Translation> Tree<T> {
    fn cursor(&self, place: Place) -> Cursor<T> {
        Cursor { tree: self.clone(), place }
    }

    /// A cursor in front of the first entry.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_first(&self) -> Result<Cursor<T>, TreeError> {
        Ok(self.cursor(Place::above(self, Bound::Unbounded)?))
    }

    /// A cursor behind the last entry.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_last(&self) -> Result<Cursor<T>, TreeError> {
        Ok(self.cursor(Place::below(self, Bound::Unbounded)?))
    }

    /// A cursor in front of the first entry at or above `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_at(&self, key: &[u8]) -> Result<Cursor<T>, TreeError> {
        Ok(self.cursor(Place::above(self, Bound::Included(key))?))
    }

    /// A cursor in front of the first entry above `key`.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn cursor_behind(&self, key: &[u8]) -> Result<Cursor<T>, TreeError> {
        Ok(self.cursor(Place::above(self, Bound::Excluded(key))?))
    }
}

impl<T: Translation> Cursor<T> {
    /// The entry behind the cursor, which steps over it.
    ///
    /// # Errors
    /// Those of loading pages; the cursor stays where it is.
    #[allow(clippy::should_implement_trait)] // It lends.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, TreeError> {
        self.place.next(&self.tree, Bound::Unbounded)
    }

    /// The entry in front of the cursor, which steps back over it.
    ///
    /// # Errors
    /// Those of loading pages; the cursor stays where it is.
    #[inline]
    pub fn previous(&mut self) -> Result<Option<Entry<'_>>, TreeError> {
        self.place.previous(&self.tree, Bound::Unbounded)
    }
}
