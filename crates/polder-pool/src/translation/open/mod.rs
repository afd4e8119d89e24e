//! Open addressing (the hash tables of calico.txt, 3 and 6.2): the other baseline.
//!
//! 1. The page id's hash names a partition of the table and a place in it.
//! 2. The partition's read-write spin latch is taken shared: a locked instruction.
//! 3. From that place on entries are compared, one behind the other, until one has the page id.
//! 4. The entry says the frame; the latch is released.
//! 5. The tag beside the frame's state word says whether the page is still there.

#![cfg(not(loom))]

mod table;

use std::sync::Arc;

use polder_format::{PageId, PageNo, SpaceId};

use super::parts::by_frame::ByFrame;
use super::parts::directory::TableDirectory;
use super::seam::{Footprint, PoolContext, Translation, TranslationConfig};
use crate::error::PoolError;
use crate::frame::frames::Frames;
use crate::latch::found::Resolved;
use crate::latch::state::{FrameId, StateCell, StateWord, Version};
use crate::page::link::LinkRef;
use table::OpenTable;

/// A partitioned open-addressing table, and the state word beside the frame.
#[derive(Debug)]
pub struct Open(ByFrame<OpenTable>);

impl Translation for Open {
    const NAME: &'static str = "open";
    type Directory = TableDirectory;

    fn new(config: TranslationConfig) -> Result<Open, PoolError> {
        Ok(Open(ByFrame::new(config.frames)?))
    }

    fn bytes_per_frame() -> u64 {
        ByFrame::<OpenTable>::bytes_per_frame()
    }

    fn footprint(&self) -> Footprint {
        self.0.footprint(0)
    }

    fn open(&self, space: SpaceId) -> Result<Arc<TableDirectory>, PoolError> {
        Ok(Arc::new(TableDirectory::new(space)))
    }

    fn for_each_present(&self, directory: &TableDirectory, visit: &mut dyn FnMut(PageNo)) {
        self.0.for_each_present(directory, visit);
    }

    fn is_quiet(&self, directory: &TableDirectory) -> bool {
        directory.is_quiet()
    }

    /// Steps 1 to 5.
    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        _: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        Some(self.0.find(PageId::from_link(link.load()))?.resolved(frames, false))
    }

    fn state<'p>(&'p self, directory: &'p TableDirectory, page: PageNo) -> Option<&'p StateCell> {
        self.0.state(directory.id(page))
    }

    fn claim<'p>(
        &'p self,
        _: &PoolContext<'_, Self>,
        directory: &'p TableDirectory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError> {
        self.0.claim(directory, page, frame)
    }

    fn remove(
        &self,
        _: &PoolContext<'_, Self>,
        directory: &TableDirectory,
        page: PageNo,
        frame: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        self.0.remove(directory, page, frame, end);
    }

    fn relocate(
        &self,
        directory: &TableDirectory,
        page: PageNo,
        (_, held): (&StateCell, StateWord),
        to: (FrameId, Version),
    ) {
        self.0.relocate(directory.id(page), held, to);
    }
}
