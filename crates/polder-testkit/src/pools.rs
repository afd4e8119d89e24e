//! A disk without faults, pools as small as may be, and what a disk with faults comes to in them.

#![cfg(not(loom))]

use std::error::Error;

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::{FileState, Migration, PoolConfig, PoolError, Translation};

use crate::disk::{FaultPlan, SimDisk};

/// The store of all pools and logs of tests.
pub const STORE: StoreId = StoreId([1; 16]);

/// Pages go to and fro between tiers of memory.
pub const RESTLESS: Migration = Migration {
    read_promotes: 0.3,
    write_promotes: 0.5,
    loads_to_slower: 0.4,
    evicts_to_slower: 0.8,
};

/// An empty disk that does not fail.
pub fn disk() -> SimDisk {
    SimDisk::new(FaultPlan::new(1))
}

/// The least budget, so many times.
pub fn config(times: u64, size: PageSize, file: FileState) -> PoolConfig {
    let seed = ChecksumSeed::new(STORE);
    PoolConfig { file, ..PoolConfig::new(PoolConfig::least_budget(size) * times, size, seed) }
}

/// The least budget, or one that the tests' data fits if the translation cannot evict.
pub fn tight<T: Translation>(size: PageSize, file: FileState) -> PoolConfig {
    config(if T::EVICTS { 1 } else { 64 }, size, file)
}

/// Whether an error of a pool says that the disk has failed or is full.
pub fn is_of_device(error: &PoolError) -> bool {
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    match error {
        PoolError::Read { .. } | PoolError::Write { .. } | PoolError::Device { .. } => {
            said.contains("Input/output error")
        }
        PoolError::Full { .. } => said.contains("No space left"),
        PoolError::Exhausted { dirty, .. } => *dirty > 0,
        _ => false,
    }
}
