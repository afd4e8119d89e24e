//! Polder's buffer pool: pages of a file in memory, at the speed of memory.
//!
//! A [`Pool`] is opened on a [`device`](device::Device) with a budget of memory ([`PoolConfig`]),
//! and has [`Space`]s, which are made of pages. An operation on pages is a closure that
//! [`Space::run`] runs until it goes through: it reads a page by an [`Optimistic`] guard, which it
//! validates, and changes one by an [`Exclusive`] guard. Bytes of pages are read and written by
//! [`bytes`] alone. A [`Change`] logs what was changed, where the pool has a [`Journal`]. [`Space`]
//! has an example of all that happens to a page; the rules that a caller can break are in the
//! README.
//!
//! Amounts are in bytes, pages or frames (a frame is memory for one page); names and descriptions say
//! which. A page number counts the pages of a space, a physical page number those of the file. What
//! goes wrong is a [`PoolError`].
//!
//! The way from a page id to a frame, the *translation*, is interchangeable; see [`translation`].
//! What a page goes through is drawn in the module that does it; `docs/reading.md` says where, and
//! `docs/protocols.md` draws the state word, which all of them share. How pages lie in the file is
//! in `docs/format.md`.
//!
//! Under `--cfg loom` only the small protocols are built, for `loom_tests` to run them in every
//! order.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

/// Names a step at which a test may have something else happen (`testing::at`). Nothing elsewhere.
#[cfg(not(loom))]
macro_rules! reached {
    ($step:ident) => {
        #[cfg(all(test, not(loom)))]
        crate::testing::reach(crate::testing::Step::$step);
    };
}

mod core;
pub mod device;
mod error;
mod event;
mod file_map;
mod frame;
pub mod journal;
mod latch;
#[cfg(all(loom, test))]
mod loom_tests;
mod machine;
pub mod miss_ratio;
mod operation;
mod page;
mod paging;
mod pool;
mod read_mode;
pub mod replacement;
mod shared;
mod space;
mod sync;
#[cfg(test)]
mod testing;
mod thread;
mod tier;
pub mod translation;

/// For the crates above, and no part of what users have.
#[cfg(not(loom))]
#[doc(hidden)]
pub use machine::memory::Mapping;
pub use page::bytes;
#[cfg(all(not(loom), polder_count))]
pub use sync::counted;
/// Likewise, so that there is one of it.
#[doc(hidden)]
pub use sync::lock;
#[cfg(not(loom))]
pub use {machine::fork, thread::waits, thread::worker};

#[cfg(not(loom))]
pub use {
    error::PoolError,
    file_map::FileState,
    journal::Journal,
    latch::guard::{Exclusive, NewPage, Optimistic, Pin, Restart},
    latch::state::FrameId,
    machine::memory::threads_with_room,
    machine::page_moves::{MoveMode, PageMoves},
    machine::policy::NodeId,
    miss_ratio::{MissRatios, Sampling, TierMissRatios},
    operation::attempt::{Attempt, Interrupted, Obstacles},
    operation::interleaved::{Blocked, Interleaved, Loading},
    operation::remembered::Discards,
    page::kinds::{ApplyRecord, KindOps, OwnedLinks},
    page::link::LinkRef,
    paging::admission::Exhaustion,
    paging::prewarm::{PrewarmEnd, Prewarmed},
    paging::shadow::Shadow,
    pool::config::PoolConfig,
    pool::handle::{Pool, Space},
    pool::loans::{Borrower, Loans},
    pool::redo::{Redo, Redone},
    pool::stats::{NodeStats, PoolStats, SpaceStats, TierStats},
    read_mode::{GroupSize, ReadMode, UnknownReadMode},
    replacement::AccessHint,
    space::change::Change,
    space::loan::NotLent,
    thread::holding::Holding,
    tier::{Migration, Tier, TierConfig},
    translation::{
        Array, ArrayPlain, ArraySwizzled, Direct, Hash, HashInlined, HashOptimistic,
        HashOptimisticInlined, HashPreferred, Open, Predictive, PredictiveHashed, Simd, SimdPlain,
        Swip, Swizzle, Translation, Vm, VmHuge,
    },
};

#[cfg(all(not(loom), feature = "async"))]
pub use paging::loader::{Arrival, AwaitedPage};

#[cfg(all(not(loom), feature = "teaching"))]
pub use translation::Sorted;

/// For `event!`, wherever it is expanded.
#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
