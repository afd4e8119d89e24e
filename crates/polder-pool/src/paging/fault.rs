//! Bringing a page into a frame: from the device, or new.
//!
//! `docs/protocols.md`, "Fault": the steps are named F1 to F10 there and here.

#![cfg(not(loom))]

use std::sync::Arc;

use polder_format::{FormatError, PageId, PageNo, Place, header_at};

use crate::device::{Batch, Buffer, Direction, Request};
use crate::error::PoolError;
use crate::frame::FramePool;
use crate::latch::{Exclusive, FrameId, NewPage, Pin, StateCell, StateWord};
use crate::page::PageRef;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::sync::Backoff;
use crate::thread::Counter;
use crate::translation::{Placement, Translation, Words};

/// A frame without a page; goes back when it is not used.
struct Spare<'p, T: Translation> {
    shared: &'p Shared<T>,
    frame: FrameId,
    used: bool,
}

impl<T: Translation> Spare<'_, T> {
    fn spend(mut self) -> FrameId {
        self.used = true;
        self.frame
    }
}

impl<T: Translation> Drop for Spare<'_, T> {
    fn drop(&mut self) {
        if !self.used {
            self.shared.give_frame(self.frame);
        }
    }
}

/// How an attempt to claim a page ended.
enum Claimed<'p> {
    /// It is ours to load or make.
    Ours(&'p StateCell),
    /// Something moved in the file since its place was found: begin again.
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
        if let Some(cell) = self.state_of(space, page) {
            let word = cell.read();
            if word.is_in_flight() {
                cell.await_flight(&self.core.latches.lot); // F1
                return Ok(None);
            }
            if !word.is_evicted() {
                return Ok(None);
            }
        }
        let mut spare = None;
        loop {
            let relocations = self.relocations();
            let place = (self.locate)(self, space, page)?; // F2: may fault, so it comes before the frame
            // F3
            let frame = match self.ensure_spare(&mut spare, space, page) {
                Ok(frame) => frame,
                // Somebody else may have loaded it with the last one.
                Err(PoolError::DoesNotFit { .. }) if self.state_of(space, page).is_some() => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let claim = match self.claim(space, page, frame, relocations)? {
                Claimed::Ours(claim) => claim,
                Claimed::Moved => continue,
                Claimed::Taken => return Ok(None),
            };
            let id = PageId::new(space.id, page);
            let bytes = self.page_in(space, page, frame);
            if let Err(error) = self.load(bytes, id, place) {
                self.abandon(space, page, frame);
                return Err(error);
            }
            let meta = self.core.latches.meta(frame);
            meta.assign(id, place, true); // F9
            let pin = Pin::new(meta);
            let once = hint == AccessHint::Scan;
            let marked = self.core.replacement.admit(frame, id, once);
            if once && marked {
                meta.await_scan();
            }
            let word = StateWord::free(frame, meta.version()).with_mark(marked);
            spare.take().map(Spare::spend);
            self.translation.before_publish(frame);
            claim.publish(word, &self.core.latches.lot); // F10
            self.core.counters.add(Counter::Faults, 1);
            return Ok(Some(pin));
        }
    }

    fn ensure_spare<'p>(
        &'p self,
        spare: &mut Option<Spare<'p, T>>,
        space: &SpaceCore<T>,
        page: PageNo,
    ) -> Result<FrameId, PoolError> {
        if spare.is_none() {
            *spare = Some(self.spare(space, page)?);
        }
        Ok(spare.as_ref().map_or(FrameId::NONE, |spare| spare.frame))
    }

    fn spare(&self, space: &SpaceCore<T>, page: PageNo) -> Result<Spare<'_, T>, PoolError> {
        space.check_not_dropped()?;
        let frame =
            match self.translation.place(&self.core.frames.memory, &space.directory, page)? {
                Placement::Prefer(frame) if self.core.frames.free.take_this(frame) => frame,
                Placement::Prefer(frame) => self.take_frame(Some(frame))?,
                Placement::Anywhere => self.take_frame(None)?,
                Placement::Fixed(frame) => {
                    let FramePool { fixed, budget_frames, .. } = &self.core.frames;
                    self.try_for_a_moment(|| {
                        fixed.take(frame, *budget_frames).then_some(()).ok_or(())
                    })?;
                    frame
                }
            };
        if self.core.frames.free.is_cut() {
            let counter = match self.core.frames.free.of(frame) == self.core.frames.here() {
                true => Counter::FramesNear,
                false => Counter::FramesFar,
            };
            self.core.counters.add(counter, 1);
        }
        Ok(Spare { shared: self, frame, used: false })
    }

    /// F4 to F6.
    fn claim<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        page: PageNo,
        frame: FrameId,
        relocations: u64,
    ) -> Result<Claimed<'p>, PoolError> {
        let Some(claim) =
            self.translation.words().claim(&self.core.latches, &space.directory, page, frame)?
        else {
            return Ok(Claimed::Taken);
        };
        if let Err(error) = space.check_not_dropped() {
            self.abandon(space, page, frame);
            return Err(error);
        }
        if self.relocations() != relocations {
            self.abandon(space, page, frame);
            return Ok(Claimed::Moved);
        }
        Ok(Claimed::Ours(claim))
    }

    /// Ends a claim without a page.
    fn abandon(&self, space: &SpaceCore<T>, page: PageNo, frame: FrameId) {
        let (translation, directory) = (&self.translation, &space.directory);
        let frames = &self.core.frames.memory;
        if T::MEMORY.gives_back() {
            let address = translation.page_address(frames, directory, page, frame);
            translation.give_back(frames, &mut [address]);
        }
        let end = |cell: &StateCell| cell.publish(StateWord::EVICTED, &self.core.latches.lot);
        translation.words().remove(&self.core.latches, directory, page, frame, end);
    }

    /// F7 and F8: the caller has the page in flight and owns the frame.
    fn load(&self, at: PageRef<'_>, page: PageId, place: Place) -> Result<(), PoolError> {
        let core = &self.core;
        if let Some(journal) = &core.journal
            && !journal.is_trusted(page)
        {
            let lost = "it was written before a sync that failed; open the store again";
            let source = Arc::new(std::io::Error::other(lost));
            return Err(PoolError::Read { page, place, source });
        }
        let size = core.page_size();
        let address = at.base();
        // SAFETY: the frame is ours and mapped while the pool lives; stale readers of its former
        // page read it by `bytes` and will not validate.
        let buffer = unsafe { Buffer::new(address, size.bytes()) };
        let request = Request::new(Direction::Read, page, place.offset(size), buffer);
        let reading = core.data.reads.begin().ok_or(PoolError::Closed)?;
        let batch = core.data.device.complete(core.data.device.submit(Batch::One(request)));
        drop(reading);
        core.counters.add(Counter::DeviceReads, 1);
        core.counters.add(Counter::DeviceReadBytes, size.bytes() as u64);
        if let Some(request) = batch.into_requests().pop() {
            request.outcome.map_err(|e| PoolError::Read { page, place, source: Arc::new(e) })?;
        }
        // SAFETY: the frame is ours, so that nobody writes it; others may only read.
        let bytes = unsafe { std::slice::from_raw_parts(address.as_ptr(), size.bytes()) };
        core.data
            .seed
            .verify(bytes, page)
            .and_then(|header| {
                // What is on the device was in the log before.
                if let Some(journal) = core.journal.as_ref().filter(|j| header.lsn > j.end()) {
                    return Err(FormatError::AheadOfLog { lsn: header.lsn, end: journal.end() });
                }
                core.kinds.check(&header, at)
            })
            .map_err(|source| PoolError::Corrupt { page, place, source })
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
            let relocations = self.relocations();
            let place = (self.locate)(self, space, page)?;
            let frame = self.ensure_spare(&mut spare, space, page)?;
            match self.claim(space, page, frame, relocations)? {
                Claimed::Ours(claim) => {
                    spare.take().map(Spare::spend);
                    let meta = self.core.latches.meta(frame);
                    meta.assign(id, place, false);
                    let marked = self.core.replacement.admit(frame, id, false);
                    let word = StateWord::exclusive(frame, meta.version()).with_mark(marked);
                    self.translation.before_publish(frame);
                    claim.publish(word, &self.core.latches.lot);
                    let bytes = self.page_in(space, page, frame);
                    break Exclusive::new(&self.core.latches, claim, word, frame, bytes);
                }
                Claimed::Moved => {}
                // A faulter that came too late has it, or will give it up.
                Claimed::Taken => {
                    // Its place is right: an extent may have moved since `place` was read.
                    if let Some(found) = self.latch_resident(space, page) {
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
        made.meta().set_born(false);
        made.excuse();
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
            // The word serves another page by now, or has moved (TABLE-2): the page may be there
            // all the same.
            backoff.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Array;
    use crate::testing::{create, pool};

    /// Between the look at the map and the page an extent may move, and its resident pages with it.
    #[test]
    fn a_resident_page_that_is_made_again_keeps_its_place() {
        let (_dir, pool) = pool::<Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        let (shared, core) = (space.shared(), space.space_core());
        let moved = Place::new((shared.locate)(shared, core, page).unwrap().get() + 1);
        let set = |place| shared.latch_resident(core, page).unwrap().meta().set_place(place);
        set(moved);
        drop(shared.make(core, page).unwrap());
        let found = shared.latch_resident(core, page).unwrap().meta().place();
        set((shared.locate)(shared, core, page).unwrap());
        assert_eq!(found, moved);
    }
}
