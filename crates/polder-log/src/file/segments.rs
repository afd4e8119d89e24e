//! Where in the file which part of the log lies.
//!
//! The log is one stream of bytes, cut into shares; each lies in a segment of the file, whose first
//! block says which. So nothing else needs to be in step with the file.
//!
//! * `LOG-5` A segment is used again, for a share that is to come, only when both superblocks name
//!   a checkpoint that does not need what it holds.

use std::io;
use std::sync::{Arc, Mutex};

use polder_format::log::{GroupHeader, LOG_BLOCK_BYTES, LogHeader, LogSeed, SegmentHeader};
use polder_pool::device::{Device, read_block, write_block, write_zeros};

/// The segments of the file.
///
/// Invariants: no two hold the same share; a share that lies at or above the start of the log is
/// never taken from its segment (`LOG-5`).
#[derive(Debug)]
pub(crate) struct Segments {
    device: Arc<dyn Device>,
    header: LogHeader,
    seed: LogSeed,
    /// Which share each segment of the file holds; none: it is free.
    shares: Vec<Option<u64>>,
    /// The segment that was asked for last.
    last: Option<(u64, u64)>,
}

impl Segments {
    /// What the file holds.
    pub(crate) fn read(device: Arc<dyn Device>, header: LogHeader) -> io::Result<Segments> {
        let seed = LogSeed::new(header.store_id);
        let bytes = device.len()?.saturating_sub(header.segment_offset(0));
        let mut shares = Vec::new();
        for index in 0..bytes / header.segment_bytes {
            let block = read_block(&*device, header.segment_offset(index), LOG_BLOCK_BYTES)?;
            let number = match SegmentHeader::decode(&block, seed) {
                Ok(segment) => Some(segment.number),
                Err(_) if block.iter().all(|byte| *byte == 0) => None,
                Err(_) => claimed_share(&*device, &header, index)?,
            };
            // The first free segment is taken for each share, so that another one that claims it is
            // left over from an incarnation whose end was lost.
            shares.push(number.filter(|number| !shares.contains(&Some(*number))));
        }
        Ok(Segments { device, header, seed, shares, last: None })
    }

    pub(crate) fn header(&self) -> &LogHeader {
        &self.header
    }

    /// The number of the share that each segment of the file holds.
    pub(crate) fn shares(&self) -> &[Option<u64>] {
        &self.shares
    }

    pub(crate) fn count(&self) -> u64 {
        self.shares.len() as u64
    }

    /// Where in the file a position of the log lies, if its segment is there.
    pub(crate) fn offset(&self, at: u64) -> Option<u64> {
        let (number, within) = (at / self.header.share(), at % self.header.share());
        let index = self.shares.iter().position(|share| *share == Some(number))? as u64;
        Some(self.header.segment_offset(index) + LOG_BLOCK_BYTES as u64 + within)
    }

    /// Where to write a position of the log; begins its segment if need be.
    pub(crate) fn offset_to_write(&mut self, at: u64) -> io::Result<u64> {
        let (number, within) = (at / self.header.share(), at % self.header.share());
        let begin = match self.last {
            Some((last, begin)) if last == number => begin,
            _ => {
                let begin = self.begin(number)?;
                self.last = Some((number, begin));
                begin
            }
        };
        Ok(begin + LOG_BLOCK_BYTES as u64 + within)
    }

    fn begin(&mut self, number: u64) -> io::Result<u64> {
        let there = self.shares.iter().position(|share| *share == Some(number));
        let index = match there {
            Some(index) => index,
            None => {
                let free = self.shares.iter().position(Option::is_none);
                let index = free.ok_or_else(|| io::Error::other("the log has no free segment"))?;
                let block = SegmentHeader { number }.encode(self.seed);
                write_block(&*self.device, self.header.segment_offset(index as u64), &block)?;
                self.shares[index] = Some(number);
                index
            }
        };
        Ok(self.header.segment_offset(index as u64))
    }

    /// The segments that hold nothing at or above this position are free. Those from `end` on too:
    /// they are left over from an earlier use.
    pub(crate) fn keep(&mut self, start: u64, end: u64) {
        let share = self.header.share();
        for held in &mut self.shares {
            let keep = held.is_some_and(|n| (n + 1) * share > start && n * share < end);
            if !keep {
                *held = None;
            }
        }
    }

    /// Makes the log end at `from`, where a block begins: that block is cleared, and the headers of
    /// the segments behind.
    pub(crate) fn clear_from(&self, from: u64) {
        let block = LOG_BLOCK_BYTES as u64;
        let share = self.header.share();
        for (index, held) in self.shares.iter().enumerate() {
            let begin = self.header.segment_offset(index as u64);
            let Some(first) = held.map(|number| number * share) else { continue };
            let at = match from.checked_sub(first).filter(|within| *within > 0) {
                None => begin,
                Some(within) if within < share => begin + block + within,
                Some(_) => continue,
            };
            // If this fails as well the device is in a bad way.
            let _ = write_zeros(&*self.device, at..at + block, &mut || ());
        }
    }

    /// Segments that hold nothing.
    pub(crate) fn free(&self) -> u64 {
        self.shares.iter().filter(|share| share.is_none()).count() as u64
    }

    /// A segment was made at the end of the file.
    pub(crate) fn add(&mut self) {
        self.shares.push(None);
    }
}

/// The share that a segment holds whose header is torn or damaged: its groups know where they
/// belong. Without this a damaged header would look like the end of the log. That the groups are
/// valid is seen when they are read.
fn claimed_share(device: &dyn Device, header: &LogHeader, index: u64) -> io::Result<Option<u64>> {
    let begin = header.segment_offset(index) + LOG_BLOCK_BYTES as u64;
    for within in (0..header.share()).step_by(LOG_BLOCK_BYTES) {
        let block = read_block(device, begin + within, LOG_BLOCK_BYTES)?;
        let claimed = GroupHeader::claimed_lsn(&block).map(|lsn| lsn.0);
        if let Some(lsn) = claimed.filter(|lsn| lsn % header.share() == within) {
            return Ok(Some(lsn / header.share()));
        }
    }
    Ok(None)
}

/// What a new segment of the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
    /// Zeros that were written, so that a sync of what is written over them has nothing else to
    /// write.
    Written,
    /// Room that the file system keeps: quick to make, but the first sync of each block is slower.
    Allocated,
}

/// Makes the segment `index` at the end of the file, to be synced. `meanwhile` is called every
/// millisecond or so.
pub(crate) fn make_segment(
    device: &dyn Device,
    header: &LogHeader,
    index: u64,
    fresh: Fresh,
    meanwhile: &mut dyn FnMut(),
) -> io::Result<()> {
    let begin = header.segment_offset(index);
    device.allocate(begin, header.segment_bytes)?;
    if fresh == Fresh::Written {
        write_zeros(device, begin..begin + header.segment_bytes, meanwhile)?;
    }
    Ok(())
}

/// What an open log has of its file: the segments that there are, and how many there may be.
#[derive(Debug)]
pub(crate) struct LogSpace {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) segments: Mutex<Segments>,
    /// The most segments that the file may have; only end-of-recovery records may need another one.
    pub(crate) limit_segments: u64,
    /// Held while the file is made longer.
    pub(crate) growth: Mutex<()>,
}

impl LogSpace {
    /// `limit`: bytes that the log may take, if it does not take more already.
    pub(crate) fn new(device: Arc<dyn Device>, segments: Segments, limit: u64) -> LogSpace {
        let limit_segments = (limit / segments.header().segment_bytes).max(segments.count());
        LogSpace {
            device,
            segments: Mutex::new(segments),
            limit_segments,
            growth: Mutex::default(),
        }
    }
}
