//! What each thread has of its own, and how it asks others.

pub(crate) mod counters;
pub(crate) mod dice;
pub(crate) mod duty;
pub(crate) mod holding;
pub mod waits;
pub mod worker;

#[cfg(not(loom))]
pub(crate) use {
    counters::{Counter, Counters},
    dice::{draw, one_in},
    holding::Holding,
    worker::{Call, Worker},
};
