//! The log by itself, on a simulated disk: what is appended and flushed is found again, its end is
//! told from damage, and what is left over from an earlier life is not taken for the log.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use polder_format::log::{Group, LoggedValue, Operation};
use polder_format::{
    FormatError, Lsn, PageId, PageNo, PageSize, Place, SpaceId, StoreId, Superblock,
};
use polder_log::{Clerk, Found, Log, LogError, LogFile, LogOptions, Recovered};
use polder_pool::device::Device;
use polder_pool::journal::Journal;
use polder_testkit::{FaultPlan, SimDisk};

const ID: StoreId = StoreId([5; 16]);
const OPTIONS: LogOptions = LogOptions { limit: 4 << 20, buffer_bytes: 256 << 10 };
/// Every log begins here.
const FIRST: Lsn = Lsn(4096);

fn page(number: u64) -> PageId {
    PageId::new(SpaceId::new(7).unwrap(), PageNo::new(number).unwrap())
}

fn disk() -> SimDisk {
    SimDisk::new(FaultPlan::new(1))
}

fn begin(disk: &SimDisk) -> Arc<Log> {
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    let file = LogFile::create(device, ID, PageSize::MIN, &OPTIONS).unwrap();
    file.begin(Arc::new(self::disk()), OPTIONS, 1)
}

fn append(log: &Log, number: u64, len: usize) -> Lsn {
    let value = vec![number as u8; len];
    let key = number.to_be_bytes();
    let value = LoggedValue::Inline(&value);
    let mut group = Group::new();
    group.push(page(number), &Operation::Insert { added: true, version: number, key: &key, value });
    log.permit(group.len() as u64).unwrap();
    let permitted = group.len() as u64;
    log.append(&mut group, permitted)
}

fn superblock(durable: Lsn) -> Superblock {
    Superblock {
        store_id: ID,
        generation: 1,
        compatible: 0,
        page_size: PageSize::MIN,
        clean: false,
        space_directory: Place::NONE,
        next_space: SpaceId::CATALOGUE,
        next_version: 1,
        file_pages: 16,
        default_budget: 0,
        redo_start: FIRST,
        checkpoint: Lsn(0),
        durable,
        incarnation: 1,
        log_limit: OPTIONS.limit,
    }
}

fn open(disk: &SimDisk) -> LogFile {
    LogFile::open(Arc::new(disk.clone()), ID).unwrap()
}

fn find(disk: &SimDisk) -> Result<Found, LogError> {
    open(disk).find_end(&superblock(Lsn(0)), &mut |_| {})
}

/// The pages that the log's inserts are about, in order.
fn replayed(disk: &SimDisk) -> Vec<u64> {
    let found = find(disk).unwrap();
    let mut pages = Vec::new();
    open(disk)
        .visit(found.start, found.end, &mut |_, bytes| {
            for record in polder_format::log::Records::of_group(bytes) {
                let record = record.unwrap();
                if matches!(record.operation, Operation::Insert { .. }) {
                    pages.push(record.page.page().get());
                }
            }
            Ok(())
        })
        .unwrap();
    pages
}

/// The next life of the log on this disk.
fn go_on(disk: &SimDisk, incarnation: u32) -> Arc<Log> {
    let found = find(disk).unwrap();
    let mut recovered = Recovered::default();
    let data: Arc<dyn Device> = Arc::new(self::disk());
    let log =
        found.open(open(disk), data, PageSize::MIN, OPTIONS, incarnation, &mut recovered).unwrap();
    log.join(found.end).unwrap();
    log
}

#[test]
fn what_is_flushed_is_found_in_the_order_of_the_log() {
    let disk = disk();
    let log = begin(&disk);
    let _clerk = Clerk::start(&log).unwrap();
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
        let stale = crashed.peek(at, 24);
        assert_ne!(stale, [0; 24]);
    }
    let found = open(&crashed).find_end(&old, &mut |_| {});
    assert!(matches!(found, Err(LogError::Damaged { .. })), "they know: {found:?}");
    // Without the groups that know of it the log ends there, and goes on.
    for block in 16..20 {
        crashed.corrupt(file.offset(Lsn(FIRST.0 + block * 4096)) + 16, 4, 1);
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

#[test]
fn a_log_that_cannot_be_synced_is_poisoned() {
    let disk = disk();
    let log = begin(&disk);
    let lsn = append(&log, 1, 100);
    log.await_durable(lsn).unwrap();
    let plan = FaultPlan::new(2);
    disk.set_plan(plan.fail(
        polder_testkit::Operation::Sync,
        polder_testkit::When::Nth(0),
        polder_testkit::Errno::IO,
    ));
    let lost = append(&log, 2, 100);
    let error = log.await_durable(lost).unwrap_err();
    assert!(error.to_string().contains("open the store again"), "{error}");
    // It is not tried again, although it would go well now.
    assert!(log.await_durable(lost).is_err());
    assert!(log.permit(100).is_err());
    assert!(log.begin_checkpoint().is_err());
    assert_eq!(log.durable().0, lsn.0.next_multiple_of(4096));
}

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
        group.push(page(number), &Operation::Image { size: 4096, low: &[1; 4000], high: &[] });
        match log.permit(group.len() as u64) {
            Ok(()) => {
                let permitted = group.len() as u64;
                let lsn = log.append(&mut group, permitted);
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
    let too_large = log.permit(log.group_max() + 1).unwrap_err();
    assert!(too_large.to_string().contains("at once"), "{too_large}");
}

/// Whoever waits for room in the ring when the log dies leaves a gap that is never filled: who leads
/// at that moment must not wait for it.
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
            while log.permit(2048).is_ok() {
                log.give_back(2048);
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
