//! A link to a page, named by where it stands.

#![cfg(not(loom))]

use polder_format::PageId;

use crate::page::bytes::PageRef;

/// A reference to a page, where it stands ([`Space::follow`](crate::Space::follow)).
#[derive(Debug, Clone, Copy)]
pub enum LinkRef<'a> {
    /// The link at this offset in bytes (a multiple of 8) in this page, which is the only one that
    /// owns its page ([`OwnedLinks`](crate::OwnedLinks)). Others, as to a neighbour, are followed
    /// by their value.
    InPage(PageRef<'a>, usize),
    /// The link to the root of the space, from which all other pages are reached.
    Root(PageId),
    /// A link by its value. Any number of them may lead to a page.
    Id(PageId),
}

impl LinkRef<'_> {
    /// The 64 bits of the link: a page id, 0 for none, or, in a page and where the translation
    /// swizzles, what [`Swip`](crate::Swip) reads.
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
