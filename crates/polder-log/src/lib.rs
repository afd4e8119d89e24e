//! Polder's write-ahead log.
//!
//! Changes of pages come as groups of records, each durable as a whole or not at all; pages are
//! written in place only when the log tells of all that they hold; what is torn there is restored;
//! and what the log tells is done again when a store is opened. Why this is enough is in
//! `docs/durability.md`, which cites the rules (`LOG-3`) and steps (L2, R4) that stand here; the
//! bytes are in `docs/format.md`.
//!
//! What the log of an open store is made of stands in structs, each with what it owns:
//!
//! | file | |
//! |---|---|
//! | `log.rs` | `Log`: the parts that follow, and what can be asked of it |
//! | `ring.rs` | the buffer that groups are copied into by many threads at once |
//! | `room.rs` | where the log begins and ends, and what of it is spoken for |
//! | `file/segments.rs` | where in the file which part of the log lies |
//! | `futures.rs` | the wakers of futures that wait until the log is durable |
//! | `leader.rs` | which thread leads the group commit, and up to where the log is durable |
//! | `slots.rs` | which slot of the double-write buffer holds which pages |
//! | `tally.rs` | how many entries each table has, at any point of the log |
//! | `throttle.rs` | how fast writers may go while a checkpoint makes the log shorter |
//! | `written.rs` | what the file is given, by what for |
//! | `failure.rs` | that the log cannot be used any more, and why |
//!
//! What is done with it stands above that, as `impl Log`:
//!
//! | file | |
//! |---|---|
//! | `reservation.rs` | log-space reservation: room in the log for a change |
//! | `append.rs` | a group comes into the ring |
//! | `group_commit.rs` | group commit: one thread writes the ring out and syncs, for all |
//! | `growth.rs` | the file becomes longer before that is needed |
//! | `double_write.rs` | pages written twice, so that none is torn for good |
//! | `checkpoint.rs` | making the log shorter |
//! | `durable.rs` | how a future waits until the log is durable |
//! | `wal_writer.rs` | the threads that write and sync the log when nobody waits |
//! | `journal.rs` | the log, and the data file's device, as the pool sees them |
//!
//! Reading a log:
//!
//! | file | |
//! |---|---|
//! | `file/` | the file: its segments, and the groups in it |
//! | `recovery/` | opening a store: its end is found, and what it tells is done again |
//! | `survey.rs` | what can be read of a log that is damaged |

mod append;
mod checkpoint;
mod double_write;
mod durable;
mod error;
mod failure;
mod file;
mod futures;
mod group_commit;
mod growth;
mod journal;
mod leader;
mod log;
#[cfg(all(test, loom))]
mod loom_tests;
mod recovery;
mod reservation;
mod ring;
mod room;
mod slots;
mod slow_sync;
mod survey;
mod sweep;
mod sync;
mod tally;
mod throttle;
mod wal_writer;
mod written;

#[cfg(not(loom))]
pub use {
    checkpoint::{Begun, CheckpointMark},
    durable::AwaitedSync,
    error::{ChangeTooLarge, LogError},
    file::{Groups, LogFile, LogOptions, Visit},
    journal::DataDevice,
    log::Log,
    recovery::{
        Found, LogTells, Progress, Recovered, recover_catalogue, recover_maps, recover_pages,
        tells_of_store,
    },
    survey::{Gap, RebuiltPage, SlotImage},
    tally::Tally,
    wal_writer::WalWriter,
    written::WrittenBytes,
};
