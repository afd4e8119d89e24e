//! Pages come into frames, move between them, and leave them.
//!
//! | file | |
//! |---|---|
//! | `fault.rs` | a page is loaded, or made: F1 to F10 |
//! | `open_fault.rs`, `spare.rs` | a fault between its two halves, and the frame for it |
//! | `flights.rs`, `spaces.rs` | many faults that one thread has open at once, in one space or in several |
//! | `group.rs` | pages that are loaded together |
//! | `evict.rs` | a page leaves its frame: E1 to E9 |
//! | `write_back.rs` | a dirty page is written: W0 to W7 |
//! | `promote.rs` | a page moves to the frame that it prefers: P1 to P5 |
//! | `migrate.rs` | a page goes to another tier of memory: T1 to T7 |
//! | `migration_batch.rs` | pages that go there together; by the kernel where they keep their addresses |
//! | `pages_of.rs` | the pages in their frames, as policies see them |
//! | `shadow.rs` | a page is changed in a copy, while others go on reading it: C1 to C8 |
//! | `read_ahead.rs` | a thread that loads pages before they are asked for |
//! | `prewarm.rs` | pages that were in memory before come into free frames: A1 to A5 |
//! | `loader.rs`, `wanted.rs` | a thread that loads pages for futures, and how they ask it |
//! | `page_provider.rs`, `watermarks.rs` | a thread that keeps some frames free |
//! | `admission.rs` | operations wait for frames, with nothing in their hands |
//!
//! What is here knows nothing of the maps of the file: where a page lies it asks through a pointer
//! that is set when a pool is opened (`Shared::locate`), because a page of a map is a page too.

pub(crate) mod admission;
pub(crate) mod evict;
pub(crate) mod fault;
pub(crate) mod flights;
pub(crate) mod group;
mod latency;
#[cfg(feature = "async")]
pub(crate) mod loader;
pub(crate) mod migrate;
pub(crate) mod migration_batch;
pub(crate) mod open_fault;
pub(crate) mod page_provider;
pub(crate) mod pages_of;
pub(crate) mod prewarm;
pub(crate) mod promote;
pub(crate) mod read_ahead;
pub(crate) mod shadow;
pub(crate) mod spaces;
pub(crate) mod spare;
#[cfg(any(feature = "async", all(loom, test)))]
pub(crate) mod wanted;
pub(crate) mod watermarks;
pub(crate) mod write_back;

#[cfg(not(loom))]
pub(crate) use {
    admission::Exhaustion,
    flights::{Begun, Flights},
    page_provider::PageProvider,
    read_ahead::Reader,
    shadow::Shadow,
};
