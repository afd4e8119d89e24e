//! What all parts of a pool share, whatever the translation.

#![cfg(not(loom))]

use std::sync::Arc;

use polder_format::{PageSize, SpaceId};

use crate::device::data_file::DataFile;
use crate::file_map::FileMap;
use crate::frame::FramePool;
use crate::journal::Journal;
use crate::latch::{Latches, StateCell, StateWord};
use crate::page::{PageKinds, PageRef};
use crate::replacement::{AccessHint, Replacement};
use crate::sync::aside;
use crate::thread::{Counters, Worker};

/// What becomes of a copy of a page, or of the part of it from an offset on.
pub(crate) type CopiedOut = fn(&PageKinds, PageRef<'_>, SpaceId, usize, &mut [u8]);

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
    pub(crate) counters: Counters,
    pub(crate) page_provider: Worker,
    /// [`Translation::copied_out`](crate::Translation::copied_out).
    pub(crate) copied_out: CopiedOut,
}

impl Core {
    pub(crate) fn page_size(&self) -> PageSize {
        self.frames.memory.page_size()
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
