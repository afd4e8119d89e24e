//! The file of a pool's pages: the device, and what reading and writing it needs.

#![cfg(not(loom))]

use std::sync::{Arc, Mutex};

use polder_format::ChecksumSeed;

use super::Device;
use super::bounce::Bounces;
use super::gate::ExtentMoves;
use super::reads::Reads;

/// The file of a pool's pages.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) device: Box<dyn Device>,
    pub(crate) seed: ChecksumSeed,
    /// Reads under way, and whether there may be more.
    pub(crate) reads: Reads,
    /// What pages are written through.
    pub(crate) bounces: Bounces,
    /// Pages in one batch of write-backs.
    pub(crate) batch_pages: usize,
    pub(crate) gate: ExtentMoves,
    /// The last write-back that failed.
    pub(crate) last_write_error: Mutex<Option<Arc<std::io::Error>>>,
}
