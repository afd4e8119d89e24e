//! Holding by slices: `latch/slice.rs`.

use super::*;

use crate::latch::slice::{Slice, all_free};
use crate::sync::seq_cst_under_loom;

/// A resident page, and the slices of its frame in two groups.
struct Sliced {
    page: Arc<Page>,
    slices: [Slice; 2],
}

/// Holding, and looking whether a thread holds the page, as another thread would do it.
type HoldBy = fn(&Sliced, StateWord) -> bool;
type IsFree = fn(&Sliced) -> bool;

impl Sliced {
    fn resident() -> Arc<Sliced> {
        Arc::new(Sliced { page: Page::resident(), slices: Default::default() })
    }

    /// As `GroupPins` does it.
    fn hold(&self, group: usize, seen: StateWord) -> bool {
        seen.is_readable() && self.slices[group].hold(&self.page.cell, seen)
    }

    fn is_free(&self) -> bool {
        all_free(&self.slices)
    }

    fn read_held(&self) -> u64 {
        let (a, b) = self.page.bytes.read();
        assert_eq!(a, b, "HOLD-2: a mix was read");
        a
    }

    /// One try to hold the page and read it.
    fn hold_and_read(&self, group: usize) {
        if self.hold(group, self.page.cell.read()) {
            self.read_held();
            self.slices[group].release();
        }
    }

    fn put_back(&self, held: StateWord) {
        self.page.cell.put_back(held);
    }

    fn write_if(&self, is_free: IsFree) {
        let Some(held) = self.page.cell.upgrade(self.page.cell.read()) else { return };
        if is_free(self) {
            let value = self.page.bytes.read().0 + 1;
            self.page.write_and_release(held, value);
        } else {
            self.put_back(held);
        }
    }

    fn check(&self) {
        assert!(self.is_free(), "HOLD-1");
        assert!(self.page.cell.read().is_free());
    }
}

fn holder_and_writer(hold: HoldBy, is_free: IsFree) {
    explore(3, move || {
        let sliced = Sliced::resident();
        let writer = spawn(&sliced, move |sliced| sliced.write_if(is_free));
        let seen = sliced.page.cell.read();
        if seen.is_readable() && hold(&sliced, seen) {
            sliced.read_held();
            sliced.slices[0].release();
        }
        writer.join().unwrap();
        sliced.check();
    });
}

fn hold_well(sliced: &Sliced, seen: StateWord) -> bool {
    sliced.hold(0, seen)
}

/// With acquire and release alone.
fn hold_weakly(sliced: &Sliced, seen: StateWord) -> bool {
    sliced.slices[0].raw().fetch_add(1, AcqRel);
    let held = seen.still_stands(sliced.page.cell.read());
    if !held {
        sliced.slices[0].release();
    }
    held
}

fn is_free_weakly(sliced: &Sliced) -> bool {
    sliced.slices.iter().all(|slice| slice.raw().load(Acquire) == 0)
}

#[test]
fn loom_what_is_held_is_not_written() {
    holder_and_writer(hold_well, Sliced::is_free);
}

/// scalecache-2025, algorithm 1, gives no memory orders: each side can miss what the other
/// one has stored.
#[test]
#[should_panic(expected = "HOLD-2: a mix was read")]
fn loom_holding_without_a_store_load_order_fails() {
    holder_and_writer(hold_weakly, is_free_weakly);
}

#[test]
#[should_panic(expected = "HOLD-2: a mix was read")]
fn loom_the_store_load_order_of_the_holder_alone_fails() {
    holder_and_writer(hold_well, is_free_weakly);
}

#[test]
#[should_panic(expected = "HOLD-2: a mix was read")]
fn loom_the_store_load_order_of_the_writer_alone_fails() {
    holder_and_writer(hold_weakly, Sliced::is_free);
}

/// A holder in each group, and a writer that looks at one slice after the other.
#[test]
fn loom_the_slices_of_all_groups_count() {
    explore(2, || {
        let sliced = Sliced::resident();
        let threads = [
            spawn(&sliced, |sliced| sliced.hold_and_read(1)),
            spawn(&sliced, |sliced| sliced.write_if(Sliced::is_free)),
        ];
        sliced.hold_and_read(0);
        join(threads);
        sliced.check();
    });
}

/// Bytes that are no atomics: a hold orders like a latch. (Loom finds accesses without an order.)
#[test]
fn loom_a_hold_is_a_latch() {
    struct Latched(Arc<Sliced>, UnsafeCell<u64>);
    // SAFETY: the cell is used by a thread that holds the page, and loom reports if that is not
    // enough.
    unsafe impl Sync for Latched {}
    explore(3, || {
        let latched = Arc::new(Latched(Sliced::resident(), UnsafeCell::new(0)));
        let writer = spawn(&latched, |Latched(sliced, bytes)| {
            let Some(held) = sliced.page.cell.upgrade(sliced.page.cell.read()) else { return };
            if !sliced.is_free() {
                return sliced.put_back(held);
            }
            // SAFETY: HOLD-2.
            bytes.with_mut(|bytes| unsafe { *bytes += 1 });
            sliced.page.cell.release(held, held.version().next());
        });
        let Latched(sliced, bytes) = &*latched;
        let seen = sliced.page.cell.read();
        if sliced.hold(0, seen) {
            // SAFETY: HOLD-2.
            let read = bytes.with(|bytes| unsafe { *bytes });
            assert_eq!(read, u64::from(seen.version().get()), "HOLD-2");
            sliced.slices[0].release();
        }
        writer.join().unwrap();
    });
}

/// The page is evicted, and its frame serves another one under a word of its own.
#[test]
fn loom_what_is_held_is_not_evicted() {
    struct Hands(Arc<Sliced>, StateCell);
    explore(3, || {
        let hands = Arc::new(Hands(Sliced::resident(), StateCell::new()));
        let clock = spawn(&hands, |Hands(old, new)| {
            let Some(held) = old.page.cell.upgrade(old.page.cell.read()) else { return };
            if !old.is_free() {
                return old.put_back(held);
            }
            old.page.cell.clear();
            if new.claim() {
                old.page.bytes.write(7);
                let word = StateWord::free(held.frame(), held.version().next());
                new.publish(word, &old.page.lot);
            }
        });
        let Hands(old, new) = &*hands;
        if old.hold(0, old.page.cell.read()) {
            assert_eq!(old.read_held(), 0, "HOLD-2: another page was read");
            old.slices[0].release();
        }
        let seen = new.read();
        if seen.is_readable() && old.slices[0].hold(new, seen) {
            assert_eq!(old.read_held(), 7, "HOLD-2: the old page was read");
            old.slices[0].release();
        }
        clock.join().unwrap();
        assert!(old.is_free(), "HOLD-1");
    });
}

/// Writes, whichever threads hold the page. `waits`: with the word exclusive; else it puts the
/// word back and begins again.
fn write_surely(sliced: &Sliced, waits: bool) {
    let held = loop {
        let held = sliced.page.cell.latch().unwrap();
        while waits && !sliced.is_free() {
            thread::yield_now();
        }
        if sliced.is_free() {
            break held;
        }
        sliced.put_back(held);
        thread::yield_now();
    };
    let value = sliced.page.bytes.read().0 + 1;
    sliced.page.write_and_release(held, value);
}

/// (Two that put the word back again and again are too much for loom, which is not fair to a third
/// thread.)
#[test]
fn loom_two_writers_outlast_a_holder() {
    for both_wait in [true, false] {
        explore(2, move || {
            let sliced = Sliced::resident();
            assert!(sliced.hold(0, sliced.page.cell.read()));
            let waits = spawn(&sliced, |sliced| write_surely(sliced, true));
            let other = spawn(&sliced, move |sliced| match both_wait {
                true => write_surely(sliced, true),
                false => sliced.write_if(Sliced::is_free),
            });
            sliced.read_held();
            sliced.slices[0].release();
            sliced.hold_and_read(0);
            join([waits, other]);
            assert!(sliced.page.bytes.read().0 > u64::from(both_wait));
            sliced.check();
        });
    }
}

#[test]
fn loom_a_holder_outlasts_a_writer() {
    for waits in [true, false] {
        explore(3, move || {
            let sliced = Sliced::resident();
            let writer = spawn(&sliced, move |sliced| write_surely(sliced, waits));
            while !sliced.hold(0, sliced.page.cell.read()) {
                thread::yield_now();
            }
            sliced.read_held();
            sliced.slices[0].release();
            writer.join().unwrap();
            assert_eq!(sliced.page.bytes.read(), (1, 1));
            sliced.check();
        });
    }
}

/// The page is held in group 1 while somebody tries in group 0.
fn try_beside_a_holder(tries: fn(&Sliced), is_free: IsFree) {
    struct Watched {
        sliced: Arc<Sliced>,
        held: ghost::AtomicBool,
    }
    explore(3, move || {
        let watched = Arc::new(Watched { sliced: Sliced::resident(), held: true.into() });
        assert!(watched.sliced.hold(1, watched.sliced.page.cell.read()));
        let tries = spawn(&watched, move |Watched { sliced, .. }| tries(sliced));
        let writer = spawn(&watched, move |Watched { sliced, held }| {
            if sliced.page.cell.upgrade(sliced.page.cell.read()).is_some() && is_free(sliced) {
                assert!(!held.load(ghost::Ordering::Relaxed), "HOLD-2");
            }
        });
        thread::yield_now();
        watched.held.store(false, ghost::Ordering::Relaxed);
        watched.sliced.slices[1].raw().fetch_sub(1, SeqCst);
        join([tries, writer]);
    });
}

#[test]
fn loom_a_failed_try_hides_no_holder() {
    try_beside_a_holder(|sliced| sliced.hold_and_read(0), Sliced::is_free);
}

/// scalecache-2025 3.1 lets a thread unpin where it is then, and adds modulo 2^16. That is right
/// only while unpinning waits for the lock too: of a count that is taken back in another slice than
/// it was added to, a thread that adds up the slices can see the one and not the other.
#[test]
#[should_panic(expected = "HOLD-2")]
fn loom_a_count_that_moves_to_another_slice_hides_a_holder() {
    fn tries(sliced: &Sliced) {
        let seen = sliced.page.cell.read();
        if seen.is_readable() {
            sliced.slices[0].raw().fetch_add(1, SeqCst);
            seq_cst_under_loom();
            let held = seen.still_stands(sliced.page.cell.read_after_flag());
            sliced.slices[usize::from(!held)].raw().fetch_sub(1, SeqCst);
        }
    }
    try_beside_a_holder(tries, |sliced| {
        seq_cst_under_loom();
        sliced.slices.iter().fold(0, |sum: u16, slice| sum.wrapping_add(slice.count())) == 0
    });
}
