//! What a range allocates: nothing, once its thread has had one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::support::*;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: the system's allocator does it; a counter without a destructor is all that is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_range_allocates_nothing_after_the_first_one() {
    let _turn = crate::my_turn();
    let dir = tempfile::tempdir().unwrap();
    // All of it stays in memory: to load a page takes memory.
    let options = quick(dir.path().join("s")).memory_budget(64 << 20);
    let store = polder::Store::open(options).unwrap();
    let table = store.open_table("t").unwrap();
    table.bulk_load((0..20_000u64).map(|i| (i.to_be_bytes(), [i as u8; 100]))).unwrap();
    let use_ranges = |from: u64| {
        let (from, to) = (from.to_be_bytes(), (from + 3000).to_be_bytes());
        let (mut forward, mut backward) = (table.range(from..to), table.range(from.to_vec()..));
        let mut bytes = 0;
        while let Some((_, value)) = forward.next_entry().unwrap() {
            // Another one within the first.
            assert!(table.range(&from[..]..=&to[..]).next_entry_back().unwrap().is_some());
            bytes += value.len();
        }
        // (To go to the left the node above is compared with its own, in memory of their fences.)
        assert!(backward.next_entry_back().unwrap().is_some());
        table.for_each(from..to, |_, value| bytes += value.len()).unwrap();
        assert_eq!(bytes, 2 * 300_000);
    };
    // All that are ever in use at once, each with the longest keys that it has.
    (0..4).for_each(|round| use_ranges(round * 4000));
    let before = ALLOCATIONS.get();
    let mut copies = 0;
    for from in [7000, 2, 15_000] {
        use_ranges(from);
        copies += 1; // of the key in `to_vec`
    }
    assert_eq!(ALLOCATIONS.get() - before, copies);
}
