//! Random choice with a cooling share (leanstore-2018, III-B and IV-C).
//!
//! Some pages, drawn at random, are *cooling*: they bear the mark and stand in a queue. The first
//! of the queue goes; an access to one that cools makes it hot again, and the policy is told of no
//! other access. So hot pages cost nothing, and no order is kept among them.
//!
//! The share is brought up to its percentage when victims are asked for, a few pages for each. With
//! 0 percent, pages go as they are drawn: random replacement. What a scan loads cools from the
//! beginning (leanstore-2018, IV-I, "hinting").
//!
//! In LeanStore one lock guards the queue. Here large pools have several queues, each for its part
//! of the frames and with a lock of its own, and victims are taken from one after the other: in
//! each the order is the one in which pages began to cool. A lock is held for one draw at a time,
//! and never while a page is looked at.

use std::sync::atomic::{AtomicUsize, Ordering};

use polder_format::PageId;

use super::dice::Dice;
use super::parts::Parts;
use super::queues::{Queue, Queues};
use super::{Look, Pages, Replacement, name, sweep};
use crate::latch::FrameId;
use crate::sync::{Mutex, lock};

/// Frames whose pages bear the mark, the one that began to cool first in front.
const COOLING: Queue = Queue(0);
/// Frames that are drawn for each victim at most, so that nobody waits while a large pool's whole
/// share is drawn. On leanstore-2018's workload no share hits worse with this limit than without
/// it.
const DRAWS_PER_VICTIM: usize = 16;
/// Frames that are hot, in no order that means anything.
const HOT: Queue = Queue(1);
/// Frames that are tried for one draw at most. In a full pool with the largest share, where one in
/// ten is hot, one draw in a thousand finds none.
const TRIES_PER_DRAW: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Cooling {
    frames: u32,
    places: Parts,
    parts: Box<[Part]>,
    /// Where victims are taken from next.
    turn: AtomicUsize,
    dice: Dice,
}

/// Some of the frames, by their numbers in the part.
#[derive(Debug)]
struct Part {
    /// How many they are, and how many of them should cool.
    frames: u32,
    share: u32,
    /// Those with pages, by their number in the part; those that cool in the order in which they
    /// began to.
    stage: Mutex<Queues<2>>,
    dice: Dice,
}

impl Cooling {
    pub(super) const BYTES_PER_FRAME: u64 = Queues::<2>::BYTES_PER_NUMBER;

    pub(super) fn new(frames: u32, percent: u8) -> Cooling {
        let places = Parts::of(frames);
        let part = |frames| Part {
            frames,
            share: (u64::from(frames) * u64::from(percent)).div_ceil(100) as u32,
            stage: Mutex::new(Queues::new(frames)),
            dice: Dice::new(),
        };
        let parts = places.lengths().map(part).collect();
        Cooling { frames, places, parts, turn: AtomicUsize::new(0), dice: Dice::new() }
    }

    /// The part of a frame, and its number there.
    fn place(&self, frame: FrameId) -> (&Part, u32) {
        let (part, number) = self.places.place(frame);
        (&self.parts[part], number)
    }

    /// The frame goes from one queue to the other, if it is in the first.
    fn shift(&self, frame: FrameId, from: Queue, to: Queue) {
        let (part, number) = self.place(frame);
        let mut stage = lock(&part.stage);
        if stage.place(number) == Some(from) {
            stage.push_back(to, number);
        }
    }
}

impl Part {
    /// Draws a hot frame, which cools from now on, unless `goal` do or none is hot.
    fn draw(&self, goal: u32) -> Option<u32> {
        let mut stage = lock(&self.stage);
        if stage.len(COOLING) >= goal {
            return None;
        }
        let is_hot = |number: &u32| stage.place(*number) == Some(HOT);
        let drawn = (0..TRIES_PER_DRAW).map(|_| self.dice.below(self.frames) + 1).find(is_hot);
        // Hardly a frame is hot: any of them will do.
        let number = drawn.or_else(|| stage.front(HOT))?;
        stage.push_back(COOLING, number);
        Some(number)
    }

    /// Takes the frame that has cooled for the longest time out of the stage: if it goes it leaves
    /// anyway, and if not it is in use, and others are drawn (it itself only by chance).
    fn coolest(&self) -> Option<u32> {
        let mut stage = lock(&self.stage);
        let first = stage.front(COOLING)?;
        stage.push_back(HOT, first);
        Some(first)
    }
}

impl Cooling {
    /// Brings the stage of a part nearer to its share, and to what is wanted of it now.
    fn cool(&self, no: usize, pages: &dyn Pages, wanted: usize) {
        let part = &self.parts[no];
        let wanted = wanted.min(part.frames as usize);
        let goal = part.share.max(wanted as u32);
        for _ in 0..wanted * DRAWS_PER_VICTIM {
            let Some(number) = part.draw(goal) else { return };
            let frame = self.places.frame(no, number);
            // One that cannot be marked now is found without the mark at the end of the queue: hot
            // again.
            let marked = pages.mark(frame);
            if marked != frame {
                // A page below it cools, and this one stays hot.
                self.shift(frame, COOLING, HOT);
                self.shift(marked, HOT, COOLING);
            }
        }
    }
}

impl Replacement for Cooling {
    fn admit(&self, frame: FrameId, _page: PageId, once: bool) -> bool {
        let (part, number) = self.place(frame);
        lock(&part.stage).push_back(if once { COOLING } else { HOT }, number);
        once
    }

    fn access(&self, frame: FrameId) -> bool {
        self.shift(frame, COOLING, HOT);
        false
    }

    fn leave(&self, frame: FrameId, _returns_as: Option<PageId>) {
        let (part, number) = self.place(frame);
        lock(&part.stage).remove(number);
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        let ((old, number), (new, to)) = (self.places.place(from), self.places.place(to));
        let mut stage = lock(&self.parts[old].stage);
        if old == new {
            stage.replace(number, to);
            return;
        }
        let place = stage.place(number);
        stage.remove(number);
        drop(stage);
        if let Some(queue) = place {
            lock(&self.parts[new].stage).push_back(queue, to);
        }
    }

    fn propose(&self, pages: &dyn Pages, count: usize, urgent: bool, victims: &mut Vec<FrameId>) {
        let before = victims.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for i in 0..self.parts.len() {
            let no = turn.wrapping_add(i) % self.parts.len();
            self.cool(no, pages, count + before - victims.len());
            while victims.len() - before < count
                && let Some(number) = self.parts[no].coolest()
            {
                let frame = self.places.frame(no, number);
                match pages.look(frame) {
                    Look::Marked => name(victims, before, frame),
                    Look::Plain if urgent => {
                        pages.mark(frame);
                        name(victims, before, frame);
                    }
                    Look::Plain | Look::Nothing => {}
                }
            }
            if victims.len() - before >= count {
                return;
            }
        }
        if victims.len() == before && count > 0 {
            // All that was drawn is in use. Somewhere there may be a page that is not.
            let start = self.dice.below(self.frames);
            sweep(pages, start, self.frames, count, urgent, victims);
        }
    }
}

#[cfg(test)]
mod tests;
