//! What the slots of the double-write buffer hold of pages, and what is whole again by it.

use std::io;

use polder_format::log::{LOG_BLOCK_BYTES, Region, SlotHeader, SlotPage};
use polder_format::{ChecksumSeed, Lsn, PageHeader, PageSize, PhysicalPageNo};
use polder_pool::device::{Device, read_block};

use crate::file::LogFile;

/// A slot whose header can be read.
struct SlotFound {
    header: SlotHeader,
    region: Region,
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
        Ok(self.header.is_of(&lines, file.seed).then_some(lines))
    }
}

/// What a slot holds of a page, and where in its lines that begins.
struct Copy {
    slot: usize,
    page: SlotPage,
    at: usize,
}

/// The slots that count, in the order in which they were written.
pub(crate) struct SlotsFound {
    slots: Vec<SlotFound>,
    /// What the next slot is numbered.
    pub(super) next_sequence: u64,
}

/// What these slots hold.
pub(crate) struct SecondCopies {
    size: PageSize,
    seed: ChecksumSeed,
    /// Of each slot.
    lines: Vec<Vec<u8>>,
    copies: Vec<Copy>,
}

/// A page that is not whole in its place.
pub(crate) struct TornPage {
    pub(crate) physical: PhysicalPageNo,
    /// What lies there.
    pub(crate) there: Vec<u8>,
    /// What it becomes by the slots.
    pub(crate) header: PageHeader,
    pub(crate) image: Vec<u8>,
}

impl SlotsFound {
    /// Reads the headers alone: a store that was closed needs no more.
    pub(crate) fn read(file: &LogFile) -> io::Result<SlotsFound> {
        // In their order. There are few: a sort would be a larger part of a program than of the time.
        let mut slots: Vec<SlotFound> = Vec::new();
        for region in file.slots() {
            let block = read_block(&*file.device, region.offset, LOG_BLOCK_BYTES)?;
            if let Ok(header) = SlotHeader::decode(&block, file.seed) {
                let is_later = |slot: &SlotFound| slot.header.sequence > header.sequence;
                let at = slots.iter().position(is_later).unwrap_or(slots.len());
                slots.insert(at, SlotFound { header, region });
            }
        }
        let next = slots.iter().map(|slot| slot.header.sequence.saturating_add(1)).max();
        // SLOT-2: what older batches have written in place is synced.
        let retired = slots.iter().map(|slot| slot.header.retired).max().unwrap_or(0);
        slots.retain(|slot| slot.header.sequence >= retired);
        Ok(SlotsFound { slots, next_sequence: next.unwrap_or(1) })
    }

    /// Reads their lines.
    pub(crate) fn copies(&self, file: &LogFile, size: PageSize) -> io::Result<SecondCopies> {
        let (mut lines, mut copies) = (Vec::new(), Vec::new());
        for slot in &self.slots {
            let Some(bytes) = slot.read_lines(file, size)? else { continue };
            let mut at = 0;
            for page in &slot.header.pages {
                copies.push(Copy { slot: lines.len(), page: *page, at });
                at += page.lines.bytes(size);
            }
            lines.push(bytes);
        }
        let seed = ChecksumSeed::new(file.segments.header().store_id);
        Ok(SecondCopies { size, seed, lines, copies })
    }
}

impl SecondCopies {
    /// The pages that are torn in place and are whole again by the slots, in a state whose LSN is one
    /// that `counts`; and the errors of reading places.
    pub(crate) fn torn<'a>(
        &'a self,
        data: &'a dyn Device,
        len: u64,
        counts: &'a dyn Fn(Lsn) -> bool,
    ) -> impl Iterator<Item = io::Result<TornPage>> + 'a {
        let is_first = move |(number, copy): &(usize, &Copy)| {
            // There are a few thousand copies at most.
            let is_there = |other: &Copy| other.page.physical == copy.page.physical;
            let end = copy.page.physical.offset(self.size).checked_add(self.size.bytes() as u64);
            end.is_some_and(|end| end <= len) && !self.copies[..*number].iter().any(is_there)
        };
        let firsts = self.copies.iter().enumerate().filter(is_first);
        firsts.filter_map(move |(first, copy)| {
            self.torn_at(data, first, copy.page.physical, counts).transpose()
        })
    }

    /// Of the page at a place, whose first copy has this number.
    fn torn_at(
        &self,
        data: &dyn Device,
        first: usize,
        physical: PhysicalPageNo,
        counts: &dyn Fn(Lsn) -> bool,
    ) -> io::Result<Option<TornPage>> {
        let there = read_block(data, physical.offset(self.size), self.size.bytes())?;
        if !self.is_torn(&there) {
            return Ok(None);
        }
        let copies = self.copies[first..].iter().filter(|copy| copy.page.physical == physical);
        let latest = self.last_state(&there, &copies.collect::<Vec<_>>(), counts);
        Ok(latest.map(|(header, image)| TornPage { physical, there, header, image }))
    }

    /// `SLOT-3`: the latest state that was to be written over `there`, of those that count. Of the slots
    /// of one place older ones may be missing in the midst: those behind the state that was synced last
    /// are there, so that one of the ends of the sequence makes the page whole.
    fn last_state(
        &self,
        there: &[u8],
        copies: &[&Copy],
        counts: &dyn Fn(Lsn) -> bool,
    ) -> Option<(PageHeader, Vec<u8>)> {
        let mut latest: Option<(usize, PageHeader, Vec<u8>)> = None;
        for begin in 0..copies.len() {
            let mut state = there.to_vec();
            for (number, copy) in copies.iter().enumerate().skip(begin) {
                let mut from = &self.lines[copy.slot][copy.at..];
                for run in copy.page.lines.runs(self.size) {
                    let (line, rest) = from.split_at(run.len());
                    state[run].copy_from_slice(line);
                    from = rest;
                }
                if latest.as_ref().is_none_or(|(latest, ..)| number > *latest)
                    && let Ok(header) = self.seed.verify(&state, copy.page.page)
                    && counts(header.lsn)
                {
                    latest = Some((number, header, state.clone()));
                }
            }
        }
        latest.map(|(_, header, state)| (header, state))
    }

    /// Whether a page is not whole, whichever it is.
    fn is_torn(&self, page: &[u8]) -> bool {
        match PageHeader::decode(page) {
            Ok(header) => self.seed.verify(page, header.page_id).is_err(),
            Err(_) => true,
        }
    }
}
