//! The log stays within its limit, whatever is written, and a recovery reads no more than that.

use std::time::Duration;

use polder::{Durability, Store, Table, WriteBatch};
use polder_format::log::{LOG_BLOCK_BYTES, LogHeader, RegionKind};
use polder_pool::device::Device;
use polder_testkit::{FaultPlan, Random};

use crate::support::*;

/// Four tests write as much.
const WRITTEN_BYTES: u64 = 20 << 20;
/// Header and double-write buffer.
fn area_bytes(disks: &Disks) -> u64 {
    let header = LogHeader::of_any(&disks.log.peek(0, LOG_BLOCK_BYTES)).unwrap();
    let slots = header.regions().take(64).filter(|region| region.kind == RegionKind::Slot);
    LOG_BLOCK_BYTES as u64 + slots.map(|slot| slot.bytes).sum::<u64>()
}

/// Writes until it was enough. `write` writes a little and gives the bytes.
fn stays_bounded(write: impl Fn(&Store, &Table, &mut Random) -> u64) {
    let disks = disk();
    let store = open_on(&disks);
    let table = store.open_table("t").unwrap().with_durability(Durability::None);
    let mut random = Random::new(1);
    let mut written = 0;
    let mut looks = 0;
    let mut longest = 0;
    while written < WRITTEN_BYTES {
        written += write(&store, &table, &mut random);
        let len = disks.log.len().unwrap();
        assert!(len <= LOG_LIMIT + area_bytes(&disks), "{len} bytes after {written}");
        if written > looks * WRITTEN_BYTES / 5 {
            looks += 1;
            store.flush().unwrap();
            let crashed = open_on(&disks.crash(looks));
            let read = crashed.recovery().log_bytes;
            assert!(read <= LOG_LIMIT, "{read} bytes were read");
            longest = longest.max(read);
            assert_eq!(crashed.table("t").unwrap().len(), table.len());
            assert_sound(&crashed);
        }
    }
    assert!(longest > 100_000, "the log was hardly used: {longest} bytes were read");
    assert_sound(&store);
}

/// Inserts a random one of `keys`.
fn insert(table: &Table, random: &mut Random, keys: u64, len: usize) -> u64 {
    let value = vec![random.below(256) as u8; len];
    table.put(random.below(keys).to_be_bytes(), &value).unwrap();
    len as u64
}

#[test]
fn keys_in_memory() {
    stays_bounded(|_, table, random| insert(table, random, 300, 400));
}

#[test]
fn keys_out_of_memory() {
    stays_bounded(|_, table, random| insert(table, random, 20_000, 400));
}

#[test]
fn long_values() {
    stays_bounded(|_, table, random| {
        let len = 5000 + random.index(60_000);
        insert(table, random, 40, len)
    });
}

#[test]
fn batches() {
    stays_bounded(|store, table, random| {
        let mut batch = WriteBatch::new();
        batch.durability(Durability::None);
        let count = 1 + random.below(60);
        for _ in 0..count {
            batch.put(table, random.below(2000).to_be_bytes(), [random.below(256) as u8; 500]);
        }
        store.apply(batch).unwrap();
        count * 500
    });
}

/// How often a writer met a full log while the device of pages took long, so that checkpoints did.
fn stops_at_slow_checkpoints() -> u64 {
    let disks = disk();
    let store = open_on(&disks);
    let table = store.open_table("t").unwrap().with_durability(Durability::None);
    let mut random = Random::new(1);
    disks.data.set_plan(FaultPlan::new(1).delay(1.0, Duration::from_millis(20)));
    let mut written = 0;
    while written < 4 * LOG_LIMIT {
        written += insert(&table, &mut random, 300, 400);
    }
    disks.data.set_plan(FaultPlan::new(1));
    store.stats().log_stops
}

/// A writer that is not throttled would meet a full log in each checkpoint. One may fill it before a
/// checkpoint has begun; and where other tests keep the checkpoint's thread from the processor for
/// long, which the throttle does not know, it is tried again.
#[test]
fn writers_go_at_the_pace_of_a_slow_checkpoint() {
    let least = (0..4).map(|_| stops_at_slow_checkpoints()).find(|stops| *stops <= 2);
    assert!(least.is_some(), "the log was full in every try");
}

/// Whoever wants no limit gives the greatest number.
#[test]
fn a_limit_without_end_opens_a_store_at_once() {
    let disks = disk();
    let store = disks.open(tight("simulated").log_limit(u64::MAX)).unwrap();
    store.open_table("t").unwrap().put("key", "value").unwrap();
    store.close().unwrap();
    let store = disks.open(tight("simulated")).unwrap();
    assert_eq!(store.table("t").unwrap().len(), 1);
}
