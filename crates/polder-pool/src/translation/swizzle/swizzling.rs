//! Links get the frames of their pages (leanstore-2018 III-A, IV-B): S1 to S4.
//!
//! ```text
//! S1  a reader found P's child C by the table, by a link of P that owns it, and will want it again
//!     (not a scan): P shared, tried, and validated
//! S2  owner(C): CAS -> busy; if it was busy: give up
//! S3  the frame's metadata names C, and its word is readable; else the owner as it was, give up
//! S4  the link := swizzled(frame); owner := P;  P unshared
//! ```

#![cfg(not(loom))]

use polder_format::PageId;

use super::links::target;
use super::owner::Owner;
use super::owners::SwizzleDirectory;
use super::swip::Swip;
use super::swizzle::Swizzle;
use crate::latch::{FrameId, Optimistic};
use crate::page::{LinkRef, PageRef};
use crate::translation::seam::{PoolContext, Translation, Words};

/// S1: with the page `parent` held shared, if the link at this offset of a page is one that it
/// owns: hands on its frame, and what writes the link.
pub(super) fn with_link_of<T: Translation>(
    pool: &PoolContext<'_, T>,
    (page, at): (PageRef<'_>, usize),
    parent: &Optimistic<'_>,
    then: impl FnOnce(FrameId, &dyn Fn(Swip)),
) {
    if parent.cell().try_share().is_none() {
        return;
    }
    // A caller of `follow` may be wrong about where the link stands.
    let stands = page.as_ptr() == parent.page().as_ptr()
        && pool.kinds.owned_links(page, 0).any(|(_, owned)| owned == at);
    if parent.validate().is_ok() && stands {
        // SAFETY: the page is held shared (SWIP-5), as it was when the link was found in it; where
        // there are owners, the one that has the owner of the link's page is the only one to write
        // it, and where there are none all write the same.
        then(parent.frame(), &|swip| unsafe { page.set_link(at, swip.bits()) });
    }
    parent.cell().unshare();
}

impl Swizzle {
    /// S1 to S4, behind an access by a link that did not say where its page is.
    pub(super) fn swizzle(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        directory: &SwizzleDirectory,
        link: LinkRef<'_>,
        parent: Option<&Optimistic<'_>>,
    ) {
        let id = target(link, directory.space);
        match (link, parent) {
            (LinkRef::InPage(page, at), Some(parent)) => {
                with_link_of(pool, (page, at), parent, |frame, store| {
                    self.swizzle_held(pool, directory, id, Owner::Parent(frame), store);
                });
            }
            (LinkRef::Root(_), _) => {
                let store = |swip| directory.beside.store(swip);
                self.swizzle_held(pool, directory, id, Owner::Root, &store);
            }
            _ => {}
        }
    }

    /// S2 to S4.
    fn swizzle_held(
        &self,
        pool: &PoolContext<'_, Swizzle>,
        directory: &SwizzleDirectory,
        id: PageId,
        owner: Owner,
        store: &dyn Fn(Swip),
    ) {
        let Some(cell) = self.words.state(directory, id.page()) else { return };
        let word = cell.read();
        if !word.is_readable() {
            return;
        }
        let frame = word.frame();
        let is_here = || pool.latches.meta(frame).page() == id && cell.read().is_readable();
        self.owners.of(frame).swizzle(owner, is_here, || store(Swip::swizzled(frame, id)));
    }
}
