//! What is known in memory of the owner of each part of the file. Nothing here reads or writes:
//! the maps themselves are pages (`space/`).
//!
//! | file | |
//! |---|---|
//! | `pages.rs` | which physical page numbers are free |
//! | `runs.rs` | sets of numbers |
//! | `maps.rs` | paged arrays and allocation maps of a space |
//! | `freed.rs` | how many pages of spaces were freed |

#![cfg(not(loom))]

mod freed;
mod maps;
mod pages;
mod runs;

use std::sync::Mutex;

use polder_format::{ExtentSchedule, PhysicalPageNo, SpaceId};

use crate::sync::CachePadded;
use crate::sync::atomic::AtomicU64;

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
}

/// What the pool must be told of a file, and tells to be kept (in a superblock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Root of the space directory; none in a new file.
    pub space_directory: PhysicalPageNo,
    /// The id that the next space gets.
    pub next_space: SpaceId,
    /// Length of the file in pages.
    pub file_pages: u64,
}

impl FileState {
    /// Of a file that holds nothing yet.
    pub const NEW: FileState = FileState {
        space_directory: PhysicalPageNo::NONE,
        next_space: SpaceId::CATALOGUE,
        file_pages: 0,
    };
}
