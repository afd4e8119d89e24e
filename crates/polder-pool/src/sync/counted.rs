//! Atomics that tell where a thread stores: std's, with each access noted (`--cfg polder_count`).
//!
//! Two cores show little of what many would suffer from: lines that go to and fro. What can be
//! counted on any machine is which threads load and store which words. Each thread notes its own;
//! [`shared`] puts the notes of several threads together.

use std::cell::RefCell;
use std::collections::HashMap;

pub use std::sync::atomic::{Ordering, fence};

/// Bytes that a core takes from others at once.
const LINE_BYTES: usize = 64;

/// How often a thread accessed a word.
#[derive(Debug, Clone, Copy, Default)]
struct Accesses {
    loads: u64,
    stores: u64,
    /// Instructions that load and store at once: locked ones, on x86.
    updates: u64,
}

/// What one thread did, by the address of each word of 8 bytes.
#[derive(Debug, Default)]
pub struct Notes(HashMap<usize, Accesses>);

thread_local! {
    static NOTES: RefCell<Option<Notes>> = const { RefCell::new(None) };
}

/// From now on what this thread does is noted.
pub fn start() {
    NOTES.set(Some(Notes::default()));
}

/// What this thread has done since `start`.
pub fn stop() -> Notes {
    NOTES.take().unwrap_or_default()
}

/// Stores to lines that more than one of the threads uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedWrites {
    /// Plain stores.
    pub stores: u64,
    /// Loads and stores in one.
    pub updates: u64,
    /// Of both, those to words that only one thread uses: the line is shared by chance.
    pub by_neighbourhood: u64,
    /// All stores and updates, whichever other threads use the line.
    pub all: u64,
}

/// What the threads wrote to lines that they share.
pub fn shared(threads: &[Notes]) -> SharedWrites {
    let mut users: HashMap<usize, u64> = HashMap::new();
    let mut line_users: HashMap<usize, u64> = HashMap::new();
    for (thread, notes) in threads.iter().enumerate() {
        for word in notes.0.keys() {
            *users.entry(*word).or_default() |= 1 << thread;
            *line_users.entry(word / LINE_BYTES).or_default() |= 1 << thread;
        }
    }
    let mut found = SharedWrites::default();
    for (word, accesses) in threads.iter().flat_map(|notes| &notes.0) {
        let writes = accesses.stores + accesses.updates;
        found.all += writes;
        if line_users[&(word / LINE_BYTES)].count_ones() > 1 {
            found.stores += accesses.stores;
            found.updates += accesses.updates;
            if users[word].count_ones() == 1 {
                found.by_neighbourhood += writes;
            }
        }
    }
    found
}

/// Runs what a lookup does now and then, and not as a lookup: it is not noted.
pub(crate) fn aside<R>(work: impl FnOnce() -> R) -> R {
    let noted = NOTES.take();
    let result = work();
    NOTES.set(noted);
    result
}

fn note<T>(at: *const T, count: impl FnOnce(&mut Accesses)) {
    // A thread that is ending notes nothing.
    let _ = NOTES.try_with(|notes| {
        if let Ok(mut notes) = notes.try_borrow_mut()
            && let Some(notes) = notes.as_mut()
        {
            count(notes.0.entry(at.addr() & !7).or_default());
        }
    });
}

macro_rules! counted {
    ($($name:ident $([$generic:ident])?, $value:ty;)*) => {$(
        /// As std's.
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name $(<$generic>)? (std::sync::atomic::$name $(<$generic>)?);

        impl $(<$generic>)? Default for $name $(<$generic>)? {
            fn default() -> Self {
                $name(Default::default())
            }
        }

        #[allow(missing_docs, dead_code)]
        impl $(<$generic>)? $name $(<$generic>)? {
            pub const fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                note(self, |a| a.loads += 1);
                self.0.load(order)
            }

            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                note(self, |a| a.stores += 1);
                self.0.store(value, order);
            }

            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                note(self, |a| a.updates += 1);
                self.0.swap(value, order)
            }

            #[inline]
            pub fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(self, |a| a.updates += 1);
                self.0.compare_exchange(from, to, success, failure)
            }

            #[inline]
            pub fn compare_exchange_weak(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(self, |a| a.updates += 1);
                self.0.compare_exchange_weak(from, to, success, failure)
            }

            #[inline]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                note(self, |a| a.updates += 1);
                self.0.fetch_update(success, failure, f)
            }
        }
    )*};
}

macro_rules! counted_arithmetic {
    ($($name:ident, $value:ty, [$($method:ident),*];)*) => {$(
        #[allow(missing_docs, dead_code)]
        impl $name {
            $(#[inline]
            pub fn $method(&self, value: $value, order: Ordering) -> $value {
                note(self, |a| a.updates += 1);
                self.0.$method(value, order)
            })*
        }
    )*};
}

counted! {
    AtomicBool, bool;
    AtomicU8, u8;
    AtomicU16, u16;
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
    AtomicPtr[T], *mut T;
}

counted_arithmetic! {
    AtomicBool, bool, [fetch_or, fetch_and];
    AtomicU8, u8, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max];
    AtomicU16, u16, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max];
    AtomicU32, u32, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max];
    AtomicU64, u64, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max];
    AtomicUsize, usize, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max];
}

#[cfg(test)]
mod tests {
    use super::Ordering::Relaxed;
    use super::*;

    #[test]
    fn stores_are_told_by_who_else_uses_the_line() {
        #[repr(align(128))]
        struct Lines([AtomicU64; 32]);
        let lines = Lines([const { AtomicU64::new(0) }; 32]);
        // Words 0 to 7 are one line, words 16 to 23 another.
        start();
        lines.0[0].load(Relaxed);
        lines.0[1].store(1, Relaxed);
        lines.0[2].fetch_add(1, Relaxed);
        lines.0[16].fetch_add(1, Relaxed);
        let one = stop();
        lines.0[1].store(1, Relaxed);
        start();
        lines.0[0].load(Relaxed);
        lines.0[2].load(Relaxed);
        lines.0[3].store(1, Relaxed);
        let other = stop();
        let found = shared(&[one, other]);
        assert_eq!(found, SharedWrites { stores: 2, updates: 1, by_neighbourhood: 2, all: 4 });
    }
}
