//! How much of everything.

use std::thread;
use std::time::Duration;

use super::records::RECORD_BYTES;
use crate::args::{DEMO_DATA_TIMES, DemoArgs};

/// The part that fits is a quarter of the budget: with its share of every page resident for sure.
const HOT_SHARE: u64 = 4;
/// For each part: long enough to be steady, short enough for all to end in a minute.
const PART: Duration = Duration::from_secs(6);
/// Threads for each core where most of them wait for the device: it wants several requests at once.
const WAITERS_PER_CORE: usize = 4;

/// Sizes and times of the demo.
#[derive(Debug)]
pub struct Plan {
    /// Memory in bytes.
    pub budget: u64,
    /// Records that are loaded in order.
    pub records: u64,
    /// Records of the part that fits in memory.
    pub hot: u64,
    /// How long each part takes.
    pub part: Duration,
    /// Threads where all is in memory.
    pub cores: usize,
    /// Threads where not.
    pub waiters: usize,
}

impl Plan {
    pub fn new(args: &DemoArgs) -> Plan {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let budget = args.budget.as_u64();
        let records = args.records.unwrap_or(DEMO_DATA_TIMES * (budget / RECORD_BYTES)).max(1);
        let part = args.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Plan {
            budget,
            records,
            hot: (budget / HOT_SHARE / RECORD_BYTES).clamp(1, records),
            part: part.unwrap_or(PART),
            cores,
            waiters: cores * WAITERS_PER_CORE,
        }
    }

    /// The first of the records that fit: they lie together, in the middle.
    pub fn hot_from(&self) -> u64 {
        (self.records - self.hot) / 2
    }
}
