//! Polder's workloads, and their comparison by engines that take turns.
//!
//! A *workload* ([`Bench`]) runs on an [`engine::Engine`]; which engines there are is a list that
//! the program hands to [`run`], so that another program can offer more of them with the same
//! command line. A single run prints one JSON line. A comparison keeps each engine in a process
//! of its own and lets them take turns round by round, because timings on one machine change by
//! half from minute to minute: only ratios of neighbours in time mean something.
//!
//! From the bottom: [`records`] says what is stored, `dist` what is asked for, [`engine`] of
//! which store; `team` has threads do it at once, `meter` and `phase` time it, `bed` prepares and
//! repeats it; `compare` has it done in processes of their own, by way of `child`; `cli` reads the
//! arguments to a `plan`, `report` prints, and `record` keeps what was printed in docs/results.md. `replay`
//! stands apart: it runs the pool's replacement policies on traces, without an engine. So does
//! `ladder`: it runs every translation on the pool and the tree directly, and TPC-C on stores.
//! `tpcc` is a workload like the others, but on tables and batches, which only Polder has.

// What only the ladder needs.
#![cfg_attr(not(feature = "translations"), allow(dead_code, unused_imports))]

use std::process::ExitCode;

mod bars;
mod bed;
mod bench;
mod child;
mod cli;
mod compare;
mod conditions;
mod counters;
mod dist;
mod durability;
pub mod engine;
mod error;
mod interrupt;
mod interval;
#[cfg(feature = "translations")]
mod ladder;
mod latencies;
mod machine;
mod meter;
mod phase;
mod plan;
mod progress;
mod random;
mod record;
pub mod records;
mod replaced;
mod replay;
mod report;
mod schedule;
mod size;
mod sorted;
mod space;
mod table;
mod team;
mod tpcc;
mod usage;

pub use bench::{Bench, Mix};
pub use conditions::Conditions;
pub use error::BenchError;
pub use polder::Durability;
pub use sorted::SortedRecords;

use engine::EngineKind;

/// Reads the command line of this process and does what it says, with these engines.
///
/// `program` is the name that the help shows. The process runs itself again for the workers of a
/// comparison, so this must be all that its `main` does.
pub fn run(program: &'static str, engines: &[EngineKind]) -> ExitCode {
    cli::run(program, engines)
}
