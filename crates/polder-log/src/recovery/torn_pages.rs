//! R5: pages that are torn in place are restored from the double-write buffer.

use std::io;
use std::ops::Range;

use polder_format::log::{LOG_BLOCK_BYTES, Region, SlotHeader, SlotPage};
use polder_format::{ChecksumSeed, Lsn, PageHeader, PageSize};
use polder_pool::device::{Device, is_full, read_block, write_block};

use crate::error::LogError;
use crate::file::LogFile;

/// A slot of the double-write buffer that holds a whole batch.
pub(super) struct SlotFound {
    pub(super) header: SlotHeader,
    region: Region,
}

pub(super) fn read_slots(file: &LogFile) -> Result<Vec<SlotFound>, LogError> {
    let mut slots = Vec::new();
    for region in file.slots() {
        let block = read_block(&*file.device, region.offset, LOG_BLOCK_BYTES);
        let block = block.map_err(LogError::io("read"))?;
        if let Ok(header) = SlotHeader::decode(&block, file.seed) {
            slots.push(SlotFound { header, region });
        }
    }
    Ok(slots)
}

impl SlotFound {
    /// The lines of its pages, one behind the other; none if they are not those of the header.
    fn read_lines(&self, file: &LogFile, size: PageSize) -> io::Result<Option<Vec<u8>>> {
        let bytes: usize = self.header.pages.iter().map(|page| page.lines.bytes(size)).sum();
        let whole_blocks = bytes.next_multiple_of(LOG_BLOCK_BYTES);
        let from = self.region.offset + LOG_BLOCK_BYTES as u64;
        let end = from + whole_blocks as u64;
        if end > self.region.end().min(file.segments.len()) || bytes == 0 {
            return Ok(None);
        }
        let mut lines = read_block(&*file.device, from, whole_blocks)?;
        lines.truncate(bytes);
        Ok(self.header.is_of(&lines, size, file.seed).then_some(lines))
    }
}

/// What a slot holds of a page, and where in its lines that begins.
struct Copy {
    slot: usize,
    page: SlotPage,
    at: usize,
}

/// R5: restores what is torn in place, and makes all durable. Gives the number of torn pages.
/// `replayed`: the part of the log that is replayed. A page that was not changed in it was synced
/// by the checkpoint that it begins with: if it is not whole it is damaged, and what a slot holds
/// of it may be older than what was there.
pub(super) fn restore_torn(
    file: &LogFile,
    mut slots: Vec<SlotFound>,
    data: &dyn Device,
    page_size: PageSize,
    replayed: Range<Lsn>,
) -> Result<u64, LogError> {
    // SLOT-2: what older batches have written in place is synced.
    let retired = slots.iter().map(|slot| slot.header.retired).max().unwrap_or(0);
    slots.retain(|slot| slot.header.sequence >= retired);
    slots.sort_unstable_by_key(|slot| slot.header.sequence);
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut copies = Vec::new();
    for slot in &slots {
        let read = slot.read_lines(file, page_size).map_err(LogError::io("read"))?;
        let Some(bytes) = read else { continue };
        let mut at = 0;
        for page in &slot.header.pages {
            copies.push(Copy { slot: lines.len(), page: *page, at });
            at += page.lines.bytes(page_size);
        }
        lines.push(bytes);
    }
    let seed = ChecksumSeed::new(file.segments.header().store_id);
    let size = page_size.bytes();
    let len = data.len().map_err(LogError::io("read"))?;
    let mut restored = 0;
    for (first, Copy { page: SlotPage { place, .. }, .. }) in copies.iter().enumerate() {
        // There are a few thousand copies at most.
        let is_there = |copy: &&Copy| copy.page.place == *place;
        let offset = place.offset(page_size);
        if offset + size as u64 > len || copies[..first].iter().any(|copy| is_there(&copy)) {
            continue;
        }
        let there = read_block(data, offset, size).map_err(LogError::io("read"))?;
        if !is_torn(&there, seed) {
            continue;
        }
        // SLOT-3: the states that were to be written there, in their order. The latest counts that is
        // not newer than the log.
        let mut state = there.clone();
        let mut latest = None;
        for copy in copies[first..].iter().filter(is_there) {
            let mut from = &lines[copy.slot][copy.at..];
            for run in copy.page.lines.runs(page_size) {
                let (line, rest) = from.split_at(run.len());
                state[run].copy_from_slice(line);
                from = rest;
            }
            let of_log = |lsn| lsn > replayed.start && lsn <= replayed.end;
            let valid = seed.verify(&state, copy.page.page);
            if valid.is_ok_and(|header| of_log(header.lsn)) {
                latest = Some(state.clone());
            }
        }
        let Some(image) = latest else { continue };
        match write_block(data, offset, &image) {
            Ok(()) => restored += 1,
            // A page that was freed later, and its block given back: nobody needs it. If
            // somebody does, R8 finds out.
            Err(error) if is_full(&error) && there.iter().all(|byte| *byte == 0) => {}
            Err(error) => return Err(LogError::io("write")(error)),
        }
    }
    // Also if nothing was torn: what is whole may be so in a cache alone, and slots are used again.
    data.sync().map_err(LogError::io("sync"))?;
    Ok(restored)
}

/// Whether a page is not whole, whichever it is.
fn is_torn(page: &[u8], seed: ChecksumSeed) -> bool {
    match PageHeader::decode(page) {
        Ok(header) => seed.verify(page, header.page_id).is_err(),
        Err(_) => true,
    }
}
