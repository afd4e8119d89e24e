//! S3-FIFO, with a small queue that adapts (J. Yang, Y. Zhang, Z. Qiu, Y. Yue and K. V. Rashmi,
//! "FIFO Queues Are All You Need for Cache Eviction", SOSP 2023).
//!
//! A page that comes in stands in a *small* FIFO queue, through which what came once is gone soon.
//! If it was used there it goes on to the *main* queue, else out, and its id is kept for a while in
//! a ghost list: a page that comes back while its id is there goes to the main queue at once.
//! The main queue is second chance with a count: a page that was used since its last turn stays and
//! counts one more, one that was not counts one less, and goes when nothing is left.
//!
//! ```text
//! new -> FRESH -> PROBATION -used-> MAIN <-.          FRESH and PROBATION: the small queue
//!                     |               | '--'          a page that a scan loads: PROBATION
//!                     v               v
//!               ghosts of small  ghosts of main       back while in ghosts of small: MAIN
//! ```
//!
//! An access takes a mark off and tells nobody: no lock, and no call that does something. Marks are
//! set by the thread that looks for victims, on a page that begins its probation and on one that
//! stays in the main queue. So the newer half of the small queue costs nothing and counts nothing:
//! accesses just after a page has come belong to what it was loaded for (the correlation window of
//! "Clock2Q+: A Simple and Efficient Replacement Algorithm for Metadata Cache in VMware vSAN"). The
//! paper counts accesses; here those within one turn of a queue are one.
//!
//! How long the small queue is, ghosts say, as in ARC (N. Megiddo and D. Modha, FAST 2003): a page
//! that comes back soon after the small queue has let it go would have stayed in a longer one,
//! which grows; one that comes back after the main queue has let it go says the contrary, and counts
//! twice.
//!
//! While nothing has gone yet, pages go past a full small queue to the main queue.
//!
//! * `FIFO-1` A frame with a page stands in one queue of its part, from `admit` to `leave`.
//! * `FIFO-2` A part's lock is held for a few stores, and never while a page is looked at or marked.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use polder_format::{PageId, Temperature};

use super::fingerprints::Fingerprints;
use super::parts::Parts;
use super::queues::{Queue, Queues};
use super::{Look, Pages, Replacement, name};
use crate::latch::FrameId;
use crate::sync::{Mutex, lock};

/// The newer half of the small queue, whose pages bear no mark.
const FRESH: Queue = Queue(0);
/// The older half: its pages bear the mark until they are used.
const PROBATION: Queue = Queue(1);
const MAIN: Queue = Queue(2);

/// What a page counts at most in the main queue. 0: it has come by a ghost, and nobody has looked
/// whether it is used; 1: it goes at its next turn, unless it is used.
const MOST_USES: u8 = 4;
/// Pages of the main queue that are passed for one victim, before the small queue gives it. So a
/// thread that needs a frame does not go round the whole pool.
const MOST_PASSED: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct S3Fifo {
    parts: Parts,
    queues: Box<[Mutex<Part>]>,
    /// Pages that the small queue has let go, for three quarters as many evictions as there are
    /// frames.
    small_ghosts: Fingerprints,
    /// Pages that the main queue has let go, for half as many.
    main_ghosts: Fingerprints,
    /// The part from which victims are taken next.
    turn: AtomicUsize,
}

/// The queues of some of the frames.
struct Part {
    queues: Queues<3>,
    /// What the page in each frame counts, while it is in the main queue.
    uses: Box<[u8]>,
    /// How many frames the small queue should have, in halves of one.
    small_halves: u32,
    /// Its bounds: a twentieth, and nine tenths.
    bounds: (u32, u32),
}

/// What is known of pages that went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ghost {
    None,
    OfSmall,
    OfMain,
}

/// What a search for victims does next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The page begins its probation: it is marked.
    Mark(u32),
    /// The page goes unless it was used.
    Small(u32),
    /// The page goes unless it was used, or counts something.
    Main(u32),
}

/// How far a search in a part is.
#[derive(Debug)]
struct Search {
    /// Pages that may still be looked at, in the small queue and in the main one.
    left: (u32, u32),
    /// Pages of the main queue that were passed since the last victim.
    passed: u32,
}

/// Not the counts, which are as many as frames.
impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, of which {} should be small", self.queues, self.small())
    }
}

impl S3Fifo {
    pub(super) const BYTES_PER_FRAME: u64 = Queues::<3>::BYTES_PER_NUMBER
        + size_of::<u8>() as u64
        // Of a hundred frames, so that little is lost by rounding.
        + (Fingerprints::bytes(75) + Fingerprints::bytes(50)).div_ceil(100);

    pub(super) fn new(frames: u32) -> S3Fifo {
        let parts = Parts::of(frames);
        S3Fifo {
            parts,
            queues: parts.lengths().map(|frames| Mutex::new(Part::new(frames))).collect(),
            small_ghosts: Fingerprints::new(frames / 4 * 3),
            main_ghosts: Fingerprints::new(frames / 2),
            turn: AtomicUsize::new(0),
        }
    }

    fn forget(&self, page: PageId) -> Ghost {
        match (self.small_ghosts.remove(page), self.main_ghosts.remove(page)) {
            (true, _) => Ghost::OfSmall,
            (false, true) => Ghost::OfMain,
            (false, false) => Ghost::None,
        }
    }

    /// Whether nothing has gone yet.
    fn is_filling(&self) -> bool {
        self.small_ghosts.is_new() && self.main_ghosts.is_new()
    }

    /// Names victims of a part until there are so many.
    fn search(
        &self,
        part: usize,
        pages: &dyn Pages,
        (before, wanted): (usize, usize),
        urgent: bool,
        victims: &mut Vec<FrameId>,
    ) {
        let queues = &self.queues[part];
        let mut search = lock(queues).search();
        while victims.len() < wanted {
            let Some(step) = lock(queues).step(&mut search, urgent) else { return };
            let (number, is_main) = match step {
                Step::Mark(number) => {
                    pages.mark(self.parts.frame(part, number));
                    continue;
                }
                Step::Small(number) => (number, false),
                Step::Main(number) => (number, true),
            };
            // FIFO-2: the lock is not held.
            let frame = self.parts.frame(part, number);
            let goes = match pages.look(frame) {
                Look::Nothing => false,
                Look::Marked if is_main => lock(queues).spend(number) || urgent,
                Look::Marked => true,
                Look::Plain => {
                    pages.mark(frame);
                    lock(queues).used(number);
                    urgent
                }
            };
            if goes {
                search.passed = 0;
                name(victims, before, frame);
            }
        }
    }
}

impl Part {
    fn new(frames: u32) -> Part {
        let least = (frames / 20).max(1);
        let most = (frames / 10 * 9).max(least);
        Part {
            queues: Queues::new(frames),
            uses: vec![0; frames as usize + 1].into(),
            small_halves: 2 * least,
            bounds: (2 * least, 2 * most),
        }
    }

    /// How many frames the small queue should have.
    fn small(&self) -> u32 {
        self.small_halves / 2
    }

    /// The length of the small queue.
    fn in_small(&self) -> u32 {
        self.queues.len(FRESH) + self.queues.len(PROBATION)
    }

    fn adapt(&mut self, ghost: Ghost) {
        let halves = match ghost {
            Ghost::None => return,
            Ghost::OfSmall => self.small_halves + 1,
            Ghost::OfMain => self.small_halves.saturating_sub(2),
        };
        self.small_halves = halves.clamp(self.bounds.0, self.bounds.1);
    }

    fn search(&self) -> Search {
        let left = (self.in_small(), self.queues.len(MAIN));
        Search { left, passed: 0 }
    }

    /// Takes the frame that is to be looked at next from the front of its queue to the back: if it
    /// goes it leaves anyway, and if not others come first. Pages of the small queue that were
    /// looked at are not counted any more: they go soon, or are held by somebody, or cannot be
    /// written, and then others must go.
    fn step(&mut self, search: &mut Search, urgent: bool) -> Option<Step> {
        if self.queues.len(FRESH) > self.small() / 2 {
            return self.age();
        }
        let is_long = self.in_small() - self.queues.rotated(PROBATION) > self.small();
        let from_small = is_long || search.left.1 == 0 || search.passed >= MOST_PASSED;
        if from_small && search.left.0 > 0 {
            let front = self.queues.front(PROBATION);
            let is_stuck = front.is_none_or(|front| urgent && self.queues.is_rotated(front));
            if let Some(step) = is_stuck.then(|| self.age()).flatten() {
                return Some(step);
            }
            if let Some(number) = self.queues.rotate(PROBATION) {
                search.left.0 -= 1;
                return Some(Step::Small(number));
            }
            // Another thread has taken all of them meanwhile.
            search.left.0 = 0;
        }
        search.left.1 = search.left.1.checked_sub(1)?;
        search.passed += 1;
        self.queues.rotate(MAIN).map(Step::Main)
    }

    /// The oldest fresh page begins its probation.
    fn age(&mut self) -> Option<Step> {
        let number = self.queues.front(FRESH)?;
        self.queues.push_back(PROBATION, number);
        Some(Step::Mark(number))
    }

    /// The page was used since its last turn: it stays, and counts more.
    fn used(&mut self, number: u32) {
        let uses = &mut self.uses[number as usize];
        match self.queues.place(number) {
            Some(MAIN) => *uses = MOST_USES.min(*uses + 1),
            Some(_) => {
                *uses = 1;
                self.queues.push_back(MAIN, number);
            }
            None => {}
        }
    }

    /// The page was not used since its last turn: it counts less. Gives whether nothing is left.
    fn spend(&mut self, number: u32) -> bool {
        let uses = &mut self.uses[number as usize];
        let is_left = *uses > 1;
        *uses -= u8::from(is_left);
        !is_left
    }
}

impl Replacement for S3Fifo {
    fn admit(&self, frame: FrameId, page: PageId, once: bool) -> bool {
        let (ghost, is_filling) = (self.forget(page), self.is_filling());
        let (part, number) = self.parts.place(frame);
        let mut part = lock(&self.queues[part]);
        part.adapt(ghost);
        let is_full = is_filling && part.in_small() > part.small();
        let queue = match once {
            // Scans come to it again and again.
            _ if ghost == Ghost::OfSmall => MAIN,
            true => PROBATION,
            false if is_full => MAIN,
            false => FRESH,
        };
        part.uses[number as usize] = 0;
        // FIFO-1
        part.queues.push_back(queue, number);
        queue == PROBATION
    }

    fn access(&self, _frame: FrameId) -> bool {
        false
    }

    fn leave(&self, frame: FrameId, returns_as: Option<PageId>) {
        let (part, number) = self.parts.place(frame);
        let queue = {
            let mut part = lock(&self.queues[part]);
            let queue = part.queues.place(number);
            part.queues.remove(number);
            queue
        };
        match (returns_as, queue) {
            (Some(page), Some(MAIN)) => self.main_ghosts.add(page),
            (Some(page), Some(_)) => self.small_ghosts.add(page),
            _ => {}
        }
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        let ((old, number), (new, to)) = (self.parts.place(from), self.parts.place(to));
        let mut part = lock(&self.queues[old]);
        let (queue, uses) = (part.queues.place(number), part.uses[number as usize]);
        if old == new {
            part.queues.replace(number, to);
            part.uses[to as usize] = uses;
            return;
        }
        part.queues.remove(number);
        drop(part);
        if let Some(queue) = queue {
            let mut part = lock(&self.queues[new]);
            part.queues.push_back(queue, to);
            part.uses[to as usize] = uses;
        }
    }

    fn temperature(&self, frame: FrameId, is_marked: bool) -> Temperature {
        let (part, number) = self.parts.place(frame);
        let part = lock(&self.queues[part]);
        match part.queues.place(number) {
            Some(MAIN) if part.uses[number as usize] > 1 || !is_marked => Temperature::Hot,
            Some(MAIN) => Temperature::Warm,
            Some(PROBATION) if is_marked => Temperature::Cold,
            _ => Temperature::Cool,
        }
    }

    fn propose(&self, pages: &dyn Pages, count: usize, urgent: bool, victims: &mut Vec<FrameId>) {
        let (before, wanted) = (victims.len(), victims.len() + count);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for i in 0..self.queues.len() {
            if victims.len() >= wanted {
                return;
            }
            let part = turn.wrapping_add(i) % self.queues.len();
            self.search(part, pages, (before, wanted), urgent, victims);
        }
    }
}

#[cfg(test)]
mod tests;
