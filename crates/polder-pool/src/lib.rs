//! Polder's buffer pool: pages of a file in memory, at the speed of memory.
//!
//! The way from a page id to a frame, the *translation*, is interchangeable; see [`translation`].
//! What a page goes through is written down in `docs/protocols.md`, how pages lie in the file in
//! `docs/format.md`.
//!
//! Under `--cfg loom` only the small protocols are built, for `loom_tests` to run them in every
//! order.

#![cfg_attr(loom, allow(dead_code))]

/// Names a step at which a test may have something else happen (`testing::at`). Nothing elsewhere.
#[cfg(not(loom))]
macro_rules! reached {
    ($step:ident) => {
        #[cfg(all(test, not(loom)))]
        crate::testing::reach(crate::testing::Step::$step);
    };
}

pub mod bytes;
pub mod device;

mod free_list;
#[cfg(all(loom, test))]
mod loom_tests;
mod meta;
mod moves;
mod parking;
mod partitions;
mod state;
mod sync;
#[cfg(all(not(loom), polder_count))]
pub use sync::counted;

#[cfg(not(loom))]
mod admission;
#[cfg(not(loom))]
mod ahead;
#[cfg(not(loom))]
mod attempt;
#[cfg(not(loom))]
mod bounce;
#[cfg(not(loom))]
mod change;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
mod counters;
#[cfg(not(loom))]
mod cpu;
#[cfg(not(loom))]
mod dice;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod evict;
#[cfg(not(loom))]
mod fault;
#[cfg(not(loom))]
mod file_map;
#[cfg(not(loom))]
pub mod fork;
#[cfg(not(loom))]
mod found;
#[cfg(not(loom))]
mod frames;
#[cfg(not(loom))]
mod gate;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod hold;
#[cfg(not(loom))]
mod holding;
#[cfg(not(loom))]
pub mod journal;
#[cfg(not(loom))]
mod kinds;
#[cfg(not(loom))]
mod latches;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod metas;
#[cfg(all(test, not(loom)))]
mod node_tests;
#[cfg(not(loom))]
mod nodes;
#[cfg(not(loom))]
mod open;
#[cfg(not(loom))]
mod optimistic;
#[cfg(not(loom))]
mod pessimistic;
#[cfg(not(loom))]
mod pins;
#[cfg(loom)]
mod pins {
    pub(crate) mod slice;
}
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod promote;
#[cfg(not(loom))]
mod read_mode;
#[cfg(not(loom))]
mod reads;
#[cfg(not(loom))]
mod recover;
#[cfg(not(loom))]
mod redo;
#[cfg(not(loom))]
pub mod replacement;
#[cfg(not(loom))]
mod reserve;
#[cfg(not(loom))]
mod retired;
#[cfg(not(loom))]
mod shadow;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
pub mod signal;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod space;
#[cfg(not(loom))]
mod space_handle;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod table;
#[cfg(all(test, not(loom)))]
mod testing;
pub mod translation;
#[cfg(not(loom))]
mod waiting;
#[cfg(not(loom))]
mod write_back;
#[cfg(not(loom))]
mod writer;

#[cfg(not(loom))]
pub use {
    attempt::{Attempt, Interrupted, Obstacles},
    change::Change,
    config::PoolConfig,
    error::PoolError,
    file_map::FileState,
    guard::{Exclusive, NewPage, Optimistic, Pin, Restart},
    handle::{Pool, Space},
    holding::Holding,
    journal::Journal,
    kinds::{KindOps, OwnedLinks},
    link::LinkRef,
    memory::threads_with_room,
    nodes::policy::NodeId,
    read_mode::{GroupSize, Hold, UnknownHold},
    redo::{ApplyRecord, Redo, Redone},
    replacement::AccessHint,
    shadow::Shadow,
    state::FrameId,
    stats::{NodeStats, PoolStats, SpaceStats},
    translation::{
        Array, ArrayPlain, ArraySwizzled, Direct, Hash, HashInlined, HashOptimistic,
        HashOptimisticInlined, HashPreferred, Open, Predictive, PredictiveHashed, Simd, SimdPlain,
        Swip, Swizzle, Translation, Vm, VmHuge,
    },
    waiting::Exhaustion,
};

#[cfg(all(not(loom), feature = "teaching"))]
pub use translation::Sorted;

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
