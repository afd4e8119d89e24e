//! Pointer swizzling (leanstore.txt): a link that is followed often holds the frame of its page.
//!
//! 1. The 64 bits of a link are a *swip* (`swip.rs`; III-A, IV-B): a page id, or, swizzled, the frame
//!    and the page's number. A lookup follows a swizzled one with one load of the frame's tag, and
//!    no table: `translate.rs`.
//! 2. Behind an access by a link that did not say where its page is, the link is swizzled:
//!    `swizzling.rs`, S1 to S4. Who has swizzled a link to the page in a frame is that frame's
//!    *owner*: `owner.rs`, `owners.rs`.
//! 3. A page that is to cool, or to go, has its link unswizzled; a page that has swizzled children is
//!    not chosen, but one of those (IV-E): `unswizzling.rs`, U1 to U6. The cooling stage itself
//!    (III-B) is a replacement policy that combines with every translation:
//!    `replacement/cooling.rs`.
//! 4. No swizzled link leaves its frame: what is written or logged has page ids (`links.rs`).
//!
//! Different from the paper: nobody that reads believes a link; the tag in the frame tells. So links
//! change under a shared latch, no reader restarts for it, a page can have links that do not own,
//! and what is kept here serves speed, and decides which pages go: those to which no link is
//! swizzled. `docs/protocols.md`, "Swizzled links".
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
pub(crate) use links::target;
#[cfg(not(loom))]
pub use {hints::ArraySwizzled, swip::Swip, swizzle::Swizzle};
