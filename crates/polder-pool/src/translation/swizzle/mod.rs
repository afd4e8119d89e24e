//! Pointer swizzling (leanstore-2018): a link that is followed often holds the frame of its page.
//!
//! 1. The 64 bits of a link are a *swip* (`swip.rs`; III-A, IV-B): a page id, or, swizzled, the
//!    frame and the page's number. A lookup follows a swizzled one with one load of the frame's
//!    tag, and no table: `translate.rs`.
//! 2. Behind an access by a link that did not say where its page is, the link is swizzled:
//!    `swizzling.rs`, S1 to S4. The page whose link to the page in a frame is swizzled, or the
//!    space's root link, is that frame's *owner*: `owner.rs`, `owners.rs`.
//! 3. A page that is to cool, or to go, has its link unswizzled; a page that has swizzled children
//!    is not chosen, but one of those (IV-E): `unswizzling.rs`, U1 to U6. The cooling stage itself
//!    (III-B) is a replacement policy that combines with every translation:
//!    `replacement/cooling.rs`.
//! 4. No swizzled link leaves its frame: what is written or logged has page ids (`links.rs`).
//!
//! Only links that *own* are swizzled: the one way to a page. A kind of page says where they are
//! (`OwnedLinks`). Right links, overflow chains and whatever goes by a page's number ask the table;
//! `pages_by_table` counts them.
//!
//! * `SWIP-2` A swizzled link leads to a resident page whose owner is the page in which the link
//!   stands. (The reverse need not hold: a node that was built anew has unswizzled links, and its
//!   children still name it, or the frame in which it was.) `Pool::check_links` looks
//!   (`check.rs`).
//! * `SWIP-3` A page that holds a swizzled link, or to which one is swizzled, is not evicted.
//! * `SWIP-4` No swizzled link leaves the frame in which it was made: writes, full-page images for
//!   the log and copies into other pages have the page id instead, which is a mask. A reader that
//!   loads a page refuses an owned link that has a tag. (Bytes that nobody reads, as of a removed
//!   entry, may have one.)
//! * `SWIP-5` Links are swizzled and unswizzled under a shared latch of the page that they stand
//!   in: the version stays, and no reader restarts. A copy that others make under a shared latch
//!   meanwhile reads the links once more, a whole one at a time.
//!
//! `SWIP-1`, of owners, stands in `owner.rs`. A page that is dropped with its space may leave a
//! swizzled link to a frame that is another page's by then; the page of the link goes as well. U6
//! does not count such links, and S4 writes over them.
//!
//! Different from the paper, which has no table for swizzled pages and believes links: so there the
//! parent must be latched exclusively, each page that cools restarts the readers of its parent, and
//! a page cannot have links that do not own (its leaves have none). calico-2026, 2, holds that
//! against swizzling. Here no reader believes a link; the tag in the frame tells, as for any frame
//! (`parts/tagged.rs`). Whatever happens to links, no read is wrong, and the policy is told of
//! accesses by the mark as ever. What is kept here serves speed, and decides which pages go:
//! children before their parents.
//!
//! [`ArraySwizzled`] has the frame in the link as a hint over the array: `hints.rs`.

mod check;
mod hints;
mod links;
pub(crate) mod owner;
mod owners;
mod swip;
#[allow(clippy::module_inception)]
mod swizzle;
mod swizzling;
#[cfg(test)]
mod tests;
mod translate;
mod unswizzling;

#[cfg(not(loom))]
pub use {hints::ArraySwizzled, swip::Swip, swizzle::Swizzle};
