//! One operation on a structure: how it follows links, and how it is tried until it goes through.
//!
//! | file | |
//! |---|---|
//! | `attempt.rs` | what an operation has while it runs |
//! | `optimistic.rs` | the common path from a link to its page |
//! | `pessimistic.rs` | the other paths: the page is held, lies elsewhere, or is not resident |
//! | `snapshot.rs` | the path where pages are changed in copies: N1 to N5 |
//! | `recover.rs` | what is done between two tries |
//! | `interleaved.rs` | the steps of many operations of one thread, which wait for none |
//! | `prefetch.rs` | pages that will be read soon are asked for, together |
//! | `remembered.rs` | going to a page by a number that was remembered: D1 to D5 |

pub(crate) mod attempt;
pub(crate) mod interleaved;
pub(crate) mod optimistic;
pub(crate) mod pessimistic;
pub(crate) mod prefetch;
pub(crate) mod recover;
pub(crate) mod remembered;
pub(crate) mod snapshot;

#[cfg(not(loom))]
pub(crate) use {
    attempt::{Attempt, Interrupted, Obstacles},
    interleaved::Interleaved,
    remembered::Discards,
};
