//! What the tests of the log share: a log on a simulated disk, and what is found there.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use polder_format::log::{Group, LoggedValue, Operation};
use polder_format::{Lsn, PageId, PageNo, PageSize, PhysicalPageNo, SpaceId, StoreId, Superblock};
use polder_log::{Found, Log, LogError, LogFile, LogOptions, Recovered};
use polder_pool::device::Device;
use polder_pool::journal::{Journal, SharedError};
use polder_testkit::{Errno, FaultPlan, SimDisk, When};

pub const ID: StoreId = StoreId([5; 16]);
pub const OPTIONS: LogOptions = LogOptions {
    limit: 4 << 20,
    buffer_bytes: 256 << 10,
    group_bytes: 0,
    always_double_write: false,
    chosen: false,
};
/// Every log begins here.
pub const FIRST: Lsn = Lsn(4096);

pub fn page(number: u64) -> PageId {
    PageId::new(SpaceId::new(7).unwrap(), PageNo::new(number).unwrap())
}

pub fn disk() -> SimDisk {
    SimDisk::new(FaultPlan::new(1))
}

/// Nothing can be allocated any more.
pub fn full() -> FaultPlan {
    let allocate = polder_testkit::Operation::Allocate;
    FaultPlan::new(2).fail(allocate, When::From(0), Errno::NO_SPACE)
}

pub fn begin(disk: &SimDisk) -> Arc<Log> {
    let device: Arc<dyn Device> = Arc::new(disk.clone());
    let file = LogFile::create(device, ID, PageSize::MIN, &OPTIONS).unwrap();
    file.begin(Arc::new(self::disk()), PageSize::MIN, OPTIONS, 1).unwrap()
}

pub fn append(log: &Log, number: u64, len: usize) -> Lsn {
    try_append(log, number, len).unwrap()
}

/// The same, unless the log has failed or has no room.
pub fn try_append(log: &Log, number: u64, len: usize) -> Result<Lsn, SharedError> {
    let value = vec![number as u8; len];
    let key = number.to_be_bytes();
    let value = LoggedValue::Inline(&value);
    let mut group = Group::new();
    group.push(page(number), &Operation::Insert { added: true, version: number, key: &key, value });
    let reserved = group.len() as u64;
    log.reserve(reserved)?;
    Ok(log.append(&mut group, reserved))
}

/// Appends groups about pages from `first` on until there is no room, each durable. Gives the
/// pages, and the refusal.
pub fn fill(log: &Log, first: u64) -> (Vec<u64>, SharedError) {
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

pub fn superblock(durable: Lsn) -> Superblock {
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

pub fn open(disk: &SimDisk) -> LogFile {
    LogFile::open(Arc::new(disk.clone()), ID).unwrap()
}

pub fn find(disk: &SimDisk) -> Result<Found, LogError> {
    open(disk).find_end(&superblock(Lsn(0)), &mut |_| {})
}

/// The pages that the log's inserts are about, in order.
pub fn replayed(disk: &SimDisk) -> Vec<u64> {
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
pub fn go_on(disk: &SimDisk, incarnation: u32) -> Arc<Log> {
    let found = find(disk).unwrap();
    let mut recovered = Recovered::default();
    let data: Arc<dyn Device> = Arc::new(self::disk());
    let log =
        found.open(open(disk), data, PageSize::MIN, OPTIONS, incarnation, &mut recovered).unwrap();
    log.end_recovery(found.end).unwrap();
    log
}

/// What the work gives; fails if it takes for ever.
pub fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    ended.recv_timeout(Duration::from_secs(10)).expect("it panicked, or waits for ever")
}

/// Waits until something is so, not for ever.
pub fn await_that(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never happens");
        thread::yield_now();
    }
}

pub fn begin_with(device: Arc<dyn Device>, options: LogOptions) -> Arc<Log> {
    let file = LogFile::create(device, ID, PageSize::MIN, &options).unwrap();
    file.begin(Arc::new(disk()), PageSize::MIN, options, 1).unwrap()
}
