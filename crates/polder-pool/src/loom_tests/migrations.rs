//! Pages that go to a frame of another tier: T1 to T7 of `paging/migrate.rs`.

use super::*;

/// A page that has two frames to be in, one in each tier. Its bytes say how often it changed, or that a
/// frame is a stranger's.
struct Tiered {
    cell: StateCell,
    wraps: WrapCount,
    frames: [Bytes; 2],
    /// Versions in the metadata of the frames.
    versions: [AtomicU32; 2],
    metas: [FrameMeta; 2],
    changes: ghost::AtomicU64,
    /// The page is pinned, or being written.
    stays: ghost::AtomicBool,
}

const STRANGERS: u64 = 77;

/// Which word the migrator latches when it has copied the page that had this one, and whether it takes
/// the page for the one that it has copied. It began with this wrap count.
type Latch = fn(&Tiered, StateWord, u32) -> Option<StateWord>;

impl Tiered {
    fn resident() -> Arc<Tiered> {
        let tiered = Tiered {
            cell: StateCell::new(),
            wraps: WrapCount::default(),
            frames: Default::default(),
            versions: Default::default(),
            metas: Default::default(),
            changes: Default::default(),
            stays: Default::default(),
        };
        tiered.metas[0].assign(page_id(1), PhysicalPageNo::new(1), true);
        assert!(tiered.cell.claim());
        tiered.cell.publish(StateWord::free(FrameId::new(1), version(0)), &ParkingLot::new());
        Arc::new(tiered)
    }

    fn at(word: StateWord) -> usize {
        word.frame().get() as usize - 1
    }

    /// T4, and what T5 says of the wrap count.
    fn latch(&self, seen: StateWord, wraps: u32) -> Option<StateWord> {
        let held = self.cell.upgrade(seen)?;
        let is_it = self.wraps.get() == wraps;
        if !is_it {
            self.cell.put_back(held);
        }
        is_it.then_some(held)
    }

    /// T1 to T7. The frame that was left, which is free.
    fn migrate(&self, latch: Latch) -> Option<usize> {
        let wraps = self.wraps.get();
        let seen = self.cell.read();
        if !seen.is_free() {
            return None;
        }
        let (from, to) = (Tiered::at(seen), 1 - Tiered::at(seen));
        // T3
        fence(loom::sync::atomic::Ordering::Release);
        let (first, second) = self.frames[from].read();
        self.frames[to].0.store(first, Relaxed);
        self.frames[to].1.store(second, Relaxed);
        fence(Acquire);
        let held = latch(self, seen, wraps)?;
        // T5
        let meta = &self.metas[from];
        if meta.is_pinned() || meta.is_being_written() {
            self.cell.put_back(held);
            return None;
        }
        // T6
        assert!(!self.stays.load(ghost::Ordering::Relaxed), "T5: it was pinned, or being written");
        self.metas[to].assign(page_id(1), PhysicalPageNo::new(1), true);
        let (left_at, _) = self.wraps.next(held.version());
        meta.vacate(left_at);
        self.versions[from].store(left_at.get(), Relaxed);
        let new = version(self.versions[to].load(Relaxed));
        self.cell.release_moved(held, FrameId::new(to as u32 + 1), new);
        Some(from)
    }

    /// Another page comes into a frame that was left.
    fn give_away(&self, frame: usize) {
        fence(loom::sync::atomic::Ordering::Release);
        self.frames[frame].write(STRANGERS);
    }

    fn change(&self) {
        let seen = self.cell.read();
        if let Some(held) = self.cell.upgrade(seen) {
            let frame = &self.frames[Tiered::at(held)];
            frame.write(frame.read().0 + 1);
            let (next, _) = self.wraps.next(held.version());
            self.cell.release(held, next);
            self.changes.fetch_add(1, ghost::Ordering::Relaxed);
        }
    }

    /// A reader that holds nothing: what it validates is one state of the page.
    fn read(&self) {
        let begun = self.wraps.get();
        let seen = self.cell.read();
        if seen.is_readable() {
            let values = self.frames[Tiered::at(seen)].read();
            if self.cell.validate(seen, &self.wraps, begun) {
                assert!(values.0 == values.1 && values.0 < STRANGERS, "{values:?} was validated");
            }
        }
    }

    /// Nothing that was changed is lost.
    fn check(&self) {
        let last = self.cell.read();
        let changes = self.changes.load(ghost::Ordering::Relaxed);
        assert!(last.is_free(), "{last:?}");
        assert_eq!(self.frames[Tiered::at(last)].read(), (changes, changes), "a change is lost");
    }
}

fn read_beside_migration(then: fn(&Tiered, usize)) {
    explore(3, move || {
        let tiered = Tiered::resident();
        let migrator = spawn(&tiered, move |tiered| {
            let left = tiered.migrate(Tiered::latch).unwrap();
            then(tiered, left);
        });
        tiered.read();
        migrator.join().unwrap();
        tiered.check();
    });
}

/// The frame that the page left is another page's at once.
#[test]
fn loom_readers_of_a_page_that_migrates_see_one_content() {
    read_beside_migration(Tiered::give_away);
}

/// The page comes back to it, changed.
#[test]
fn loom_readers_of_a_page_that_comes_back_see_one_content() {
    read_beside_migration(|tiered, _| {
        tiered.change();
        tiered.migrate(Tiered::latch).unwrap();
    });
}

/// Another thread has evicted the page that lay in the new frame, and somebody still reads it there.
#[test]
fn loom_readers_of_what_lay_in_the_new_frame_do_not_see_the_copy() {
    struct Hands {
        tiered: Arc<Tiered>,
        stranger: StateCell,
        free: FreeList,
    }
    let second = FrameId::new(2);
    explore(3, move || {
        let hands = Hands {
            tiered: Tiered::resident(),
            stranger: StateCell::new(),
            free: FreeList::empty(2),
        };
        hands.tiered.frames[1].write(STRANGERS);
        assert!(hands.stranger.claim());
        hands.stranger.publish(StateWord::free(second, version(0)), &ParkingLot::new());
        let hands = Arc::new(hands);
        let clock = spawn(&hands, move |Hands { tiered, stranger, free }| {
            let held = stranger.upgrade(stranger.read()).unwrap();
            tiered.versions[1].store(tiered.wraps.next(held.version()).0.get(), Relaxed);
            stranger.clear();
            free.put(second);
        });
        let migrator = spawn(&hands, |Hands { tiered, free, .. }| {
            if free.take().is_some() {
                tiered.migrate(Tiered::latch).unwrap();
            }
        });
        let Hands { tiered, stranger, .. } = &*hands;
        let (begun, seen) = (tiered.wraps.get(), stranger.read());
        if seen.is_readable() {
            let values = tiered.frames[1].read();
            if stranger.validate(seen, &tiered.wraps, begun) {
                assert_eq!(values, (STRANGERS, STRANGERS), "another page's bytes were validated");
            }
        }
        join([clock, migrator]);
        tiered.check();
    });
}

fn change_beside_migration(latch: Latch) {
    explore(3, move || {
        let tiered = Tiered::resident();
        let writer = spawn(&tiered, Tiered::change);
        let migrator = spawn(&tiered, move |tiered| _ = tiered.migrate(latch));
        tiered.read();
        join([writer, migrator]);
        tiered.check();
    });
}

#[test]
fn loom_no_change_is_lost_by_a_migration() {
    change_beside_migration(Tiered::latch);
}

/// A migrator that latches what it finds, and not the very word that it had seen when it copied.
#[test]
#[should_panic(expected = "a change is lost")]
fn loom_a_migrator_that_takes_another_word_loses_a_change() {
    change_beside_migration(|tiered, seen, _| {
        let now = tiered.cell.read();
        (now.frame() == seen.frame()).then(|| tiered.cell.upgrade(now)).flatten()
    });
}

/// A writer goes round all versions while the migrator copies.
fn round_beside_migration(latch: Latch) {
    const ROUND: usize = 8;
    explore(2, move || {
        let tiered = Tiered::resident();
        let writer = spawn(&tiered, |tiered| (0..ROUND).for_each(|_| tiered.change()));
        tiered.migrate(latch);
        writer.join().unwrap();
        tiered.check();
    });
}

#[test]
fn loom_a_migrator_notices_a_round_of_versions() {
    round_beside_migration(Tiered::latch);
}

#[test]
#[should_panic(expected = "a change is lost")]
fn loom_a_migrator_without_the_wrap_count_loses_changes() {
    round_beside_migration(|tiered, seen, _| tiered.cell.upgrade(seen));
}

/// W1 to W7, and a pin, come between the migrator's look and its latch, and leave the word as it was.
#[test]
fn loom_a_page_that_is_pinned_or_written_stays_in_its_tier() {
    for writes in [false, true] {
        explore(3, move || {
            let tiered = Tiered::resident();
            let migrator = spawn(&tiered, |tiered| _ = tiered.migrate(Tiered::latch));
            let stays = |yes| tiered.stays.store(yes, ghost::Ordering::Relaxed);
            let meta = &tiered.metas[0];
            if writes {
                if meta.begin_writing() {
                    if meta.page() == page_id(1) && tiered.cell.try_share().is_some() {
                        // It may have left before it was shared.
                        let is_it = meta.page() == page_id(1);
                        stays(is_it);
                        tiered.cell.unshare();
                        thread::yield_now();
                        stays(false);
                    }
                    meta.end_writing();
                }
            } else if let Some(word) = tiered.cell.upgrade(tiered.cell.read()) {
                let meta = &tiered.metas[Tiered::at(word)];
                meta.pin();
                stays(true);
                tiered.cell.put_back(word);
                thread::yield_now();
                stays(false);
                meta.unpin();
            }
            migrator.join().unwrap();
            tiered.check();
        });
    }
}
