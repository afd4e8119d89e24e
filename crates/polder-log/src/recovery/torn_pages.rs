//! R5: pages that are torn in place are restored from the double-write buffer.

use std::collections::HashSet;
use std::ops::Range;

use polder_format::log::{LOG_BLOCK_BYTES, Region, SlotHeader};
use polder_format::{ChecksumSeed, Lsn, PageHeader, PageSize};
use polder_pool::device::{Device, is_full, read_block, write_block};

use crate::error::LogError;
use crate::file::LogFile;
use crate::slots::pages_checksum;

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
    // The latest first: it counts, unless its page is newer than the log.
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.header.sequence));
    let log = file.segments.header();
    let seed = ChecksumSeed::new(log.store_id);
    let size = page_size.bytes();
    let len = data.len().map_err(LogError::io("read"))?;
    let mut seen = HashSet::new();
    let mut restored = 0;
    for slot in slots {
        let bytes = slot.header.pages.len() * size;
        let end = slot.region.offset + (LOG_BLOCK_BYTES + bytes) as u64;
        if end > slot.region.end().min(file.segments.len()) || bytes == 0 {
            continue;
        }
        let from = slot.region.offset + LOG_BLOCK_BYTES as u64;
        let images = read_block(&*file.device, from, bytes).map_err(LogError::io("read"))?;
        let sums: Vec<u8> = images.chunks(size).flat_map(|image| image[..4].to_vec()).collect();
        if pages_checksum(&sums) != slot.header.pages_checksum {
            continue;
        }
        for (page, image) in slot.header.pages.iter().zip(images.chunks(size)) {
            let of_log = |lsn| lsn > replayed.start && lsn <= replayed.end;
            let valid = seed.verify(image, page.page).is_ok_and(|header| of_log(header.lsn));
            if !valid || !seen.insert(page.place) {
                continue;
            }
            let offset = page.place.offset(page_size);
            if offset + size as u64 > len {
                continue;
            }
            let there = read_block(data, offset, size).map_err(LogError::io("read"))?;
            if !is_torn(&there, seed) {
                continue;
            }
            match write_block(data, offset, image) {
                Ok(()) => restored += 1,
                // A page that was freed later, and its block given back: nobody needs it. If
                // somebody does, R8 finds out.
                Err(error) if is_full(&error) && there.iter().all(|byte| *byte == 0) => {}
                Err(error) => return Err(LogError::io("write")(error)),
            }
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
