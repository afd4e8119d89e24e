//! Links in pages that may hold frames: which do, and what they are outside of their frame.

#![cfg(not(loom))]

use polder_format::{PageId, SpaceId};

use super::swip::Swip;
use crate::page::{LinkRef, PageKinds, PageRef};

/// The page that a link leads to, if it stands in this space.
pub(super) fn target(link: LinkRef<'_>, space: SpaceId) -> PageId {
    Swip::new(link.load()).page(space)
}

/// The links in a page that own and are swizzled, from number `first` on and round: number, offset,
/// and what they say.
pub(super) fn swizzled_links<'a>(
    kinds: &'a PageKinds,
    page: PageRef<'a>,
    first: u32,
) -> impl Iterator<Item = (u32, usize, Swip)> + 'a {
    let links = kinds.owned_links(page, first);
    let links = links.map(move |(number, at)| (number, at, Swip::new(page.u64(at))));
    links.filter(|(_, _, swip)| swip.is_swizzled())
}

/// Unswizzles the links in a copy of a page of this space, or of the part of it that begins at
/// `begin` (`SWIP-4`). The page is held. The links are read once more: a copy that was made while
/// another thread, which holds the page shared as well, wrote one, may have it in pieces. Whether there
/// are such links.
pub(super) fn unswizzle_copy(
    kinds: &PageKinds,
    page: PageRef<'_>,
    space: SpaceId,
    begin: usize,
    copy: &mut [u8],
) -> bool {
    let mut any = false;
    for (_, at) in kinds.owned_links(page, 0) {
        let there = at.checked_sub(begin).and_then(|at| copy.get_mut(at..at + 8));
        if let Some(there) = there {
            there.copy_from_slice(&Swip::new(page.u64(at)).unswizzled(space).to_le_bytes());
        }
        any = true;
    }
    any
}
