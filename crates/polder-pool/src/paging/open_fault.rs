//! A fault between its two halves: the page is claimed and has its frame, and is being read.
//!
//! F1 to F6 of a fault (`fault.rs`) are its *beginning*, F8 to F10 its *end*; between them, at F7, the
//! device has the frame. A thread that loads one page waits there; one that has more to do has several
//! faults open (`flights.rs`).
//!
//! * `FLIGHT-2` From the moment when a request for it is handed over until that has come back, an open
//!   fault is kept: its frame is the device's.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_format::{FormatError, PageId, PageNo, PhysicalPageNo};

use super::spare::Spare;
use crate::device::reads::Reading;
use crate::device::{Buffer, Direction, Request};
use crate::error::PoolError;
use crate::latch::{FrameId, Pin, StateCell, StateWord};
use crate::page::PageRef;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::thread::Counter;
use crate::tier::TierNo;
use crate::translation::{Translation, Words};

/// A page that this thread has in flight. Dropped before its end it is abandoned: the page is not
/// resident, the frame is free.
pub(crate) struct OpenFault<'p, T: Translation> {
    shared: &'p Shared<T>,
    space: &'p SpaceCore<T>,
    page: PageNo,
    physical: PhysicalPageNo,
    claim: &'p StateCell,
    /// None once the page is published.
    spare: Option<Spare<'p, T>>,
    /// Since the request was made.
    reading: Option<Reading<'p>>,
}

impl<T: Translation> Shared<T> {
    /// Behind F10: where pages have addresses the memory of a new page is of the first tier's node,
    /// whatever its tier. The page provider has the kernel move it, together with others.
    pub(super) fn note_placed(&self, frame: FrameId) {
        let tiers = self.core.frames.tiers().filter(|_| T::MEMORY.has_addresses());
        let Some(tiers) = tiers else { return };
        let [first, here] = [TierNo::FIRST, tiers.of(frame)].map(|tier| tiers.node(tier));
        if first != here && tiers.note_elsewhere(frame) {
            self.core.call_page_provider();
        }
    }
}

impl<'p, T: Translation> OpenFault<'p, T> {
    /// The fault of a page that is claimed for this frame, and lies at this place.
    pub(crate) fn new(
        (shared, space): (&'p Shared<T>, &'p SpaceCore<T>),
        page: PageNo,
        physical: PhysicalPageNo,
        spare: Spare<'p, T>,
        claim: &'p StateCell,
    ) -> OpenFault<'p, T> {
        OpenFault { shared, space, page, physical, claim, spare: Some(spare), reading: None }
    }

    /// The page that it loads.
    pub(crate) fn id(&self) -> PageId {
        PageId::new(self.space.id, self.page)
    }

    /// F7: what the device is to do. Once; the fault is kept until it is done (`FLIGHT-2`).
    pub(crate) fn request(&mut self) -> Result<Request, PoolError> {
        let core = &self.shared.core;
        let (page, physical) = (self.id(), self.physical);
        if let Some(journal) = &core.journal
            && !journal.is_trusted(page)
        {
            let lost = "it was written before a sync that failed; open the store again";
            let source = Arc::new(io::Error::other(lost));
            return Err(PoolError::Read { page, physical, source });
        }
        self.reading = Some(core.data.reads.begin().ok_or(PoolError::Closed)?);
        let size = core.page_size();
        // SAFETY: the frame is ours and mapped while the pool lives; stale readers of its former
        // page read it by `bytes` and will not validate.
        let buffer = unsafe { Buffer::new(self.bytes().base(), size.bytes()) };
        Ok(Request::new(Direction::Read, page, physical.offset(size), buffer))
    }

    /// F8 to F10: the device has done what it was asked to, with this outcome. On an error the fault is
    /// abandoned.
    pub(crate) fn finish(
        mut self,
        outcome: io::Result<()>,
        hint: AccessHint,
    ) -> Result<Pin<'p>, PoolError> {
        let core = &self.shared.core;
        self.reading = None;
        core.counters.add(Counter::DeviceReads, 1);
        core.counters.add(Counter::DeviceReadBytes, core.page_size().bytes() as u64);
        let (page, physical) = (self.id(), self.physical);
        outcome.map_err(|e| PoolError::Read { page, physical, source: Arc::new(e) })?;
        self.check()?;
        debug_assert!(self.claim.peek().is_in_flight(), "POOL-1: {page} was loaded by two");
        // F9  what is known of the frame, before anybody can come to it
        let (pin, word) = self.move_in(hint);
        let frame = self.spare.take().map(Spare::spend);
        frame.iter().for_each(|frame| self.shared.translation.before_publish(*frame));
        // F10
        self.claim.publish(word, &core.latches.lot);
        frame.iter().for_each(|frame| self.shared.note_placed(*frame));
        core.counters.add(Counter::Faults, 1);
        Ok(pin)
    }

    /// F8.
    fn check(&self) -> Result<(), PoolError> {
        let (core, at) = (&self.shared.core, self.bytes());
        let (page, physical) = (self.id(), self.physical);
        // SAFETY: the frame is ours, so that nobody writes it; others may only read.
        let bytes =
            unsafe { std::slice::from_raw_parts(at.base().as_ptr(), core.page_size().bytes()) };
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
            .map_err(|source| PoolError::Corrupt { page, physical, source })
    }

    /// F9: the frame holds the page that was loaded, which is pinned. Gives its word.
    fn move_in(&self, hint: AccessHint) -> (Pin<'p>, StateWord) {
        let (core, frame) = (&self.shared.core, self.frame());
        let meta = core.latches.meta(frame);
        meta.assign(self.id(), self.physical, true);
        let pin = Pin::new(meta);
        let once = hint == AccessHint::Scan;
        let marked = core.replacement.admit(frame, self.id(), once);
        if !once && let Some(tiers) = core.frames.tiers() {
            tiers.note_load(frame);
        }
        if once && core.replacement.is_marked(frame, marked) {
            meta.await_scan();
        }
        (pin, StateWord::free(frame, meta.version()).with_mark(marked))
    }

    fn frame(&self) -> FrameId {
        self.spare.as_ref().map_or(FrameId::NONE, |spare| spare.frame)
    }

    fn bytes(&self) -> PageRef<'p> {
        self.shared.page_in(self.space, self.page, self.frame())
    }
}

impl<T: Translation> Shared<T> {
    /// Ends a claim without a page.
    pub(crate) fn abandon(
        &self,
        space: &SpaceCore<T>,
        page: PageNo,
        frame: FrameId,
        claim: &StateCell,
    ) {
        let (translation, directory) = (&self.translation, &space.directory);
        let frames = &self.core.frames.memory;
        // What was read there is nobody's, and no other page comes there.
        if !T::MEMORY.is_in_frames() {
            let address = translation.page_address(frames, directory, page, frame);
            translation.give_back(frames, &mut [address]);
        }
        let end = |cell: &StateCell| cell.publish(StateWord::EVICTED, &self.core.latches.lot);
        let words = translation.words();
        words.abandon(&self.core.latches, directory, page, frame, (claim, end));
    }
}

impl<T: Translation> Drop for OpenFault<'_, T> {
    fn drop(&mut self) {
        if self.spare.is_some() {
            self.shared.abandon(self.space, self.page, self.frame(), self.claim);
        }
    }
}
