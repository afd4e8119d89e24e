//! Simulated frames that run a policy of the pool, as the pool runs it.

use std::cell::Cell;

use polder_format::{PageId, PageNo, SpaceId};
use polder_pool::FrameId;
use polder_pool::replacement::{Look, Pages, Replacement, ReplacementKind};

use super::trace::{Tally, Trace};
use crate::error::BenchError;

/// How often a policy is asked for a victim: once it may only mark, once for what was marked
/// then, and once urgently.
const TRIES: usize = 3;

/// What is in a frame.
#[derive(Debug, Clone, Copy)]
struct Content {
    page: u32,
    is_marked: bool,
}

/// The frames, by their numbers; there is no frame 0.
struct Frames(Vec<Cell<Option<Content>>>);

impl Frames {
    fn cell(&self, frame: FrameId) -> &Cell<Option<Content>> {
        &self.0[frame.get() as usize]
    }

    fn set_mark(&self, frame: FrameId, is_marked: bool) {
        let cell = self.cell(frame);
        cell.set(cell.get().map(|content| Content { is_marked, ..content }));
    }

    /// Whether the policy heard of it.
    fn access(&self, policy: &dyn Replacement, frame: FrameId) -> bool {
        let heard = self.cell(frame).get().is_some_and(|content| content.is_marked);
        if heard && !policy.access(frame) {
            self.set_mark(frame, false);
        }
        heard
    }

    /// Frees a frame; gives the page that was in it.
    fn evict(
        &self,
        policy: &dyn Replacement,
        victims: &mut Vec<FrameId>,
    ) -> Option<(FrameId, u32)> {
        for attempt in 1..=TRIES {
            victims.clear();
            // One at a time, so that what is decided is decided with all that is known by then.
            policy.propose(self, 1, attempt == TRIES, victims);
            if let Some(&victim) = victims.first()
                && let Some(Content { page, .. }) = self.cell(victim).take()
            {
                policy.leave(victim, Some(id(page)));
                return Some((victim, page));
            }
        }
        None
    }
}

impl Pages for Frames {
    fn look(&self, frame: FrameId) -> Look {
        match self.cell(frame).get() {
            None => Look::Nothing,
            Some(Content { is_marked: false, .. }) => Look::Plain,
            Some(Content { is_marked: true, .. }) => Look::Marked,
        }
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        self.set_mark(frame, true);
        frame
    }
}

pub(super) fn id(page: u32) -> PageId {
    let no = PageNo::new(u64::from(page)).expect("32 bits fit in 34");
    PageId::new(SpaceId::CATALOGUE, no)
}

/// Runs a policy through the trace, with so many frames.
pub(super) fn run(kind: ReplacementKind, trace: &Trace, count: u32) -> Result<Tally, BenchError> {
    let policy = &*kind.build(count);
    let frames = Frames(vec![Cell::new(None); count as usize + 1]);
    let mut at = vec![FrameId::NONE; trace.pages as usize];
    let mut victims = Vec::new();
    let (mut filled, mut heard) = (0, 0);
    let tally = trace.count(|request, page, evict| {
        let is_write = trace.is_write(request);
        let frame = at[page as usize];
        if frame != FrameId::NONE {
            let was_heard = frames.access(policy, frame);
            heard += u64::from(was_heard && request >= trace.warmup);
            if is_write {
                policy.write(frame);
            }
            return Ok(true);
        }
        let frame = if filled < count {
            filled += 1;
            FrameId::new(filled)
        } else {
            let evicted = frames.evict(policy, &mut victims);
            let (victim, gone) =
                evicted.ok_or(BenchError::NoVictim { policy: kind.to_string() })?;
            at[gone as usize] = FrameId::NONE;
            evict(gone);
            victim
        };
        let is_marked = policy.admit(frame, id(page), false);
        frames.cell(frame).set(Some(Content { page, is_marked }));
        if is_write {
            policy.write(frame);
        }
        at[page as usize] = frame;
        Ok(false)
    })?;
    Ok(Tally { heard, ..tally })
}
