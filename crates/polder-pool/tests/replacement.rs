//! What replacement policies take of memory: as much as they say, and nothing later.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};

use polder_format::{PageId, PageNo, SpaceId};
use polder_pool::FrameId;
use polder_pool::replacement::{Look, Pages, ReplacementKind};

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

/// For each frame: is there a page, and does it bear the mark?
struct Frames(RefCell<Vec<Option<bool>>>);

impl Pages for Frames {
    fn look(&self, frame: FrameId) -> Look {
        match self.0.borrow()[frame.get() as usize] {
            None => Look::Nothing,
            Some(false) => Look::Plain,
            Some(true) => Look::Marked,
        }
    }

    fn mark(&self, frame: FrameId) {
        self.0.borrow_mut()[frame.get() as usize] = Some(true);
    }
}

#[test]
fn policies_take_what_they_say_and_nothing_later() {
    for kind in ReplacementKind::ALL {
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
            frames.0.borrow_mut()[frame.get() as usize] = Some(marked);
        };
        (1..=FRAMES).for_each(|frame| admit(FrameId::new(frame)));
        let mut gone = 0;
        for round in 0..3_000 {
            policy.propose(&frames, 16, round % 3 == 2, &mut victims);
            for victim in victims.drain(..) {
                policy.leave(victim);
                admit(victim);
                gone += 1;
            }
            let used = FrameId::new(round * 3 % FRAMES + 1);
            if frames.look(used) == Look::Marked && !policy.access(used) {
                frames.0.borrow_mut()[used.get() as usize] = Some(false);
            }
        }
        assert!(gone > 20_000, "{kind}: {gone} went");
        assert_eq!(taken() - begun, 0, "{kind} takes memory in use");
    }
}
