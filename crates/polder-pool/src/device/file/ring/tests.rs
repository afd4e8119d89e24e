use super::*;
use crate::device::file::{FileDevice, OpenKind};
use crate::device::{Buffer, Device, Request};
use polder_format::{PageId, PageNo, SpaceId};
use std::ptr::NonNull;

#[test]
fn a_shortage_passes_and_a_refusal_stays() {
    let rings = Rings::default();
    for code in [libc::EMFILE, libc::ENOMEM, libc::EAGAIN] {
        rings.note(&io::Error::from_raw_os_error(code));
        assert!(!rings.are_refused());
    }
    for code in [libc::EPERM, libc::ENOSYS] {
        let rings = Rings::default();
        rings.note(&io::Error::from_raw_os_error(code));
        assert!(rings.are_refused() && rings.take().is_none());
    }
}

#[test]
fn there_are_only_so_many_and_idle_ones_go() {
    let rings = Rings::default();
    let taken: Vec<_> = (0..=MOST).map(|_| rings.take()).collect();
    assert!(taken[MOST].is_none());
    let given = taken.iter().flatten().count();
    assert_eq!(rings.counts(), (0, given));
    taken.into_iter().flatten().for_each(|io| rings.give_back(Some(io)));
    assert_eq!(rings.counts(), (given, 0));
    // As if all but the last two had been used long ago.
    let long_ago = Instant::now().checked_sub(2 * KEEP).expect("the machine has run for so long");
    let used = given.saturating_sub(2);
    rings.made().idle.iter_mut().take(used).for_each(|(since, _)| *since = long_ago);
    if let Some(io) = rings.take() {
        rings.give_back(Some(io));
        assert_eq!(rings.counts(), (given - used, 0));
    }
}

/// Memory aligned as requests want it.
#[repr(align(4096))]
struct Block([u8; 4096]);

fn read(memory: &mut Block, offset: u64) -> Numbered {
    let page = PageId::new(SpaceId::CATALOGUE, PageNo::MAX);
    // SAFETY: the memory outlives the request in these tests, and is looked at when that is done.
    let buffer = unsafe { Buffer::new(NonNull::from(&mut memory.0).cast(), 4096) };
    (offset / 4096, Request::new(Direction::Read, page, offset, buffer))
}

/// The kernel takes nothing any more while some reads are under way and others were only started: all
/// come back, each once, and the ring is counted as gone.
#[test]
fn what_a_ring_is_refused_is_transferred_by_calls() {
    let folder = tempfile::tempdir().unwrap();
    let device = FileDevice::open(folder.path().join("data"), OpenKind::Create).unwrap();
    device.allocate(0, 1 << 20).unwrap();
    let Some(mut ring) = device.rings.ring(&device.calls) else { return };
    let mut memory: Vec<Block> = (0..40).map(|_| Block([1; 4096])).collect();
    let mut done = Vec::new();
    for (i, block) in memory.iter_mut().enumerate() {
        ring.start(&mut vec![read(block, i as u64 * 4096)]);
        if i == 20 {
            ring.enter(false, &mut done);
        }
    }
    ring.end(&io::Error::from_raw_os_error(libc::EAGAIN), &mut done);
    while ring.under_way() > 0 {
        ring.enter(true, &mut done);
    }
    drop(ring);
    let mut numbers: Vec<_> = done.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    assert!(done.iter().all(|(_, read)| read.outcome.is_ok()));
    assert!(memory.iter().all(|block| block.0 == [0; 4096]), "what was allocated reads as zeros");
    assert_eq!(device.rings.counts().1, 0);
    assert!(!device.rings.are_refused(), "a shortage passes");
}

/// A thread that panics with reads under way waits for them.
#[test]
fn a_ring_that_is_dropped_waits() {
    let folder = tempfile::tempdir().unwrap();
    let device = FileDevice::open(folder.path().join("data"), OpenKind::Create).unwrap();
    device.allocate(0, 1 << 20).unwrap();
    let mut memory = Block([1; 4096]);
    let at = &mut memory;
    let died = std::thread::scope(|scope| {
        let dies = scope.spawn(|| {
            let Some(mut ring) = device.rings.ring(&device.calls) else { panic!("there is none") };
            ring.start(&mut vec![read(at, 4096)]);
            panic!("as the test wants it");
        });
        dies.join().is_err()
    });
    assert!(died && device.rings.counts().1 == 0);
    assert!(device.rings.are_refused() || memory.0 == [0; 4096]);
}

/// Neighbours whose memory lies anywhere, with contiguous memory for half of them: each request gets its own
/// block. Behind the end of the file there is none, which is told of those alone that lie there.
#[test]
fn neighbours_are_read_to_where_each_goes() {
    const BLOCKS: usize = 40 * 32;
    const PRESENT: usize = BLOCKS - 5;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let content: Vec<u8> = (0..PRESENT * 4096).map(|at| (at / 7 + at / 4096 * 13) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let device = FileDevice::open(&path, OpenKind::Existing).unwrap();
    let Some(mut ring) = device.rings.ring(&device.calls) else { return };
    let mut memory: Vec<Block> = (0..BLOCKS).map(|_| Block([1; 4096])).collect();
    let (mut done, mut staged) = (Vec::new(), 0);
    // Block by block from the end of the memory on, so that no two are neighbours there as well.
    let mut reads = memory.iter_mut().rev().enumerate().map(|(i, at)| read(at, i as u64 * 4096));
    let mut parts: Vec<_> = std::iter::from_fn(|| device.rings.staging.take()).collect();
    let expected = if parts.is_empty() { 0 } else { BLOCKS / 64 };
    for number in 0..BLOCKS / 32 {
        if number == BLOCKS / 64 {
            parts.clear();
        }
        let mut transfer: Transfer = reads.by_ref().take(32).collect();
        ring.start(&mut transfer);
        staged += ring.slots.iter().filter(|slot| slot.part.is_some()).count();
        // One at a time, so that none lacks a part.
        ring.enter(true, &mut done);
    }
    while ring.under_way() > 0 {
        ring.enter(true, &mut done);
    }
    // It goes when nobody has used a ring of the file for a while.
    let long_ago = Instant::now().checked_sub(2 * KEEP).expect("the machine has run for so long");
    let other = device.rings.ring(&device.calls);
    drop(ring);
    device.rings.made().idle.iter_mut().for_each(|(since, _)| *since = long_ago);
    device.rings.close_idle();
    assert_eq!(device.rings.staging.is_mapped(), expected > 0, "a ring is in use");
    drop(other);
    device.rings.made().idle.iter_mut().for_each(|(since, _)| *since = long_ago);
    device.rings.close_idle();
    assert!(!device.rings.staging.is_mapped());
    assert_eq!(staged, expected, "where the kernel gives a huge page");
    assert_eq!(done.len(), BLOCKS);
    for (number, request) in done {
        assert_eq!(request.outcome.is_ok(), (number as usize) < PRESENT, "{number}");
    }
    for (block, memory) in content.chunks(4096).zip(memory.iter().rev()) {
        assert!(memory.0[..] == *block);
    }
}
