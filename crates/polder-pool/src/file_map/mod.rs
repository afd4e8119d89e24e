//! What is known in memory of who owns which part of the file. Nothing here reads or writes: the maps
//! themselves are pages (`space/`).
//!
//! | file | |
//! |---|---|
//! | `places.rs` | which places of the file are free |
//! | `runs.rs` | sets of numbers |
//! | `maps.rs` | paged arrays and allocation maps of a space |

#![cfg(not(loom))]

mod maps;
mod places;
mod runs;

use polder_format::{Place, SpaceId};

pub(crate) use maps::{AllocState, PagedArray};
pub(crate) use places::{FilePlaces, Run};
pub(crate) use runs::Runs;

/// What the pool must be told of a file, and tells to be kept (in a superblock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Root of the space directory; none in a new file.
    pub space_directory: Place,
    /// The id that the next space gets.
    pub next_space: SpaceId,
    /// Length of the file in pages.
    pub file_pages: u64,
}

impl FileState {
    /// Of a file that holds nothing yet.
    pub const NEW: FileState =
        FileState { space_directory: Place::NONE, next_space: SpaceId::CATALOGUE, file_pages: 0 };
}
