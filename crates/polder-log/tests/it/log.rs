//! The log by itself, on a simulated disk: what is appended and flushed is found again, its end is
//! told from damage, and what is left over from an earlier life is not taken for the log.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::log::{Group, LogHeader, LogSeed, LoggedValue, Operation, SegmentHeader};
use polder_format::{
    FormatError, Lsn, PageId, PageNo, PageSize, PhysicalPageNo, SpaceId, StoreId, Superblock,
};
use polder_log::{Found, Log, LogError, LogFile, LogOptions, Recovered, WalWriter};
use polder_pool::device::{Batch, Device, Ticket};
use polder_pool::journal::{Journal, SharedError};
use polder_testkit::{Errno, FaultPlan, SimDisk, When};

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
    file.begin(Arc::new(self::disk()), OPTIONS, 1).unwrap()
}

fn append(log: &Log, number: u64, len: usize) -> Lsn {
    let value = vec![number as u8; len];
    let key = number.to_be_bytes();
    let value = LoggedValue::Inline(&value);
    let mut group = Group::new();
    group.push(page(number), &Operation::Insert { added: true, version: number, key: &key, value });
    log.reserve(group.len() as u64).unwrap();
    let reserved = group.len() as u64;
    log.append(&mut group, reserved)
}

fn superblock(durable: Lsn) -> Superblock {
    Superblock {
        store_id: ID,
        generation: 1,
        compatible: 0,
        page_size: PageSize::MIN,
        clean: false,
        space_directory: PhysicalPageNo::NONE,
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

/// The next incarnation of the log on this disk.
fn go_on(disk: &SimDisk, incarnation: u32) -> Arc<Log> {
    let found = find(disk).unwrap();
    let mut recovered = Recovered::default();
    let data: Arc<dyn Device> = Arc::new(self::disk());
    let log =
        found.open(open(disk), data, PageSize::MIN, OPTIONS, incarnation, &mut recovered).unwrap();
    log.end_recovery(found.end).unwrap();
    log
}

#[test]
fn what_is_flushed_is_found_in_the_order_of_the_log() {
    let disk = disk();
    let log = begin(&disk);
    let _wal_writer = WalWriter::start(&log).unwrap();
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
    assert!(log.reserve(100).is_err());
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

/// What the work gives; fails if it takes for ever.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    ended.recv_timeout(Duration::from_secs(10)).expect("it panicked, or waits for ever")
}

/// Waits until something is so, not for ever.
fn await_that(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never happens");
        thread::yield_now();
    }
}

fn begin_with(device: Arc<dyn Device>, options: LogOptions) -> Arc<Log> {
    let file = LogFile::create(device, ID, PageSize::MIN, &options).unwrap();
    file.begin(Arc::new(disk()), options, 1).unwrap()
}

/// The next sync fails.
fn failing_sync(seed: u64) -> FaultPlan {
    FaultPlan::new(seed).fail(polder_testkit::Operation::Sync, When::Nth(0), Errno::IO)
}

type SyncBy = dyn Fn(&SimDisk) -> io::Result<()> + Send + Sync;

/// A disk that can be told how to sync.
struct SyncDisk {
    disk: SimDisk,
    sync: Mutex<Arc<SyncBy>>,
}

impl SyncDisk {
    fn new(disk: &SimDisk) -> Arc<SyncDisk> {
        Arc::new(SyncDisk { disk: disk.clone(), sync: Mutex::new(Arc::new(SimDisk::sync)) })
    }

    fn sync_by(&self, sync: impl Fn(&SimDisk) -> io::Result<()> + Send + Sync + 'static) {
        *self.sync.lock().unwrap() = Arc::new(sync);
    }
}

impl fmt::Debug for SyncDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

impl Device for SyncDisk {
    fn submit(&self, batch: Batch) -> Ticket {
        self.disk.submit(batch)
    }

    fn complete(&self, ticket: Ticket) -> Batch {
        self.disk.complete(ticket)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        let sync = Arc::clone(&self.sync.lock().unwrap());
        sync(&self.disk)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
}

/// Of two threads that sync at the same time a kernel tells one that a write was lost, and the
/// other that all is well: nobody may believe that.
#[test]
fn no_sync_goes_well_beside_one_that_fails() {
    let device = SyncDisk::new(&disk());
    let log = begin_with(Arc::clone(&device) as Arc<dyn Device>, OPTIONS);
    let kept = append(&log, 1, 100);
    log.await_durable(kept).unwrap();
    let durable = log.durable();
    let syncs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&syncs);
    device.sync_by(move |disk| {
        if count.fetch_add(1, Ordering::SeqCst) > 0 {
            return disk.sync();
        }
        let begin = Instant::now();
        while count.load(Ordering::SeqCst) < 2 && begin.elapsed() < Duration::from_millis(200) {
            thread::yield_now();
        }
        Err(Errno::IO.into())
    });
    let lost = append(&log, 2, 100);
    let (done, ended) = mpsc::channel();
    let start = |who: &'static str, work: fn(&Log, Lsn) -> Result<(), SharedError>| {
        let (log, done) = (Arc::clone(&log), done.clone());
        thread::spawn(move || done.send((who, work(&log, lost))));
    };
    start("the leader", |log, lost| log.await_durable(lost));
    await_that(|| syncs.load(Ordering::SeqCst) > 0);
    start("who waits for it", |log, lost| log.await_durable(lost));
    start("a checkpoint", |log, _| log.begin_checkpoint().map(|_| ()));
    for _ in 0..3 {
        let (who, result) = ended.recv_timeout(Duration::from_secs(10)).expect("it hangs");
        assert!(result.is_err(), "{who} was told that all is well");
    }
    assert_eq!(log.durable(), durable);
}

/// A sync that fails is one, also where it is only about a new segment.
#[test]
fn a_log_whose_growth_cannot_be_synced_is_poisoned() {
    let disk = disk();
    let options = LogOptions { buffer_bytes: 1 << 20, ..OPTIONS };
    let log = begin_with(Arc::new(disk.clone()), options);
    let kept = append(&log, 0, 100);
    log.await_durable(kept).unwrap();
    let durable = log.durable();
    disk.set_plan(failing_sync(2));
    // It writes segments ahead, as somebody has waited for a sync; in this time nobody else syncs.
    let wal_writer = WalWriter::start(&log).unwrap();
    let filled = Arc::clone(&log);
    let last = in_time(move || {
        let mut last = kept;
        for number in 1..400 {
            if filled.reserve(2048).is_err() {
                break;
            }
            filled.release(2048);
            last = append(&filled, number, 1000);
        }
        last
    });
    await_that(|| log.reserve(1).map(|()| log.release(1)).is_err());
    let waiting = Arc::clone(&log);
    assert!(in_time(move || waiting.await_durable(last)).is_err());
    assert_eq!(log.durable(), durable);
    drop(wal_writer);
    drop(log);
    assert_eq!(replayed(&disk), [0]);
}

/// After a failed sync the disk shows groups that no later sync makes durable: the next life must
/// not go on behind them.
#[test]
fn what_a_failed_sync_left_in_caches_is_not_gone_on_from() {
    let options = LogOptions { buffer_bytes: 1 << 20, ..OPTIONS };
    // A single block is lost, or several, or more than the first segment has room for; or that
    // segment is full, to its last block, with what is kept.
    for (seed, kept, lost) in [(1, 10, 1), (2, 10, 30), (3, 10, 350), (4, 62, 30)] {
        let disk = disk();
        let log = begin_with(Arc::new(disk.clone()), options);
        for number in 0..kept {
            let lsn = append(&log, number, 1000);
            log.await_durable(lsn).unwrap();
        }
        disk.set_plan(failing_sync(seed));
        for number in 0..lost {
            append(&log, 100 + number, 1000);
        }
        assert!(log.flush().is_err());
        drop(log);
        let mut expected: Vec<u64> = (0..kept).collect();
        assert_eq!(replayed(&disk), expected);
        for seed in 0..20 {
            assert!(replayed(&disk.crash(seed)).starts_with(&expected));
        }
        let log = go_on(&disk, 2);
        for number in 1000..1010 {
            let lsn = append(&log, number, 1000);
            log.await_durable(lsn).unwrap();
            expected.push(number);
        }
        for seed in 0..50 {
            assert_eq!(
                replayed(&disk.crash(seed)),
                expected,
                "{kept} kept, {lost} lost, crash {seed}"
            );
        }
    }
}

/// Appends groups about pages from `first` on until there is no room, each durable. Gives the
/// pages, and the refusal.
fn fill(log: &Log, first: u64) -> (Vec<u64>, SharedError) {
    let mut pages = Vec::new();
    loop {
        log.checkpoint_failed(Arc::new(io::Error::other("no checkpoint in this test")));
        if let Err(error) = log.reserve(8192) {
            return (pages, error);
        }
        log.release(8192);
        let number = first + pages.len() as u64;
        let lsn = append(log, number, 8000);
        if let Err(error) = log.await_durable(lsn) {
            return (pages, error);
        }
        pages.push(number);
    }
}

/// Several segments may claim the same part of the log, after incarnations whose ends were lost:
/// one of them holds it, and the others are free.
#[test]
fn segments_that_claim_what_another_one_holds_are_free() {
    let disk = disk();
    let log = begin(&disk);
    let header = LogHeader::decode(&disk.peek(0, 4096), ID).unwrap();
    let mut expected = Vec::new();
    // The first segment, and some of the second one.
    while log.end().0 < header.share() * 3 / 2 {
        let number = expected.len() as u64;
        let lsn = append(&log, number, 8000);
        log.await_durable(lsn).unwrap();
        expected.push(number);
    }
    drop(log);
    disk.allocate(header.segment_offset(0), 8 * header.segment_bytes).unwrap();
    for index in 2..8 {
        let segment = SegmentHeader { number: index % 2 };
        write(&disk, header.segment_offset(index), &segment.encode(LogSeed::new(ID)));
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

/// A log that cannot grow has room for small changes after a checkpoint, and never for one that is
/// larger than what it has: to wait would be for ever.
#[test]
fn a_change_that_a_full_device_has_no_room_for_is_refused() {
    let disk = disk();
    let options = LogOptions { limit: 64 << 20, buffer_bytes: 4 << 20 };
    let log = begin_with(Arc::new(disk.clone()), options);
    let header = LogHeader::decode(&disk.peek(0, 4096), ID).unwrap();
    let plan = FaultPlan::new(2);
    disk.set_plan(plan.fail(polder_testkit::Operation::Allocate, When::From(0), Errno::NO_SPACE));
    let large = 3 * header.share();
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
    assert!(log.end().0 > 4 * header.share());
    assert_eq!(log.file_bytes(), header.segment_offset(4));
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

fn insert_into(log: &Log, space: u64) -> Lsn {
    let page = PageId::new(SpaceId::new(space).unwrap(), PageNo::new(1).unwrap());
    let value = LoggedValue::Inline(b"");
    let mut group = Group::new();
    group.push(page, &Operation::Insert { added: true, version: 1, key: b"key", value });
    let reserved = group.len() as u64;
    log.reserve(reserved).unwrap();
    log.append(&mut group, reserved)
}

/// The counts of many tables take several groups, and writers put theirs in between.
#[test]
fn the_counts_of_a_checkpoint_in_several_groups_are_found() {
    let disk = disk();
    // No room for two of these groups: the second one waits.
    let options = LogOptions { buffer_bytes: 128 << 10, ..OPTIONS };
    let log = begin_with(Arc::new(disk.clone()), options);
    let (other, tables) = (9, 10..9010);
    for space in tables.clone() {
        let lsn = insert_into(&log, space);
        if space % 1000 == 0 {
            log.await_durable(lsn).unwrap();
        }
    }
    let begun = log.begin_checkpoint().unwrap();
    let (done, marked) = mpsc::channel();
    let checkpoint = Arc::clone(&log);
    thread::spawn(move || {
        checkpoint.finish_checkpoint(&begun, 7, |mark| done.send(mark).map_err(io::Error::other))
    });
    let begin = log.durable();
    await_that(|| log.end().0 > begin.0 + options.buffer_bytes);
    let full = log.end();
    let writer = Arc::clone(&log);
    thread::spawn(move || insert_into(&writer, other));
    await_that(|| log.end() > full);
    let flushed = Arc::clone(&log);
    in_time(move || flushed.flush()).unwrap();
    let mark = marked.recv_timeout(Duration::from_secs(10)).expect("the checkpoint waits for ever");
    let superblock = Superblock {
        redo_start: mark.redo_start,
        checkpoint: mark.checkpoint,
        next_version: mark.next_version,
        ..superblock(mark.durable)
    };
    let file = open(&disk.crash(0));
    let found = file.find_end(&superblock, &mut |_| {}).unwrap();
    let mut groups = file.groups(found.start);
    let count = std::iter::from_fn(|| groups.next().unwrap().map(drop)).count();
    assert_eq!((count, found.groups), (4, 1), "three of the checkpoint, and one that inserts");
    for space in tables.chain([other]) {
        assert_eq!(found.tally.entries(SpaceId::new(space).unwrap()), 1, "table {space}");
    }
}
