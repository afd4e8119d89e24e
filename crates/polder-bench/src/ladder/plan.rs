//! How much data the ladder works on.

use serde::{Deserialize, Serialize};

use crate::tpcc;

/// A warehouse is some 128 MiB and the budget twice that: as much is swapped at most, and half is
/// expected.
const SWAP_A_WAREHOUSE: u64 = 256 << 20;

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
        let full = Scale {
            records: 50_000_000,
            scan_bytes: 5_000_000_000,
            // A scan copies each page, whatever the rows: many times the largest caches.
            heap_bytes: 4_000_000_000,
            graph_nodes: 2_000_000,
            memory_records: 10_000_000,
            growing_records: 10_000_000,
            tpcc: tpcc::Scale::FULL,
            warehouses: 10,
            larger_warehouses: 10,
            growing_warehouses: 4,
            swap_bytes: 4 * SWAP_A_WAREHOUSE,
        };
        match self {
            Size::Full => full,
            Size::Medium => Scale {
                records: full.records / 10,
                scan_bytes: full.scan_bytes / 10,
                heap_bytes: full.heap_bytes / 10,
                graph_nodes: full.graph_nodes / 10,
                // A hundredth of the data must be a pool of some size.
                memory_records: full.memory_records / 5,
                growing_records: full.growing_records / 5,
                warehouses: 2,
                larger_warehouses: 2,
                growing_warehouses: 2,
                swap_bytes: 2 * SWAP_A_WAREHOUSE,
                ..full
            },
            Size::Small => Scale {
                records: 50_000,
                scan_bytes: 16_000_000,
                heap_bytes: 2_000_000,
                graph_nodes: 2_000,
                // A hundredth of the data must still hold all inner nodes.
                memory_records: 1_000_000,
                growing_records: 60_000,
                tpcc: tpcc::Scale::TINY,
                warehouses: 2,
                // What stock-level asks for must not fit into the least budget that there is.
                larger_warehouses: 16,
                growing_warehouses: 2,
                swap_bytes: 64 << 20,
            },
        }
    }
}

/// Amounts of data.
#[derive(Debug, Clone, Copy)]
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
    /// Rows of a warehouse of TPC-C.
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
