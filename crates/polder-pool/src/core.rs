//! What all parts of a pool share, whatever the translation.

#![cfg(not(loom))]

use std::sync::{Arc, Mutex};

use polder_format::{ChecksumSeed, ExtentSchedule, PageSize, SpaceId};

use crate::device::Device;
use crate::device::bounce::Bounces;
use crate::device::gate::ExtentMoves;
use crate::device::reads::Reads;
use crate::file_map::FilePlaces;
use crate::frame::admission::Admission;
use crate::frame::frames::Frames;
use crate::frame::moves::Moves;
use crate::frame::partitions::{PartitionNo, Partitions};
use crate::frame::retired::Retired;
use crate::journal::Journal;
use crate::latch::latches::Latches;
use crate::latch::state::{StateCell, StateWord};
use crate::machine::nodes::Nodes;
use crate::page::bytes::PageRef;
use crate::page::kinds::PageKinds;
use crate::replacement::{AccessHint, Replacement};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{Alone, aside};
use crate::thread::counters::Counters;
use crate::thread::signal::Signal;

/// What becomes of a copy of a page, or of the part of it from an offset on.
pub(crate) type CopiedOut = fn(&PageKinds, PageRef<'_>, SpaceId, usize, &mut [u8]);

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
    /// [`Translation::copied_out`](crate::Translation::copied_out).
    pub(crate) copied_out: CopiedOut,
    pub(crate) counters: Counters,
    pub(crate) schedule: ExtentSchedule,
    /// Frames that the budget pays for.
    pub(crate) budget_frames: u32,
    /// Frames in use, where the translation chooses them (`direct`).
    pub(crate) fixed_in_use: Alone<AtomicU32>,
    /// The highest of them so far.
    pub(crate) fixed_highest: AtomicU32,
    /// Which pages go when room is needed.
    pub(crate) replacement: Arc<dyn Replacement>,
    /// How many extents or map pages have moved (F2, F6, M4).
    pub(crate) relocations: Alone<AtomicU64>,
    /// Frames that their pages left for a copy.
    pub(crate) retired: Retired,
    /// Whether pages may change their frames.
    pub(crate) moves: Moves,
    pub(crate) gate: ExtentMoves,
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
    pub(crate) reads: Reads,
}

impl Core {
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
