//! What a figure depends on.

use std::fmt;

use clap::Args;
use polder::Durability;
use serde::{Deserialize, Serialize};

use crate::dist::{Dist, YCSB_THETA};
use crate::durability;
use crate::records::KEY_BYTES;
use crate::size::{parse_bytes, parse_count, parse_number, parse_threads, show_count, within};

/// What a figure depends on. All of it stands beside the figures of a result.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct Conditions {
    /// Threads that work at once; bulk has one.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_threads)]
    pub threads: usize,
    /// Records in the store, each with an 8-byte key (10M = 10 million). TPC-C has rows, as many as a
    /// load makes.
    #[arg(long, value_name = "COUNT", default_value = "1M",
          value_parser = within(parse_count, 1..=u64::MAX))]
    pub records: u64,
    /// Bytes of each value, at most 64 MiB. (The rows of TPC-C have many sizes.)
    #[arg(long, value_name = "BYTES", default_value = "120",
          value_parser = within(parse_value_size, 0..=64 << 20))]
    pub value_size: usize,
    /// Bytes of memory for the engine's cache, with KiB, MiB or GiB [default: everything fits].
    /// Engines without a cache of their own say in their description what they do with it.
    #[arg(id = "pool", long = "pool", value_name = "SIZE", value_parser = parse_bytes,
          default_value = "0", hide_default_value = true)]
    pub pool_bytes: u64,
    /// Have Polder touch all memory of its pool when the store is made, before the clock starts.
    /// Else the kernel clears each page when it is first used, as it does for the other engines.
    #[arg(long)]
    pub prefault: bool,
    /// Which records are asked for, where not all are [default: what the workload says].
    #[arg(long, value_enum)]
    pub dist: Option<Dist>,
    /// Exponent of zipfian and latest, above 0: the record of rank k is asked for in proportion
    /// to 1 / k^theta; YCSB's, unless said.
    #[arg(long, default_value_t = YCSB_THETA, value_parser = parse_theta)]
    pub theta: f64,
    /// What is promised of a write that has returned: that it is on the device (sync), that it will
    /// be after this time (periodic:10ms), or nothing (none).
    #[arg(long, value_name = "DURABILITY", default_value = "none", value_parser = durability::parse)]
    #[serde(with = "durability")]
    pub durability: Durability,
    /// How far the log may grow before what it holds is written in its place, with KiB, MiB or GiB
    /// [default: what the engine says]. Engines without such a log ignore it.
    #[arg(id = "log-limit", long = "log-limit", value_name = "SIZE", value_parser = parse_bytes)]
    pub log_limit_bytes: Option<u64>,
    /// Records that a commit writes; for commit alone, at most a million.
    #[arg(long, value_name = "COUNT", default_value = "1",
          value_parser = within(parse_count, 1..=1_000_000))]
    pub batch: u64,
    /// Operations that should begin in each second, in all threads together, evenly spaced,
    /// whatever became of those before (an open loop); their latencies count from when they should
    /// have begun. For lookup, ycsb-a to ycsb-f and commit [default: each thread begins one when
    /// its last has ended].
    #[arg(id = "rate", long = "rate", value_name = "COUNT",
          value_parser = within(parse_count, 1..=u64::MAX))]
    pub rate_per_s: Option<u64>,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} thread(s), durability {}", self.threads, self.durability)?;
        if self.batch > 1 {
            write!(f, ", {} writes in a commit", self.batch)?;
        }
        match self.rate_per_s {
            Some(rate) => write!(f, ", {}/s asked for", show_count(rate as f64)),
            None => Ok(()),
        }
    }
}

impl Conditions {
    /// Bytes of all keys and values.
    pub fn data_bytes(&self) -> u64 {
        data_bytes(self.records, self.value_size)
    }

    /// Whether the cache is too small for the data.
    pub fn is_out_of_memory(&self) -> bool {
        self.pool_bytes < self.data_bytes()
    }

    /// Whether the data should fit into the pool, with what a tree needs around it.
    pub(crate) fn is_resident(&self) -> bool {
        self.pool_bytes > self.data_bytes() + self.data_bytes() / 2
    }
}

/// Reads an exponent of Zipf's law.
pub(crate) fn parse_theta(text: &str) -> Result<f64, String> {
    within(parse_number, 0.001..=10.0)(text)
}

fn parse_value_size(text: &str) -> Result<usize, String> {
    parse_bytes(text).map(|bytes| bytes as usize)
}

/// Bytes of so many keys and values of this size.
pub(crate) fn data_bytes(records: u64, value_size: usize) -> u64 {
    records.saturating_mul((KEY_BYTES + value_size) as u64)
}
