//! What replacement policies take of memory (as much as they say, and nothing later), and what the
//! pool tells and asks them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polder_format::{PageId, PageNo, SpaceId};
use polder_pool::device::{Batch, Device, Direction};
use polder_pool::replacement::{Look, Pages, ReplacementKind};
use polder_pool::{AccessHint, Array, FileState, FrameId, Pool, PoolConfig, ReadMode, Space};
use polder_testkit::SimDisk;

use crate::support::*;

thread_local! {
    /// Of this thread alone: the test harness has one, too.
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
    static FREED_BYTES: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all is done by the system's allocator; the counters are beside the point to it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED_BYTES.set(ALLOCATED_BYTES.get() + layout.size() as u64);
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        FREED_BYTES.set(FREED_BYTES.get() + layout.size() as u64);
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FRAMES: u32 = 10_000;

/// For each frame: the page in it, if there is one, and whether that bears the mark.
struct Frames(RefCell<Vec<Option<(PageId, bool)>>>);

impl Pages for Frames {
    fn look(&self, frame: FrameId) -> Look {
        match self.0.borrow()[frame.get() as usize] {
            None => Look::Nothing,
            Some((_, false)) => Look::Plain,
            Some((_, true)) => Look::Marked,
        }
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        self.set_mark(frame, true);
        frame
    }
}

impl Frames {
    fn set_mark(&self, frame: FrameId, marked: bool) {
        if let Some(page) = &mut self.0.borrow_mut()[frame.get() as usize] {
            page.1 = marked;
        }
    }
}

#[test]
fn policies_take_what_they_say_and_nothing_later() {
    for kind in ReplacementKind::ALL.iter().copied() {
        let frames = Frames(RefCell::new(vec![None; FRAMES as usize + 1]));
        let mut victims = Vec::with_capacity(100);
        let taken = || ALLOCATED_BYTES.get();
        let held = || taken() - FREED_BYTES.get();
        let before = held();
        let policy = kind.build(FRAMES);
        let bytes = held() - before;
        let said = kind.bytes_per_frame() * u64::from(FRAMES);
        // The policy itself, sentinels and frame 0.
        assert!(bytes <= said + 1024, "{kind} takes {bytes} bytes and said {said}");
        // 2Q's table is a power of two and may be smaller than it can be.
        assert!(bytes + said / 5 >= said, "{kind} takes {bytes} bytes and said {said}");

        let begun = taken();
        let mut page = 0;
        let mut admit = |frame: FrameId| {
            page += 7;
            let id = PageId::new(SpaceId::CATALOGUE, PageNo::new(page % 30_000).unwrap());
            let marked = policy.admit(frame, id, page % 5 == 0);
            frames.0.borrow_mut()[frame.get() as usize] = Some((id, marked));
        };
        (1..=FRAMES).for_each(|frame| admit(FrameId::new(frame)));
        let mut gone = 0;
        for round in 0..3_000 {
            policy.propose(&frames, 16, round % 3 == 2, &mut victims);
            for victim in victims.drain(..) {
                let page = frames.0.borrow()[victim.get() as usize].map(|(page, _)| page);
                policy.leave(victim, page);
                admit(victim);
                gone += 1;
            }
            let used = FrameId::new(round * 3 % FRAMES + 1);
            if frames.look(used) == Look::Marked && !policy.access(used) {
                frames.set_mark(used, false);
            }
        }
        assert!(gone > 20_000, "{kind}: {gone} went");
        assert_eq!(taken() - begun, 0, "{kind} takes memory in use");
    }
}

/// Pages that are used whenever something is written to their disk.
#[derive(Debug, Default)]
struct UsedPages {
    pages: Mutex<Option<(Space<Array>, [u64; 8])>>,
    uses: AtomicU64,
}

impl UsedPages {
    fn read(&self) {
        if let Some((space, pages)) = &*self.pages.lock().unwrap() {
            for page in pages.map(number).into_iter().filter(|page| is_resident(space, *page)) {
                read(space, page).unwrap();
                self.uses.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[derive(Debug)]
struct DiskInUse(SimDisk, Arc<UsedPages>);

impl Device for DiskInUse {
    fn perform(&self, batch: Batch) -> Batch {
        if batch.requests().iter().any(|request| matches!(request.direction, Direction::Write)) {
            self.1.read();
        }
        self.0.perform(batch)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

fn read_all(space: &Space<Array>, pages: impl IntoIterator<Item = u64>) {
    pages.into_iter().for_each(|page| _ = read(space, number(page)).unwrap());
}

fn pool(replacement: ReplacementKind, device: Box<dyn Device>) -> Pool<Array> {
    let config = PoolConfig { replacement, ..config(4, FileState::NEW) };
    Pool::open(device, &config, &[KIND]).unwrap()
}

fn all_resident(space: &Space<Array>, pages: [u64; 8]) -> bool {
    pages.iter().all(|page| is_resident(space, number(*page)))
}

fn none_resident(space: &Space<Array>, pages: [u64; 8]) -> bool {
    !pages.iter().any(|page| is_resident(space, number(*page)))
}

/// LRU leaves the mark on, so that it must be asked.
#[test]
fn a_page_that_is_used_while_it_is_written_stays() {
    let dirty = [1, 2, 3, 4, 5, 6, 7, 8];
    let used = Arc::new(UsedPages::default());
    let pool = pool(ReplacementKind::Lru, Box::new(DiskInUse(disk(), Arc::clone(&used))));
    let space = pool.create_space().unwrap();
    let frames = pool.stats().frames;
    create_many(&space, 3 * frames as usize);
    pool.flush().unwrap();
    dirty.iter().for_each(|page| increment(&space, number(*page)).unwrap());
    // All others were used later, or go first.
    read_all(&space, 9..frames * 3 / 4);
    *used.pages.lock().unwrap() = Some((space.clone(), dirty));
    let evicted = pool.stats().evictions;
    read_all(&space, frames..frames + frames / 2);
    assert!(pool.stats().evictions - evicted > frames / 4 + 16);
    *used.pages.lock().unwrap() = None;
    assert!(used.uses.load(Ordering::Relaxed) >= 8, "they were written");
    assert!(all_resident(&space, dirty));
    read_all(&space, frames..2 * frames);
    assert!(none_resident(&space, dirty), "they go at last");
}

/// A way to change a page.
type Change = fn(&Space<Array>, PageNo);

/// How often pages had to be loaded that are changed in each round, and how often others that are
/// only read in each. Between the rounds others come and go.
fn faults_of_changed_and_read(
    replacement: ReplacementKind,
    hold: ReadMode,
    change: Change,
) -> (usize, usize) {
    let (changed, only_read) = (1..25, 25..49);
    let config = PoolConfig { replacement, read_mode: hold, ..config(4, FileState::NEW) };
    let pool: Pool<Array> = Pool::open(Box::new(disk()), &config, &[KIND]).unwrap();
    let space = pool.create_space().unwrap();
    let frames = pool.stats().frames;
    create_many(&space, 4 * frames as usize);
    pool.flush().unwrap();
    let mut next = frames;
    let mut read_others = |times: u64| {
        for _ in 0..times * frames {
            read_all(&space, [next]);
            next = if next + 1 < 4 * frames { next + 1 } else { frames };
        }
    };
    // All pages were written when they were made: that is forgotten first.
    read_others(10);
    let mut faults = (0, 0);
    let absent = |page: &u64| !is_resident(&space, number(*page));
    for _ in 0..10 {
        faults.0 += changed.clone().filter(absent).count();
        faults.1 += only_read.clone().filter(absent).count();
        // A thread that loads a page has it pinned, and changes it where it lies.
        read_all(&space, changed.clone().chain(only_read.clone()));
        changed.clone().for_each(|page| change(&space, number(page)));
        read_others(2);
    }
    assert_eq!(pool.stats().copies > 0, hold == ReadMode::Copy);
    faults
}

fn change_in_place(space: &Space<Array>, page: PageNo) {
    increment(space, page).unwrap();
}

fn change_in_a_copy(space: &Space<Array>, page: PageNo) {
    let changed = space.run(AccessHint::Normal, |attempt| {
        let found = space.page(attempt, page)?;
        let mut copy = space.shadow(attempt, found)?;
        // That it is the same as before is known to nobody.
        let same = copy.page().u64(1000);
        copy.page_mut().set_u64(1000, same);
        Ok(())
    });
    changed.unwrap();
}

/// A thread that changes a page tells WATT, by whose value the page stays.
#[test]
fn pages_that_are_changed_stay_before_others_if_writes_have_a_weight() {
    let ways: [(ReadMode, Change); 2] =
        [(ReadMode::Optimistic, change_in_place), (ReadMode::Copy, change_in_a_copy)];
    for (hold, change) in ways {
        let faults_by = |policy: &str| {
            let (changed, others) =
                faults_of_changed_and_read(policy.parse().unwrap(), hold, change);
            let what =
                format!("{policy}, {hold}: {changed} faults of changed pages, {others} of others");
            println!("{what}");
            assert!(others > 0, "{what}");
            (5 * changed < others, what)
        };
        let ((with_writes, what), (without, what_without)) =
            (faults_by("watt:16"), faults_by("watt:0"));
        assert!(with_writes, "{what}");
        assert!(!without, "{what_without}");
    }
}

/// What 2Q knows of pages that may come back outlives a space that is dropped.
#[test]
fn pages_of_a_dropped_space_leave_no_trace() {
    let hot = [1, 2, 3, 4, 5, 6, 7, 8];
    let pool = pool(ReplacementKind::TwoQueues, Box::new(disk()));
    let space = pool.create_space().unwrap();
    let frames = pool.stats().frames;
    create_many(&space, 4 * frames as usize);
    pool.flush().unwrap();
    // They come for the first time, and go; half as many ids as frames are kept.
    read_all(&space, hot);
    let mut next = 9;
    while !none_resident(&space, hot) {
        read_all(&space, [next]);
        next += 1;
    }
    let other = pool.create_space().unwrap();
    create_many(&other, frames as usize * 3 / 8);
    other.drop_space().unwrap();
    // They come back.
    read_all(&space, hot);
    read_all(&space, next..next + 2 * frames);
    assert!(all_resident(&space, hot));
}
