use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::Array;
use crate::device::{Device, FileDevice};
use crate::testing::{create, file, pool, pool_on_device};

/// A file whose writes take a while, and that knows how many batches of them there were at once.
#[derive(Debug)]
struct Slow {
    file: FileDevice,
    now: AtomicUsize,
    most: Arc<AtomicUsize>,
}

impl Device for Slow {
    fn perform(&self, batch: Batch) -> Batch {
        if batch.requests()[0].direction == Direction::Write {
            let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(now, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(20));
            self.now.fetch_sub(1, Ordering::Relaxed);
        }
        self.file.perform(batch)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// Each batch has a buffer, and the budget pays for two.
#[test]
fn many_threads_write_through_two_buffers() {
    let (_dir, file) = file();
    let most = Arc::new(AtomicUsize::new(0));
    let slow = Slow { file, now: AtomicUsize::new(0), most: Arc::clone(&most) };
    let pool = pool_on_device::<Array>(Box::new(slow));
    let space = pool.create_space().unwrap();
    let (shared, core) = (space.shared(), space.space_core());
    let pages: Vec<_> = (0..16).map(|_| create(&space)).collect();
    let frame = |page| shared.latch_resident(core, page).unwrap().frame();
    let frames: Vec<FrameId> = pages.into_iter().map(frame).collect();
    thread::scope(|scope| {
        for frame in &frames {
            scope.spawn(move || {
                assert_eq!(shared.write_back(&[*frame], Cause::Eviction).written, 1)
            });
        }
    });
    assert_eq!(most.load(Ordering::Relaxed), 2);
}

/// However little there is to write.
#[test]
fn a_sweep_says_how_far_it_is_to_its_end() {
    let (_dir, pool) = pool::<Array>(4 << 20);
    let mut told = Vec::new();
    pool.sweep(&mut |visited, frames| told.push((visited, frames))).unwrap();
    let (visited, frames) = *told.last().unwrap();
    assert!(visited == frames && told.is_sorted(), "{told:?}");
}

/// A slow device: more looks at a page that is being written than anybody would wait for another
/// reason.
#[test]
fn a_flush_waits_for_a_page_that_is_being_written_for_long() {
    let (_dir, pool) = pool::<Array>(4 << 20);
    let space = pool.create_space().unwrap();
    let page = create(&space);
    let (shared, core) = (space.shared(), space.space_core());
    let frame = shared.latch_resident(core, page).unwrap().frame();
    let meta = shared.core.latches.meta(frame);
    assert!(meta.begin_writing());
    thread::scope(|scope| {
        let flush = scope.spawn(|| pool.flush());
        thread::sleep(Duration::from_secs(1));
        assert!(!flush.is_finished(), "{:?}", flush.join().unwrap());
        meta.end_writing();
        flush.join().unwrap().unwrap();
    });
    assert_eq!(pool.stats().dirty_pages, 0);
}

/// A sort whose keys change while it sorts panics sooner or later.
#[test]
fn frames_whose_pages_come_and_go_are_put_in_some_order() {
    let (_dir, pool) = pool::<Array>(4 << 20);
    let core = &pool.shared().core;
    // These frames hold no pages: the physical page numbers in their metadata mean nothing.
    let frames: Vec<FrameId> = core.frames.memory.ids().skip(200).take(64).collect();
    assert_eq!(frames.len(), 64);
    thread::scope(|scope| {
        let sorter = scope.spawn(|| {
            for _ in 0..20_000 {
                let mut order = core.by_place(&frames);
                order.sort_unstable_by_key(|frame| frame.get());
                assert!(order == frames, "a frame was lost");
            }
        });
        for place in (0..).map(|i: u64| i.wrapping_mul(0x9E37_79B9) % 1000) {
            let frame = frames[place as usize % frames.len()];
            core.latches.meta(frame).set_physical(PhysicalPageNo::new(place));
            if sorter.is_finished() {
                break;
            }
        }
    });
}
