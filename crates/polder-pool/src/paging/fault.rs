//! Bringing a page into a frame: from the device, or new.
//!
//! ```text
//! F0  the parent, optimistic, gave page P, and was validated after P's word was seen zero
//! F1  if P's word is in flight: await, go back to the caller (restart)
//! F2  g := relocation count; physical page number := extent map (itself a paged structure: may
//!     fault, recursively, in space 0)
//! F3  take a frame, the preferred one if it is free (may evict, may write back; nothing is held
//!     or claimed). After F2, or threads that each hold a frame could wait for each other's while
//!     they load maps
//! F4  lock the page's group, or bucket                                       (POOL-6, TABLE-1)
//! F5  word 0 -> in flight, if the page has none; unlock; else give the frame back, restart
//!                                                                                     (POOL-1)
//! F6  if the space was dropped, or the relocation count is not g: abandon, go back; fence Release
//! F7  read from the device into the frame                                             (POOL-8)
//! F8  check the checksum, the page id, the kind's own structure; on an error: abandon
//! F9  metadata: page, physical page number, pins + 1, written := version; for a scan:
//!     awaits it                                                                       (POOL-7)
//! F10 publish
//! ```
//!
//! F0 is in `operation/pessimistic.rs`, F4 and F5 are the translation's ([`Words::claim`]), F7 to F10
//! are in `open_fault.rs`: a thread may have many faults open between F6 and F8 (`flights.rs`).
//!
//! * `POOL-1` At most one frame holds a page, and at most one thread reads it from the device.
//!
//! The caller goes on with the pin, from the top of its operation; the page cannot go away again
//! before it is reached. What is done then with the page, and with an error of F7 or F8, is in
//! `operation/recover.rs`.
//!
//! Making a new page ([`Shared::make`]) is the same without F7 and F8: zeros instead, *written* :=
//! never. It is published pinned, not latched: its maker goes on to load other pages before it
//! links it, and latches it then. If the claim finds the page resident or in flight (a faulter
//! with an old link read it before it was given out again), it waits for that, latches it and
//! clears it.
//!
//! F3 looks in this order: the preferred frame, wherever it is; a frame of the node on which the
//! thread runs; of the other nodes, in their order from there on; eviction (`evict.rs`). Where a
//! thread runs may have changed by then, and nothing depends on it. A page that cannot have the
//! frame that it prefers goes to the block of 512 frames where the last such page went (a hint),
//! unless it is its own block, whose frames its neighbours will want; if there is none, to a free
//! frame drawn by the one that it wanted.

#![cfg(not(loom))]

use std::time::Instant;

use polder_format::{PageId, PageNo, header_at};

use crate::device::Batch;
use crate::error::PoolError;
use crate::frame::FramePool;
use crate::frame::partitions::PartitionNo;
use crate::latch::{Exclusive, FrameId, NewPage, Pin, StateCell, StateWord};
use crate::paging::open_fault::OpenFault;
use crate::paging::spare::Spare;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::sync::Backoff;
use crate::thread::{Counter, waits};
use crate::translation::{Placement, Translation, Words};

/// How an attempt to claim a page ended.
pub(crate) enum Claimed<'p> {
    /// It is ours to load or make.
    Ours(&'p StateCell),
    /// Something moved in the file since its physical page number was found: begin again.
    Moved,
    /// It is resident or somebody else's.
    Taken,
}

impl<T: Translation> Shared<T> {
    /// Loads `page`, unless somebody else does or has. Called with no latch held.
    pub(crate) fn fault<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
        hint: AccessHint,
    ) -> Result<Option<Pin<'p>>, PoolError> {
        // WAIT-1  of whoever has not asked before
        if waits::refuses() {
            return Err(PoolError::WouldWait);
        }
        // F1  a thread that loads it already is waited for
        if self.has_word(space, page) {
            return Ok(None);
        }
        let mut spare = None;
        loop {
            // F2  may fault, so it comes before the frame
            let relocations = self.relocations();
            let physical = (self.locate)(self, space, page)?;
            // F3  a frame; nothing is held or claimed
            let near = self.core.frames.for_load();
            let frame = match self.ensure_spare(&mut spare, space, page, near) {
                Ok(frame) => frame,
                // Somebody else may have loaded it with the last one.
                Err(PoolError::DoesNotFit { .. }) if self.state_of(space, page).is_some() => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            // F4 to F6  the page is ours from here on, until it is published or abandoned
            let claim = match self.claim(space, page, frame, relocations)? {
                Claimed::Ours(claim) => claim,
                Claimed::Moved => continue,
                Claimed::Taken => return Ok(None),
            };
            let Some(spare) = spare.take() else { return Ok(None) };
            let mut open = OpenFault::new((self, space), page, physical, spare, claim);
            // F7  nobody waits for it but threads that want this very page
            let device = &self.core.data.device;
            let tiers = self.core.frames.tiers().filter(|tiers| tiers.is_tuned());
            let begun = tiers.map(|_| Instant::now());
            let batch = device.perform(Batch::One(open.request()?));
            if let Some(begun) = begun {
                let counters = &self.core.counters;
                counters.add(Counter::TimedLoads, 1);
                counters.add(Counter::LoadNanos, begun.elapsed().as_nanos() as u64);
            }
            let read = batch.into_requests().pop();
            // F8 to F10
            return open.finish(read.map_or(Ok(()), |read| read.outcome), hint).map(Some);
        }
    }

    /// F1: whether the page is resident, or was in flight until now.
    fn has_word(&self, space: &SpaceCore<T>, page: PageNo) -> bool {
        let Some(cell) = self.state_of(space, page) else { return false };
        let word = cell.read();
        if word.is_in_flight() {
            cell.await_flight(&self.core.latches.lot);
        }
        !word.is_evicted()
    }

    fn ensure_spare<'p>(
        &'p self,
        spare: &mut Option<Spare<'p, T>>,
        space: &SpaceCore<T>,
        page: PageNo,
        near: PartitionNo,
    ) -> Result<FrameId, PoolError> {
        if spare.is_none() {
            *spare = Some(self.spare(space, page, near)?);
        }
        Ok(spare.as_ref().map_or(FrameId::NONE, |spare| spare.frame))
    }

    /// A frame; of the partition `near` if that has one, or the one that the page prefers.
    fn spare(
        &self,
        space: &SpaceCore<T>,
        page: PageNo,
        near: PartitionNo,
    ) -> Result<Spare<'_, T>, PoolError> {
        let frame = match self.placement(space, page)? {
            Placement::Prefer(frame) if self.core.frames.take_preferred(frame, near) => frame,
            Placement::Prefer(frame) => self.take_frame(Some(frame), near)?,
            Placement::Anywhere => self.take_frame(None, near)?,
            Placement::Fixed(frame) => {
                let FramePool { fixed, budget_frames, .. } = &self.core.frames;
                self.try_for_a_moment(|| {
                    fixed.take(frame, *budget_frames).then_some(()).ok_or(())
                })?;
                frame
            }
        };
        Ok(self.spare_of(frame))
    }

    /// The same without waiting for anything (`FLIGHT-1`); none if there is none at once.
    pub(crate) fn spare_at_once(&self, space: &SpaceCore<T>, page: PageNo) -> Option<Spare<'_, T>> {
        let near = self.core.frames.for_load();
        self.spare_by(space, page, near, |preferred| self.take_frame_at_once(preferred, near))
    }

    /// The same if a frame is free: nothing is evicted for it.
    pub(crate) fn spare_if_free(
        &self,
        space: &SpaceCore<T>,
        page: PageNo,
        near: PartitionNo,
    ) -> Option<Spare<'_, T>> {
        self.spare_by(space, page, near, |preferred| self.take_free_frame(preferred, near))
    }

    fn spare_by(
        &self,
        space: &SpaceCore<T>,
        page: PageNo,
        near: PartitionNo,
        take: impl FnOnce(Option<FrameId>) -> Option<FrameId>,
    ) -> Option<Spare<'_, T>> {
        let frame = match self.placement(space, page).ok()? {
            Placement::Prefer(frame) if self.core.frames.take_preferred(frame, near) => frame,
            Placement::Prefer(frame) => take(Some(frame))?,
            Placement::Anywhere => take(None)?,
            Placement::Fixed(frame) => {
                let FramePool { fixed, budget_frames, .. } = &self.core.frames;
                fixed.take(frame, *budget_frames).then_some(frame)?
            }
        };
        Some(self.spare_of(frame))
    }

    fn placement(&self, space: &SpaceCore<T>, page: PageNo) -> Result<Placement, PoolError> {
        space.check_not_dropped()?;
        self.translation.place(&self.core.frames.memory, &space.directory, page)
    }

    /// The frame that was taken.
    fn spare_of(&self, frame: FrameId) -> Spare<'_, T> {
        self.core.note_frame_taken();
        self.core.frames.memory.note_taken(frame);
        if self.core.frames.is_cut_by_nodes() {
            let counter = match self.core.frames.free.of(frame) == self.core.frames.here() {
                true => Counter::FramesNear,
                false => Counter::FramesFar,
            };
            self.core.counters.add(counter, 1);
        }
        Spare::new(self, frame)
    }

    /// F4 to F6: the page in flight, if that is what it still can be.
    pub(crate) fn claim<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
        frame: FrameId,
        relocations: u64,
    ) -> Result<Claimed<'p>, PoolError> {
        // F4 and F5
        let Some(claim) =
            self.translation.words().claim(&self.core.latches, &space.directory, page, frame)?
        else {
            return Ok(Claimed::Taken);
        };
        // F6  behind the claim: a thread that sets a flag finds the word in flight, or is seen
        if let Err(error) = space.check_not_dropped() {
            self.abandon(space, page, frame, claim);
            return Err(error);
        }
        if self.relocations() != relocations {
            self.abandon(space, page, frame, claim);
            return Ok(Claimed::Moved);
        }
        Ok(Claimed::Ours(claim))
    }

    /// Makes a page that was just allocated: zeros but for its id.
    pub(crate) fn make<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
    ) -> Result<NewPage<'p>, PoolError> {
        let id = PageId::new(space.id, page);
        let mut spare = None;
        let mut made = loop {
            // F2 and F3
            let relocations = self.relocations();
            let physical = (self.locate)(self, space, page)?;
            let frame = self.ensure_spare(&mut spare, space, page, self.core.frames.here())?;
            // F4 to F6
            match self.claim(space, page, frame, relocations)? {
                Claimed::Ours(claim) => {
                    spare.take().map(Spare::spend);
                    // F9 and F10  held, until there are zeros in it
                    let meta = self.core.latches.meta(frame);
                    meta.assign(id, physical, false);
                    let marked = self.core.replacement.admit(frame, id, false);
                    let word = StateWord::exclusive(frame, meta.version()).with_mark(marked);
                    self.translation.before_publish(frame);
                    claim.publish(word, &self.core.latches.lot);
                    self.note_placed(frame);
                    let bytes = self.page_in(space, page, frame);
                    break Exclusive::new(&self.core.latches, claim, word, frame, bytes);
                }
                Claimed::Moved => {}
                // A faulter that came too late has it, or will give it up.
                Claimed::Taken => {
                    // Its physical page number is right: an extent may have moved since `physical`
                    // was read.
                    if let Some(found) = self.latch_resident(space, page) {
                        // LOAN-2: a page that is lent is given out again only by maps that are
                        // damaged.
                        if found.meta().is_lent_for_long() {
                            let what = "the maps say that it is free, but a value lies there";
                            return Err(PoolError::Broken { page: id, what });
                        }
                        break found;
                    }
                }
            }
        };
        let size = self.core.page_size().bytes();
        let mut bytes = made.page_mut();
        bytes.zero(0, size);
        bytes.set_u64(header_at::PAGE_ID, id.to_bits());
        // Whatever the log says of a former life of this page is older.
        if let Some(journal) = &self.core.journal {
            bytes.set_u64(header_at::LSN, journal.end().0);
        }
        made.meta().set_imaged(false);
        made.set_unlogged();
        Ok(NewPage::new(made))
    }

    /// Waits for the page and holds it exclusively, if it is resident then.
    pub(crate) fn latch_resident<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
    ) -> Option<Exclusive<'p>> {
        let mut backoff = Backoff::new();
        loop {
            let cell = self.state_of(space, page)?;
            cell.await_flight(&self.core.latches.lot);
            if let Some(held) = cell.latch() {
                let frame = held.frame();
                self.core.latches.await_holders(frame);
                let bytes = self.page_in(space, page, frame);
                let found = Exclusive::new(&self.core.latches, cell, held, frame, bytes);
                if found.meta().page() == PageId::new(space.id, page) {
                    return Some(found);
                }
            }
            // The word serves another page, or has moved (TABLE-2): the page may be there
            // all the same.
            backoff.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use polder_format::PhysicalPageNo;

    use crate::Array;
    use crate::testing::{create, pool};
    #[cfg(feature = "tiers")]
    use crate::{
        AccessHint,
        testing::pool_in,
        thread::Counter,
        tier::{Migration, Tier, TierConfig},
    };

    /// Loads are timed where that tells with which probabilities pages should migrate.
    #[cfg(feature = "tiers")]
    #[test]
    fn loads_are_timed_for_those_who_ask() {
        for migration in [None, Some(Migration::default())] {
            let slower = vec![Tier::new(1 << 20)];
            let tiers = TierConfig { slower, migration, ..TierConfig::default() };
            let (_dir, pool) = pool_in::<Array>(4 << 20, tiers);
            let space = pool.create_space().unwrap();
            let pages: Vec<_> = (0..3000).map(|_| create(&space)).collect();
            for page in pages {
                space.run(AccessHint::Normal, |at| space.page(at, page)?.validate()).unwrap();
            }
            let sum = |counter| pool.shared().core.counters.sum(counter);
            let loads = sum(Counter::Faults);
            assert!(loads > 1000);
            let timed = if migration.is_none() { loads } else { 0 };
            assert_eq!(sum(Counter::TimedLoads), timed);
            assert_eq!(sum(Counter::LoadNanos) > 0, migration.is_none());
        }
    }

    /// Between the look at the map and the page an extent may move, and its resident pages with
    /// it.
    #[test]
    fn a_resident_page_that_is_made_again_keeps_its_place() {
        let (_dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        let (shared, core) = (space.shared(), space.space_core());
        let moved = PhysicalPageNo::new((shared.locate)(shared, core, page).unwrap().get() + 1);
        let set =
            |physical| shared.latch_resident(core, page).unwrap().meta().set_physical(physical);
        set(moved);
        drop(shared.make(core, page).unwrap());
        let found = shared.latch_resident(core, page).unwrap().meta().physical();
        set((shared.locate)(shared, core, page).unwrap());
        assert_eq!(found, moved);
    }
}
