//! Entries of the array and their group: `translation/array/group.rs`.

use std::sync::Arc;
use std::sync::atomic as ghost;

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use super::{Bytes, explore, join, spawn, version};
use crate::latch::parking::ParkingLot;
use crate::latch::state::{FrameId, StateCell, StateWord, WrapCount};
use crate::sync::Flag;
use crate::translation::array::group::{Group, Words};

/// Two pages of one group: their words in the array, and their entries in the table for sparse
/// groups. What no thread can see (which thread loads which page) is kept in ghost variables.
/// Bytes of a page say its number.
#[derive(Default)]
struct Pages {
    group: Group,
    array: [StateCell; 2],
    sparse: [StateCell; 2],
    bytes: [Bytes; 4],
    wraps: WrapCount,
    lot: ParkingLot,
    /// How many threads or frames have each page.
    holders: [ghost::AtomicU32; 2],
    dropped: Flag,
    closed: ghost::AtomicBool,
}

impl<'w> Words<'w> for &'w Pages {
    type Page = usize;

    fn in_array(&self, page: usize) -> &'w StateCell {
        &self.array[page]
    }

    fn in_table(&self, page: usize) -> Option<&'w StateCell> {
        Some(&self.sparse[page]).filter(|word| !word.peek().is_evicted())
    }

    fn claim_in_table(&self, page: usize) -> Option<&'w StateCell> {
        Some(&self.sparse[page]).filter(|word| word.claim())
    }

    fn receive_in_table(&self, page: usize, held: StateWord) -> Option<&'w StateCell> {
        Some(&self.sparse[page]).filter(|word| word.receive(held))
    }

    fn remove_from_table(&self, page: usize, end: impl FnOnce(&StateCell)) {
        end(&self.sparse[page]);
    }

    fn seize(&self, word: &StateCell) -> Option<StateWord> {
        let seen = word.read();
        seen.is_free().then(|| word.upgrade(seen)).flatten()
    }

    fn begin_array(&self) {}

    /// What the kernel takes back.
    fn end_array(&self) {
        for cell in &self.array {
            assert!(cell.wipe().is_evicted(), "a word that was not zero was punched away");
        }
    }
}

impl Pages {
    fn begin_load(&self, page: usize) {
        let before = self.holders[page].fetch_add(1, ghost::Ordering::Relaxed);
        assert_eq!(before, 0, "POOL-1: a page has two frames");
    }

    fn publish(&self, cell: &StateCell, page: usize, frame: u32) {
        assert!(!self.closed.load(ghost::Ordering::Relaxed), "loaded into a closed space");
        self.bytes[frame as usize].write(page as u64);
        cell.publish(StateWord::free(FrameId::new(frame), version(0)), &self.lot);
    }

    /// Where a page is, as a reader without the lock finds it.
    fn find(&self, page: usize) -> Option<(&StateCell, StateWord)> {
        [&self.array[page], &self.sparse[page]]
            .map(|cell| (cell, cell.read()))
            .into_iter()
            .find(|(_, word)| !word.is_evicted())
    }

    fn read(&self, page: usize) {
        let begun = self.wraps.get();
        if let Some((cell, seen)) = self.find(page).filter(|(_, word)| word.is_readable()) {
            let values = self.bytes[seen.frame().get() as usize].read();
            if cell.validate(seen, &self.wraps, begun) {
                assert_eq!(values, (page as u64, page as u64), "a mix was validated");
            }
        }
    }

    /// F4 to F10.
    fn fault(&self, page: usize, frame: u32, sparse: bool) {
        if self.find(page).is_some() {
            return;
        }
        let mut group = self.group.lock();
        if group.has(&self, page) {
            return;
        }
        let cell = match sparse && group.array == 0 {
            true => group.claim_in_table(&self, page),
            false => group.claim_in_array(&self, page),
        };
        drop(group);
        let cell = cell.expect("who has the lock, and found no word, claims one");
        if self.dropped.is_raised() {
            return self.take_out(page, |cell| cell.publish(StateWord::EVICTED, &self.lot));
        }
        self.begin_load(page);
        self.publish(cell, page, frame);
    }

    /// For the holder of the page.
    fn take_out(&self, page: usize, end: impl FnOnce(&StateCell)) {
        self.group.lock().take_out(&self, page, end);
    }

    /// E4 to E8.
    fn evict(&self, page: usize) {
        if let Some((cell, seen)) = self.find(page)
            && seen.is_free()
            && cell.upgrade(seen).is_some()
        {
            self.holders[page].fetch_sub(1, ghost::Ordering::Relaxed);
            self.take_out(page, StateCell::clear);
        }
    }

    /// Moves words from the table to the array, or back.
    fn shift(&self, gather: bool) {
        let mut group = self.group.lock();
        match gather {
            true => group.gather(&self, 0..2),
            false => group.scatter(&self, 0..2),
        };
    }

    fn check(&self) {
        let resident = |cells: &[StateCell; 2]| {
            cells.iter().filter(|cell| cell.read().is_free()).count() as u32
        };
        let group = self.group.lock();
        let found = (resident(&self.array), resident(&self.sparse));
        assert_eq!((group.array, group.sparse), found, "POOL-6");
    }
}

#[test]
fn loom_a_faulter_and_an_evictor_of_one_page() {
    explore(2, || {
        let pages = Arc::new(Pages::default());
        pages.fault(0, 1, false);
        let evictor = spawn(&pages, |pages| {
            pages.evict(0);
            pages.fault(0, 2, false);
        });
        pages.fault(0, 3, false);
        join([evictor]);
        pages.check();
    });
}

#[test]
fn loom_faulters_and_an_evictor_of_the_neighbour() {
    for sparse in [false, true] {
        explore(2, move || {
            let pages = Arc::new(Pages::default());
            pages.fault(0, 1, false);
            let evictor = spawn(&pages, |pages| pages.evict(0));
            pages.fault(1, 3, sparse);
            join([evictor]);
            pages.check();
            let faulter = spawn(&pages, move |pages| pages.fault(0, 2, sparse));
            pages.fault(0, 1, sparse);
            join([faulter]);
            pages.check();
        });
    }
}

/// Words that move while pages are loaded, evicted and read.
#[test]
fn loom_words_move_between_array_and_table() {
    for gather in [true, false] {
        explore(2, move || {
            let pages = Arc::new(Pages::default());
            pages.fault(0, 1, gather);
            let mover = spawn(&pages, move |pages| pages.shift(gather));
            pages.fault(0, 2, gather);
            pages.read(0);
            join([mover]);
            pages.check();
            assert_eq!(pages.holders[0].load(ghost::Ordering::Relaxed), 1);
        });
        explore(2, move || {
            let pages = Arc::new(Pages::default());
            pages.fault(0, 1, gather);
            let mover = spawn(&pages, move |pages| pages.shift(gather));
            pages.evict(0);
            pages.fault(1, 2, gather);
            join([mover]);
            pages.check();
            let mover = spawn(&pages, move |pages| pages.shift(!gather));
            pages.read(0);
            pages.read(1);
            join([mover]);
            pages.check();
        });
    }
}

/// A faulter that trusts what it saw without the lock loads a page whose word was just moving.
#[test]
#[should_panic(expected = "POOL-1")]
fn loom_a_look_without_the_lock_loads_a_page_twice() {
    explore(3, || {
        let pages = Arc::new(Pages::default());
        pages.fault(0, 1, true);
        let mover = spawn(&pages, |pages| pages.shift(true));
        if pages.find(0).is_none() {
            pages.begin_load(0);
        }
        mover.join().unwrap();
    });
}

/// calico-2026, algorithm 2: the counter rises only after the read, so that an eviction in between
/// can punch the group out.
#[test]
#[should_panic(expected = "POOL-1")]
fn loom_a_counter_raised_after_the_read_loads_a_page_twice() {
    #[derive(Default)]
    struct Calico {
        count: AtomicU32,
        pages: Pages,
    }
    impl Calico {
        fn fault(&self, page: usize, frame: u32) {
            let cell = &self.pages.array[page];
            if cell.read().is_evicted() && cell.claim() {
                self.pages.begin_load(page);
                self.count.fetch_add(1, loom::sync::atomic::Ordering::AcqRel);
                self.pages.publish(cell, page, frame);
            }
        }
        fn evict(&self, page: usize) {
            let cell = &self.pages.array[page];
            if cell.upgrade(cell.read()).is_some() {
                cell.clear();
                if self.count.fetch_sub(1, loom::sync::atomic::Ordering::AcqRel) == 1 {
                    self.pages.array.iter().for_each(|cell| _ = cell.wipe());
                }
            }
        }
    }
    explore(2, || {
        let calico = Arc::new(Calico::default());
        calico.fault(0, 1);
        let threads =
            [spawn(&calico, |calico| calico.evict(0)), spawn(&calico, |calico| calico.fault(1, 2))];
        calico.fault(1, 3);
        join(threads);
        calico.count.load(Relaxed);
    });
}

/// Dropping a space: `evacuate` until the group is quiet, then `close`.
#[test]
fn loom_no_page_is_loaded_into_a_dropped_space() {
    for sparse in [false, true] {
        explore(3, move || {
            let pages = Arc::new(Pages::default());
            let faulter = spawn(&pages, move |pages| pages.fault(0, 1, sparse));
            assert!(pages.dropped.raise());
            while pages.group.count() > 0 {
                let cells = [&pages.array[0], &pages.sparse[0]];
                for cell in cells.into_iter().filter(|c| !c.read_after_flag().is_evicted()) {
                    cell.await_flight(&pages.lot);
                    if cell.latch().is_some() {
                        pages.take_out(0, StateCell::clear);
                    }
                }
                thread::yield_now();
            }
            pages.closed.store(true, ghost::Ordering::Relaxed);
            faulter.join().unwrap();
            assert!(pages.find(0).is_none() && pages.group.count() == 0);
        });
    }
}
