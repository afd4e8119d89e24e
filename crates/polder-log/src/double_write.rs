//! The double-write buffer: pages are written twice, so that a torn one can be restored, first
//! into a slot of the log file, then in place. The slot gets the lines in which the page differs from
//! what lies in place (`SLOT-3`).
//!
//! A page needs no slot if its full-page image, or right half, lies in the log and it was not written
//! since (`imaged`): no checkpoint has begun behind that and been completed, for its sweep would
//! have written the page; so redo begins there or before it, and needs nothing of what lies in place.
//!
//! No page needs one where the device of the data file writes each page as a whole
//! ([`Device::atomic_write_bytes`]), unless the user would rather not rely on that.
//!
//! [`Device::atomic_write_bytes`]: polder_pool::device::Device::atomic_write_bytes

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_format::log::{LOG_BLOCK_BYTES, Lines, SlotHeader};
use polder_format::{Lsn, PageHeader};
use polder_pool::device::write_block;
use polder_pool::journal::{Outgoing, SharedError};

use crate::log::Log;
use crate::slow_sync::timed_sync;
use crate::sync::lock;

/// Pages written since the last sync of the data file, at most; then it is synced.
const UNSYNCED_PAGES: usize = 1 << 16;
/// So many bytes of a slot are written by one request.
const CHUNK_BYTES: usize = 128 << 10;

impl Log {
    /// Makes it safe to write these pages in place. Gives the ticket of the batch.
    pub(crate) fn protect(&self, pages: &[Outgoing<'_>]) -> Result<u64, SharedError> {
        // B1: the pool asks: may these pages, whose highest LSN is `lsn`, be written?
        self.check()?;
        let lsn = pages.iter().filter_map(|page| PageHeader::decode(page.bytes).ok());
        let lsn = lsn.map(|header| header.lsn).max().unwrap_or(Lsn(0));
        let is_needed = self.double_write.is_needed();
        let bare = pages.iter().filter(|page| is_needed && !page.imaged);
        // Whole pages lie at blocks, where a salvage finds them.
        let (mut bare, parts): (Vec<_>, Vec<_>) = bare.partition(|page| page.lines == Lines::ALL);
        bare.extend(parts);
        if self.double_write.unsynced() > UNSYNCED_PAGES {
            self.sync_data()?;
        }
        if bare.is_empty() {
            self.await_sync(lsn)?;
            return Ok(self.double_write.begin(None, pages));
        }
        // B2: those that may be torn for good are written into a slot.
        let (index, header) = self.take_slot(&bare)?;
        let written = self.write_slot(index, header, &bare);
        // B3: the log is flushed up to `lsn`, with a sync that begins after B2: it covers the slot
        //     as well, which lies in the same file.
        let protected = written.and_then(|()| {
            let wanted = lock(&self.commit.syncs).begun + 1;
            self.flush_until(|log, syncs| syncs.finished >= wanted && log.commit.durable() >= lsn.0)
        });
        protected.inspect_err(|_| self.double_write.give_up(index))?;
        // B4: the pool writes in place; then it tells that the batch is complete, and what could
        //     not be written (`DoubleWriteBuffer::placed`).
        Ok(self.double_write.begin(Some(index), pages))
    }

    /// A slot that is free, for these pages. If there may be no more of them, and none is free,
    /// somebody syncs the data file.
    fn take_slot(&self, pages: &[&Outgoing<'_>]) -> Result<(usize, SlotHeader), SharedError> {
        loop {
            if let Some(taken) = self.double_write.take(pages) {
                return Ok(taken);
            }
            self.check()?;
            let is_stuck = self.double_write.is_stuck(pages.len());
            if self.add_slot(is_stuck) {
                continue;
            }
            if is_stuck {
                let text = "pages could not be written in place, so that no others may be";
                return Err(Arc::new(io::Error::other(text)));
            }
            self.double_write.await_placed(pages.len());
            self.sync_data()?;
        }
    }

    /// B2.
    fn write_slot(
        &self,
        index: usize,
        header: SlotHeader,
        pages: &[&Outgoing<'_>],
    ) -> Result<(), SharedError> {
        self.write_lines(self.double_write.offset(index), header, pages)
            .map_err(|error| self.poison("writing the double-write buffer", &error))
    }

    /// The header, and the lines one behind the other, of which a few are in memory a second time.
    fn write_lines(
        &self,
        mut at: u64,
        mut header: SlotHeader,
        pages: &[&Outgoing<'_>],
    ) -> io::Result<()> {
        let size = self.double_write.page_size();
        let lines: Vec<_> = header.pages.iter().map(|page| page.lines).collect();
        let pieces = || {
            let of_pages = lines.iter().zip(pages);
            of_pages.flat_map(|(lines, page)| lines.runs(size).map(|run| &page.bytes[run]))
        };
        let seed = self.identity.seed;
        header.lines_checksum = seed.checksum_of(pieces());
        let mut chunk = header.encode(seed).to_vec();
        let mut write = |chunk: &mut Vec<u8>, len: usize| {
            self.written.add_slot(len as u64);
            let written = write_block(&*self.space.device, at, &chunk[..len]);
            chunk.drain(..len);
            at += len as u64;
            written
        };
        for piece in pieces() {
            chunk.extend_from_slice(piece);
            if chunk.len() >= CHUNK_BYTES {
                let whole = chunk.len() / LOG_BLOCK_BYTES * LOG_BLOCK_BYTES;
                write(&mut chunk, whole)?;
            }
        }
        let rest = chunk.len().next_multiple_of(LOG_BLOCK_BYTES);
        chunk.resize(rest, 0);
        if rest > 0 { write(&mut chunk, rest) } else { Ok(()) }
    }

    /// Syncs the data file, and retires slots.
    pub(crate) fn sync_data(&self) -> Result<(), SharedError> {
        // LOG-6: one thread at a time, and none behind a sync that failed.
        let _one = lock(&self.double_write.data_sync);
        self.check()?;
        let (placed, unsynced) = self.double_write.before_sync();
        match timed_sync(&*self.double_write.data, "data") {
            Ok(()) => {
                self.double_write.after_sync(&placed);
                Ok(())
            }
            Err(error) => {
                self.double_write.sync_failed(unsynced);
                Err(self.poison("syncing the data file", &error))
            }
        }
    }
}
