//! What is appended and flushed is found again, the end of the log is told from damage, and what is
//! left over from an earlier life is not taken for the log.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use polder_format::log::{GROUP_HEADER_BYTES, LogHeader, LogSeed, RegionKind, SegmentHeader};
use polder_format::{FormatError, Lsn, SpaceId};
use polder_log::{LogError, WalWriter};
use polder_pool::device::Device;
use polder_pool::journal::Journal;
use polder_testkit::SimDisk;

use crate::support::*;
use crate::sync_disk::SyncDisk;

#[test]
fn what_is_flushed_is_found_in_the_order_of_the_log() {
    let disk = disk();
    let log = begin(&disk);
    let _wal_writer = WalWriter::start(&log, |_| ()).unwrap();
    let threads = 4;
    thread::scope(|scope| {
        for t in 0..threads {
            let log = &log;
            scope.spawn(move || {
                for i in 0..500 {
                    let lsn = append(log, t * 1000 + i, (i as usize * 37) % 700);
                    if i % 50 == 0 {
                        log.await_durable(lsn).unwrap();
                        assert!(log.durable() >= lsn);
                    }
                }
            });
        }
    });
    log.flush().unwrap();
    let crashed = disk.crash(1);
    let pages = replayed(&crashed);
    for t in 0..threads {
        let of_thread: Vec<u64> = pages.iter().copied().filter(|p| p / 1000 == t).collect();
        assert_eq!(of_thread, (t * 1000..t * 1000 + 500).collect::<Vec<_>>());
    }
    let found = find(&crashed).unwrap();
    assert_eq!(found.tally.entries(SpaceId::new(7).unwrap()), threads * 500);
    assert_eq!(found.next_version, (threads - 1) * 1000 + 500);
    assert!(found.behind.is_none());
}

/// Without a sync some prefix is there, in order.
#[test]
fn what_is_not_flushed_is_a_prefix() {
    for seed in 0..200 {
        let disk = disk();
        let log = begin(&disk);
        let mut durable = 0;
        for i in 0..400 {
            let lsn = append(&log, i, 300);
            if i % 67 == 0 {
                log.await_durable(lsn).unwrap();
                durable = i + 1;
            }
        }
        let pages = replayed(&disk.crash(seed));
        assert!(pages.len() as u64 >= durable);
        assert_eq!(pages, (0..pages.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn damage_below_what_was_durable_is_an_error_and_above_it_the_end() {
    let disk = disk();
    let log = begin(&disk);
    let mut ends = Vec::new();
    for i in 0..40 {
        let lsn = append(&log, i, 1500);
        log.await_durable(lsn).unwrap();
        ends.push(lsn);
    }
    let file = open(&disk);
    // In the middle: later groups know that this was durable.
    let damaged = disk.crash(0);
    damaged.flip_bit(file.offset(ends[20]) - 100, 3);
    let error = find(&damaged).unwrap_err();
    let LogError::Damaged { lsn, durable, source, .. } = &error else { panic!("{error:?}") };
    assert!(*lsn < ends[20] && *durable >= ends[20], "{error:?}");
    assert!(matches!(source, FormatError::Checksum { .. }), "{error:?}");
    // In the last group: nobody knows more, unless the superblock does.
    let torn = disk.crash(0);
    torn.flip_bit(file.offset(ends[39]) - 100, 3);
    let found = find(&torn).unwrap();
    assert_eq!(found.groups, 39);
    assert!(found.behind.is_some());
    let known = open(&torn).find_end(&superblock(ends[39]), &mut |_| {});
    assert!(matches!(known, Err(LogError::Damaged { .. })));
}

/// A later life begins in front of groups of an earlier one, which must not be replayed behind it.
#[test]
fn what_an_earlier_life_left_behind_is_not_replayed() {
    let disk = disk();
    let log = begin(&disk);
    // One group for each block, so that they begin where blocks do.
    for i in 0..20 {
        let lsn = append(&log, i, 3000);
        log.await_durable(lsn).unwrap();
    }
    let file = open(&disk);
    let crashed = disk.crash(0);
    // The last five were not promised to anybody: the first of them is torn.
    let at = file.offset(Lsn(FIRST.0 + 15 * 4096));
    crashed.corrupt(at, 512, 1);
    let old = superblock(Lsn(0));
    // (That they were durable is known by themselves: take that away.)
    for block in 16..20 {
        let at = file.offset(Lsn(FIRST.0 + block * 4096));
        let stale = crashed.peek(at, GROUP_HEADER_BYTES);
        assert_ne!(stale, [0; GROUP_HEADER_BYTES]);
    }
    let found = open(&crashed).find_end(&old, &mut |_| {});
    assert!(matches!(found, Err(LogError::Damaged { .. })), "they know: {found:?}");
    // Without the groups that know of it the log ends there, and goes on.
    for block in 16..20 {
        crashed.corrupt(file.offset(Lsn(FIRST.0 + block * 4096)) + 15, 4, 1);
    }
    let second = go_on(&crashed, 2);
    let lsn = append(&second, 100, 3000);
    second.await_durable(lsn).unwrap();
    // What lies behind is of the first life, valid by itself, and begins at this very position.
    let behind = lsn.0.next_multiple_of(4096);
    let image = disk.peek(file.offset(Lsn(behind)), 4096);
    let twice = crashed.crash(0);
    write(&twice, file.offset(Lsn(behind)), &image);
    let mut expected: Vec<u64> = (0..15).collect();
    expected.push(100);
    assert_eq!(replayed(&twice), expected);
    // And a third life goes on from there.
    let third = go_on(&twice, 3);
    let lsn = append(&third, 200, 10);
    third.await_durable(lsn).unwrap();
    expected.push(200);
    assert_eq!(replayed(&twice.crash(0)), expected);
}

fn write(disk: &SimDisk, offset: u64, bytes: &[u8]) {
    polder_pool::device::write_block(disk, offset, bytes).unwrap();
    disk.sync().unwrap();
}

/// Several segments may claim the same part of the log, after incarnations whose ends were lost:
/// the one that was begun last holds it, and the others are free (`SEG-1`).
#[test]
fn segments_that_claim_what_another_one_holds_are_free() {
    let disk = disk();
    let log = begin(&disk);
    let header = LogHeader::decode(&disk.peek(0, 4096), ID).unwrap();
    let mut expected = Vec::new();
    // Some segments, and a part of one more.
    while log.end().0 < 90 << 10 {
        let number = expected.len() as u64;
        let lsn = append(&log, number, 1500);
        log.await_durable(lsn).unwrap();
        expected.push(number);
    }
    drop(log);
    let made = header.of_kind(RegionKind::Segment, disk.len().unwrap()).len();
    let regions: Vec<_> = header.regions().take(16).collect();
    disk.allocate(0, regions[15].end()).unwrap();
    let segments: Vec<_> = regions.iter().filter(|r| r.kind == RegionKind::Segment).collect();
    assert!(segments.len() > made + 2, "{made} segments");
    // Of the same incarnation as those that hold the log, and of an earlier one; where they begin,
    // in the middle, and across the borders of several.
    for (index, segment) in segments.iter().enumerate().skip(made) {
        let start = Lsn([24 << 10, 4096, 0][index % 3]);
        let claim = SegmentHeader { start, incarnation: index as u32 % 2 };
        write(&disk, segment.offset, &claim.encode(LogSeed::new(ID)));
    }
    assert_eq!(replayed(&disk), expected);
    let log = go_on(&disk, 2);
    let filled = Arc::clone(&log);
    let (pages, refused) = in_time(move || fill(&filled, 1000));
    assert!(refused.to_string().contains("no checkpoint"), "{refused}");
    assert!(log.replay_bytes() > OPTIONS.limit / 2, "{}", log.replay_bytes());
    drop(log);
    expected.extend(pages);
    let crashed = disk.crash(0);
    assert_eq!(replayed(&crashed), expected);
    go_on(&crashed, 3);
    assert_eq!(replayed(&crashed.crash(1)), expected);
}

/// What was durable when a group was appended is known by that group alone, which may not be the
/// first one of its block.
#[test]
fn damage_is_told_from_the_end_by_any_group_of_a_later_block() {
    let disk = disk();
    let device = SyncDisk::new(&disk);
    let log = begin_with(Arc::clone(&device) as Arc<dyn Device>, OPTIONS);
    let (at_sync, syncing) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    device.sync_by(move |disk| {
        let _ = at_sync.send(());
        let _ = may_go_on.lock().unwrap().recv_timeout(Duration::from_secs(10));
        disk.sync()
    });
    let first = append(&log, 0, 100);
    let leader = Arc::clone(&log);
    let leader = thread::spawn(move || leader.await_durable(first).unwrap());
    syncing.recv_timeout(Duration::from_secs(10)).expect("nobody syncs");
    // Behind the cut, and not aware of what will be durable in a moment.
    let second = append(&log, 1, 100);
    drop(go_on);
    leader.join().unwrap();
    let third = append(&log, 2, 100);
    log.await_durable(third).unwrap();
    assert_eq!(log.durable().0, FIRST.0 + 2 * 4096);
    assert!(second < third && second.0 > FIRST.0 + 4096);
    let damaged = disk.crash(0);
    damaged.flip_bit(open(&disk).offset(FIRST) + 60, 3);
    let error = find(&damaged).unwrap_err();
    let LogError::Damaged { lsn, durable, .. } = error else { panic!("{error:?}") };
    assert_eq!((lsn, durable), (FIRST, Lsn(FIRST.0 + 4096)));
}
