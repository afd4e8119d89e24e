//! Memory of searches, which a thread keeps for its next ones.

use std::cell::RefCell;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// Bytes that a thread keeps at most, about, of each kind: what wide searches needed is not kept.
const MOST_KEPT: usize = 1 << 20;

/// What a search needs memory for.
pub(crate) trait Memory: Default + 'static {
    /// What this thread keeps of it.
    fn kept() -> &'static LocalKey<Kept<Self>>;

    /// How many bytes its largest part has.
    fn bytes(&self) -> usize;
}

/// Memory that a thread keeps.
pub(crate) struct Kept<M>(RefCell<Vec<M>>);

impl<M> Kept<M> {
    pub(crate) const fn new() -> Kept<M> {
        Kept(RefCell::new(Vec::new()))
    }
}

/// Memory of a search, as the one before has left it.
pub(crate) struct Lent<M: Memory>(M);

impl<M: Memory> Lent<M> {
    pub(crate) fn new() -> Lent<M> {
        Lent(M::kept().with(|kept| kept.0.borrow_mut().pop()).unwrap_or_default())
    }
}

impl<M: Memory> Deref for Lent<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.0
    }
}

impl<M: Memory> DerefMut for Lent<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.0
    }
}

impl<M: Memory> Drop for Lent<M> {
    fn drop(&mut self) {
        let memory = mem::take(&mut self.0);
        // When the thread ends, nothing is kept.
        let _ = M::kept().try_with(|kept| {
            let mut kept = kept.0.borrow_mut();
            if kept.iter().map(M::bytes).sum::<usize>() + memory.bytes() <= MOST_KEPT {
                kept.push(memory);
            }
        });
    }
}
