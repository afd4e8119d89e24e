//! What all parts of a pool share, whatever the translation.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};

use polder_format::{ChecksumSeed, ExtentSchedule, PageSize};

use crate::counters::Counters;
use crate::device::Device;
use crate::frames::Frames;
use crate::free_list::FreeList;
use crate::journal::Journal;
use crate::kinds::PageKinds;
use crate::memory::Bounce;
use crate::moves::Moves;
use crate::parking::ParkingLot;
use crate::replacement::Replacement;
use crate::signal::Signal;
use crate::space::{FilePlaces, Moving};
use crate::state::{StateCell, StateWord, WrapCount};

/// Something that is written often, alone on its cache lines: what every lookup reads lies beside
/// it, and must not go with each write.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Alone<T>(T);

impl<T> Deref for Alone<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The part of a pool that does not depend on the translation.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) frames: Frames,
    pub(crate) free: FreeList,
    pub(crate) wraps: WrapCount,
    pub(crate) lot: ParkingLot,
    pub(crate) device: Box<dyn Device>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) seed: ChecksumSeed,
    pub(crate) kinds: PageKinds,
    pub(crate) counters: Counters,
    pub(crate) schedule: ExtentSchedule,
    /// Frames that the budget pays for.
    pub(crate) budget_frames: u32,
    /// Frames in use, where the translation chooses them (`direct`).
    pub(crate) fixed_in_use: Alone<AtomicU32>,
    /// Which pages go when room is needed.
    pub(crate) replacement: Box<dyn Replacement>,
    /// How many extents or map pages have moved (F3, F6, M4).
    pub(crate) relocations: Alone<AtomicU64>,
    /// Whether pages may change their frames.
    pub(crate) moves: Moves,
    /// Held shared over a write-back (W2 to W7), exclusively to switch an extent (M3).
    pub(crate) gate: RwLock<Option<Arc<Moving>>>,
    /// Which places of the file no map names.
    pub(crate) places: Mutex<FilePlaces>,
    /// Held by who finds out which places are free. Before pages, behind the mutexes of maps.
    pub(crate) learning: Mutex<()>,
    /// Bounce buffers that nobody uses now.
    pub(crate) bounces: Mutex<Vec<Bounce>>,
    /// The last write-back that failed.
    pub(crate) last_write_error: Mutex<Option<Arc<std::io::Error>>>,
    pub(crate) signal: Signal,
    /// Pages in one batch of write-backs.
    pub(crate) batch_pages: usize,
}

impl Core {
    pub(crate) fn page_size(&self) -> PageSize {
        self.frames.page_size()
    }

    /// An access to a page that bears the mark: the policy may want to know, and mostly takes the
    /// mark off.
    #[cold]
    #[inline(never)]
    pub(crate) fn touch(&self, cell: &StateCell, seen: StateWord) {
        if !self.replacement.access(seen.frame()) {
            cell.touch(seen);
        }
    }
}
