//! Counting entries.
//!
//! A count reads of each leaf its fences and how many slots it has, where they lie, and searches in the
//! first and the last one alone. It copies no key and no value, and reads no overflow page. As a cursor
//! it counts each key once that is there all the time, and others or not (`CURSOR-1`, `CURSOR-2`).

use std::cmp::Ordering;
use std::ops::Bound;

use polder_pool::Translation;

use crate::bounds::{begin_of, end_of, is_empty};
use crate::descent::{Course, Target};
use crate::error::TreeError;
use crate::node::NodeRef;
use crate::tree::Tree;
use crate::walk::Walk;

impl<T: Translation> Tree<T> {
    /// How many entries have keys within these bounds.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn count(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<u64, TreeError> {
        if is_empty(lower, upper) {
            return Ok(0);
        }
        let (limit, behind) = end_of(upper);
        let end = |leaf: NodeRef<'_>| limit.map_or(leaf.count(), |key| edge(leaf, key, behind));
        let (from, past) = begin_of(lower);
        let target = from.map_or(Target::First, Target::Key);
        let (mut walk, mut seen) = (Walk::default(), 0);
        walk.begin(self, target, |leaf| {
            let begin = from.map_or(0, |key| edge(leaf, key, past));
            seen = end(leaf).saturating_sub(begin);
        })?;
        let (mut count, course) = (seen as u64, Course::Up(limit));
        let mut fence = Vec::new();
        loop {
            let Some(next) = walk.fence(course) else { return Ok(count) };
            if limit.is_some_and(|key| next > key || (next == key && !behind)) {
                return Ok(count);
            }
            fence.clear();
            fence.extend_from_slice(next);
            // The fences and the count alone are read there.
            walk.prefetch(self, course, 0..1);
            walk.step(self, course, |leaf| {
                // What lies below the fence was counted before (WALK-2).
                let begin = match leaf.lower_fence_is(&fence) {
                    true => 0,
                    false => edge(leaf, &fence, false),
                };
                seen = end(leaf).saturating_sub(begin);
            })?;
            count += seen as u64;
        }
    }
}

/// The first slot at or above `key`, or with `behind` the first one above it, of a leaf that may not
/// cover the key.
fn edge(leaf: NodeRef<'_>, key: &[u8], behind: bool) -> usize {
    match leaf.compare_to_fences(key) {
        Ordering::Less => 0,
        Ordering::Greater => leaf.count(),
        Ordering::Equal => match leaf.search(key) {
            Ok(slot) => slot + usize::from(behind),
            Err(slot) => slot,
        },
    }
}
