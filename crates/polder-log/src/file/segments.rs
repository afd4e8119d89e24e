//! Where in the file which part of the log lies.
//!
//! The log is one stream of bytes. A segment of the file holds a stretch of it, its *share*, and
//! its first block says where that begins. Shares follow each other without a gap, each as long as
//! its segment has room for; which segment comes next is up to the log. So nothing else needs to
//! be in step with the file.
//!
//! * `LOG-5` A segment is used again, for a share that is to come, only when both superblocks name
//!   a checkpoint that does not need what it holds.
//! * `SEG-1` Of two segments that claim the same part of the stream the one that was begun in the
//!   later incarnation holds it, and nothing that the other one holds is needed: its share began
//!   at or behind the end of the log that the later incarnation found, or below the start. (Those
//!   that one incarnation begins follow each other.)

use std::io;
use std::sync::{Arc, Mutex};

use polder_format::Lsn;
use polder_format::log::{
    GroupHeader, LOG_BLOCK_BYTES, LogHeader, LogSeed, Region, RegionKind, SegmentHeader,
};
use polder_pool::device::{Device, read_block, write_block, write_zeros};

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// No group is longer.
pub(crate) const GROUP_BYTES_MAX: u64 = 1 << 30;

/// A segment of the file, and what it holds; none: it is free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) region: Region,
    pub(crate) held: Option<SegmentHeader>,
}

impl Segment {
    /// What it holds of the stream: from, and up to.
    pub(crate) fn stretch(&self) -> Option<(u64, u64)> {
        self.held.map(|held| (held.start.0, held.start.0 + self.region.share()))
    }

    fn holds(&self, at: u64) -> bool {
        self.stretch().is_some_and(|(from, to)| from <= at && at < to)
    }

    fn offset_of(&self, at: u64) -> Option<u64> {
        let (from, _) = self.stretch()?;
        Some(self.region.offset + BLOCK + (at - from))
    }
}

/// The segments of the file.
///
/// Invariants: no two hold the same part of the stream (`SEG-1`); one that holds something at or
/// above the start of the log is never taken (`LOG-5`).
#[derive(Debug)]
pub(crate) struct Segments {
    device: Arc<dyn Device>,
    header: LogHeader,
    seed: LogSeed,
    all: Vec<Segment>,
    /// The stretches that the file has, slots and segments.
    regions: usize,
    /// The length of the file: its last stretch may be cut off. It is not any more when the log is
    /// open, unless the device is full and the stretch holds something.
    len: u64,
    /// The segment that was written last.
    last: usize,
    /// Where the share begins that the next free segment is taken for.
    next: u64,
}

impl Segments {
    /// What the file holds.
    pub(crate) fn read(device: Arc<dyn Device>, header: LogHeader) -> io::Result<Segments> {
        let seed = LogSeed::new(header.store_id);
        let len = device.len()?;
        let (mut all, mut damaged) = (Vec::new(), Vec::new());
        for region in header.of_kind(RegionKind::Segment, len) {
            let block = read_block(&*device, region.offset, LOG_BLOCK_BYTES)?;
            let held = SegmentHeader::decode(&block, seed).ok();
            if held.is_none() && block.iter().any(|byte| *byte != 0) {
                damaged.push(all.len());
            }
            all.push(Segment { region, held });
        }
        let held = all.iter().filter_map(|segment: &Segment| segment.held);
        let near = held.map(|held| held.start).max();
        for index in damaged {
            all[index].held = claimed(&*device, seed, &all[index].region, len, near)?;
        }
        let is_held: Vec<bool> = (0..all.len()).map(|index| !is_superseded(&all, index)).collect();
        for (segment, is_held) in all.iter_mut().zip(is_held) {
            segment.held = segment.held.filter(|_| is_held);
        }
        let regions = header.regions_within(len).count();
        Ok(Segments { device, header, seed, all, regions, len, last: 0, next: 0 })
    }

    pub(crate) fn header(&self) -> &LogHeader {
        &self.header
    }

    pub(crate) fn all(&self) -> &[Segment] {
        &self.all
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.header.regions().take(self.regions).last().map_or(BLOCK, |last| last.end())
    }

    /// The stretch by which the file grows next.
    pub(crate) fn next_region(&self) -> Option<Region> {
        self.header.regions().nth(self.regions)
    }

    /// Where in the file a position of the log lies, if its segment is there.
    pub(crate) fn offset(&self, at: u64) -> Option<u64> {
        self.place(at).map(|(offset, _)| offset)
    }

    /// The same, and up to which position the log lies there in one piece.
    pub(crate) fn place(&self, at: u64) -> Option<(u64, u64)> {
        let segment = self.all.iter().find(|segment| segment.holds(at))?;
        let (offset, (_, end)) = (segment.offset_of(at)?, segment.stretch()?);
        let there = (self.len / BLOCK * BLOCK).saturating_sub(offset);
        (there > 0).then_some((offset, end.min(at + there)))
    }

    /// Has the last stretch of the file go on to its end. False: the device has no room for that,
    /// or fails; the stretch is no part of the file then, unless it holds something.
    pub(crate) fn complete(&mut self) -> bool {
        let end = self.file_bytes();
        if self.len >= end || self.device.allocate(self.len, end - self.len).is_ok() {
            self.len = self.len.max(end);
            return true;
        }
        let last = self.header.regions().nth(self.regions - 1);
        let is_last = |segment: &Segment| Some(segment.region) == last;
        if !self.all.iter().any(|segment| is_last(segment) && segment.held.is_some()) {
            self.all.retain(|segment| !is_last(segment));
            self.regions -= 1;
        }
        false
    }

    /// The length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Where the first segment behind this position begins.
    pub(crate) fn begin_behind(&self, at: u64) -> Option<u64> {
        self.all
            .iter()
            .filter_map(|segment| segment.stretch())
            .map(|(from, _)| from)
            .filter(|from| *from > at)
            .min()
    }

    /// Where to write a position of the log, and how far in one piece; begins its segment if need
    /// be, in this incarnation.
    pub(crate) fn place_to_write(&mut self, at: u64, incarnation: u32) -> io::Result<(u64, u64)> {
        if !self.all[self.last].holds(at) {
            self.last = match self.all.iter().position(|segment| segment.holds(at)) {
                Some(index) => index,
                None => self.begin(at, incarnation)?,
            };
        }
        let none = || io::Error::other("the log has no segment for what is written");
        self.place_in(self.last, at).ok_or_else(none)
    }

    fn place_in(&self, index: usize, at: u64) -> Option<(u64, u64)> {
        let segment = self.all.get(index)?;
        Some((segment.offset_of(at)?, segment.stretch()?.1))
    }

    /// Takes a free segment for what comes from `at` on.
    fn begin(&mut self, at: u64, incarnation: u32) -> io::Result<usize> {
        debug_assert_eq!(at, self.next, "shares follow each other");
        let free = self.all.iter().position(|segment| segment.held.is_none());
        let index = free.ok_or_else(|| io::Error::other("the log has no free segment"))?;
        let held = SegmentHeader { start: Lsn(at), incarnation };
        let segment = &mut self.all[index];
        write_block(&*self.device, segment.region.offset, &held.encode(self.seed))?;
        segment.held = Some(held);
        self.next = at + segment.region.share();
        Ok(index)
    }

    /// The log goes on at `end`, and begins at `start`: the segments that hold nothing in between
    /// are free. Those from `end` on are left over from an earlier use.
    pub(crate) fn go_on(&mut self, start: u64, end: u64) {
        self.free_all(|from, to| to <= start || from >= end);
        let last = self.all.iter().filter_map(|segment| segment.stretch()).map(|(_, to)| to).max();
        self.next = last.unwrap_or(end).max(end);
    }

    /// The segments that hold nothing at or above this position are free.
    pub(crate) fn keep(&mut self, start: u64) {
        self.free_all(|_, to| to <= start);
    }

    fn free_all(&mut self, is_free: impl Fn(u64, u64) -> bool) {
        for segment in &mut self.all {
            if segment.stretch().is_some_and(|(from, to)| is_free(from, to)) {
                segment.held = None;
            }
        }
    }

    /// Makes the log end at `from`, where a block begins: that block is cleared, and the headers of
    /// the segments behind.
    pub(crate) fn clear_from(&self, from: u64) {
        for segment in &self.all {
            let at = match segment.stretch() {
                Some((first, _)) if first >= from => Some(segment.region.offset),
                Some(_) if segment.holds(from) => segment.offset_of(from),
                _ => None,
            };
            if let Some(at) = at {
                // If this fails as well the device is in a bad way.
                let _ = write_zeros(&*self.device, at..at + BLOCK, &mut || ());
            }
        }
    }

    /// Bytes of the stream that the free segments have room for.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.all.iter().filter(|segment| segment.held.is_none()).map(|s| s.region.share()).sum()
    }

    /// Bytes of the stream that all segments have room for.
    pub(crate) fn capacity(&self) -> u64 {
        self.all.iter().map(|segment| segment.region.share()).sum()
    }

    /// Up to where the log can be written with the segments that there are: not beyond one that is
    /// cut off.
    pub(crate) fn end_of_room(&self) -> u64 {
        let missing = self.file_bytes().saturating_sub(self.len);
        if missing > 0 { self.next.saturating_sub(missing) } else { self.next + self.free_bytes() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// The next stretch was made at the end of the file.
    pub(crate) fn add(&mut self, region: Region) {
        self.regions += 1;
        self.len = region.end();
        if region.kind == RegionKind::Segment {
            self.all.push(Segment { region, held: None });
        }
    }
}

/// `SEG-1`: whether another segment holds what this one claims.
fn is_superseded(all: &[Segment], index: usize) -> bool {
    let (Some(held), Some((from, to))) = (all[index].held, all[index].stretch()) else {
        return false;
    };
    all.iter().enumerate().any(|(other, segment)| {
        let overlaps = segment.stretch().is_some_and(|(first, end)| first < to && from < end);
        let is_later = segment.held.is_some_and(|its| {
            (its.incarnation, std::cmp::Reverse(other))
                > (held.incarnation, std::cmp::Reverse(index))
        });
        other != index && overlaps && is_later
    })
}

/// What a segment holds whose header is torn or damaged: its groups know where they belong. Without
/// this a damaged header would look like the end of the log. One that is whole tells best; one
/// that reaches beyond the segment is only found to be valid when the log is read. `near`: where another
/// segment begins.
fn claimed(
    device: &dyn Device,
    seed: LogSeed,
    region: &Region,
    len_of_file: u64,
    near: Option<Lsn>,
) -> io::Result<Option<SegmentHeader>> {
    let from = near.map_or(0, |near| near.0.saturating_sub(GroupHeader::PART_BYTES / 2));
    let mut reaches_beyond = None;
    let there = region.end().min(len_of_file / BLOCK * BLOCK) - region.offset - BLOCK;
    for within in (0..there).step_by(LOG_BLOCK_BYTES) {
        let at = region.offset + BLOCK + within;
        let block = read_block(device, at, LOG_BLOCK_BYTES)?;
        let claimed = GroupHeader::claimed_lsn(&block, Lsn(from));
        let Some(lsn) = claimed.filter(|lsn| lsn.0 >= within) else { continue };
        let Some(len) = GroupHeader::claimed_len(&block).map(|len| len as u64) else { continue };
        let start = Lsn(lsn.0 - within);
        if !start.0.is_multiple_of(BLOCK) {
            continue;
        }
        let rest = there - within;
        if len <= rest {
            let bytes = read_block(device, at, len.next_multiple_of(BLOCK) as usize)?;
            if GroupHeader::verify(&bytes, seed, lsn).is_ok() {
                let incarnation = GroupHeader::read(&block, lsn).incarnation;
                return Ok(Some(SegmentHeader { start, incarnation }));
            }
        } else if len <= GROUP_BYTES_MAX
            // What the log still needs lies within the length of its file.
            && near.is_none_or(|near| start.0.abs_diff(near.0) <= len_of_file)
        {
            // Of an incarnation before all others (`SEG-1`): another segment knows better.
            reaches_beyond.get_or_insert(SegmentHeader { start, incarnation: 0 });
        }
    }
    Ok(reaches_beyond)
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

/// Makes a stretch at the end of the file, to be synced. `meanwhile` is called every millisecond or
/// so.
pub(crate) fn make_region(
    device: &dyn Device,
    region: &Region,
    fresh: Fresh,
    meanwhile: &mut dyn FnMut(),
) -> io::Result<()> {
    device.allocate(region.offset, region.bytes)?;
    if fresh == Fresh::Written {
        write_zeros(device, region.offset..region.end(), meanwhile)?;
    }
    Ok(())
}

/// What an open log has of its file: the segments that there are, and how many there may be.
#[derive(Debug)]
pub(crate) struct LogSpace {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) segments: Mutex<Segments>,
    /// The most bytes of the stream that the file may have room for; only the log's own groups may
    /// need more.
    pub(crate) limit_bytes: u64,
    /// Held while the file is made longer.
    pub(crate) growth: Mutex<()>,
}

/// No log takes more, whatever its limit: its stretches are counted one by one.
const MOST_BYTES: u64 = 1 << 40;

impl LogSpace {
    /// `limit`: bytes that the log may take, if it does not take more already.
    pub(crate) fn new(device: Arc<dyn Device>, segments: Segments, limit: u64) -> LogSpace {
        let limit = limit.min(MOST_BYTES);
        let (mut count, mut limit_bytes, mut taken) = (0, 0, 0);
        let regions = segments.header().regions();
        for region in regions.filter(|region| region.kind == RegionKind::Segment) {
            taken += region.bytes;
            if taken > limit && count >= segments.count() {
                break;
            }
            count += 1;
            limit_bytes += region.share();
        }
        let (segments, growth) = (Mutex::new(segments), Mutex::default());
        LogSpace { device, segments, limit_bytes, growth }
    }
}
