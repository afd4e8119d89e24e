//! A log that grows, and one whose end was lost: each crash finds what was durable.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use polder_log::{Log, WalWriter};
use polder_pool::device::Device;
use polder_pool::journal::Journal;
use polder_testkit::FaultPlan;

use crate::support::*;

/// Appends more than the WAL writer leaves in the ring, and lets it write that.
fn write_unsynced(log: &Arc<Log>, first: u64) {
    let _wal_writer = WalWriter::start(log, |_| ()).unwrap();
    (0..60).for_each(|number| _ = append(log, first + number, 2500));
    thread::sleep(Duration::from_millis(2));
}

/// A segment that an incarnation began behind an end that is lost claims what a later incarnation
/// has put elsewhere: the later one's counts, wherever it lies in the file.
#[test]
fn what_a_lost_end_claims_is_not_taken_for_the_log() {
    for seed in 0..40 {
        let disk = disk();
        let log = begin(&disk);
        let mut expected = Vec::new();
        for number in 0..10 {
            let lsn = append(&log, number, 1500 + 97 * seed as usize);
            log.await_durable(lsn).unwrap();
            expected.push(number);
        }
        // Not synced: a crash keeps some of it, and headers of segments among that.
        write_unsynced(&log, 100);
        let mut disk = disk.crash(seed);
        for life in 2..6 {
            let kept = replayed(&disk);
            assert!(kept.starts_with(&expected), "life {life}, seed {seed}");
            expected = kept;
            let log = go_on(&disk, life);
            for number in 0..20 {
                let number = 1000 * u64::from(life) + number;
                let lsn = append(&log, number, 700 * life as usize);
                log.await_durable(lsn).unwrap();
                expected.push(number);
            }
            write_unsynced(&log, 1_000_000);
            disk = disk.crash(seed + u64::from(life));
        }
        assert!(replayed(&disk).starts_with(&expected), "seed {seed}");
    }
}

/// From the first segment to the last that the limit permits: whatever the log has grown to, each
/// crash finds what was durable.
#[test]
fn a_log_that_grows_loses_nothing() {
    for seed in 0..12 {
        let mut disk = disk();
        let (mut expected, mut longest) = (Vec::new(), 0);
        let mut log = begin(&disk);
        for life in 2..8 {
            let before = disk.len().unwrap();
            let wal_writer = WalWriter::start(&log, |_| ()).unwrap();
            for number in 0..12 << life {
                let number = 100_000 * u64::from(life) + number;
                append(&log, number, 200 + (number as usize * 37 + seed as usize) % 900);
                expected.push(number);
            }
            log.flush().unwrap();
            // What is not synced may be gone, and the length of the file with it.
            drop(wal_writer);
            write_unsynced(&log, 9_000_000);
            assert!(disk.len().unwrap() >= before);
            longest = longest.max(disk.len().unwrap());
            drop(log);
            disk = disk.crash(seed + u64::from(life));
            let kept = replayed(&disk);
            assert!(kept.starts_with(&expected), "life {life}, seed {seed}");
            expected = kept;
            log = go_on(&disk, life);
        }
        assert!(longest > 1 << 20, "it has not grown: {longest} bytes");
    }
}

/// A crash took the end of the last segment, and somebody else has the blocks now: the log ends
/// before that, and goes on there when there is room again.
#[test]
fn a_segment_that_is_cut_off_is_no_room() {
    const CUT: u64 = 8 << 10;
    for is_held in [false, true] {
        let disk = disk();
        let log = begin(&disk);
        disk.set_plan(full());
        if is_held {
            fill(&log, 1);
        }
        drop(log);
        let openings = if is_held { 4 } else { 0 };
        for incarnation in (2..).take(openings) {
            drop(go_on(&disk, incarnation));
        }
        disk.set_plan(FaultPlan::new(1));
        disk.truncate(disk.len().unwrap() - CUT).unwrap();
        disk.set_plan(FaultPlan::new(2).capacity(disk.allocated_bytes()));
        let log = go_on(&disk, 9);
        let (pages, refused) = fill(&log, 100);
        log.check().unwrap_or_else(|error| panic!("{is_held}, {pages:?}: {error}, {refused}"));
        assert_eq!(pages.is_empty(), is_held);
        disk.set_plan(FaultPlan::new(1));
        let begun = log.begin_checkpoint().unwrap();
        log.finish_checkpoint(&begun, 1, |_| Ok(())).unwrap();
        append(&log, 1, 8000);
        log.flush().unwrap();
    }
}
