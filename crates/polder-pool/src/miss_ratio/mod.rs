//! Miss ratios online: what twice the memory, or half of it, would give (SHARDS, Waldspurger et al.,
//! FAST 2015).
//!
//! A least-recently-used pool of n frames misses an access exactly if n or more other pages were
//! accessed since the last access to the same page: its *reuse distance* is n or more. So one look at
//! the distances of all accesses tells the misses of every size (Mattson et al., IBM Systems Journal
//! 1970), and a look at the pages of which a hash of their id is below a threshold tells them nearly
//! as well: where a share r of all pages is sampled, a distance of d sampled pages stands for d / r.
//! `sampler` says which pages these are and notes accesses to them, `recency` finds their distances,
//! `ratios` is what users get, `replacement/heard.rs` has the pool hear of the accesses.
//!
//! Rules:
//!
//! * `MRC-1` Whether a page is sampled follows from its id and from the number of frames, and never
//!   changes while the pool lives. (SHARDS lowers its threshold as it comes to know more pages, so that
//!   of a large file few sampled pages are left within the sizes that somebody asks for. Here distances
//!   beyond four times the pool are all the same, pages that far away are forgotten, and that bounds
//!   the memory.) The first page of a space, the root of a tree, is never sampled: nearly each
//!   operation comes to it.
//! * `MRC-2` The word of a sampled page bears the mark from the store that brings it to its frame
//!   until it leaves, so that the pool hears of each access; what the policy wants of the mark is kept
//!   beside it, and the policy is told, asked and shown what it would be without a sampler. (A mark that
//!   is missing all the same only lets an access go unheard.) A page that is not sampled, and a pool
//!   without a sampler, have nothing of it, not one instruction.
//! * `MRC-3` An access is noted where the pool hears of it. A load is none: the operation that had the
//!   page loaded comes again. A page that is among the last few that were noted is not noted again, so
//!   that pages which are used all the time take no lock: the distance of such an access is shorter
//!   than any size that is told, and it is a hit (`MRC-5`). It leaves distances wrong by those few pages
//!   at most.
//! * `MRC-4` A thread that accesses a page waits for nobody: if another one notes at that time the
//!   access is dropped, and counted as dropped.
//! * `MRC-5` Only misses are taken from what was noted, and stand for 1 / r as many, and for those that
//!   were dropped; the number of all accesses is known from the pool's counters. All others are hits.
//!   (This is the correction SHARDS-adj: which share of the accesses the sampled pages have is chance,
//!   since a few pages have most of them, and nearly all of these are hits.) The first access to a page
//!   is a miss at every size.
//!
//! So the curve is that of a pool that evicts the least recently used page, for the very accesses that
//! the pool counts, since it was opened: each step of a scan is one, the retry of an operation that was
//! disturbed is another, reading ahead is none. The pool's own policy mostly misses less often.

#![cfg(not(loom))]

mod ratios;
mod recency;
mod sampler;
#[cfg(test)]
mod tests;

pub use ratios::{MissRatios, TierMissRatios};
pub(crate) use sampler::Sampled;
pub use sampler::{Sampler, Sampling};
