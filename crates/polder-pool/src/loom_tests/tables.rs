//! Translations by table, and pages that move: `translation/parts/`, `paging/promote.rs`.

use std::sync::Arc;

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, fence};

use polder_format::{PageId, PageNo, SpaceId};
use polder_testkit::effort::preemptions;

use super::{Bytes, explore, join, spawn, version};
use crate::frame::free_list::FreeList;
use crate::frame::moves::Moves;
use crate::latch::parking::ParkingLot;
use crate::latch::state::{FrameId, StateCell, StateWord, Version, WrapCount};
use crate::translation::parts::bucket_latch::{BucketLatch, SpinLatch, VersionLatch};
use crate::translation::parts::chain::{Apart, Bucket, Chains, Entry, First, Slot};
use crate::translation::parts::tagged::Tagged;

fn page(number: u64) -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(number).unwrap())
}

fn frame(number: u32) -> FrameId {
    FrameId::new(number)
}

/// A chained table for two frames, and the frames. Bytes of a page say its number.
struct Pool<L, F> {
    buckets: Vec<Bucket<L, F>>,
    slots: Vec<Slot>,
    spare: FreeList,
    bytes: [Bytes; 3],
    /// Versions in the frames' metadata.
    kept: [AtomicU32; 3],
    /// Whether they are kept (`POOL-3`).
    carry: bool,
    wraps: WrapCount,
    lot: ParkingLot,
}

impl<L: BucketLatch, F: First> Pool<L, F> {
    fn new(buckets: usize, carry: bool) -> Pool<L, F> {
        Pool {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            slots: (0..3).map(|_| Slot::default()).collect(),
            spare: FreeList::full(2),
            bytes: Default::default(),
            kept: Default::default(),
            carry,
            wraps: WrapCount::default(),
            lot: ParkingLot::new(),
        }
    }

    fn chains(&self) -> Chains<'_, L, F> {
        Chains { buckets: &self.buckets, slots: &self.slots, spare: &self.spare }
    }

    fn bucket(&self, page: PageId) -> usize {
        page.page().get() as usize % self.buckets.len()
    }

    /// F5 to F10.
    fn load(&self, page: PageId, frame: FrameId) -> bool {
        let Some(cell) = self.chains().claim(self.bucket(page), page) else { return false };
        self.bytes[frame.get() as usize].write(page.page().get());
        let version = Version::new(self.kept[frame.get() as usize].load(Relaxed));
        cell.publish(StateWord::free(frame, version), &self.lot);
        true
    }

    /// E4 to E7: gives the frame that is free then.
    fn evict(&self, page: PageId) -> Option<FrameId> {
        let (cell, seen) = self.chains().find(self.bucket(page), page)?;
        let held = cell.upgrade(seen)?;
        let next = if self.carry { held.version().next().get() } else { 0 };
        self.kept[held.frame().get() as usize].store(next, Relaxed);
        self.chains().remove(self.bucket(page), page, StateCell::clear);
        Some(held.frame())
    }

    /// As an optimistic reader: what the page says, if that validates.
    fn read(&self, page: PageId) -> Option<(u64, u64)> {
        let begun = self.wraps.get();
        let (cell, seen) = self.chains().find(self.bucket(page), page)?;
        let values = seen.is_readable().then(|| self.bytes[seen.frame().get() as usize].read())?;
        cell.validate(seen, &self.wraps, begun).then_some(values)
    }
}

/// One bucket: its first entry, or its only slot, goes from page 1 to page 2 and the frame with it,
/// while a reader looks for page 1.
fn an_entry_that_changes_hands<L: BucketLatch, F: First>(carry: bool, back: bool) {
    let pool = Arc::new(Pool::<L, F>::new(1, carry));
    assert!(pool.load(page(1), frame(1)));
    let writer = spawn(&pool, move |pool| {
        if let Some(frame) = pool.evict(page(1)) {
            assert!(pool.load(page(2), frame));
            if back && let Some(frame) = pool.evict(page(2)) {
                assert!(pool.load(page(1), frame));
            }
        }
    });
    if let Some(values) = pool.read(page(1)) {
        assert_eq!(values, (1, 1), "a mix was validated");
    }
    writer.join().unwrap();
}

#[test]
fn loom_an_entry_that_changes_hands_is_not_taken_for_the_old_page() {
    explore(3, || an_entry_that_changes_hands::<VersionLatch, Entry>(true, false));
    explore(2, || an_entry_that_changes_hands::<VersionLatch, Entry>(true, true));
    explore(2, || an_entry_that_changes_hands::<VersionLatch, Apart>(true, false));
    explore(2, || an_entry_that_changes_hands::<SpinLatch, Apart>(true, false));
}

/// predictive-2026 keeps the version in the entry, where leaving and coming back sets
/// it to its first value.
#[test]
#[should_panic(expected = "a mix was validated")]
fn loom_a_version_that_the_entry_forgets_fails() {
    explore(3, || an_entry_that_changes_hands::<VersionLatch, Entry>(false, true));
}

/// A slot is taken out of one chain and goes into another one, while a reader stands on it.
#[test]
fn loom_a_removed_slot_leads_nobody_astray() {
    explore(3, || {
        // Pages 1 and 3 in bucket 1, page 2 in bucket 0; slots only.
        let pool = Arc::new(Pool::<VersionLatch, Apart>::new(2, true));
        assert!(pool.load(page(1), frame(1)));
        let other = spawn(&pool, |pool| {
            let freed = pool.evict(page(1));
            assert!(pool.load(page(2), freed.unwrap_or(frame(2))));
            if freed.is_some() {
                assert!(pool.load(page(3), frame(2)));
            }
        });
        for wanted in [3, 1] {
            if let Some(values) = pool.read(page(wanted)) {
                assert_eq!(values, (wanted, wanted), "a mix was validated");
            }
        }
        other.join().unwrap();
        assert_eq!(pool.read(page(2)), Some((2, 2)));
    });
}

#[test]
fn loom_a_page_has_one_entry() {
    explore(3, || {
        let pool = Arc::new(Pool::<VersionLatch, Entry>::new(1, true));
        let wins = Arc::new(AtomicU32::new(0));
        let threads = [1, 2].map(|at| {
            let wins = Arc::clone(&wins);
            spawn(&pool, move |pool| {
                if pool.load(page(1), frame(at)) {
                    wins.fetch_add(1, Relaxed);
                }
            })
        });
        join(threads);
        assert_eq!(wins.load(Relaxed), 1, "TABLE-1");
        assert_eq!(pool.read(page(1)), Some((1, 1)));
    });
}

/// Changes of chains that meet lose none of them, and none of the slots.
#[test]
fn loom_chains_lose_nothing() {
    fn run<L: BucketLatch, F: First>() {
        let pool = Arc::new(Pool::<L, F>::new(1, true));
        assert!(pool.load(page(1), frame(1)));
        let other = spawn(&pool, |pool| assert!(pool.load(page(2), frame(2))));
        assert!(pool.evict(page(1)).is_some());
        other.join().unwrap();
        assert_eq!(pool.read(page(1)), None);
        assert_eq!(pool.read(page(2)), Some((2, 2)));
        assert!(pool.evict(page(2)).is_some());
        assert_eq!(pool.spare.len(), 2, "a slot was lost");
    }
    explore(3, run::<VersionLatch, Apart>);
    explore(3, run::<VersionLatch, Entry>);
    explore(2, run::<SpinLatch, Apart>);
}

/// A frame, and a reader that was led to it by a table that may be old.
#[derive(Default)]
struct Tag {
    tagged: Tagged,
    bytes: Bytes,
    wraps: WrapCount,
    lot: ParkingLot,
}

impl Tag {
    fn load(&self, number: u64, version: Version) {
        self.tagged.enter(page(number));
        assert!(self.tagged.cell().claim());
        self.bytes.write(number);
        self.tagged.cell().publish(StateWord::free(frame(1), version), &self.lot);
    }

    fn retire(&self) -> Option<Version> {
        let held = self.tagged.cell().upgrade(self.tagged.cell().read())?;
        self.tagged.leave();
        self.tagged.cell().clear();
        Some(held.version().next())
    }
}

/// Readers of all pages come to a frame that goes from page 1 to page 2; page 3 was to have it, and
/// had an entry already.
fn a_frame_that_changes_hands(read: fn(&Tagged, PageId) -> Option<StateWord>) {
    let tag = Arc::new(Tag::default());
    tag.load(1, version(0));
    let writer = spawn(&tag, |tag| {
        if let Some(version) = tag.retire() {
            tag.tagged.enter(page(3));
            tag.tagged.leave();
            tag.load(2, version);
        }
    });
    for wanted in [1, 3, 2] {
        let begun = tag.wraps.get();
        let Some(seen) = read(&tag.tagged, page(wanted)).filter(|seen| seen.is_readable()) else {
            continue;
        };
        let values = tag.bytes.read();
        if tag.tagged.cell().validate(seen, &tag.wraps, begun) {
            assert_eq!(values, (wanted, wanted), "the page of another was validated");
        }
    }
    writer.join().unwrap();
}

#[test]
fn loom_a_tag_is_looked_at_behind_the_word() {
    explore(3, || a_frame_that_changes_hands(Tagged::read));
}

#[test]
#[should_panic(expected = "the page of another was validated")]
fn loom_a_tag_that_is_looked_at_first_fails() {
    explore(3, || {
        a_frame_that_changes_hands(|tagged, wanted| {
            let tag = tagged.page();
            let word = tagged.cell().read();
            (tag == wanted).then_some(word)
        });
    });
}

/// Page 1 moves from frame 1 to frame 2, which it prefers, and page 2 gets frame 1. `lead` is where
/// the table says that page 1 is.
#[derive(Default)]
struct HandingOver {
    tagged: [Tagged; 3],
    lead: AtomicU32,
    bytes: [Bytes; 3],
    wraps: WrapCount,
    lot: ParkingLot,
}

impl HandingOver {
    fn load(&self, number: u64, at: u32, version: Version) {
        let tagged = &self.tagged[at as usize];
        tagged.enter(page(number));
        assert!(tagged.cell().claim());
        self.bytes[at as usize].write(number);
        tagged.cell().publish(StateWord::free(frame(at), version), &self.lot);
    }

    /// Where a page is: first where it prefers to be, then where the table says.
    fn find(&self, number: u64) -> Option<(&StateCell, StateWord)> {
        let lead = self.lead.load(Acquire);
        [2, lead].into_iter().find_map(|at| {
            let tagged = &self.tagged[at as usize];
            tagged.read(page(number)).map(|word| (tagged.cell(), word))
        })
    }

    fn read(&self, number: u64) {
        let begun = self.wraps.get();
        if let Some((cell, seen)) = self.find(number).filter(|(_, word)| word.is_readable()) {
            let values = self.bytes[seen.frame().get() as usize].read();
            if cell.validate(seen, &self.wraps, begun) {
                assert_eq!(values, (number, number), "the page of another was validated");
            }
        }
    }

    /// P2 to P5, and a new life of frame 1.
    fn promote(&self) {
        let Some(held) = self.tagged[1].cell().upgrade(self.tagged[1].cell().read()) else {
            return;
        };
        fence(Release);
        let (a, _) = self.bytes[1].read();
        self.bytes[2].write(a);
        let held_there = StateWord::exclusive(frame(2), version(0));
        let lead = || self.lead.store(2, Release);
        self.tagged[1].hand_over(&self.tagged[2], page(1), held_there, lead);
        self.load(2, 1, held.version().next());
    }

    /// The page leaves, if it can be had.
    fn evict(&self) {
        let Some((cell, seen)) = self.find(1) else { return };
        let Some(held) = cell.upgrade(seen) else { return };
        let tagged = &self.tagged[held.frame().get() as usize];
        if !tagged.is_of(page(1)) {
            return cell.put_back(held);
        }
        self.lead.store(0, Release);
        tagged.leave();
        cell.clear();
    }
}

#[test]
fn loom_a_page_moves_from_tag_to_tag() {
    explore(preemptions(), || {
        let pages = Arc::new(HandingOver::default());
        pages.load(1, 1, version(0));
        pages.lead.store(1, Release);
        let mover = spawn(&pages, HandingOver::promote);
        let evictor = spawn(&pages, HandingOver::evict);
        pages.read(1);
        join([mover, evictor]);
        let resident = [1, 2].map(|at| pages.tagged[at].is_of(page(1)));
        let expected = if pages.lead.load(Acquire) == 0 { 0 } else { 1 };
        assert_eq!(resident.into_iter().filter(|is| *is).count(), expected, "POOL-1");
        pages.read(1);
    });
}

/// A page moves from frame 1 to frame 2, which held another one before, whose reader sleeps.
struct Moving {
    /// The page's word, and that of the one which was in frame 2.
    cells: [StateCell; 2],
    bytes: [Bytes; 3],
    /// Frame 2 holds no page, and its version is this less one.
    free: AtomicU32,
    wraps: WrapCount,
    lot: ParkingLot,
}

impl Moving {
    fn new() -> Arc<Moving> {
        let moving = Moving {
            cells: Default::default(),
            bytes: Default::default(),
            free: AtomicU32::new(0),
            wraps: WrapCount::default(),
            lot: ParkingLot::new(),
        };
        for (at, cell) in moving.cells.iter().enumerate() {
            assert!(cell.claim());
            moving.bytes[at + 1].write(at as u64 + 1);
            cell.publish(StateWord::free(frame(at as u32 + 1), version(0)), &moving.lot);
        }
        Arc::new(moving)
    }

    fn read(&self, at: usize) {
        let begun = self.wraps.get();
        let seen = self.cells[at].read();
        if seen.is_readable() {
            let values = self.bytes[seen.frame().get() as usize].read();
            if self.cells[at].validate(seen, &self.wraps, begun) {
                let expected = at as u64 + 1;
                assert_eq!(values, (expected, expected), "a mix was validated");
            }
        }
    }

    /// The other page leaves frame 2.
    fn evict(&self) {
        if let Some(held) = self.cells[1].upgrade(self.cells[1].read()) {
            self.cells[1].clear();
            self.free.store(held.version().next().get() + 1, Release);
        }
    }

    /// P2 to P5.
    fn promote(&self, with_fence: bool) {
        let Some(held) = self.cells[0].upgrade(self.cells[0].read()) else { return };
        let free = self.free.load(Acquire);
        if free == 0 {
            return self.cells[0].put_back(held);
        }
        if with_fence {
            fence(Release);
        }
        let (a, _) = self.bytes[1].read();
        self.bytes[2].write(a);
        self.cells[0].release_moved(held, frame(2), version(free - 1));
        // The next page gets frame 1.
        fence(Release);
        self.bytes[1].write(9);
    }
}

#[test]
fn loom_a_page_moves_under_its_readers() {
    explore(3, || {
        let moving = Moving::new();
        let evictor = spawn(&moving, Moving::evict);
        let mover = spawn(&moving, |moving| moving.promote(true));
        moving.read(0);
        moving.read(1);
        join([evictor, mover]);
        moving.read(0);
    });
}

/// Without the fence a reader of the frame's former page may see new bytes behind an old word.
#[test]
#[should_panic(expected = "a mix was validated")]
fn loom_a_move_without_its_fence_fails() {
    explore(3, || {
        let moving = Moving::new();
        let evictor = spawn(&moving, Moving::evict);
        let mover = spawn(&moving, |moving| moving.promote(false));
        moving.read(1);
        join([evictor, mover]);
    });
}

/// A dirty page in frame 2, a free frame 1, a sweep that visits them in order, and a mover.
fn a_sweep_and_a_move(begin: impl Fn(&Moves) + Send + Sync + 'static) {
    struct State {
        moves: Moves,
        /// Where the dirty page is.
        dirty_in: AtomicU32,
    }
    let state = Arc::new(State { moves: Moves::default(), dirty_in: AtomicU32::new(2) });
    let mover = spawn(&state, |state| {
        if let Some(_moves) = state.moves.enter()
            && !state.moves.is_sweep_under_way()
        {
            state.dirty_in.store(1, Release);
        }
    });
    begin(&state.moves);
    let seen = [1, 2].map(|frame| state.dirty_in.load(Acquire) == frame);
    assert!(seen[0] || seen[1], "a dirty page was missed");
    mover.join().unwrap();
}

#[test]
fn loom_a_sweep_misses_no_page_that_moves() {
    explore(3, || a_sweep_and_a_move(|moves| std::mem::forget(moves.begin_sweep())));
}

/// The flag alone, without the gate.
#[test]
#[should_panic(expected = "a dirty page was missed")]
fn loom_a_sweep_that_does_not_close_the_gate_fails() {
    explore(3, || a_sweep_and_a_move(|_| {}));
}
