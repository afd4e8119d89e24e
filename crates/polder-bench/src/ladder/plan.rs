//! How much data the ladder works on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::tpcc;

/// How much of everything.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, strum::Display, Serialize, Deserialize,
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
        let of = |size: &str| SCALES.get(size).copied();
        of(&self.to_string()).expect("a test reads each size of the file")
    }
}

static SCALES: LazyLock<BTreeMap<String, Scale>> = LazyLock::new(|| {
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
