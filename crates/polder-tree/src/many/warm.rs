//! Making the leaves of keys ready that will be written one after the other.
//!
//! A write waits for its leaf, for the device or for memory; and the next one of the same thread begins when
//! it is done. So the leaves of the next few keys are looked for together, by interleaved descents which
//! load what is missing, and ask for the lines that will be read and written. Then each write is made as any
//! write is, by a descent that waits for nothing any more. Nothing is held between: a leaf that went or was
//! split meanwhile costs its write what it costs any other.
//!
//! How many keys that are follows what they meet: few where all is in memory, so that their lines are still
//! in the caches when they are wanted; more each time that pages had to be loaded, so that the device is
//! busy for longer than it takes to begin and to end; and never so many that their leaves would be a large
//! part of the pool.

use polder_pool::{PoolError, Translation, waits};

use super::Want;
use crate::error::TreeError;
use crate::tree::Tree;

/// Keys at a time, as long as their leaves are in memory.
const LEAST: usize = 64;
/// Keys at a time at most.
const MOST: usize = 1024;
/// One in so many of the pages that an operation may keep resident.
const SHARE: usize = 8;

/// Up to which of many keys the leaves have been made ready.
#[derive(Debug, Default)]
pub struct Warmed {
    end: usize,
    width: usize,
}

impl Warmed {
    /// Makes sure that the leaf of key number `next` was made ready, and those of keys behind it with it.
    /// Called with no latch held. A thread that may not wait makes nothing ready.
    ///
    /// # Errors
    /// [`PoolError::Broken`]: a page is not what the one above says of it, which is looked at when it is
    /// loaded, so that no write would be told of it. Other errors are met by the write.
    #[inline]
    pub fn reach<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        keys: &[&[u8]],
        next: usize,
    ) -> Result<(), TreeError> {
        if next < self.end { Ok(()) } else { self.go_on(tree, keys, next) }
    }

    #[inline(never)]
    fn go_on<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        keys: &[&[u8]],
        next: usize,
    ) -> Result<(), TreeError> {
        let most = (tree.space.most_pages_held() / SHARE).clamp(1, MOST);
        self.width = self.width.max(LEAST).min(most);
        self.end = keys.len().min(next + self.width);
        if self.end <= next + 1 || !waits::may_wait() {
            return Ok(());
        }
        let loaded = tree.look_up(Want::Leaf, &keys[next..self.end], &mut |_, _| ());
        self.width = if matches!(loaded, Ok(1..)) { self.width * 2 } else { LEAST };
        match loaded.map_err(|error| error.source) {
            Err(error @ TreeError::Pool(PoolError::Broken { .. })) => Err(error),
            _ => Ok(()),
        }
    }
}
