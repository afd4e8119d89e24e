//! What a log file tells of a store whose data file tells nothing.

use std::io;
use std::ops::Range;

use polder_format::log::{
    GroupHeader, LOG_BLOCK_BYTES, LogHeader, LogSeed, Operation, Records, RegionKind, SegmentHeader,
};
use polder_format::{FormatError, Lsn};
use polder_pool::device::{BlockReader, Device, read_block};

use crate::file::FIRST_LSN;

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 2 << 20;

/// What a log tells of a store whose superblocks tell nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTells {
    /// Nothing is there, but perhaps for a first block that was cut short.
    Nothing,
    /// Something is there, and it is no log that can be read.
    Unknown,
    /// A process began to make a store; or made one, of which nothing was written since.
    Begun,
    /// There was a store: it was made to its end, and written or opened again.
    Made,
}

/// What a log tells of its store, whichever it is.
///
/// # Errors
/// Those of the device.
pub fn tells_of_store(device: &dyn Device) -> io::Result<LogTells> {
    let len = device.len()?;
    if len == 0 {
        return Ok(LogTells::Nothing);
    } else if len < BLOCK {
        return Ok(LogTells::Unknown);
    }
    let block = read_block(device, 0, LOG_BLOCK_BYTES)?;
    let Some(header) = LogHeader::of_any(&block) else {
        // The header is durable before anything is written behind it.
        let is_bare = is_zero(device, BLOCK..len)?;
        return Ok(if is_bare { LogTells::Nothing } else { LogTells::Unknown });
    };
    // The first group that joins or ends a stretch of the log lies in the first blocks, or the log
    // has been used for long.
    let seed = LogSeed::new(header.store_id);
    let mut blocks = BlockReader::new(header.segment_bytes as usize)?;
    // While a store is made nothing is written behind the first share.
    let first_share = FIRST_LSN..Lsn(FIRST_LSN.0 + header.first_segment_bytes - BLOCK);
    for segment in header.of_kind(RegionKind::Segment, len) {
        let there = segment.bytes.min((len - segment.offset) / BLOCK * BLOCK);
        let bytes = blocks.read(device, segment.offset, there as usize)?;
        let is_later = match SegmentHeader::decode(bytes, seed) {
            Ok(segment) => segment.start > FIRST_LSN,
            Err(_) => has_later_group(bytes, seed, first_share.end),
        };
        if is_later {
            return Ok(LogTells::Made);
        }
        let stream = &bytes[LOG_BLOCK_BYTES..];
        for at in (0..stream.len()).step_by(LOG_BLOCK_BYTES) {
            let group = GroupHeader::verify(&stream[at..], seed, Lsn(FIRST_LSN.0 + at as u64));
            let is_mark = |record: Result<polder_format::log::Record<'_>, FormatError>| {
                record.is_ok_and(|record| {
                    matches!(
                        record.operation,
                        Operation::EndOfRecovery { .. } | Operation::Checkpoint(_)
                    )
                })
            };
            if let Ok(group) = group
                && Records::of_group(&stream[at..at + group.len as usize]).any(is_mark)
                && has_group_behind(stream, at + group.len as usize, seed)
            {
                return Ok(LogTells::Made);
            }
        }
    }
    Ok(LogTells::Begun)
}

/// Whether the first share has a group at this place or at a block behind it: each sync ends at a block.
fn has_group_behind(stream: &[u8], mut at: usize, seed: LogSeed) -> bool {
    while at < stream.len() {
        if GroupHeader::verify(&stream[at..], seed, Lsn(FIRST_LSN.0 + at as u64)).is_ok() {
            return true;
        }
        at = (at + 1).next_multiple_of(LOG_BLOCK_BYTES);
    }
    false
}

/// Whether a segment without a header holds a group of another share than the first, which alone is
/// written while a store is made.
fn has_later_group(segment: &[u8], seed: LogSeed, behind: Lsn) -> bool {
    let stream = &segment[LOG_BLOCK_BYTES..];
    let mut groups = (0..stream.len()).step_by(LOG_BLOCK_BYTES).map(|at| &stream[at..]);
    groups.any(|group| {
        let lsn = GroupHeader::claimed_lsn(group, behind);
        lsn.is_some_and(|lsn| GroupHeader::verify(group, seed, lsn).is_ok())
    })
}

/// Whether there are only zeros in this range, from a block on; a part of a block at its end is
/// left out.
fn is_zero(device: &dyn Device, range: Range<u64>) -> io::Result<bool> {
    let mut blocks = BlockReader::new(CHUNK_BYTES as usize)?;
    let end = range.end / BLOCK * BLOCK;
    for at in (range.start..end).step_by(CHUNK_BYTES as usize) {
        let bytes = blocks.read(device, at, (end - at).min(CHUNK_BYTES) as usize)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
