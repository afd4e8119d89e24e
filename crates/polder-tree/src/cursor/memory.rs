//! The memory of a cursor: a few pages' worth, which a thread keeps for the next cursor that it makes.
//!
//! It goes to the thread that drops the cursor, and a few are kept, so that ranges that are nested find
//! theirs. Nothing of what is in it is used again: a cursor begins by copying a leaf.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use polder_format::PageSize;

use crate::node::{CopiedLeaf, KeyBuf};
use crate::walk::Walk;

/// How many a thread keeps.
const KEPT: usize = 4;

/// A buffer for long values of more bytes is not kept.
const KEPT_VALUE_BYTES: usize = 64 << 10;

/// What a cursor works in.
pub(super) struct Memory {
    size: PageSize,
    pub(super) walk: Walk,
    /// The leaf at which the cursor is, and where the next one is copied to, so that the cursor keeps
    /// its own if that fails.
    pub(super) leaf: CopiedLeaf,
    pub(super) next_leaf: CopiedLeaf,
    pub(super) key: KeyBuf,
    /// The key that was given last, once `key` has become another one.
    pub(super) last_key: Vec<u8>,
    /// A value that did not lie in the leaf.
    pub(super) value: Vec<u8>,
}

thread_local! {
    #[expect(clippy::vec_box, reason = "a cursor is moved about with its box")]
    static MEMORIES: RefCell<Vec<Box<Memory>>> = const { RefCell::new(Vec::new()) };
}

/// A memory that is in use. It goes back to the thread.
pub(super) struct Lent(Option<Box<Memory>>);

impl Lent {
    /// For pages of this size.
    pub(super) fn take(size: PageSize) -> Lent {
        let kept = MEMORIES.try_with(|memories| {
            let mut memories = memories.try_borrow_mut().ok()?;
            let at = memories.iter().position(|memory| memory.size == size)?;
            Some(memories.swap_remove(at))
        });
        let mut memory = kept.ok().flatten().unwrap_or_else(|| Box::new(Memory::new(size)));
        memory.walk.reset();
        Lent(Some(memory))
    }
}

impl Memory {
    fn new(size: PageSize) -> Memory {
        Memory {
            size,
            walk: Walk::default(),
            leaf: CopiedLeaf::new(size),
            next_leaf: CopiedLeaf::new(size),
            key: KeyBuf::new(size),
            last_key: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Deref for Lent {
    type Target = Memory;

    #[inline(always)]
    fn deref(&self) -> &Memory {
        self.0.as_ref().expect("it is there until this goes")
    }
}

impl DerefMut for Lent {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Memory {
        self.0.as_mut().expect("it is there until this goes")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut memory) = self.0.take() else { return };
        if memory.value.capacity() > KEPT_VALUE_BYTES {
            memory.value = Vec::new();
        }
        // A thread that ends keeps nothing.
        let _ = MEMORIES.try_with(|memories| {
            let Ok(mut memories) = memories.try_borrow_mut() else { return };
            // Those of the last page sizes.
            if memories.len() == KEPT {
                memories.remove(0);
            }
            memories.push(memory);
        });
    }
}
