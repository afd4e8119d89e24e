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
use crate::memory::Bounces;
use crate::moves::Moves;
use crate::nodes::Nodes;
use crate::parking::ParkingLot;
use crate::partitions::{PartitionNo, Partitions};
use crate::pins::GroupPins;
use crate::read_mode::Hold;
use crate::replacement::AccessHint;
use crate::replacement::Replacement;
use crate::retired::Retired;
use crate::signal::Signal;
use crate::state::{FrameId, StateCell, StateWord, WrapCount};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Alone, Backoff, aside};

/// How often a writer looks whether those that hold a page have let go, with a pause in between.
/// They hold it for a moment, but the system may have taken the processor from them.
const HOLDERS_PATIENCE: u32 = 1000;
/// The same where the writer holds pages shared itself, for which others may wait.
const SHARERS_PATIENCE: u32 = 12;

#[cold]
#[inline(never)]
fn await_free(pins: &GroupPins, frame: FrameId, patience: u32) -> bool {
    let mut backoff = Backoff::new();
    (0..patience).any(|_| {
        let free = pins.is_free(frame);
        if !free {
            backoff.wait();
        }
        free
    })
}

/// The part of a pool that does not depend on the translation.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) frames: Frames,
    pub(crate) free: Partitions,
    /// Those of the partitions, in their order.
    pub(crate) nodes: Nodes,
    pub(crate) wraps: WrapCount,
    pub(crate) lot: ParkingLot,
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
    pub(crate) replacement: Box<dyn Replacement>,
    /// [`Replacement::wants_writes`], which each change of a page asks.
    pub(crate) tells_writes: bool,
    /// How many extents or map pages have moved (F2, F6, M4).
    pub(crate) relocations: Alone<AtomicU64>,
    /// How readers hold pages, and by what if it is by slices.
    pub(crate) hold: Hold,
    /// [`Hold::holds_all`] and [`Hold::copies`], which each attempt asks.
    pub(crate) holds_all: bool,
    pub(crate) copies: bool,
    pub(crate) pins: Option<GroupPins>,
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

    /// Whether nobody holds the page in this frame by slices. After its word was set exclusive the
    /// answer stays true (`HOLD-2`).
    #[inline(always)]
    pub(crate) fn is_alone_with(&self, frame: FrameId) -> bool {
        self.pins.as_ref().is_none_or(|pins| pins.is_free(frame))
    }

    /// Takes a page, which was `seen`, exclusively from those that hold it, when they have let go.
    /// `shares`: the caller is one of them, by its word.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_when_left(
        &self,
        cell: &StateCell,
        seen: StateWord,
        frame: FrameId,
        shares: bool,
    ) -> Option<StateWord> {
        let looks = if shares { SHARERS_PATIENCE } else { HOLDERS_PATIENCE };
        cell.upgrade_when_left(seen, shares, looks, || self.is_alone_with(frame))
    }

    /// After a word was set exclusive that was held for copying: gives the holders a moment.
    pub(crate) fn is_soon_alone_with(&self, frame: FrameId) -> bool {
        self.pins.as_ref().is_none_or(|pins| await_free(pins, frame, SHARERS_PATIENCE))
    }

    /// The same, for who holds nothing itself and can wait until it is so.
    pub(crate) fn await_holders(&self, frame: FrameId) {
        self.pins.iter().for_each(|pins| _ = await_free(pins, frame, u32::MAX));
    }

    /// Tells the policy that the page in this frame was changed, if it wants to know. The caller holds
    /// the page exclusively.
    #[inline(always)]
    pub(crate) fn note_write(&self, frame: FrameId) {
        if self.tells_writes {
            self.tell_write(frame);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_write(&self, frame: FrameId) {
        aside(|| self.replacement.write(frame));
    }

    /// An access to a page that bears the mark: the policy may want to know, and mostly takes the
    /// mark off. That a scan comes to what was loaded for it is none; another one may be before.
    #[cold]
    #[inline(never)]
    pub(crate) fn access(&self, hint: AccessHint, cell: &StateCell, seen: StateWord) {
        aside(|| {
            let awaits_scan = self.frames.meta(seen.frame()).end_awaiting_scan();
            if awaits_scan && hint == AccessHint::Scan {
                return;
            }
            if !self.replacement.access(seen.frame()) {
                cell.touch(seen);
            }
        });
    }
}
