//! Ways from a link to a frame, one folder each, behind one trait ([`Translation`], `seam.rs`).
//!
//! | name | from | in one line |
//! |---|---|---|
//! | [`Array`] | calico-2026 | an array of state words indexed by page number, hole-punched; the default |
//! | [`Direct`] | the limit | the page number is the frame; nothing is ever evicted; the yardstick |
//! | [`type@Hash`] | the traditional pool | a chained table, a latch on each bucket, dependent loads; the baseline |
//! | [`Open`] | calico-2026, 3 | open addressing, a latch on each partition; the other baseline |
//! | [`Predictive`] | predictive-2026 | first entry in the bucket, no latch for readers, preferred frames |
//! | [`Simd`] | scalecache-2025, 3.3 | buckets of 16 fingerprints, compared at once; readers take no latch, and look first where the page prefers to lie |
//! | [`Vm`] | vmcache-n-2026 | the operating system's page table translates; 8 bytes of state for a page |
//! | [`Swizzle`] | leanstore-2018 | a swizzled link holds the frame of its page; a table for the others |
//!
//! Between [`type@Hash`] and [`Predictive`] lie types with some of its steps
//! (`predictive/steps.rs`); [`ArraySwizzled`] is [`ArrayPlain`] with the frame in the link as a
//! hint, and [`VmHuge`] is [`Vm`] on huge pages, without eviction. All of them stand in one list
//! (`list.rs`), from which whatever is to know them derives. `sorted.rs` is one to learn from. What
//! several designs are made of is in `parts/`. No design knows another, but that `swizzle` has the
//! table of `simd` beneath it.

pub(crate) mod array;
mod direct;
mod hash;
mod list;
mod open;
pub(crate) mod parts;
mod predictive;
mod seam;
mod simd;
#[cfg(feature = "teaching")]
mod sorted;
pub(crate) mod swizzle;
#[cfg(test)]
mod tests;
mod vm;

#[cfg(not(loom))]
pub use {
    crate::latch::found::Resolved,
    array::{Array, ArrayPlain, Arrays},
    direct::Direct,
    hash::Hash,
    open::Open,
    parts::{by_frame::ByFrame, predict::Predict},
    predictive::{
        HashInlined, HashOptimistic, HashOptimisticInlined, HashPreferred, Predicting, Predictive,
        PredictiveHashed,
    },
    seam::*,
    simd::{Simd, SimdPlain, Simds},
    swizzle::{ArraySwizzled, Swip, Swizzle},
    vm::{VirtualMemory, Vm, VmHuge},
};

#[cfg(all(not(loom), feature = "teaching"))]
pub use sorted::Sorted;
