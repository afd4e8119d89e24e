//! What all parts of a pool share, whatever the translation.

#![cfg(not(loom))]

use std::fmt;
use std::sync::{Arc, OnceLock};

use polder_format::{PageSize, SpaceId};

use crate::device::data_file::DataFile;
use crate::file_map::FileMap;
use crate::frame::FramePool;
use crate::journal::Journal;
use crate::latch::{Latches, StateCell, StateWord};
use crate::miss_ratio::Sampler;
use crate::page::{PageKinds, PageRef};
use crate::replacement::{AccessHint, Replacement};
use crate::sync::aside;
use crate::thread::{Counter, Counters, Worker};

/// A function that is called when many frames were taken.
#[derive(Default)]
pub(crate) struct OnTaken(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for OnTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnTaken")
    }
}

impl OnTaken {
    /// Only the first one counts.
    pub(crate) fn set(&self, told: Box<dyn Fn() + Send + Sync>) {
        let _ = self.0.set(told);
    }

    pub(crate) fn get(&self) -> Option<&(dyn Fn() + Send + Sync)> {
        self.0.get().map(|told| &**told)
    }
}

/// What becomes of a copy of a page, or of the part of it from an offset on.
pub(crate) type CopiedOut = fn(&PageKinds, PageRef<'_>, SpaceId, usize, &mut [u8]) -> bool;

/// The part of a pool that does not depend on the translation.
///
/// The latches lie at its beginning: what a guard refers to and what an attempt refers to is one
/// address then, which a lookup computes once and keeps in one register.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Core {
    /// All that guards and holds know of.
    pub(crate) latches: Latches,
    /// Frames, and which threads may have them.
    pub(crate) frames: FramePool,
    /// Where pages lie when they are not in frames.
    pub(crate) data: DataFile,
    /// Which space owns which part of the file.
    pub(crate) map: FileMap,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) kinds: PageKinds,
    /// Which pages go when room is needed.
    pub(crate) replacement: Arc<dyn Replacement>,
    /// Hears of accesses to some pages, if it is to tell miss ratios.
    pub(crate) sampler: Option<Box<Sampler>>,
    pub(crate) counters: Counters,
    pub(crate) page_provider: Worker,
    /// Told now and then that frames were taken.
    pub(crate) on_taken: OnTaken,
    /// [`Translation::copied_out`](crate::Translation::copied_out).
    pub(crate) copied_out: CopiedOut,
}

impl Core {
    /// The sampler, if there is one.
    #[inline(always)]
    pub(crate) fn sampler(&self) -> Option<&Sampler> {
        // Where a pool cannot have any the compiler leaves out what is done with it.
        if cfg!(feature = "miss-ratios") { self.sampler.as_deref() } else { None }
    }

    pub(crate) fn page_size(&self) -> PageSize {
        self.frames.memory.page_size()
    }

    /// A frame was taken for a page: now and then somebody may want to know.
    #[inline]
    pub(crate) fn note_frame_taken(&self) {
        /// Frames that one thread takes between two times that it tells of.
        const TOLD_EACH: u64 = 1024;
        let counters = &self.counters;
        counters.add(Counter::FramesTaken, 1);
        if counters.of_this_thread(Counter::FramesTaken).is_multiple_of(TOLD_EACH)
            && let Some(told) = self.on_taken.get()
        {
            told();
        }
    }

    /// An access to a page that bears the mark: the sampler or the policy may want to know, and the
    /// policy mostly takes the mark off. That a scan comes to what was loaded for it is none; another
    /// one may be before.
    #[cold]
    #[inline(never)]
    pub(crate) fn access(&self, hint: AccessHint, cell: &StateCell, seen: StateWord) {
        aside(|| {
            let meta = self.latches.meta(seen.frame());
            // `MRC-3`
            if let Some(sampler) = self.sampler() {
                sampler.hear(meta.page());
            }
            let awaits_scan = meta.end_awaiting_scan();
            if awaits_scan && hint == AccessHint::Scan {
                return;
            }
            if !self.replacement.access(seen.frame()) {
                cell.touch(seen);
            }
            if let Some(tiers) = self.frames.tiers()
                && tiers.has_batch()
                && self.page_provider.wake().is_err()
            {
                // Without a thread nothing is promoted, and no further access asks for one.
                drop(tiers.take_wanted());
            }
        });
    }
}
