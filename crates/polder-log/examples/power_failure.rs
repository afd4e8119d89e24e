//! A log by itself, on a simulated disk: what was acknowledged is there after the power has failed.

use std::sync::Arc;

use polder_format::log::{Group, LoggedValue, Operation, Records};
use polder_format::{Lsn, PageId, PageNo, PageSize, PhysicalPageNo, SpaceId, StoreId, Superblock};
use polder_log::{Log, LogFile, LogOptions, WalWriter};
use polder_pool::device::Device;
use polder_pool::journal::Journal;
use polder_testkit::{FaultPlan, SimDisk};

const ID: StoreId = StoreId([7; 16]);
const PAGES: PageSize = PageSize::MIN;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [disk, data] = [1, 2].map(|seed| SimDisk::new(FaultPlan::new(seed)));
    let options = LogOptions {
        limit: LogOptions::LEAST_LIMIT,
        buffer_bytes: 256 << 10,
        group_bytes: 1 << 20,
        chosen: false,
        always_double_write: false,
    };
    let file = LogFile::create(Arc::new(disk.clone()), ID, PAGES, &options)?;
    let log = file.begin(Arc::new(data), PAGES, options, 1)?;
    let threads = WalWriter::start(&log, |_| ())?;

    let acknowledged = append(&log, 1, b"acknowledged")?;
    log.await_durable(acknowledged)?;
    append(&log, 2, b"promised to nobody")?;
    let crashed = disk.crash(4); // what was not synced is lost, torn or there, by the seed
    drop(threads);

    let device: Arc<dyn Device> = Arc::new(crashed);
    let file = LogFile::open(device, ID)?;
    let found = file.find_end(&superblock(&options), &mut |_read| ())?;
    assert!(found.end >= acknowledged);
    file.visit(found.start, found.end, &mut |header, group| {
        for record in Records::of_group(group).flatten() {
            println!("LSN {}: {}", header.lsn.0, record.operation.name());
        }
        Ok(())
    })?;
    Ok(())
}

/// One change of one page: an insert of a key.
fn append(log: &Log, version: u64, value: &[u8]) -> Result<Lsn, Box<dyn std::error::Error>> {
    let (space, number) = (SpaceId::CATALOGUE, PageNo::new(1).ok_or("page 1")?);
    let value = LoggedValue::Inline(value);
    let mut group = Group::new();
    let insert = Operation::Insert { added: true, version, key: b"key", value };
    group.push(PageId::new(space, number), &insert);
    let reserved = group.len() as u64;
    log.reserve(reserved)?; // before the first latch
    // Here the page would be latched.
    let lsn = log.append(&mut group, reserved);
    // Here it would be changed, get `lsn` as its LSN, and be unlatched.
    Ok(lsn)
}

/// What the data file of a new store tells: the log is to be read from its beginning.
fn superblock(options: &LogOptions) -> Superblock {
    Superblock {
        store_id: ID,
        generation: 1,
        compatible: 0,
        page_size: PAGES,
        clean: false,
        space_directory: PhysicalPageNo::NONE,
        next_space: SpaceId::CATALOGUE,
        next_version: 1,
        file_pages: 16,
        default_budget: 0,
        redo_start: Lsn(4096),
        checkpoint: Lsn(0),
        durable: Lsn(0),
        incarnation: 1,
        log_limit: options.limit,
    }
}
