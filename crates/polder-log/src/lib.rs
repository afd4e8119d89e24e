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
//! | `survey.rs` | what can be read of a log that is damaged |

mod checkpoint;
mod clerk;
mod data;
mod double;
mod error;
mod flush;
mod log;
mod recover;
mod ring;
mod scan;
mod segments;
mod survey;
mod tally;

pub use checkpoint::{Begun, CheckpointMark};
pub use clerk::Clerk;
pub use data::DataDevice;
pub use error::LogError;
pub use log::{Log, LogOptions};
pub use recover::{Progress, Recovered, recover};
pub use scan::{Found, Groups, LogFile, LogTells, Visit, tells_of_store};
pub use survey::{Gap, SlotImage};
pub use tally::Tally;
