//! What is known in memory of the owner of each part of the file. Nothing here reads or writes:
//! the maps themselves are pages (`space/`).
//!
//! | file | |
//! |---|---|
//! | `pages.rs` | which physical page numbers are free |
//! | `runs.rs` | sets of numbers |
//! | `maps.rs` | paged arrays and allocation maps of a space |
//! | `freed.rs` | how many pages of spaces were freed |
//! | `deferred.rs` | what is given back later |

#![cfg(not(loom))]

mod deferred;
mod freed;
mod maps;
mod pages;
mod runs;

use std::sync::Mutex;

use polder_format::{ExtentSchedule, PhysicalPageNo, SpaceId};

use crate::sync::CachePadded;
use crate::sync::atomic::AtomicU64;

pub(crate) use deferred::{Deferred, GivenBack};
pub(crate) use freed::Freed;
pub(crate) use maps::{AllocState, PagedArray};
pub(crate) use pages::{FilePages, Run};
pub(crate) use runs::Runs;

/// What is known of the file in memory.
#[derive(Debug)]
pub(crate) struct FileMap {
    /// How long the extents of a space are.
    pub(crate) schedule: ExtentSchedule,
    /// Which physical page numbers no map names.
    pub(crate) pages: Mutex<FilePages>,
    /// Held by a thread that finds out which physical page numbers are free. Before pages, behind
    /// the mutexes of maps.
    pub(crate) learning: Mutex<()>,
    /// How many extents or map pages have moved (F2, F6, M4).
    pub(crate) relocations: CachePadded<AtomicU64>,
    /// How many pages of spaces were freed.
    pub(crate) freed: Freed,
    /// What is given back later.
    pub(crate) deferred: Deferred,
}

/// What the pool must be told of a file to open it ([`PoolConfig::file`](crate::PoolConfig)), and
/// tells to be kept when it was flushed ([`Pool::file_state`](crate::Pool::file_state)). A store
/// keeps it in a superblock. [`Pool`](crate::Pool) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Where the root of the space directory lies, in units of pages; [`PhysicalPageNo::NONE`] in a
    /// file without spaces.
    pub space_directory: PhysicalPageNo,
    /// The id that the next space gets. Ids below were used, and are never used again.
    pub next_space: SpaceId,
    /// Length of the file in pages; 0 in a new file.
    pub file_pages: u64,
}

impl FileState {
    /// The state of a file that holds nothing yet.
    pub const NEW: FileState = FileState {
        space_directory: PhysicalPageNo::NONE,
        next_space: SpaceId::CATALOGUE,
        file_pages: 0,
    };
}
