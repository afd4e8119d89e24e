//! The log's file: its segments, and what is read from it.
//!
//! | file | |
//! |---|---|
//! | `segments.rs` | where in the file which part of the log lies |
//! | `log_file.rs` | making the file, and opening it |
//! | `read_ahead.rs` | its bytes, in stretches, the next one while the last one is looked at |
//! | `groups.rs` | its groups, one after the other, and whether one is valid |

#![cfg(not(loom))]

mod groups;
mod log_file;
mod read_ahead;
mod segments;

pub use groups::{Groups, Visit};
pub use log_file::{LogFile, LogOptions};
pub(crate) use {
    log_file::FIRST_LSN,
    segments::{Fresh, GROUP_BYTES_MAX, LogSpace, Segments, make_region},
};
