use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread;

use super::*;
use crate::latch::parking::ParkingLot;
use crate::latch::slice::MOST_HOLDS;
use crate::latch::state::Version;
use crate::machine::Grouping;
use crate::sync::Backoff;

const FRAMES: u32 = 3;

fn frame(number: u32) -> FrameId {
    FrameId::new(number)
}

fn resident(number: u32) -> StateCell {
    let cell = StateCell::new();
    assert!(cell.claim());
    cell.publish(StateWord::free(frame(number), Version::new(5)), &ParkingLot::new());
    cell
}

#[test]
fn who_holds_a_page_keeps_it_from_others_until_the_last_is_gone() {
    let pins = GroupPins::new(FRAMES, Groups::of_machine(Grouping::AtMost(1))).unwrap();
    let (cell, neighbour) = (resident(2), resident(3));
    let seen = cell.read();
    let holds = [0, 0, pins.groups().count() - 1];
    let group = |index| pins.groups().all().nth(index).unwrap();
    let mut held: Vec<_> = holds
        .map(|index| pins.hold_in(group(index), frame(2), &cell, seen).unwrap())
        .into_iter()
        .collect();
    assert!(!pins.is_free(frame(2)) && pins.is_free(frame(1)) && pins.is_free(frame(3)));
    let word = cell.upgrade(seen).unwrap();
    assert!(!pins.is_free(frame(2)));
    assert!(pins.hold(frame(2), &cell, seen).is_none(), "it is exclusive");
    while let Some(last) = held.pop() {
        assert!(!pins.is_free(frame(2)));
        pins.release(last);
    }
    assert!(pins.is_free(frame(2)));
    cell.put_back(word);

    // Unchanged, it can be held as it was seen; changed, it cannot, nor if it is another's.
    pins.release(pins.hold(frame(2), &cell, seen).unwrap());
    let word = cell.upgrade(cell.read()).unwrap();
    cell.release(word, word.version().next());
    assert!(pins.hold(frame(2), &cell, seen).is_none());
    assert!(pins.hold(frame(3), &neighbour, seen).is_none());
    let shared = cell.try_share().unwrap();
    pins.release(pins.hold(frame(2), &cell, shared).unwrap());
    cell.unshare();
    let evicted = StateCell::new();
    assert!(pins.hold(frame(1), &evicted, evicted.read()).is_none());
    assert!((1..=FRAMES).all(|number| pins.is_free(frame(number))), "HOLD-1");
}

#[test]
fn a_full_slice_takes_no_more_and_does_not_wrap() {
    let pins = GroupPins::new(FRAMES, Groups::of_machine(Grouping::AtMost(1))).unwrap();
    let cell = resident(1);
    let group = pins.groups().here();
    let hold = || pins.hold_in(group, frame(1), &cell, cell.read());
    let held: Vec<_> = (0..MOST_HOLDS).map(|_| hold().unwrap()).collect();
    for _ in 0..2 * u32::from(u16::MAX) {
        assert!(hold().is_none());
    }
    assert_eq!(pins.slice(group, frame(1)).count(), MOST_HOLDS);
    assert!(!pins.is_free(frame(1)));
    held.into_iter().for_each(|held| pins.release(held));
    assert!(pins.is_free(frame(1)));
    pins.release(hold().unwrap());
}

/// Machines with one group to as many as there can be.
#[test]
fn a_hold_in_any_group_is_seen() {
    for groups in [1, 8, 64, 65, 512] {
        let pins = GroupPins::new(FRAMES, Groups::new((0..groups).collect())).unwrap();
        let cell = resident(2);
        assert_eq!(pins.groups().all().count(), groups);
        for group in pins.groups().all() {
            let held = pins.hold_in(group, frame(2), &cell, cell.read()).unwrap();
            assert!(!pins.is_free(frame(2)) && pins.is_free(frame(3)), "{group:?} of {groups}");
            pins.release(held);
            assert!(pins.is_free(frame(2)));
        }
    }
}

#[test]
fn groups_share_no_cache_line() {
    for (frames, groups) in [(1, 1), (63, 2), (64, 8), (1000, 65), (1000, 512)] {
        let pins = GroupPins::new(frames, Groups::new((0..groups).collect())).unwrap();
        assert_eq!(GroupPins::bytes_with(pins.groups()), 2 * pins.groups().count() as u64);
        let line = |group, number| {
            std::ptr::from_ref(pins.slice(group, frame(number))) as usize / APART_BYTES
        };
        let ranges: Vec<_> =
            pins.groups().all().map(|group| (line(group, 0), line(group, frames))).collect();
        assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "PINS-1: {ranges:?}");
        let end = pins.slices.base().as_ptr() as usize + pins.slices.len();
        assert!(ranges.iter().all(|(_, last)| (last + 1) * APART_BYTES <= end));
    }
}

/// One frame, as the threads of the stress test share it.
struct Page {
    cell: StateCell,
    bytes: [AtomicU64; 8],
    holders: AtomicU32,
    alone: AtomicBool,
}

/// Threads that hold a few pages while others write them: nobody sees a page half written, nobody
/// writes a page that is held, and all come to an end.
#[test]
fn holders_and_writers_of_a_few_pages() {
    const HOLDS: u64 = 150_000;
    const WRITES: u64 = 50_000;
    let pins = GroupPins::new(FRAMES, Groups::of_machine(Grouping::AtMost(1))).unwrap();
    let pages: Vec<_> = (1..=FRAMES)
        .map(|number| Page {
            cell: resident(number),
            bytes: Default::default(),
            holders: AtomicU32::new(0),
            alone: AtomicBool::new(false),
        })
        .collect();
    let read = |at: usize, group: usize| {
        let (page, frame) = (&pages[at], frame(at as u32 + 1));
        let group = pins.groups().all().nth(group % pins.groups().count()).unwrap();
        let Some(held) = pins.hold_in(group, frame, &page.cell, page.cell.read()) else {
            return false;
        };
        page.holders.fetch_add(1, Relaxed);
        let first = page.bytes[0].load(Relaxed);
        thread::yield_now();
        assert!(!page.alone.load(Relaxed), "HOLD-2");
        assert!(page.bytes.iter().all(|byte| byte.load(Relaxed) == first), "HOLD-2: torn");
        page.holders.fetch_sub(1, Relaxed);
        pins.release(held);
        true
    };
    // `waits`: with the word exclusive; else it puts the word back.
    let write = |at: usize, waits: bool| {
        let (page, frame) = (&pages[at], frame(at as u32 + 1));
        let Some(word) = page.cell.upgrade(page.cell.read()) else { return false };
        let mut backoff = Backoff::new();
        while !pins.is_free(frame) {
            if !waits {
                page.cell.put_back(word);
                return false;
            }
            backoff.wait();
        }
        page.alone.store(true, Relaxed);
        assert_eq!(page.holders.load(Relaxed), 0, "HOLD-2");
        let next = page.bytes[0].load(Relaxed) + 1;
        page.bytes.iter().for_each(|byte| byte.store(next, Relaxed));
        page.alone.store(false, Relaxed);
        page.cell.release(word, word.version().next());
        true
    };
    let until = |times: u64, body: &dyn Fn(u64) -> bool| {
        let (mut done, mut tries) = (0, 0u64);
        while done < times {
            done += u64::from(body(tries));
            tries += 1;
            if tries.is_multiple_of(64) {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        for reader in 0..3usize {
            scope.spawn(move || until(HOLDS, &|i| read((i as usize + reader) % 3, reader)));
        }
        for waits in [false, true] {
            scope.spawn(move || until(WRITES, &|i| write(i as usize % 3, waits)));
        }
    });
    let written: u64 = pages.iter().map(|page| page.bytes[0].load(Relaxed)).sum();
    assert_eq!(written, 2 * WRITES);
    assert!((1..=FRAMES).all(|number| pins.is_free(frame(number))), "HOLD-1");
}
