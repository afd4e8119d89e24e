//! Frames: the memory of pages, which of them are free, and which threads may go on while they are
//! short.

pub(crate) mod admission;
pub(crate) mod frame_pool;
pub(crate) mod frames;
pub(crate) mod free_list;
pub(crate) mod moves;
pub(crate) mod partitions;
pub(crate) mod retired;
pub(crate) mod waiters;

pub(crate) use {free_list::FreeList, moves::Moves, partitions::Partitions};

#[cfg(not(loom))]
pub(crate) use {
    admission::{Admission, Admitted, OPERATION_FRAMES},
    frame_pool::{Fixed, FramePool},
    frames::Frames,
    retired::Retired,
    waiters::{Provides, Waiters},
};
