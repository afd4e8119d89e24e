//! How much data the ladder works on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::size::{parse_some_seconds, parse_threads};
use crate::tpcc;

/// How much of everything.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    strum::Display,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Size {
    /// What is timed fits into the processor's caches: shows that all works, and no more.
    Small,
    /// A tenth of full, and a fifth where memory is counted.
    Medium,
    /// 50 million records, 5 GB to scan, a graph of 2 million pages: 20 GiB of memory and of disk.
    /// (A scan goes to 270 MB of lines in its pages, a walk through the graph to 900 MB: large
    /// caches hold that.)
    Full,
}

impl Size {
    /// The amounts.
    pub(crate) fn scale(self) -> Scale {
        SCALES[&self]
    }
}

/// What holds for all runs of the ladder.
#[derive(Debug, Clone, PartialEq, clap::Args, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// How much data: small is over in minutes and shows only that all works; full needs 20 GiB of
    /// memory and of disk.
    #[arg(long, value_enum, default_value = "medium")]
    pub(crate) size: Size,
    /// How often each translation has its turn in each part, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value = "7",
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) rounds: u64,
    /// Seconds of each measurement. The part memory counts operations and has none; measurements of
    /// tpcc-larger are 5 times as long, that of ramp-up 10 times, and that of tpcc-growing at most
    /// 30 times.
    #[arg(long, default_value = "2", value_parser = parse_some_seconds)]
    pub(crate) seconds: f64,
    /// Threads that work at once, with commas between: a measurement for each, in the parts
    /// lookup, multi, breakdown, tpcc, features, tpcc-mixes and, beside its own 1, 2 and
    /// 8, tpcc-larger, beside their own 8, multi-larger and tpcc-mixes-larger; the most of them in
    /// scaling, tpcc-growing and ramp-up. The others have their own numbers of
    /// threads.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2,4",
          value_parser = parse_threads)]
    pub(crate) threads: Vec<usize>,
}

static SCALES: LazyLock<BTreeMap<Size, Scale>> = LazyLock::new(|| {
    toml::from_str(include_str!("sizes.toml")).expect("a test reads each size of the file")
});

/// Amounts of data.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Scale {
    /// Records of a tree.
    pub(crate) records: u64,
    /// Bytes of pages to scan.
    pub(crate) scan_bytes: u64,
    /// Bytes of rows in a heap.
    pub(crate) heap_bytes: u64,
    /// Nodes of the random graph, a page each.
    pub(crate) graph_nodes: u64,
    /// Records of the tree whose budgets are as large as it, a tenth and a hundredth.
    pub(crate) memory_records: u64,
    /// Records of the tree that grows to many times its budget.
    pub(crate) growing_records: u64,
    /// Rows of a warehouse of TPC-C: `full` or `tiny`.
    pub(crate) tpcc: tpcc::Scale,
    /// Warehouses of TPC-C.
    pub(crate) warehouses: u16,
    /// Warehouses where mixes run on data of many times the budget.
    pub(crate) larger_warehouses: u16,
    /// Warehouses where the data grow to three times what they were, which takes the longer the
    /// more there are.
    pub(crate) growing_warehouses: u16,
    /// Free swap that these need there, where all that is beyond the budget is swapped.
    pub(crate) swap_bytes: u64,
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn larger_sizes_have_more_of_everything_that_is_timed() {
        let scales: Vec<Scale> = Size::value_variants().iter().map(|size| size.scale()).collect();
        let timed = |scale: &Scale| [scale.records, scale.scan_bytes, scale.graph_nodes];
        assert!(scales.is_sorted_by_key(timed), "{scales:?}");
        assert_eq!(SCALES.len(), scales.len());
    }
}
