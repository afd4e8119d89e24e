//! A writer that waits for room in the log gets it, or hears why there is none.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::log::{Group, LoggedValue, Operation};
use polder_format::{PageId, PageNo, PhysicalPageNo, SpaceId};
use polder_log::{Log, LogOptions};
use polder_pool::device::Device;
use polder_pool::journal::{Journal, Outgoing, SharedError};
use polder_testkit::FaultPlan;

use crate::support::*;

#[test]
fn a_permit_waits_for_room_and_says_why_there_is_none() {
    let disk = disk();
    let log = begin(&disk);
    let limit = OPTIONS.limit;
    // As much as there is room for, and a little more: nobody makes a checkpoint here.
    let mut number = 0;
    let error = std::io::Error::other("no checkpoint in this test");
    log.checkpoint_failed(Arc::new(error));
    let refused = loop {
        let mut group = Group::new();
        group.push(
            page(number),
            &Operation::FullPageImage { size: 4096, low: &[1; 4000], high: &[] },
        );
        match log.reserve(group.len() as u64) {
            Ok(()) => {
                let reserved = group.len() as u64;
                let lsn = log.append(&mut group, reserved);
                log.await_durable(lsn).unwrap();
            }
            // Growing forgets the failure; then it is told again.
            Err(error) => break error,
        }
        log.checkpoint_failed(Arc::new(std::io::Error::other("no checkpoint in this test")));
        number += 1;
    };
    assert!(refused.to_string().contains("no checkpoint"), "{refused}");
    assert!(log.replay_bytes() <= limit);
    assert!(log.file_bytes() <= limit + (5 << 20), "{}", log.file_bytes());
    let too_large = log.reserve(log.group_max() + 1).unwrap_err();
    assert!(too_large.to_string().contains("at once"), "{too_large}");
}

/// A thread that waits for room in the ring when the log fails leaves a gap that is never filled:
/// the thread that leads the group commit at that moment must not wait for it.
#[test]
fn a_log_that_dies_while_it_is_full_lets_everybody_go() {
    let disk = disk();
    let log = begin(&disk);
    let (done, ended) = std::sync::mpsc::channel();
    let writer = {
        let log = Arc::clone(&log);
        thread::spawn(move || {
            // Nobody but the leader below empties the ring: it fills, and this thread waits.
            let mut number = 0;
            while try_append(&log, number, 1000).is_ok() {
                number += 1;
            }
        })
    };
    while log.end().0 < OPTIONS.buffer_bytes {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(20));
    disk.set_plan(FaultPlan::new(2).delay(1.0, Duration::from_millis(200)));
    let leader = Arc::clone(&log);
    thread::spawn(move || done.send(leader.await_durable(leader.end())));
    thread::sleep(Duration::from_millis(50));
    log.poison("a test", &std::io::Error::other("of a dying log"));
    let result = ended.recv_timeout(Duration::from_secs(20)).expect("the leader waits for ever");
    assert!(result.unwrap_err().to_string().contains("a test"));
    writer.join().unwrap();
}

/// A log that cannot grow has room for small changes after a checkpoint, and never for one that is
/// larger than what it has: to wait would be for ever.
#[test]
fn a_change_that_a_full_device_has_no_room_for_is_refused() {
    let disk = disk();
    let options = LogOptions {
        limit: 64 << 20,
        buffer_bytes: 4 << 20,
        group_bytes: 0,
        always_double_write: false,
        chosen: false,
    };
    let log = begin_with(Arc::new(disk.clone()), options);
    let made = disk.len().unwrap();
    disk.set_plan(full());
    // More than what the first segments hold.
    let large = 100 << 10;
    assert!(large < log.group_max());
    let ended = Arc::new(AtomicBool::new(false));
    let checkpoints = {
        let (log, ended) = (Arc::clone(&log), Arc::clone(&ended));
        thread::spawn(move || {
            let begin = Instant::now();
            while !ended.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(10) {
                let begun = log.begin_checkpoint().unwrap();
                log.finish_checkpoint(&begun, 1, |_| Ok(())).unwrap();
            }
        })
    };
    let asked = Arc::clone(&log);
    let refused = in_time(move || asked.reserve(large)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "{refused}");
    // Small ones wait for room if need be, and get it.
    let asked = Arc::clone(&log);
    in_time(move || {
        for number in 0..500 {
            append(&asked, number, 8000);
        }
    });
    log.flush().unwrap();
    ended.store(true, Ordering::Relaxed);
    checkpoints.join().unwrap();
    assert!(log.end().0 > 8 * large);
    assert_eq!((log.file_bytes(), disk.len().unwrap()), (made, made));
}

#[repr(align(4096))]
struct Image([u8; 4096]);

/// The pages of both slots could not be written in place: other pages may as soon as there is room
/// for another slot.
#[test]
fn slots_that_are_stuck_do_not_keep_the_log_from_growing() {
    let disk = disk();
    let log = begin(&disk);
    disk.set_plan(full());
    let image = Image([0; 4096]);
    let protect = |number| {
        let (page, physical) = (page(number), PhysicalPageNo::new(number));
        let lines = polder_format::log::Lines::ALL;
        log.before_write(&[Outgoing { page, physical, bytes: &image.0, imaged: false, lines }])
    };
    for number in 1..3 {
        let ticket = protect(number).unwrap();
        log.after_write(ticket, &[page(number)]);
    }
    let refused = protect(3).unwrap_err();
    assert!(refused.to_string().contains("could not be written in place"), "{refused}");
    disk.set_plan(FaultPlan::new(1));
    let ticket = protect(3).unwrap();
    log.after_write(ticket, &[]);
}

/// One entry in each of so many tables.
fn fill_tables(log: &Log, tables: std::ops::Range<u64>) {
    for table in tables {
        let space = SpaceId::new(100 + table).unwrap();
        let page = PageId::new(space, PageNo::new(1).unwrap());
        let value = LoggedValue::Inline(b"1");
        let mut group = Group::new();
        group.push(page, &Operation::Insert { added: true, version: 1, key: b"k", value });
        log.reserve(group.len() as u64).unwrap();
        let reserved = group.len() as u64;
        log.append(&mut group, reserved);
        // Nobody else empties the ring.
        if table % 1000 == 0 {
            log.flush().unwrap();
        }
    }
    log.flush().unwrap();
}

fn checkpoint(log: &Log) -> Result<(), SharedError> {
    let begun = log.begin_checkpoint()?;
    log.finish_checkpoint(&begun, 1, |_| Ok(()))
}

/// The counts of many tables are more than what is spared for openings; and those who wait for
/// room take all that there is.
#[test]
fn a_checkpoint_of_many_tables_finds_room_where_the_log_cannot_grow() {
    const TABLES: u64 = 4000;
    let disk = disk();
    let log = begin(&disk);
    fill_tables(&log, 0..TABLES);
    checkpoint(&log).unwrap();
    // The segments that there are hold what two checkpoints append, and not much more.
    disk.set_plan(full());
    for round in 0..10 {
        let (pages, _) = fill(&log, 1);
        checkpoint(&log).unwrap_or_else(|error| panic!("round {round}, {pages:?}: {error}"));
    }
    assert!(log.end().0 > 10 * TABLES * 12);
}

/// More tables than what was kept has room for, and a device without room: the checkpoint fails,
/// and nothing else; it is made when there is room again.
#[test]
fn a_checkpoint_without_room_is_tried_again() {
    let disk = disk();
    let log = begin(&disk);
    checkpoint(&log).unwrap();
    fill_tables(&log, 0..3000);
    disk.set_plan(full());
    fill(&log, 1);
    let error = checkpoint(&log).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
    assert!(error.to_string().contains("have a checkpoint"), "{error}");
    log.check().unwrap();
    log.flush().unwrap();
    disk.set_plan(FaultPlan::new(1));
    checkpoint(&log).unwrap();
    append(&log, 1, 8000);
    log.flush().unwrap();
}

/// A full log on a full device is opened, and killed before it has made a checkpoint, again and
/// again: as often as the documents say; and then it still has room for the checkpoint.
#[test]
fn a_full_log_is_opened_four_times_without_a_checkpoint() {
    let disk = disk();
    let log = begin(&disk);
    disk.set_plan(full());
    let (pages, _) = fill(&log, 1);
    assert!(pages.len() > 2);
    drop(log);
    for incarnation in 2..5 {
        drop(go_on(&disk, incarnation));
    }
    let log = go_on(&disk, 5);
    assert_eq!(fill(&log, 1).0.len(), 0);
    checkpoint(&log).unwrap();
    let (pages, _) = fill(&log, 1);
    assert!(pages.len() > 2);
}

/// The counts of a checkpoint have more tables than anything was kept for, and threads hold
/// reservations of all that there is: they find what they were promised.
#[test]
fn a_checkpoint_takes_no_room_that_was_promised() {
    const BYTES: u64 = 64 << 10;
    for (tables, more) in [(24_000, 0), (100, 30_000)] {
        let disk = disk();
        // Nobody empties the ring but this thread.
        let options = LogOptions { buffer_bytes: 4 << 20, ..OPTIONS };
        let log = begin_with(Arc::new(disk.clone()), options);
        fill_tables(&log, 0..tables);
        checkpoint(&log).unwrap();
        fill_tables(&log, tables..tables + more);
        let mut held = 0u64;
        while held < 12 {
            log.reserve(BYTES).unwrap();
            held += 1;
        }
        disk.set_plan(full());
        log.checkpoint_failed(Arc::new(io::Error::other("no checkpoint in this test")));
        while log.reserve(BYTES).is_ok() {
            held += 1;
        }
        let append_held = || {
            for number in 0..held {
                let value = vec![number as u8; BYTES as usize - 200];
                let (key, value) = (number.to_be_bytes(), LoggedValue::Inline(&value));
                let mut group = Group::new();
                let insert = Operation::Insert { added: true, version: 1, key: &key, value };
                group.push(page(number), &insert);
                log.append(&mut group, BYTES);
                log.flush().unwrap_or_else(|error| panic!("{tables} and {more} tables: {error}"));
            }
        };
        let begun = log.begin_checkpoint().unwrap();
        // K4 is done when the superblocks are written, and nothing is free yet.
        let made = log.finish_checkpoint(&begun, 1, |_| {
            append_held();
            Ok(())
        });
        match made {
            Ok(()) => assert_eq!(more, 0),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
                append_held();
            }
        }
        disk.set_plan(FaultPlan::new(1));
        checkpoint(&log).unwrap();
    }
}

/// Checkpoints that are asked for though nothing has changed take a block each, and no more.
#[test]
fn checkpoints_of_a_quiet_log_never_lack_room() {
    let disk = disk();
    let log = begin(&disk);
    fill_tables(&log, 0..100);
    // The largest segment is about half of the log: within it nothing becomes free.
    for number in 0..26 {
        append(&log, number, 8000);
        log.flush().unwrap();
    }
    disk.set_plan(full());
    for round in 0..400 {
        checkpoint(&log).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    let (pages, _) = fill(&log, 1);
    assert!(pages.len() > 5, "{pages:?}");
}
