//! Open addressing (the hash tables of calico-2026, 3 and 6.2): the other baseline.
//!
//! 1. The page id's hash names a partition of the table and a place in it.
//! 2. The partition's read-write spin latch is taken shared: a locked instruction.
//! 3. From that place on entries are compared, one behind the other, until one has the page id.
//! 4. The entry says the frame; the latch is released.
//! 5. The tag beside the frame's state word says whether the page is still there.

#![cfg(not(loom))]

mod table;

use polder_format::PageId;

use super::parts::by_frame::ByFrame;
use super::parts::directory::TableDirectory;
use super::seam::{Translation, TranslationConfig};
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::Resolved;
use crate::page::{LinkRef, PageRef};
use table::OpenTable;

/// A partitioned open-addressing table, and the state word beside the frame.
#[derive(Debug)]
pub struct Open(ByFrame<OpenTable>);

impl Translation for Open {
    const NAME: &'static str = "open";
    type Words = ByFrame<OpenTable>;

    fn new(config: TranslationConfig) -> Result<Open, PoolError> {
        Ok(Open(ByFrame::new(config.frames)?))
    }

    fn words(&self) -> &Self::Words {
        &self.0
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        _: &'p Frames,
        _: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        self.0.prefetch(PageId::from_link(link.load()), None);
        None
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
}
