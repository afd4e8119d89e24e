//! Integration tests of the store, in one program: what they share is compiled and linked once.
//! Those that need a process of their own are in `tests/alone`.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

mod killing;
mod mount;
#[path = "../../examples/stack.rs"]
#[allow(dead_code, reason = "its main is run as an example")]
mod stack;
mod support;

mod batches;
mod bit_flips;
mod check_deep;
mod closing;
mod closures;
mod collection_runs;
mod collections;
mod crash;
mod damage;
mod drop;
mod fixture;
mod full;
mod full_opening;
mod futures;
mod futures_batches;
mod futures_faults;
mod hostile;
mod keys;
mod kill;
mod kill_collections;
mod large_batches;
mod lending;
mod live;
mod log_bound;
mod log_dump;
mod log_end;
mod many;
mod names;
mod no_room;
mod nth_io;
mod odd_structures;
mod opening;
mod poison;
mod read_only;
mod real_data;
mod remains;
mod rename;
mod salvage;
mod salvage_losses;
mod salvage_random;
mod shrink;
mod structures;
mod surroundings;
mod tables;
mod tiers;
mod vectors;
mod warm_restart;
mod written;
