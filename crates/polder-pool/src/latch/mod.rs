//! The state word of a page, and what a thread may do with the page while it holds it.
//!
//! | file | |
//! |---|---|
//! | `state.rs` | the state word: latch, version, mark and frame in one atomic |
//! | `pending.rs` | a writer that waits for those that hold the page |
//! | `meta.rs`, `metas.rs` | what is known of a frame's page: only a latch holder changes it |
//! | `parking.rs` | where threads wait for pages in flight |
//! | `slice.rs`, `slices.rs` | pins of groups of cores (scalecache-2025 3.1) |
//! | `latches.rs` | all of that, of one pool |
//! | `guard.rs` | optimistic and exclusive guards, and pins |
//! | `held.rs` | what a reader holds on its way, where the read mode is not optimistic |

pub(crate) mod found;
pub(crate) mod guard;
pub(crate) mod held;
pub(crate) mod latches;
pub(crate) mod meta;
pub(crate) mod metas;
pub(crate) mod parking;
pub(crate) mod pending;
pub(crate) mod slice;
pub(crate) mod slices;
pub(crate) mod state;

pub(crate) use {
    meta::{FRAME_META_BYTES, Obstacle},
    state::{FrameId, StateCell, StateWord, Version},
};

#[cfg(not(loom))]
pub(crate) use {
    found::Resolved,
    guard::{Exclusive, NewPage, Optimistic, Pin, Restart},
    held::Holds,
    latches::{HearsWrites, Latches},
    metas::Metas,
    slices::{GroupPins, grouping},
};
