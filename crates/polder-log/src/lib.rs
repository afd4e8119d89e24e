//! Polder's write-ahead log.
//!
//! Changes of pages come as groups of records, each durable as a whole or not at all; pages are
//! written in place only when the log tells of all that they hold; what is torn there is restored;
//! and what the log tells is done again when a store is opened. Why this is enough is in
//! `docs/durability.md`, whose numbers (`LOG-3`, K2, R4) are cited here; the bytes are in
//! `docs/format.md`.
//!
//! | file | |
//! |---|---|
//! | `ring.rs` | the buffer that groups are copied into by many threads at once |
//! | `sync.rs` | atomics, which loom can replace |
//! | `log.rs` | appending, permits, waiting until something is durable |
//! | `flush.rs` | one thread writes the buffer out and syncs, for all |
//! | `clerk.rs` | the thread that does so when nobody waits |
//! | `segments.rs` | where in the file which part of the log lies |
//! | `double.rs` | pages written twice, so that none is torn for good |
//! | `data.rs` | the data file's device, whose syncs the log must know |
//! | `tally.rs` | how many entries each table has, at any point of the log |
//! | `checkpoint.rs` | making the log shorter |
//! | `scan.rs` | reading the log, and finding its end |
//! | `recover.rs` | doing again what it tells |
//! | `tells.rs` | whether there was a store, when its data file does not tell |
//! | `survey.rs` | what can be read of a log that is damaged |

mod ring;
mod sync;

// Under loom there is the ring alone: that is what its models are about.
#[cfg(not(loom))]
mod checkpoint;
#[cfg(not(loom))]
mod clerk;
#[cfg(not(loom))]
mod data;
#[cfg(not(loom))]
mod double;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod flush;
#[cfg(not(loom))]
mod log;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod pace;
#[cfg(not(loom))]
mod recover;
#[cfg(not(loom))]
mod scan;
#[cfg(not(loom))]
mod segments;
#[cfg(not(loom))]
mod survey;
#[cfg(not(loom))]
mod tally;
#[cfg(not(loom))]
mod tells;

#[cfg(not(loom))]
pub use {
    checkpoint::{Begun, CheckpointMark},
    clerk::Clerk,
    data::DataDevice,
    error::LogError,
    log::{Log, LogOptions},
    recover::{Progress, Recovered, recover},
    scan::{Found, Groups, LogFile, Visit},
    survey::{Gap, SlotImage},
    tally::Tally,
    tells::{LogTells, tells_of_store},
};
