//! Polder's workloads on other engines beside Polder: see `polder-bench-peers --help`.
//!
//! Each engine is set up in its best honest shape for the phase at hand; what was chosen and why
//! stands in its module. What `--durability` promises holds for each transaction of an engine, also
//! while it loads; with `none`, which is the default, none syncs to the device before it settles.

use std::process::ExitCode;

mod btreemap;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

/// Writes that share a transaction while loading in random order, where an engine has any: enough
/// to share the cost of a commit, few enough that a store could be given work in such pieces.
const WRITES_PER_LOAD: usize = 1_000;
/// The same for a sorted load, of which nobody expects to see a part.
const WRITES_PER_BULK_LOAD: usize = 100_000;

fn main() -> ExitCode {
    let mut engines = polder_bench::engine::built_in();
    engines.extend([lmdb::KIND, redb::KIND]);
    engines.extend(btreemap::KINDS);
    #[cfg(feature = "rocksdb")]
    engines.push(rocksdb::KIND);
    polder_bench::run("polder-bench-peers", &engines)
}
