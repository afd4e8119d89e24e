//! What can be read of a log that is damaged, or whose superblock is gone: for checking it, showing
//! it and saving what is there. Nothing here writes.

#![cfg(not(loom))]

use std::io;
use std::sync::Arc;

use polder_format::log::{
    GroupHeader, LOG_BLOCK_BYTES, LogHeader, LogSeed, Operation, Records, Region, SlotHeader,
};
use polder_format::{ChecksumSeed, Lsn, PageHeader, PageSize, SpaceId, StoreId};
use polder_pool::device::{Device, read_block};

use crate::error::LogError;
use crate::file::{FIRST_LSN, LogFile, LogOptions, Segments};
use crate::log::Log;
use crate::recovery::{Found, SlotsFound, Told};
use crate::sync::lock;

/// A part of the log that cannot be read, between groups that can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The first position that cannot be read.
    pub from: Lsn,
    /// Where the next group begins.
    pub to: Lsn,
    /// What is wrong at `from`.
    pub why: Option<String>,
}

/// A page in the double-write buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotImage {
    /// What its header says; the checksum is right.
    pub header: PageHeader,
    /// Where in the log file it lies.
    pub offset: u64,
}

/// A page that is not whole where it lies, and is by what the double-write buffer has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuiltPage {
    /// What its header says; the checksum is right.
    pub header: PageHeader,
    /// All of it.
    pub bytes: Vec<u8>,
}

impl Log {
    /// The log's file, to read what is durable while it is open.
    ///
    /// # Errors
    /// Those of [`LogFile::open`].
    pub fn file(&self) -> Result<LogFile, LogError> {
        let store_id = lock(&self.space.segments).header().store_id;
        LogFile::open(Arc::clone(&self.space.device), store_id)
    }

    /// The data file's device, past the log.
    pub fn data_device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.double_write.data)
    }

    /// Where a recovery would begin to read.
    pub fn start(&self) -> Lsn {
        Lsn(self.reservations.start())
    }
}

impl LogFile {
    /// Opens a log of which the first block may be damaged: its sizes are then those that a log of
    /// a store with such pages and such a limit is made with. `None`: there is no segment where
    /// one would be.
    ///
    /// # Errors
    /// Those of the device.
    pub fn open_damaged(
        device: Arc<dyn Device>,
        store_id: StoreId,
        page_size: PageSize,
        limit: Option<u64>,
    ) -> io::Result<Option<LogFile>> {
        let block = read_block(&*device, 0, LOG_BLOCK_BYTES).unwrap_or_default();
        let header = LogHeader::decode(&block, store_id).unwrap_or_else(|_| {
            LogHeader::new(store_id, page_size, LogOptions::segment_bytes(limit))
        });
        let segments = Segments::read(Arc::clone(&device), header)?;
        let any = segments.all().iter().any(|segment| segment.held.is_some());
        Ok(any.then(|| LogFile { device, segments, seed: LogSeed::new(store_id) }))
    }

    /// The first position that a segment holds, and the one behind the last; equal if there is
    /// none.
    pub fn extent(&self) -> (Lsn, Lsn) {
        let held = || self.segments.all().iter().filter_map(|segment| segment.stretch());
        let first = held().map(|(from, _)| from).min().map_or(0, |first| first.max(FIRST_LSN.0));
        let end = held().map(|(_, to)| to).max().unwrap_or(0);
        (Lsn(first), Lsn(end))
    }

    /// Where the last run of positions begins that segments hold without a gap. What lies below it
    /// is left over, and partly used again.
    pub fn last_run(&self) -> Lsn {
        let held = self.segments.all().iter().filter_map(|segment| segment.stretch());
        let mut held: Vec<(u64, u64)> = held.collect();
        held.sort_unstable();
        let mut first = held.last().map_or(0, |(from, _)| *from);
        for (from, to) in held.iter().rev().skip(1) {
            if *to != first {
                break;
            }
            first = *from;
        }
        Lsn(first.max(FIRST_LSN.0))
    }

    /// As `find_end` of a log whose superblocks are lost: by its last checkpoint. `None`: there is
    /// none, and the log does not begin with the store.
    ///
    /// # Errors
    /// As `find_end`.
    pub fn find_end_alone(&self) -> Result<Option<Found>, LogError> {
        let never = || (self.extent().0 == FIRST_LSN).then_some((Lsn(0), FIRST_LSN));
        let Some((checkpoint, start)) = self.last_checkpoint().or_else(never) else {
            return Ok(None);
        };
        let told = Told {
            start,
            checkpoint,
            durable: Lsn(0),
            closed: false,
            next_version: 0,
            next_space: SpaceId::CATALOGUE,
        };
        self.find_end_of(&told, &mut |_| {}).map(Some)
    }

    /// Where the last checkpoint of which all groups can be read begins, and from where it has the
    /// log replayed.
    fn last_checkpoint(&self) -> Option<(Lsn, Lsn)> {
        let (first, end) = self.extent();
        let (mut begun, mut last) = (None, None);
        self.visit_readable(first, end, &mut |header, group| {
            for record in Records::of_group(group).map_while(Result::ok) {
                let Operation::Checkpoint(counts) = record.operation else { continue };
                let goes_on = |(_, start, life): &(Lsn, Lsn, u32)| {
                    *start == counts.start && *life == header.incarnation
                };
                let of_this = begun.take().filter(goes_on);
                let (at, ..) = of_this.unwrap_or((header.lsn, counts.start, header.incarnation));
                match counts.more {
                    true => begun = Some((at, counts.start, header.incarnation)),
                    false => last = Some((at, counts.start)),
                }
            }
            true
        });
        last
    }

    /// Calls `visit` with each group that can be read from `start` to `end`, in order, until it
    /// returns false. Gives the parts between them that cannot be read, and where the last group
    /// ends.
    pub fn visit_readable(
        &self,
        start: Lsn,
        end: Lsn,
        visit: &mut dyn FnMut(&GroupHeader, &[u8]) -> bool,
    ) -> (Vec<Gap>, Lsn) {
        let mut gaps = Vec::new();
        let mut groups = self.groups(start);
        while groups.position() < end {
            let why = match groups.next() {
                Ok(Some((header, bytes))) if header.lsn < end => {
                    if !visit(&header, bytes) {
                        break;
                    }
                    continue;
                }
                Ok(_) => None,
                Err(error) => Some(text(&error)),
            };
            let from = groups.position();
            let why = why.or_else(|| groups.why_ended().map(|why| why.to_string()));
            if !groups.resume(end).unwrap_or(false) {
                return (gaps, from);
            }
            gaps.push(Gap { from, to: groups.position(), why });
        }
        (gaps, groups.position())
    }

    /// The whole pages of the double-write buffer, and which slots hold what is not whole: a write
    /// that a crash cut short, or damage.
    pub fn slot_images(&self, page_size: PageSize) -> (Vec<SlotImage>, Vec<u32>) {
        let (mut images, mut broken) = (Vec::new(), Vec::new());
        for (number, slot) in (0..).zip(self.slots()) {
            match self.images_of(&slot, page_size) {
                Ok((found, whole)) => {
                    images.extend(found);
                    if !whole {
                        broken.push(number);
                    }
                }
                Err(_) => broken.push(number),
            }
        }
        (images, broken)
    }

    /// The pages of the data file that a recovery would restore from the double-write buffer, were the
    /// rest of the log as it should be. What cannot be read is left out.
    pub fn rebuilt_pages(&self, data: &dyn Device, page_size: PageSize) -> Vec<RebuiltPage> {
        let copies = SlotsFound::read(self).and_then(|slots| slots.copies(self, page_size));
        let (Ok(copies), Ok(len)) = (copies, data.len()) else { return Vec::new() };
        let torn = copies.torn(data, len, &|_| true).filter_map(Result::ok);
        torn.map(|page| RebuiltPage { header: page.header, bytes: page.image }).collect()
    }

    /// The pages of which a slot holds all lines and that are whole, and whether the slot is. They
    /// come first in it.
    fn images_of(&self, slot: &Region, page_size: PageSize) -> io::Result<(Vec<SlotImage>, bool)> {
        let (log, size) = (self.segments.header(), page_size.bytes());
        let block = read_block(&*self.device, slot.offset, LOG_BLOCK_BYTES)?;
        let unused = block.iter().all(|byte| *byte == 0);
        let from = slot.offset + LOG_BLOCK_BYTES as u64;
        let room = slot.end().min(self.segments.len()) - from;
        let room = room as usize / size * size;
        if unused || room == 0 {
            return Ok((Vec::new(), true));
        }
        let bytes = read_block(&*self.device, from, room)?;
        let seed = ChecksumSeed::new(log.store_id);
        let mut images = Vec::new();
        for (i, image) in bytes.chunks(size).enumerate() {
            let whole = PageHeader::decode(image).and_then(|h| seed.verify(image, h.page_id));
            if let Ok(header) = whole {
                images.push(SlotImage { header, offset: from + (i * size) as u64 });
            }
        }
        let whole = SlotHeader::decode(&block, self.seed).is_ok_and(|header| {
            let lines = header.pages.iter().map(|page| page.lines.bytes(page_size)).sum();
            let lines = bytes.get(..lines);
            lines.is_some_and(|lines| header.is_of(lines, self.seed))
        });
        Ok((images, whole))
    }

    /// The segments whose first block is damaged, by the byte of the file where they begin: what is
    /// neither one nor zeros.
    ///
    /// # Errors
    /// Those of the device.
    pub fn broken_segments(&self) -> io::Result<Vec<u64>> {
        let mut broken = Vec::new();
        for segment in self.segments.all() {
            let offset = segment.region.offset;
            if segment.held.is_none()
                && read_block(&*self.device, offset, LOG_BLOCK_BYTES)?.iter().any(|b| *b != 0)
            {
                broken.push(offset);
            }
        }
        Ok(broken)
    }
}

/// An error and its causes.
fn text(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", text(source)),
        None => error.to_string(),
    }
}
