//! What all parts of a pool share, whatever the translation.

use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::Duration;

use polder_format::{ChecksumSeed, ExtentSchedule, PageSize};

use crate::admission::Admission;
use crate::counters::Counters;
use crate::device::Device;
use crate::error::PoolError;
use crate::file_map::{FilePlaces, Moving};
use crate::frames::Frames;
use crate::journal::Journal;
use crate::kinds::PageKinds;
use crate::latches::Latches;
use crate::memory::Bounces;
use crate::moves::Moves;
use crate::nodes::Nodes;
use crate::partitions::{PartitionNo, Partitions};
use crate::replacement::AccessHint;
use crate::replacement::Replacement;
use crate::retired::Retired;
use crate::signal::Signal;
use crate::state::{StateCell, StateWord};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Alone, aside};

/// The part of a pool that does not depend on the translation.
#[derive(Debug)]
pub(crate) struct Core {
    /// All that guards and holds know of.
    pub(crate) latches: Latches,
    pub(crate) frames: Frames,
    pub(crate) free: Partitions,
    /// Those of the partitions, in their order.
    pub(crate) nodes: Nodes,
    pub(crate) device: Box<dyn Device>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) seed: ChecksumSeed,
    pub(crate) kinds: PageKinds,
    /// Whether links may hold frames.
    pub(crate) swizzles: bool,
    pub(crate) counters: Counters,
    pub(crate) schedule: ExtentSchedule,
    /// Frames that the budget pays for.
    pub(crate) budget_frames: u32,
    /// Frames in use, where the translation chooses them (`direct`).
    pub(crate) fixed_in_use: Alone<AtomicU32>,
    /// Which pages go when room is needed.
    pub(crate) replacement: Arc<dyn Replacement>,
    /// How many extents or map pages have moved (F2, F6, M4).
    pub(crate) relocations: Alone<AtomicU64>,
    /// Frames that their pages left for a copy.
    pub(crate) retired: Retired,
    /// Whether pages may change their frames.
    pub(crate) moves: Moves,
    /// Held shared over a write-back (W2 to W7), exclusively to switch an extent (M3).
    pub(crate) gate: RwLock<Option<Arc<Moving>>>,
    /// Which places of the file no map names.
    pub(crate) places: Mutex<FilePlaces>,
    /// Held by who finds out which places are free. Before pages, behind the mutexes of maps.
    pub(crate) learning: Mutex<()>,
    /// What pages are written through.
    pub(crate) bounces: Bounces,
    /// The last write-back that failed.
    pub(crate) last_write_error: Mutex<Option<Arc<std::io::Error>>>,
    pub(crate) signal: Signal,
    /// Pages in one batch of write-backs.
    pub(crate) batch_pages: usize,
    /// Who may go on while frames are short.
    pub(crate) admission: Admission,
    /// Reads of the device under way.
    pub(crate) loading: Alone<AtomicU32>,
    /// The device is not read any more. Set first; then who set it waits until no read is under way,
    /// and who reads is counted first and looks then: `SeqCst` on both sides.
    pub(crate) reads_ended: AtomicBool,
}

/// A read of the device that is under way.
#[derive(Debug)]
pub(crate) struct Loading<'p>(&'p Core);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.loading.fetch_sub(1, Ordering::Release);
    }
}

impl Core {
    /// To read the device, if that was not ended.
    pub(crate) fn begin_load(&self) -> Result<Loading<'_>, PoolError> {
        self.loading.fetch_add(1, Ordering::SeqCst);
        let loading = Loading(self);
        match self.reads_ended.load(Ordering::SeqCst) {
            true => Err(PoolError::Closed),
            false => Ok(loading),
        }
    }

    /// Ends the reading of the device, and waits for the reads that are under way.
    pub(crate) fn end_reads(&self) {
        self.reads_ended.store(true, Ordering::SeqCst);
        while self.loading.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_micros(200));
        }
    }

    pub(crate) fn page_size(&self) -> PageSize {
        self.frames.page_size()
    }

    /// The partition of the node on which the calling thread was running a moment ago.
    pub(crate) fn here(&self) -> PartitionNo {
        match self.free.is_cut() {
            true => PartitionNo::new(self.nodes.here()),
            false => PartitionNo::FIRST,
        }
    }

    /// An access to a page that bears the mark: the policy may want to know, and mostly takes the
    /// mark off. That a scan comes to what was loaded for it is none; another one may be before.
    #[cold]
    #[inline(never)]
    pub(crate) fn access(&self, hint: AccessHint, cell: &StateCell, seen: StateWord) {
        aside(|| {
            let awaits_scan = self.latches.meta(seen.frame()).end_awaiting_scan();
            if awaits_scan && hint == AccessHint::Scan {
                return;
            }
            if !self.replacement.access(seen.frame()) {
                cell.touch(seen);
            }
        });
    }
}
