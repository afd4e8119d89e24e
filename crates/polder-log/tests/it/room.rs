//! Who waits for room in the log gets it, or hears why there is none.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::PhysicalPageNo;
use polder_format::log::{Group, Operation};
use polder_log::LogOptions;
use polder_pool::device::Device;
use polder_pool::journal::{Journal, Outgoing};
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
            while log.reserve(2048).is_ok() {
                log.release(2048);
                append(&log, number, 1000);
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
    let options = LogOptions { limit: 64 << 20, buffer_bytes: 4 << 20, group_bytes: 0 };
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
        let (page, place) = (page(number), PhysicalPageNo::new(number));
        log.before_write(&[Outgoing { page, place, bytes: &image.0, imaged: false }])
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
