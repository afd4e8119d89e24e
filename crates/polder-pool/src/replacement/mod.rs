//! Replacement: which page goes when room is needed.
//!
//! A policy is told when a page comes into a frame, when it leaves, and of accesses to pages that
//! bear a *mark* (a bit of the state word). So it pays for as much as it wants to know, and an
//! access to a page without a mark costs nothing: no call, no store. Second chance marks what the
//! hand passes and takes what is still marked when it comes round, as S3-FIFO and 2Q do in their
//! queues; LRU leaves the mark on every page and so hears of every access; those that sample put it
//! where they looked. No policy hears of a scan ([`AccessHint::Scan`]) that comes to what was loaded
//! for it.
//!
//! A policy is told of an access that finds the mark. Most policies take it off then; LRU leaves it
//! on and moves the page to the back of its queue: it knows whether the page stands where naming it
//! has put it. WATT and hyperbolic caching mark what they name. (2Q's FIFO queue hears of no access
//! and spares none.) A page that a scan has loaded, or had loaded, says
//! so in its metadata and bears the mark, until an access comes to it: if that is a scan, the
//! policy is not told (`FrameMeta::awaits_scan`; set before F10, so that nobody comes too early; a
//! thread that takes it away for a page that is gone changes at most the turn of the next).
//!
//! A policy that [wants writes](Replacement::wants_writes) is told of each change of a page as
//! well, by the thread that has made it, before the word with the new version is stored, or before
//! the copy is published: so the frame is still that page's and nobody else writes its record. For
//! all others a change costs the test of a flag.
//!
//! Policies are `dyn`: a call stands beside a read from the device, or beside the store that takes
//! a mark away.
//!
//! | name | from | in one line |
//! |---|---|---|
//! | `s3_fifo` | S3-FIFO, SOSP 2023 | first uses in a small queue, repeated ones in a main queue with counts, and ghosts; the default |
//! | `clock` | second chance | a hand marks, and takes what was not used since; no lock, no memory |
//! | `cooling` | leanstore-2018, III-B | random pages cool in a queue, and go unless they are used |
//! | `lru` | the baseline of leanstore-2018, figure 7 | told of every access; exact, expensive |
//! | `two_queues` | 2Q, VLDB 1994 | first uses in a FIFO queue, repeated ones in a queue with a second chance |
//! | `watt` | WATT, PVLDB 2023 | the last eight accesses and four writes of each page, and samples |
//! | `hyperbolic` | Hyperbolic caching, ATC 2017 | accesses by time in the pool, and samples |
//!
//! What each costs and how well it hits is in `docs/replacement.md`; `polder-bench replay` runs
//! this very code on a trace.
//!
//! [`AccessHint::Scan`]: crate::AccessHint::Scan

#![cfg(not(loom))]

use std::fmt::Debug;
use std::sync::Arc;

use polder_format::{PageId, Temperature};

use crate::latch::{FrameId, HearsWrites};

mod bits;
mod clock;
mod cooling;
mod dice;
mod fingerprints;
mod ghosts;
mod heard;
mod hyperbolic;
mod kind;
mod lru;
mod parts;
mod queues;
mod s3_fifo;
mod sampled;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod two_queues;
mod watt;

pub(crate) use bits::Bits;
pub(crate) use heard::Heard;
pub use kind::{ReplacementKind, UnknownReplacement};

/// Frames that a policy with a lock takes from its queues at a time, before it looks at them.
const BATCH: usize = 16;

/// How the pages of an operation are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessHint {
    /// As any other page.
    #[default]
    Normal,
    /// Once: pages that this operation loads go first when room is needed, unless they are used
    /// again, be it by another scan.
    Scan,
}

/// Which pages stay and which go. All methods may be called by many threads at once.
pub trait Replacement: Debug + Send + Sync {
    /// `page` comes into `frame`. `once`: it will hardly be used again (a scan loads it). Gives
    /// whether the page bears the mark from the beginning.
    fn admit(&self, frame: FrameId, page: PageId, once: bool) -> bool;

    /// An access to the page in `frame`, which bears the mark. Gives whether it keeps it. May come
    /// a moment late: the frame may hold another page by now, or none.
    fn access(&self, frame: FrameId) -> bool;

    /// Whether the policy is to be told of writes. The pool asks once, when it is made.
    fn wants_writes(&self) -> bool {
        false
    }

    /// The page in `frame` was changed, by a thread that still holds it exclusively: no other
    /// thread writes, moves or evicts the page at that time.
    fn write(&self, _frame: FrameId) {}

    /// The page leaves `frame`, and may come back as this one; `None`: it is freed.
    fn leave(&self, frame: FrameId, returns_as: Option<PageId>);

    /// The page in `from` goes on in `to`, which held none.
    fn relocate(&self, from: FrameId, to: FrameId);

    /// The same for `page`, whose word has the mark or not, where the two frames may be in different
    /// tiers (`tier/`). Gives whether it bears the mark from now on.
    fn moves(&self, from: FrameId, to: FrameId, _page: PageId, is_marked: bool) -> bool {
        self.relocate(from, to);
        is_marked
    }

    /// Adds to `victims` up to `count` frames whose pages should go, the first of them first, each
    /// once. Looks at most at twice as many frames as there are and two for each victim, and may
    /// find none. A frame that was named and whose page could not go (pinned, held) stays known,
    /// but others come first the next time. `urgent`: the caller has asked several times; marks
    /// that come off at once spare no page.
    fn propose(&self, pages: &dyn Pages, count: usize, urgent: bool, victims: &mut Vec<FrameId>);

    /// How hot the page in `frame` is, as far as the policy knows without a search. It is asked when
    /// the resident pages are listed, so that where not all have room those are loaded again that
    /// should stay.
    fn temperature(&self, _frame: FrameId, is_marked: bool) -> Temperature {
        if is_marked { Temperature::Cool } else { Temperature::Warm }
    }

    /// Whether the page in `frame`, which was named and had to be written first, should still go.
    /// It is asked for if the mark is as it was then, so that only policies that leave the mark on
    /// at an access have something to say.
    fn still_names(&self, _frame: FrameId) -> bool {
        true
    }

    /// Whether the policy has its mark on the page in `frame`, whose word has a mark or not: words bear
    /// marks for others, too (`MRC-2`, `TIER-1`, `TUNE-3`).
    fn is_marked(&self, _frame: FrameId, in_word: bool) -> bool {
        in_word
    }

    /// The page in `frame` got its mark because another policy named a page above it.
    fn was_marked(&self, _frame: FrameId) {}
}

impl HearsWrites for Arc<dyn Replacement> {
    fn wrote(&self, frame: FrameId) {
        self.write(frame);
    }
}

/// The pages in their frames, as a policy sees them.
pub trait Pages {
    /// What is in the frame.
    fn look(&self, frame: FrameId) -> Look;

    /// Sets the mark on the page in the frame, unless somebody holds the page just now. Where links
    /// hold frames, a page below it may come first: gives the frame whose page it is.
    fn mark(&self, frame: FrameId) -> FrameId;
}

/// What a policy learns of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It holds no page that could go: none, one that is being loaded, or one that is held.
    Nothing,
    /// A page without the mark.
    Plain,
    /// A page with the mark: it was not used since the mark was set.
    Marked,
}

/// Names a frame, unless the call that began at `from` has: other threads move hands and queues
/// too.
fn name(victims: &mut Vec<FrameId>, from: usize, frame: FrameId) {
    if !victims[from..].contains(&frame) {
        victims.push(frame);
    }
}

/// The last resort of policies that draw at random: looks at all frames, from `start` on.
fn sweep(
    pages: &dyn Pages,
    start: u32,
    frames: u32,
    count: usize,
    urgent: bool,
    victims: &mut Vec<FrameId>,
) {
    let wanted = victims.len() + count;
    for i in 0..frames {
        if victims.len() == wanted {
            return;
        }
        let frame = FrameId::new((start + i) % frames + 1);
        match pages.look(frame) {
            Look::Marked => victims.push(frame),
            Look::Plain => {
                pages.mark(frame);
                victims.extend(urgent.then_some(frame));
            }
            Look::Nothing => {}
        }
    }
}
