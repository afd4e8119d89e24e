//! What one engine is to do: all options, resolved. It travels to a worker as JSON.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::dist::{Dist, YCSB_THETA};
use crate::durability::Durability;
use crate::records::KEY_BYTES;
use crate::tpcc::TpccPlan;

/// How the data gets in before a workload that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LoadOrder {
    /// By inserts in random order.
    Random,
    /// By the engine's bulk load: the fastest.
    Sorted,
}

/// One engine's part of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) bench: Bench,
    pub(crate) engine: String,
    /// Where stores are made; may be shared with other engines.
    pub(crate) dir: PathBuf,
    /// For TPC-C, the rows of a load.
    pub(crate) records: u64,
    /// For TPC-C, zero: its rows have many sizes.
    pub(crate) value_size: usize,
    pub(crate) pool_bytes: u64,
    /// Have engines with a pool of their own touch its memory before the clock starts.
    pub(crate) prefault: bool,
    pub(crate) threads: usize,
    pub(crate) seconds: f64,
    pub(crate) warmup_seconds: f64,
    pub(crate) dist: Option<Dist>,
    pub(crate) theta: f64,
    pub(crate) load: LoadOrder,
    pub(crate) seed: u64,
    pub(crate) counters: bool,
    pub(crate) device_bytes: Option<u64>,
    pub(crate) durability: Durability,
    /// How far the engine's log may grow, where it has one.
    pub(crate) log_limit_bytes: Option<u64>,
    /// Writes of a commit, in [`Bench::Commit`]; 1 in all others.
    pub(crate) batch: u64,
    /// Operations that should begin in each second, in all threads together, whatever became of
    /// those before; without it, each thread begins one when the last has ended.
    pub(crate) rate: Option<u64>,
    /// Of TPC-C alone.
    pub(crate) tpcc: Option<TpccPlan>,
}

impl Plan {
    /// One thread, on no records, with nothing that was asked for.
    pub(crate) fn new(bench: Bench, engine: String, dir: &Path, seconds: f64) -> Plan {
        Plan {
            bench,
            engine,
            dir: dir.to_owned(),
            records: 0,
            value_size: 0,
            pool_bytes: 0,
            prefault: false,
            threads: 1,
            seconds,
            warmup_seconds: 0.0,
            dist: None,
            theta: YCSB_THETA,
            load: LoadOrder::Sorted,
            seed: 1,
            counters: false,
            device_bytes: None,
            durability: Durability::None,
            log_limit_bytes: None,
            batch: 1,
            rate: None,
            tpcc: None,
        }
    }

    /// Bytes of all keys and values.
    pub(crate) fn data_bytes(&self) -> u64 {
        data_bytes(self.records, self.value_size)
    }

    /// Whether the data should fit into the pool, with what a tree needs around it.
    pub(crate) fn is_resident(&self) -> bool {
        self.pool_bytes > self.data_bytes() + self.data_bytes() / 2
    }
}

/// Bytes of so many keys and values of this size.
pub(crate) fn data_bytes(records: u64, value_size: usize) -> u64 {
    records.saturating_mul((KEY_BYTES + value_size) as u64)
}

/// A pool in which everything fits, also after inserts in random order, which leave pages
/// two thirds full.
pub(crate) fn ample_pool_bytes(records: u64, value_size: usize) -> u64 {
    const RECORD_OVERHEAD_BYTES: u64 = 24;
    const LEAST_BYTES: u64 = 64 << 20;
    let around = records.saturating_mul(RECORD_OVERHEAD_BYTES);
    let bytes = data_bytes(records, value_size).saturating_add(around);
    bytes.saturating_add(bytes / 4 * 3).saturating_add(LEAST_BYTES)
}

/// A pool in which TPC-C stays resident for so many seconds at any speed that is to be expected.
pub(crate) fn ample_tpcc_pool_bytes(warehouses: u16, seconds: f64) -> u64 {
    const WAREHOUSE_BYTES: u64 = 192 << 20;
    /// Orders, their lines and payments of some 50 thousand transactions.
    const BYTES_PER_S: f64 = (32 << 20) as f64;
    const LEAST_BYTES: u64 = 256 << 20;
    LEAST_BYTES + u64::from(warehouses) * WAREHOUSE_BYTES + (seconds * BYTES_PER_S) as u64
}
