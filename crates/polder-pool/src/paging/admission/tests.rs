use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use polder_format::PageNo;

use super::*;
use crate::Pool;
use crate::frame::partitions::PartitionNo;
use crate::latch::FrameId;
use crate::latch::meta::FrameMeta;
use crate::sync::lock;
use crate::testing::{create, pool};
use crate::{AccessHint, Array, Pin};

/// `ADMIT-1`.
#[test]
fn a_thread_that_holds_something_does_not_wait() {
    let (_dir, pool) = pool::<Array>(4 << 20);
    let shared = pool.shared();
    let exhausted = || Err::<(), _>(shared.exhausted());
    let calls = AtomicU64::new(0);
    let counted = || {
        calls.fetch_add(1, Ordering::Relaxed);
        exhausted()
    };
    let holding = Holding::new();
    assert!(shared.when_admitted(OPERATION_FRAMES, counted).is_err());
    assert_eq!(calls.swap(0, Ordering::Relaxed), 1);
    assert!(shared.admit().is_none());
    drop(holding);
    assert!(shared.when_admitted(OPERATION_FRAMES, counted).is_err());
    assert_eq!(calls.swap(0, Ordering::Relaxed), 2, "once more, when it is admitted");
    let admitted = shared.admit();
    assert!(admitted.is_some());
    assert!(shared.when_admitted(OPERATION_FRAMES, counted).is_err());
    assert_eq!(calls.swap(0, Ordering::Relaxed), 1, "it is admitted already");
}

/// Pins and takes all frames that nobody has pinned.
fn take_the_rest(pool: &Pool<Array>) -> (Vec<Pin<'_>>, Vec<FrameId>) {
    let (shared, mut pins, mut frames) = (pool.shared(), Vec::new(), Vec::new());
    let is_pinned = |frame: FrameId| shared.core.latches.meta(frame).is_pinned();
    while shared.core.frames.memory.ids().any(|frame| !is_pinned(frame) && !frames.contains(&frame))
    {
        frames.extend(std::iter::from_fn(|| shared.core.frames.free.take(PartitionNo::FIRST)));
        for frame in shared.core.frames.memory.ids().filter(|frame| !is_pinned(*frame)) {
            let page = shared.core.latches.meta(frame).page();
            let space = (!page.is_null()).then(|| shared.space(page.space())).flatten();
            let held = space.and_then(|space| {
                let held = shared.latch_resident(&space, page.page())?;
                Some(Pin::new(shared.core.latches.meta(held.frame())))
            });
            pins.extend(held);
        }
    }
    (pins, frames)
}

/// Operations that have pinned all frames between them, and want one more each. To look up where
/// it lies is an operation of its own, which finds no frame for the map either: it must not wait
/// while the one that needs it keeps its pins.
#[test]
fn operations_that_hold_all_frames_let_go_at_once() {
    const WAY: usize = 9;
    const THREADS: usize = 10;
    let (_dir, pool) = pool::<Array>(1500 << 10);
    let space = pool.create_space().unwrap();
    let pages: Vec<PageNo> = (0..500).map(|_| create(&space)).collect();
    pool.flush().unwrap();
    // Pages that are resident already would not be pinned.
    let ways: Vec<PageNo> = pages.into_iter().filter(|page| !space.is_resident(*page)).collect();
    assert!(ways.len() >= THREADS * (WAY + 1));
    let (pinned, taken) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let (slowest, done) = (Mutex::new(Duration::ZERO), AtomicU64::new(0));
    thread::scope(|scope| {
        for way in ways.chunks(WAY + 1).take(THREADS) {
            let (space, pinned, taken) = (&space, &pinned, &taken);
            let (slowest, done) = (&slowest, &done);
            scope.spawn(move || {
                let mut since = None;
                let gone = space.run(AccessHint::Normal, |attempt| {
                    for (step, page) in way.iter().enumerate() {
                        if step == WAY {
                            since.get_or_insert_with(|| {
                                pinned.wait();
                                taken.wait();
                                Instant::now()
                            });
                        }
                        space.page(attempt, *page)?.validate()?;
                    }
                    Ok(())
                });
                gone.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
                let took = since.map(|since| since.elapsed()).unwrap_or_default();
                let mut slowest = lock(slowest);
                *slowest = (*slowest).max(took);
            });
        }
        pinned.wait();
        let shared = pool.shared();
        let is_pinned = |frame: &FrameId| shared.core.latches.meta(*frame).is_pinned();
        // Those that are admitted find room in what they all have pinned now (ADMIT-3).
        assert!(shared.core.frames.memory.ids().filter(is_pinned).count() >= THREADS * WAY);
        let map = PageNo::new(space.space_core().map.root().get()).unwrap();
        shared.discard(&shared.file, shared.latch_resident(&shared.file, map).unwrap());
        let (pins, frames) = take_the_rest(&pool);
        taken.wait();
        // What is held here stays so until all others have finished, or should have.
        let begun = Instant::now();
        while done.load(Ordering::Relaxed) < THREADS as u64 && begun.elapsed() < 2 * PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        frames.into_iter().for_each(|frame| shared.give_frame(frame));
        drop(pins);
    });
    let slowest = slowest.into_inner().unwrap();
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

/// `LOAN-4`: a thread that has borrowed something is told that there is no frame for the rest, and gives
/// back what it has.
#[test]
fn a_borrower_does_not_wait_for_the_rest() {
    let (_dir, pool) = pool::<Array>(4 << 20);
    let space = pool.create_space().unwrap();
    let pages: Vec<_> = (0..1500).map(|_| create(&space)).collect();
    pool.flush().unwrap();
    let is_there = |page: &&PageNo| space.is_resident(**page);
    let missing = *pages.iter().find(|page| !is_there(page)).unwrap();
    let lent = *pages.iter().rfind(is_there).unwrap();
    let mut borrower = crate::Borrower::new(&space);
    // The page provider may evict the page before it is lent.
    let is_lent = (0..1000).any(|_| {
        let guard =
            space.run(AccessHint::Normal, |attempt| Ok(space.page(attempt, lent)?.without_hold()));
        borrower.borrow(lent, &guard.unwrap()).is_ok()
    });
    assert!(is_lent);
    let (taken, tried) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        // Another thread: pins of this one would keep it from waiting as well.
        scope.spawn(|| {
            let (pins, frames) = take_the_rest(&pool);
            taken.wait();
            tried.wait();
            drop(pins);
            frames.into_iter().for_each(|frame| pool.shared().give_frame(frame));
        });
        taken.wait();
        let begun = Instant::now();
        let loaded = borrower.load(missing).map(drop);
        tried.wait();
        assert!(loaded.is_err_and(|error| error.is_exhausted()));
        assert!(begun.elapsed() < PATIENCE / 2, "it has waited: {:?}", begun.elapsed());
    });
    assert!(borrower.load(missing).is_ok());
}

/// One frame that nobody has pinned, with a page that is being written.
fn being_written<'p>(
    pool: &'p Pool<Array>,
    pins: &mut Vec<Pin<'_>>,
    frames: &[FrameId],
) -> (FrameId, &'p FrameMeta) {
    drop(pins.pop());
    let core = &pool.shared().core;
    let is_left =
        |frame: &FrameId| !core.latches.meta(*frame).is_pinned() && !frames.contains(frame);
    let frame = core.frames.memory.ids().find(is_left).unwrap();
    let meta = core.latches.meta(frame);
    assert!(meta.begin_writing());
    (frame, meta)
}

/// `ADMIT-2`: nobody needs what this thread holds to finish a write.
#[test]
fn a_thread_that_holds_something_waits_for_the_device() {
    let (_dir, pool) = pool::<Array>(4 << 20);
    let space = pool.create_space().unwrap();
    (0..1500).for_each(|_| _ = create(&space));
    pool.flush().unwrap();
    let shared = pool.shared();
    let take = || shared.take_frame(None, PartitionNo::FIRST);
    let (mut pins, frames) = take_the_rest(&pool);
    assert!(take().is_err(), "there is none");
    let (last, meta) = being_written(&pool, &mut pins, &frames);
    let frame = thread::scope(|scope| {
        scope.spawn(|| {
            // Longer than it is left to the page provider.
            thread::sleep(Duration::from_millis(500));
            meta.end_writing();
        });
        take().unwrap()
    });
    assert_eq!(frame, last);
    drop(pins);
    frames.into_iter().chain([frame]).for_each(|frame| shared.give_frame(frame));
}

/// `ADMIT-2`, also if they come later.
#[test]
fn those_that_wait_to_be_admitted_go_first() {
    let (_dir, pool) = pool::<Array>(4 << 20);
    let space = pool.create_space().unwrap();
    (0..1500).for_each(|_| _ = create(&space));
    pool.flush().unwrap();
    let shared = pool.shared();
    let (mut pins, frames) = take_the_rest(&pool);
    let (_, meta) = being_written(&pool, &mut pins, &frames);
    let admission = &shared.core.frames.admission;
    let (admitted, is_over) = (Barrier::new(2), AtomicBool::new(false));
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _all = admission.enter(u32::MAX, || true).unwrap();
            admitted.wait();
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        scope.spawn(|| {
            admitted.wait();
            thread::sleep(Duration::from_millis(300));
            admission.enter(1, || !is_over.load(Ordering::Relaxed));
        });
        assert!(shared.take_frame(None, PartitionNo::FIRST).is_err());
        is_over.store(true, Ordering::Relaxed);
    });
    let waited = began.elapsed();
    assert!(Duration::from_millis(300) < waited && waited < PATIENCE / 2, "{waited:?}");
    meta.end_writing();
    drop(pins);
    frames.into_iter().for_each(|frame| shared.give_frame(frame));
}
