//! Copies of keys that live as long as a range, in memory that the thread uses again.

use std::cell::RefCell;
use std::ops::{Bound, Deref};

/// How many buffers a thread keeps.
const KEPT: usize = 8;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A copy of a key. Its memory goes to the thread that drops it.
#[derive(Debug)]
pub(super) struct KeyCopy(Vec<u8>);

impl KeyCopy {
    pub(super) fn new(key: &[u8]) -> KeyCopy {
        let kept = BUFFERS.try_with(|buffers| buffers.try_borrow_mut().ok()?.pop());
        let mut copy = kept.ok().flatten().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(key);
        KeyCopy(copy)
    }
}

impl Deref for KeyCopy {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for KeyCopy {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        // A thread that ends keeps nothing.
        let _ = BUFFERS.try_with(|buffers| {
            if let Ok(mut buffers) = buffers.try_borrow_mut()
                && buffers.len() < KEPT
            {
                buffers.push(buffer);
            }
        });
    }
}

/// The bound, lent.
pub(super) fn lent(bound: &Bound<KeyCopy>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}
