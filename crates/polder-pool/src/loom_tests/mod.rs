//! The small protocols in every order of execution that loom finds, on the code itself.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p polder-pool --lib --release loom`
//!
//! Where a paper leaves a hole, its version stands beside ours: loom must see it fail. Page bytes
//! are modelled by two relaxed words, as `bytes` would access them.

#![allow(clippy::unwrap_used)]

mod copies;
mod duty;
mod flights;
mod groups;
mod loans;
mod migrations;
mod pending;
mod slices;
mod swizzle;
mod tables;
mod wanted;

use std::sync::Arc;
use std::sync::atomic as ghost;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::thread;

use polder_format::{PageId, PageNo, PhysicalPageNo, SpaceId};

use crate::frame::free_list::FreeList;
use crate::frame::partitions::{PartitionNo, Partitions};
use crate::latch::meta::FrameMeta;
use crate::latch::parking::ParkingLot;
use crate::latch::state::{FrameId, StateCell, StateWord, Version, WrapCount};

/// Runs the model in every order with at most so many preemptions.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn version(number: u32) -> Version {
    Version::new(number)
}

const FRAME: u32 = 1;

/// Runs the closure in a thread of its own, with a handle of the model's state.
fn spawn<S: Send + Sync + 'static>(
    state: &Arc<S>,
    body: impl FnOnce(&S) + Send + 'static,
) -> thread::JoinHandle<()> {
    let state = Arc::clone(state);
    thread::spawn(move || body(&state))
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The bytes of a frame.
#[derive(Default)]
struct Bytes(AtomicU64, AtomicU64);

impl Bytes {
    fn write(&self, value: u64) {
        self.0.store(value, Relaxed);
        self.1.store(value, Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.0.load(Relaxed), self.1.load(Relaxed))
    }
}

/// One resident page, and what a pool has around it. Its bytes say its version.
#[derive(Default)]
struct Page {
    cell: StateCell,
    bytes: Bytes,
    wraps: WrapCount,
    lot: ParkingLot,
    /// Version in the frame's metadata.
    kept: AtomicU32,
}

impl Page {
    fn resident() -> Arc<Page> {
        let page = Page::default();
        assert!(page.cell.claim());
        page.cell.publish(StateWord::free(FrameId::new(FRAME), version(0)), &page.lot);
        Arc::new(page)
    }

    /// As `Exclusive` does it.
    fn write_and_release(&self, held: StateWord, value: u64) {
        self.bytes.write(value);
        let (next, _) = self.wraps.next(held.version());
        self.cell.release(held, next);
    }

    /// As `Optimistic` does it: what was read, if it validates.
    fn read(&self) -> Option<(StateWord, (u64, u64))> {
        let begun = self.wraps.get();
        let seen = self.cell.read();
        let values = seen.is_readable().then(|| self.bytes.read())?;
        self.cell.validate(seen, &self.wraps, begun).then_some((seen, values))
    }

    /// E4 to E7. `carry`: the version stays with the frame (`POOL-3`).
    fn evict(&self, carry: bool) -> bool {
        let Some(held) = self.cell.upgrade(self.cell.read()) else { return false };
        let (next, _) = self.wraps.next(held.version());
        self.kept.store(if carry { next.get() } else { 0 }, Relaxed);
        self.cell.clear();
        true
    }

    /// F5 to F10, into the frame that `evict` left.
    fn load(&self, value: u64) {
        if self.cell.claim() {
            self.bytes.write(value);
            let carried = version(self.kept.load(Relaxed));
            self.cell.publish(StateWord::free(FrameId::new(FRAME), carried), &self.lot);
        }
    }
}

// The state word.

#[test]
fn loom_a_validated_read_is_one_content() {
    explore(3, || {
        let page = Page::resident();
        let writer = spawn(&page, |page| {
            for value in [1, 2] {
                if let Some(held) = page.cell.upgrade(page.cell.read()) {
                    page.write_and_release(held, value);
                }
            }
        });
        if let Some((seen, values)) = page.read() {
            let expected = u64::from(seen.version().get());
            assert_eq!(values, (expected, expected), "a mix was validated");
        }
        writer.join().unwrap();
    });
}

/// calico-2026, algorithm 1, line 32: the version alone is compared, and not whether the word is
/// latched.
#[test]
#[should_panic(expected = "a mix was validated")]
fn loom_validation_without_the_latch_check_fails() {
    explore(3, || {
        let page = Page::resident();
        let writer = spawn(&page, |page| {
            if let Some(held) = page.cell.upgrade(page.cell.read()) {
                page.write_and_release(held, 1);
            }
        });
        let seen = page.cell.read();
        if seen.is_readable() {
            let (a, b) = page.bytes.read();
            fence(Acquire);
            let now = page.cell.read();
            if (seen.frame(), seen.version()) == (now.frame(), now.version()) {
                assert_eq!(a, b, "a mix was validated");
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_no_update_is_lost() {
    explore(3, || {
        let page = Page::resident();
        let increment = |page: &Page| {
            loop {
                let seen = page.cell.read();
                let value = page.bytes.0.load(Relaxed);
                if let Some(held) = page.cell.upgrade(seen) {
                    return page.write_and_release(held, value + 1);
                }
                thread::yield_now();
            }
        };
        let other = spawn(&page, increment);
        increment(&page);
        other.join().unwrap();
        assert_eq!(page.bytes.read(), (2, 2));
        assert_eq!(page.cell.read(), StateWord::free(FrameId::new(FRAME), version(2)));
    });
}

#[test]
fn loom_upgrade_share_mark_and_touch() {
    explore(3, || {
        let page = Page::resident();
        let writer = spawn(&page, |page| {
            if let Some(held) = page.cell.upgrade(page.cell.read()) {
                page.write_and_release(held, 1);
            }
        });
        let clock = spawn(&page, |page| {
            let seen = page.cell.read();
            if seen.is_free() && page.cell.mark(seen) {
                let seen = page.cell.read();
                if seen.is_readable() && seen.is_marked() {
                    page.cell.touch(seen);
                }
            }
        });
        if let Some(shared) = page.cell.try_share() {
            let expected = u64::from(shared.version().get());
            assert_eq!(page.bytes.read(), (expected, expected), "written under a shared latch");
            page.cell.unshare();
        }
        writer.join().unwrap();
        clock.join().unwrap();
        let last = page.cell.read();
        assert!(last.is_free(), "{last:?}");
        assert_eq!(u64::from(last.version().get()), page.bytes.read().0);
    });
}

#[test]
fn loom_only_the_last_shared_holder_upgrades() {
    explore(3, || {
        let page = Page::resident();
        let body = |page: &Page| {
            let Some(_) = page.cell.try_share() else { return };
            match page.cell.upgrade_shared() {
                Some(held) => page.write_and_release(held, page.bytes.read().0 + 1),
                None => page.cell.unshare(),
            }
        };
        let other = spawn(&page, body);
        body(&page);
        other.join().unwrap();
        let last = page.cell.read();
        let (a, b) = page.bytes.read();
        assert!(last.is_free() && a == b && a == u64::from(last.version().get()));
    });
}

// Evict and load.

fn sleeper_across_evict_and_load(carry: bool) {
    explore(3, move || {
        let page = Page::resident();
        let clock = spawn(&page, move |page| {
            if page.evict(carry) {
                page.load(1);
            }
        });
        if let Some((_, (a, b))) = page.read() {
            assert_eq!(a, b, "a mix was validated");
        }
        clock.join().unwrap();
    });
}

#[test]
fn loom_a_reader_that_sleeps_across_evict_and_load_fails() {
    sleeper_across_evict_and_load(true);
}

/// calico-2026 zeroes the version with the entry, so that a reload gives an old version again.
#[test]
#[should_panic(expected = "a mix was validated")]
fn loom_a_version_reset_by_eviction_fails() {
    sleeper_across_evict_and_load(false);
}

/// The frame goes through the free list to another page, whose loader never touches our word.
#[test]
fn loom_a_frame_that_changes_hands_is_not_read_as_the_old_page() {
    explore(3, || {
        struct Hands {
            old: Arc<Page>,
            new: StateCell,
            free: FreeList,
        }
        let hands = Arc::new(Hands {
            old: Page::resident(),
            new: StateCell::new(),
            free: FreeList::empty(FRAME),
        });
        let clock = spawn(&hands, |hands| {
            if hands.old.evict(true) {
                hands.free.put(FrameId::new(FRAME));
            }
        });
        let loader = spawn(&hands, |hands| {
            if hands.free.take().is_some() && hands.new.claim() {
                hands.old.bytes.write(1);
            }
        });
        if let Some((_, values)) = hands.old.read() {
            assert_eq!(values, (0, 0), "another page's bytes were validated");
        }
        clock.join().unwrap();
        loader.join().unwrap();
    });
}

// The frame's metadata.

/// A resident, clean page with the metadata of its frame.
struct Held {
    page: Arc<Page>,
    meta: FrameMeta,
    /// What the metadata must keep from happening is going on.
    forbidden: ghost::AtomicBool,
}

fn page_id(page: u64) -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(page).unwrap())
}

impl Held {
    fn new() -> Arc<Held> {
        let meta = FrameMeta::default();
        meta.assign(page_id(1), PhysicalPageNo::new(1), true);
        Arc::new(Held { page: Page::resident(), meta, forbidden: false.into() })
    }

    fn forbid(&self, yes: bool) {
        self.forbidden.store(yes, ghost::Ordering::Relaxed);
    }

    /// The page leaves the frame. The caller holds it exclusively.
    fn go(&self) {
        assert!(!self.forbidden.load(ghost::Ordering::Relaxed), "POOL-4");
        self.meta.vacate(version(1));
        self.page.cell.clear();
    }

    /// Takes the page out of its frame, unless something keeps it there.
    fn evict(&self) {
        if self.meta.seize(page_id(1), &self.page.cell, self.page.cell.read()).is_ok() {
            self.go();
        }
    }
}

/// The pin comes between the evictor's look and its latch, and leaves the word as it was.
#[test]
fn loom_a_pinned_page_stays() {
    explore(3, || {
        let held = Held::new();
        let clock = spawn(&held, |held| held.evict());
        if let Some(word) = held.page.cell.upgrade(held.page.cell.read()) {
            held.meta.pin();
            held.forbid(true);
            held.page.cell.put_back(word);
            thread::yield_now();
            held.forbid(false);
            held.meta.unpin();
        }
        clock.join().unwrap();
    });
}

/// W1 to W7 against E3 to E7 and against a discard: no other page gets the physical page number
/// while it is written to.
#[test]
fn loom_a_page_being_written_stays() {
    for discard in [false, true] {
        explore(3, move || {
            let held = Held::new();
            held.meta.set_never_written();
            let writer = spawn(&held, |held| {
                if !held.meta.begin_writing() {
                    return;
                }
                if held.meta.page() == page_id(1)
                    && let Some(word) = held.page.cell.try_share()
                {
                    if held.meta.page() == page_id(1) && held.meta.is_dirty(word) {
                        held.forbid(true);
                        held.page.cell.unshare();
                        thread::yield_now();
                        held.meta.set_written(word.version());
                        held.forbid(false);
                    } else {
                        held.page.cell.unshare();
                    }
                }
                held.meta.end_writing();
            });
            let seen = held.page.cell.read();
            if !discard {
                if held.meta.seize(page_id(1), &held.page.cell, seen).is_ok() {
                    assert!(!held.meta.is_dirty(seen), "POOL-4: a change is lost");
                    held.go();
                }
            } else if held.page.cell.latch().is_some() {
                held.meta.await_written();
                held.go();
            }
            writer.join().unwrap();
        });
    }
}

// The wrap.

/// A writer goes round all versions while a reader reads.
fn reader_across_a_round(guarded: bool) {
    const ROUND: u64 = 8;
    explore(2, move || {
        let page = Page::resident();
        let writer = spawn(&page, |page| {
            for value in 1..=ROUND {
                if let Some(held) = page.cell.upgrade(page.cell.read()) {
                    page.write_and_release(held, value);
                }
            }
        });
        let begun = page.wraps.get();
        let seen = page.cell.read();
        if seen.is_readable() {
            let (a, b) = page.bytes.read();
            let begun = if guarded { begun } else { page.wraps.get() };
            if page.cell.validate(seen, &page.wraps, begun) {
                assert_eq!(a, b, "a mix was validated");
            }
        }
        writer.join().unwrap();
        assert_eq!(page.cell.read(), StateWord::free(FrameId::new(FRAME), version(0)));
    });
}

#[test]
fn loom_a_reader_across_a_round_of_versions_fails() {
    reader_across_a_round(true);
}

#[test]
#[should_panic(expected = "a mix was validated")]
fn loom_without_the_wrap_count_a_round_is_not_noticed() {
    reader_across_a_round(false);
}

// Parking.

#[test]
fn loom_no_sleeper_is_forgotten() {
    explore(3, || {
        let page = Arc::new(Page::default());
        assert!(page.cell.claim());
        let sleeper = |page: &Page| {
            page.cell.await_flight(&page.lot);
            assert!(page.cell.read().is_free(), "woken too early");
        };
        let sleepers = [spawn(&page, sleeper), spawn(&page, sleeper)];
        page.cell.publish(StateWord::free(FrameId::new(FRAME), version(0)), &page.lot);
        join(sleepers);
    });
}

#[test]
fn loom_sleepers_end_when_a_page_is_abandoned_and_claimed_again() {
    explore(2, || {
        let page = Arc::new(Page::default());
        assert!(page.cell.claim());
        let sleeper = |page: &Page| page.cell.await_flight(&page.lot);
        let sleepers = [spawn(&page, sleeper), spawn(&page, sleeper)];
        page.cell.publish(StateWord::EVICTED, &page.lot);
        assert!(page.cell.claim());
        page.cell.publish(StateWord::free(FrameId::new(FRAME), version(0)), &page.lot);
        join(sleepers);
    });
}

// The free list.

/// The free frames, and which of them a thread has taken.
struct Frames {
    list: Partitions,
    taken: [ghost::AtomicBool; 4],
}

impl Frames {
    fn new(ends: &[u32]) -> Arc<Frames> {
        Arc::new(Frames { list: Partitions::full(ends), taken: Default::default() })
    }

    fn own(&self, frame: FrameId) -> FrameId {
        let taken = &self.taken[frame.get() as usize];
        assert!(!taken.swap(true, ghost::Ordering::Relaxed), "FREE-1");
        frame
    }

    fn put(&self, frame: FrameId) {
        self.taken[frame.get() as usize].store(false, ghost::Ordering::Relaxed);
        self.list.put(frame);
    }

    fn take(&self) -> Option<FrameId> {
        self.list.take(PartitionNo::FIRST)
    }

    fn take_and_put(&self) {
        if let Some(frame) = self.take() {
            self.put(self.own(frame));
        }
    }

    /// All that are free can be had.
    fn check(&self, free: usize) {
        assert_eq!(self.list.len(), free);
        let found = std::iter::from_fn(|| self.take().map(|frame| self.own(frame))).count();
        assert_eq!(found, free, "FREE-2: a frame was lost");
    }
}

#[test]
fn loom_a_frame_has_one_owner() {
    explore(2, || {
        let frames = Frames::new(&[2]);
        let threads = [(); 2].map(|()| spawn(&frames, Frames::take_and_put));
        let this = frames.list.take_this(FrameId::new(1));
        if this {
            frames.own(FrameId::new(1));
        }
        join(threads);
        frames.check(2 - usize::from(this));
    });
}

#[test]
fn loom_a_frame_put_into_an_empty_word_is_found() {
    explore(3, || {
        let frames = Frames::new(&[1]);
        // Leaves the upper bit over an empty word.
        assert!(frames.list.take_this(FrameId::new(1)));
        frames.own(FrameId::new(1));
        let threads = [
            spawn(&frames, |frames| frames.put(FrameId::new(1))),
            spawn(&frames, Frames::take_and_put),
        ];
        frames.take_and_put();
        join(threads);
        frames.check(1);
    });
}

/// Two threads that want a frame of one partition, which has one, while the other has one that no
/// other thread wants: `PART-2`.
#[test]
fn loom_a_frame_of_another_partition_is_found() {
    explore(3, || {
        let frames = Frames::new(&[1, 2]);
        let keeps = |frames: &Frames| _ = frames.own(frames.take().expect("PART-2"));
        let puts = |frames: &Frames| frames.put(frames.own(frames.take().expect("PART-2")));
        join([spawn(&frames, keeps), spawn(&frames, puts)]);
        frames.check(1);
    });
}
