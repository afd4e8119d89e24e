//! Bringing changed pages to the device.
//!
//! Pages are copied under a shared latch into a bounce buffer and written from there, so that
//! writers never wait for the device and checksums never race.
//!
//! ```text
//! W0  one of the two bounce buffers, when one is idle; the extent-move gate, shared, until W7
//! W1  writing: false -> true; else somebody writes it already                         (POOL-5)
//! W2  try to share the latch, keeping the mark; if it cannot be had: W7, the page stays dirty
//!     take P, its physical page number and version v from under it
//! W3  copy the page to a bounce buffer (here links are unswizzled), and take which lines of it have
//!     changed (BYTES-5)
//! W4  unshare
//! W5  checksum in the bounce buffer; ask the journal (B1 to B3); write, many pages in one
//!     batch, sorted by physical page number, neighbours in one request, whose outcome they share
//! W6  it went well: written := v ("never" if the wrap count has changed since W2). It did not: what
//!     the device has is unsure, and the next write takes the page as changed throughout
//! W7  writing := false
//! ```
//!
//! * `POOL-5` At most one write of a page is under way.
//!
//! W2 only tries: a thread that frees a page waits for *writing* under the page's latch
//! (`FrameMeta::await_written`). Flushing and closing try again. A writer that changes the page
//! after W4 has raised the version: the page stays dirty.

#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use polder_format::log::Lines;
use polder_format::{PAGE_HEADER_BYTES, PageId, PhysicalPageNo, SpaceId, header_at};

use crate::core::Core;
use crate::device::gate::Moving;
use crate::device::{Batch, Buffer, Direction, Request};
use crate::error::PoolError;
use crate::journal::Outgoing;
use crate::latch::{FrameId, Version};
use crate::shared::Shared;
use crate::sync::lock;
use crate::thread::Counter;
use crate::translation::Translation;

/// The longest pause in microseconds between two looks at pages that are held or being written.
const LONGEST_PAUSE_US: u64 = 1000;

/// A sweep that finds nothing to write says how far it is each time that it has visited so many
/// frames.
const PACE_FRAMES: usize = 4096;

/// What pages are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A sweep writes all that is dirty.
    Sweep,
    /// Their frames are wanted.
    Eviction,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Pages that the device has now.
    pub(crate) written: u64,
    /// Pages that the device refused.
    pub(crate) failed: u64,
    /// Pages that could not be copied because somebody holds them, or writes them already.
    pub(crate) busy: Vec<FrameId>,
    /// The first refusal.
    error: Option<PoolError>,
}

/// A page in the bounce buffer, with *writing* set.
struct Copied {
    frame: FrameId,
    page: PageId,
    physical: PhysicalPageNo,
    version: Version,
    wraps: u32,
    imaged: bool,
    lines: Lines,
}

impl<T: Translation> Shared<T> {
    /// Writes those of the frames that are dirty, at most a batch of them.
    pub(crate) fn write_back(&self, frames: &[FrameId], cause: Cause) -> Written {
        let core = &self.core;
        let mut result = Written::default();
        // W0  the buffer before everything else: waiting for one holds nobody up. Inside the
        // extent-move gate no extent moves while pages of it are on their way to it
        let mut bounce = core.data.bounces.take();
        let frames = core.by_place(frames);
        let moving = core.data.gate.enter();
        // W1 to W4  the copies
        let size = core.page_size().bytes();
        let mut copied = Vec::with_capacity(frames.len());
        for frame in frames.into_iter().take(bounce.len() / size) {
            let to = copied.len() * size;
            match self.copy_for_writing(frame, &mut bounce.bytes_mut()[to..to + size]) {
                Ok(Some(page)) => copied.push(page),
                Ok(None) => {}
                Err(Busy) => result.busy.push(frame),
            }
        }
        core.count_written(&copied, cause);
        // W5 to W7  they go to the device
        if !copied.is_empty() {
            let journal = core.journal.as_deref();
            // Pages that are imaged go with any number of others.
            let bare = copied.iter().filter(|page| !page.imaged).count();
            let most = journal.map_or(bare, |log| log.pages_at_once(bare));
            let most = if most < bare { most.max(1) } else { copied.len() };
            for (some, bytes) in copied.chunks(most).zip(bounce.bytes().chunks(most * size)) {
                core.write_copies(some, bytes, moving.as_deref(), &mut result);
            }
        }
        result
    }

    /// W1 to W4, and the checksum. `None`: the page is clean, or gone.
    fn copy_for_writing(&self, frame: FrameId, out: &mut [u8]) -> Result<Option<Copied>, Busy> {
        let core = &self.core;
        let meta = core.latches.meta(frame);
        // W1
        if !meta.begin_writing() {
            return Err(Busy);
        }
        let copied = self.copy_shared(frame, out);
        // W7  nothing is to be written
        if !matches!(copied, Ok(Some(_))) {
            meta.end_writing();
        }
        copied
    }

    /// W2 to W4, and the checksum.
    fn copy_shared(&self, frame: FrameId, out: &mut [u8]) -> Result<Option<Copied>, Busy> {
        let core = &self.core;
        let meta = core.latches.meta(frame);
        let page = meta.page();
        if page.is_null() {
            return Ok(None);
        }
        let Some(space) = self.space(page.space()) else { return Ok(None) };
        let Some(cell) = self.state_of(&space, page.page()) else {
            return Ok(None);
        };
        // W2  tried
        let wraps = core.latches.wraps.get();
        let word = cell.try_share().ok_or(Busy)?;
        let here = word.frame() == frame && meta.page() == page;
        if !here {
            cell.unshare();
            // The page has gone, or its word: then it is to be looked for again (TABLE-2).
            return if meta.page() == page { Err(Busy) } else { Ok(None) };
        }
        // W3  nobody writes to it, whatever happens to its word meanwhile. What is freed and lent is
        // written no more: where it lay may be another page's (LOAN-3)
        let copied = if meta.is_dirty(word) && !meta.is_leaving() {
            let bytes = self.page_in(&space, page.page(), frame);
            // SAFETY: we share the latch, and have set *writing*.
            let changed = unsafe { bytes.take_changed_lines() };
            bytes.copy_to(0, out);
            out[header_at::CHANGED_LINES..PAGE_HEADER_BYTES].fill(0);
            let differs = T::copied_out(&core.kinds, bytes, page.space(), 0, out);
            debug_assert!(cell.peek().is_shared(), "W2: {page} was read and not held");
            let (physical, version, imaged) = (meta.physical(), word.version(), meta.is_imaged());
            if differs {
                // SAFETY: as above.
                unsafe { bytes.note_all() };
            }
            let all = differs || meta.is_unsure();
            let lines = if all { Lines::ALL } else { changed.with_header() };
            Some(Copied { frame, page, physical, version, wraps, imaged, lines })
        } else {
            None
        };
        // W4
        cell.unshare();
        if copied.is_some() {
            core.data.seed.seal(out);
        }
        Ok(copied)
    }

    /// Writes all pages that are dirty when it comes to them, and makes them durable. `pace` is
    /// told how many frames of how many were visited.
    pub(crate) fn flush(&self, pace: &mut dyn FnMut(u64, u64)) -> Result<(), PoolError> {
        let _sweeping = self.core.frames.moves.begin_sweep();
        let mut batch = Vec::with_capacity(self.core.data.batch_pages);
        let frames = u64::from(self.highest_frame());
        for (visited, frame) in self.core.frames.memory.ids().take(frames as usize).enumerate() {
            if !self.core.latches.meta(frame).page().is_null() && !self.is_surely_clean(frame) {
                batch.push(frame);
            }
            let is_full = batch.len() == self.core.data.batch_pages;
            if is_full {
                self.flush_batch(std::mem::take(&mut batch))?;
            }
            if is_full || visited % PACE_FRAMES == 0 {
                pace(visited as u64, frames);
            }
        }
        self.flush_batch(batch)?;
        pace(frames, frames);
        self.core
            .data
            .device
            .sync()
            .map_err(|e| PoolError::Device { what: "sync", source: Arc::new(e) })
    }

    /// Whether nobody writes the page in this frame, or its frame, and the device has it.
    fn is_surely_clean(&self, frame: FrameId) -> bool {
        let meta = self.core.latches.meta(frame);
        let page = meta.page();
        let Some(space) = self.space(page.space()) else { return false };
        let Some(cell) = self.state_of(&space, page.page()) else {
            return false;
        };
        let word = cell.read();
        word.is_readable()
            && word.frame() == frame
            && !meta.is_being_written()
            && !meta.is_dirty(word)
    }

    /// Waits for pages that are held or being written however long that takes: a device may be
    /// slow for many seconds, and says itself if it fails.
    fn flush_batch(&self, mut frames: Vec<FrameId>) -> Result<(), PoolError> {
        let mut pause_us = 0;
        loop {
            let written = self.write_back(&frames, Cause::Sweep);
            if let Some(error) = written.error {
                return Err(error);
            }
            frames = written.busy;
            if frames.is_empty() {
                return Ok(());
            }
            pause_us = LONGEST_PAUSE_US.min(pause_us + 1);
            // Tests go through thousands of looks in a moment.
            thread::sleep(Duration::from_micros(if cfg!(test) { 0 } else { pause_us }));
        }
    }
}

/// Somebody holds the page, or writes it.
struct Busy;

/// Copies whose physical page numbers are neighbours: each run is one request.
fn runs(copied: &[Copied]) -> impl Iterator<Item = &[Copied]> {
    copied.chunk_by(|a, b| a.physical.get() + 1 == b.physical.get())
}

impl Core {
    /// The frames in the order in which their pages lie. Each number is read once: pages that
    /// come and go meanwhile would make the order contradict itself.
    fn by_place(&self, frames: &[FrameId]) -> Vec<FrameId> {
        let mut frames = frames.to_vec();
        frames.sort_by_cached_key(|frame| self.latches.meta(*frame).physical());
        frames
    }

    /// W5 to W7: the copies lie in the bounce buffer one behind the other.
    fn write_copies(
        &self,
        copied: &[Copied],
        bytes: &[u8],
        moving: Option<&Moving>,
        result: &mut Written,
    ) {
        // W5  B1 to B3
        let ticket = match self.ask_journal(copied, bytes) {
            Ok(ticket) => ticket,
            Err(source) => {
                crate::event!(warn, pages = copied.len(), error = source, "the log refuses pages");
                *lock(&self.data.last_write_error) = Some(Arc::clone(&source));
                result.failed += copied.len() as u64;
                self.counters.add(Counter::FailedWrites, copied.len() as u64);
                result.error.get_or_insert(PoolError::Journal { source });
                // W6 and W7
                for meta in copied.iter().map(|page| self.latches.meta(page.frame)) {
                    meta.set_unsure(true);
                    meta.end_writing();
                }
                return;
            }
        };
        let batch = self.submit_copies(copied, bytes);
        // W6 and W7  page by page
        let mut failed = Vec::new();
        let outcomes = runs(copied).zip(batch.into_requests()).flat_map(|(run, request)| {
            let outcome = request.outcome.map_err(Arc::new);
            run.iter().map(move |page| (page, outcome.clone()))
        });
        for (page, outcome) in outcomes {
            match outcome {
                Ok(()) => {
                    result.written += 1;
                    self.note_written(page, moving);
                }
                Err(error) => {
                    result.failed += 1;
                    self.latches.meta(page.frame).set_unsure(true);
                    failed.push(page.page);
                    crate::event!(
                        warn,
                        page = page.page,
                        error = error,
                        "a page cannot be written"
                    );
                    *lock(&self.data.last_write_error) = Some(Arc::clone(&error));
                    let (page, physical) = (page.page, page.physical);
                    result.error.get_or_insert(PoolError::Write { page, physical, source: error });
                }
            }
            self.latches.meta(page.frame).end_writing();
        }
        if failed.is_empty() && result.written > 0 {
            *lock(&self.data.last_write_error) = None;
        }
        self.counters.add(Counter::WriteBacks, result.written);
        self.counters.add(Counter::FailedWrites, failed.len() as u64);
        // B4
        if let (Some(journal), Some(ticket)) = (&self.journal, ticket) {
            journal.after_write(ticket, &failed);
        }
    }

    /// W5: writes the copies. They are sorted by physical page number: neighbours go in one
    /// request.
    fn submit_copies(&self, copied: &[Copied], bytes: &[u8]) -> Batch {
        let size = self.page_size();
        let mut at = NonNull::from(bytes).cast::<u8>();
        let request = |run: &[Copied]| {
            let bytes = run.len() << size.shift();
            // SAFETY: inside the bounce buffer, which has room for a batch, and which is the
            // caller's until the batch is complete.
            let buffer = unsafe { Buffer::new(at, bytes) };
            // SAFETY: the next copy lies behind this run.
            at = unsafe { at.add(bytes) };
            Request::new(Direction::Write, run[0].page, run[0].physical.offset(size), buffer)
        };
        let batch = Batch::Many(runs(copied).map(request).collect());
        let batch = self.data.device.perform(batch);
        let pages = copied.len() as u64;
        self.counters.add(Counter::DeviceWrites, pages);
        self.counters.add(Counter::DeviceWrittenBytes, pages << size.shift());
        batch
    }

    /// Counts what is about to be written, by what for.
    fn count_written(&self, copied: &[Copied], cause: Cause) {
        let is_map =
            |page: &&Copied| matches!(page.page.space(), SpaceId::FILE | SpaceId::CATALOGUE);
        let maps = copied.iter().filter(is_map).count() as u64;
        let shift = self.page_size().shift();
        self.counters.add(Counter::MapPageBytes, maps << shift);
        let by = match cause {
            Cause::Sweep => Counter::CheckpointPageBytes,
            Cause::Eviction => Counter::EvictedPageBytes,
        };
        self.counters.add(by, (copied.len() as u64 - maps) << shift);
    }

    /// W6: the device has the page as it was copied.
    fn note_written(&self, page: &Copied, moving: Option<&Moving>) {
        let meta = self.latches.meta(page.frame);
        meta.set_written(page.version);
        meta.set_imaged(false);
        meta.set_unsure(false);
        if self.latches.wraps.get() != page.wraps {
            meta.set_never_written();
        }
        if let Some(moving) = moving {
            moving.note(page.physical);
        }
    }

    fn ask_journal(&self, copied: &[Copied], bytes: &[u8]) -> Result<Option<u64>, Arc<io::Error>> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let shift = self.page_size().shift();
        let outgoing: Vec<Outgoing<'_>> = copied
            .iter()
            .zip(bytes.chunks(1 << shift))
            .map(|(copied, bytes)| {
                let Copied { page, physical, imaged, lines, .. } = *copied;
                Outgoing { page, physical, bytes, imaged, lines }
            })
            .collect();
        journal.before_write(&outgoing).map(Some)
    }
}

#[cfg(test)]
mod tests;
