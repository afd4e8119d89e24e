//! A link to a page, named by where it stands.

#![cfg(not(loom))]

use polder_format::PageId;

use crate::page::bytes::PageRef;

/// A reference to a page, where it stands.
#[derive(Debug, Clone, Copy)]
pub enum LinkRef<'a> {
    /// At this offset (a multiple of 8) in this page: the one link that owns its page. Others, as to
    /// a neighbour, are followed by their value.
    InPage(PageRef<'a>, usize),
    /// To the root of the space, from which all others are reached.
    Root(PageId),
    /// By value.
    Id(PageId),
}

impl LinkRef<'_> {
    /// The 64 bits of the link.
    #[inline(always)]
    pub fn load(self) -> u64 {
        match self {
            LinkRef::InPage(page, at) => page.u64(at),
            LinkRef::Root(page) | LinkRef::Id(page) => page.to_bits(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_in_page(self) -> bool {
        matches!(self, LinkRef::InPage(..))
    }

    /// Whether its page is reached by it and no other.
    #[inline(always)]
    pub(crate) fn is_owning(self) -> bool {
        !matches!(self, LinkRef::Id(_))
    }
}
