//! A disk without faults, and pools as small as may be.

#![cfg(not(loom))]

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::{FileState, PoolConfig, Translation};

use crate::disk::{FaultPlan, SimDisk};

/// An empty disk that does not fail.
pub fn disk() -> SimDisk {
    SimDisk::new(FaultPlan::new(1))
}

/// The least budget, so many times.
pub fn config(times: u64, size: PageSize, file: FileState) -> PoolConfig {
    let seed = ChecksumSeed::new(StoreId([1; 16]));
    PoolConfig { file, ..PoolConfig::new(PoolConfig::least_budget(size) * times, size, seed) }
}

/// The least budget, or one that the tests' data fits if the translation cannot evict.
pub fn tight<T: Translation>(size: PageSize, file: FileState) -> PoolConfig {
    config(if T::EVICTS { 1 } else { 64 }, size, file)
}
