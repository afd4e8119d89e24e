//! Reading the log from the file, and finding where it ends: R1 to R3.

#![cfg(not(loom))]

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use polder_format::log::{
    GROUP_HEADER_BYTES, GroupHeader, LOG_BLOCK_BYTES, LogHeader, LogSeed, Operation, Pad, Records,
    slot_pages,
};
use polder_format::{FormatError, Lsn, PageId, PageSize, SpaceId, StoreId, Superblock};
use polder_pool::device::{BlockReader, Device, read_block, write_block, write_zeros};
use polder_pool::threads_with_room;

use crate::error::{LogError, reserve};
use crate::leader::WINDOW_BYTES;
use crate::options::LogOptions;
use crate::segments::{self, Fresh, Segments};
use crate::tally::Tally;

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// Slots of the double-write area.
pub(crate) const SLOTS: u32 = 16;
/// Segments that a new log has.
const FIRST_SEGMENTS: u64 = 4;
/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 2 << 20;
/// No group is longer, and no log's buffer.
const GROUP_BYTES_MAX: u64 = 16 << 20;
/// R3: how far behind the end of the log a group must be looked for that knows better. What is not
/// synced fits two windows and a buffer.
const LOOK_AHEAD_BYTES: u64 = 2 * WINDOW_BYTES + 2 * GROUP_BYTES_MAX;

/// The first position of every log.
pub(crate) const FIRST_LSN: Lsn = Lsn(BLOCK);

/// The log file of a store, to read from.
#[derive(Debug)]
pub struct LogFile {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) segments: Segments,
    pub(crate) seed: LogSeed,
}

impl LogFile {
    /// Makes the log of a new store on an empty device.
    ///
    /// # Errors
    /// Those of the device.
    pub fn create(
        device: Arc<dyn Device>,
        store_id: StoreId,
        page_size: PageSize,
        options: &LogOptions,
    ) -> Result<LogFile, LogError> {
        let header = LogHeader {
            store_id,
            segment_bytes: options.segment_bytes(),
            slots: SLOTS,
            slot_bytes: (LOG_BLOCK_BYTES + (slot_pages(page_size) << page_size.shift())) as u32,
        };
        let make = || -> io::Result<()> {
            let first = header.segment_offset(0);
            device.allocate(0, first)?;
            // Durable before anything is written behind it: where there is no header, nothing is
            // (`tells_of_store`), however a crash tears what is written here.
            write_block(&*device, 0, &header.encode())?;
            device.sync()?;
            // Written and not only allocated, so that syncs of it have nothing else to write.
            write_zeros(&*device, BLOCK..first, &mut || ())?;
            (0..FIRST_SEGMENTS).try_for_each(|index| {
                segments::make(&*device, &header, index, Fresh::Written, &mut || ())
            })?;
            device.sync()
        };
        make().map_err(LogError::io("make"))?;
        LogFile::open(device, store_id)
    }

    /// R1: the log of the store with this id.
    ///
    /// # Errors
    /// [`LogError::Header`], and those of the device.
    pub fn open(device: Arc<dyn Device>, store_id: StoreId) -> Result<LogFile, LogError> {
        let block = read_block(&*device, 0, LOG_BLOCK_BYTES);
        let block = match block {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => vec![0; LOG_BLOCK_BYTES],
            block => block.map_err(LogError::io("read"))?,
        };
        let header = LogHeader::decode(&block, store_id)
            .map_err(|source| LogError::Header { offset: 0, source })?;
        let segments = Segments::read(Arc::clone(&device), header).map_err(LogError::io("read"))?;
        if segments.count() < FIRST_SEGMENTS {
            let (offset, what) = (header.segment_offset(0), "segments of the log are missing");
            return Err(LogError::Header { offset, source: FormatError::Broken(what) });
        }
        Ok(LogFile { device, segments, seed: LogSeed::new(store_id) })
    }

    /// Where in the file a position of the log lies.
    pub fn offset(&self, lsn: Lsn) -> u64 {
        self.segments.offset(lsn.0).unwrap_or(0)
    }

    /// The groups from `start` on.
    pub fn groups(&self, start: Lsn) -> Groups<'_> {
        Groups {
            file: self,
            at: start,
            incarnation: None,
            chunk: Vec::new(),
            chunk_at: 0,
            ahead: None,
            reader: None,
            verified: start,
            gaps: Vec::new(),
            ended: None,
        }
    }

    /// Calls `visit` with each group of the log from `start` to `end`, in order.
    ///
    /// # Errors
    /// Those of the visitor and of the device.
    pub fn visit(&self, start: Lsn, end: Lsn, visit: &mut Visit<'_>) -> Result<(), LogError> {
        self.visit_groups(self.groups(start), end, visit)
    }

    /// As `visit`, of a log whose end was found: its groups are not verified again.
    pub(crate) fn visit_again(
        &self,
        found: &Found,
        (start, end): (Lsn, Lsn),
        visit: &mut Visit<'_>,
    ) -> Result<(), LogError> {
        let mut groups = self.groups(start);
        groups.verified = found.end;
        groups.gaps.clone_from(&found.gaps);
        self.visit_groups(groups, end, visit)
    }

    fn visit_groups(
        &self,
        mut groups: Groups<'_>,
        end: Lsn,
        visit: &mut Visit<'_>,
    ) -> Result<(), LogError> {
        while groups.at < end {
            let Some((header, bytes)) = groups.next()? else { break };
            visit(&header, bytes)?;
        }
        Ok(())
    }

    /// R2 and R3: reads the log that a superblock tells of. `progress` is told the bytes that were
    /// read.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Record`], and those of the device.
    pub fn find_end(
        &self,
        superblock: &Superblock,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Found, LogError> {
        let told = Told {
            start: superblock.redo_start,
            checkpoint: superblock.checkpoint,
            durable: superblock.durable,
            closed: superblock.clean,
            next_version: superblock.next_version,
            next_space: superblock.next_space,
        };
        self.find_end_of(&told, progress)
    }

    /// R2 and R3 of a log of which somebody told this.
    pub(crate) fn find_end_of(
        &self,
        told: &Told,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Found, LogError> {
        let start = told.start;
        let mut found = Found {
            start,
            end: start,
            behind: None,
            durable: told.durable.max(told.checkpoint),
            incarnation: 0,
            groups: 0,
            next_version: told.next_version,
            next_space: told.next_space,
            tally: Tally::default(),
            maps: None,
            freed: HashMap::new(),
            gaps: Vec::new(),
        };
        let mut checkpoint = CheckpointParts::Begin(told.checkpoint);
        let mut groups = self.groups(start);
        while let Some((header, bytes)) = groups.next()? {
            found.add(&header, bytes, start, &mut checkpoint).map_err(|source| {
                let offset = self.segments.offset(header.lsn.0).unwrap_or(0);
                LogError::Record { lsn: header.lsn, offset, source }
            })?;
            progress(header.lsn.0 - start.0);
        }
        found.end = groups.at;
        found.gaps = std::mem::take(&mut groups.gaps);
        let ended = groups.ended.take();
        // A store that was closed ends behind its checkpoint; nobody has written there.
        let as_closed = told.closed && found.end == told.durable;
        if !as_closed {
            self.look_ahead(&mut found)?;
        }
        if found.durable > found.end {
            let offset = self.segments.offset(found.end.0);
            let nothing = match offset {
                Some(_) => "there is no log group",
                None => "its segment is missing",
            };
            let source = ended.unwrap_or(FormatError::Broken(nothing));
            let (lsn, offset, durable) = (found.end, offset.unwrap_or(0), found.durable);
            return Err(LogError::Damaged { lsn, offset, durable, source });
        }
        found.behind = ended.filter(|_| !as_closed);
        Ok(found)
    }

    /// R3: groups behind the end may know that more was durable. Those that begin at a block are
    /// found without what came before them, and lead to those that follow.
    fn look_ahead(&self, found: &mut Found) -> Result<(), LogError> {
        let from = found.end.0.next_multiple_of(BLOCK);
        let mut groups = self.groups(Lsn(from));
        let mut at = if from == found.end.0 { from + BLOCK } else { from };
        while at < from + LOOK_AHEAD_BYTES {
            if self.segments.offset(at).is_none() {
                let share = self.segments.header().share();
                at = (at / share + 1) * share;
                continue;
            }
            if let Some(header) = groups.probe(Lsn(at))?
                && header.incarnation >= found.incarnation
            {
                found.durable = found.durable.max(header.durable);
                // Who was reserved while that sync was under way did not know of it; those who
                // follow in the same block do.
                (groups.at, groups.incarnation) = (Lsn(at), None);
                while let Some((header, _)) = groups.next()? {
                    found.durable = found.durable.max(header.durable);
                }
                at = at.max(groups.at.0 / BLOCK * BLOCK);
            }
            at += BLOCK;
        }
        Ok(())
    }
}

/// What is known of a log before it is read.
#[derive(Debug)]
pub(crate) struct Told {
    /// Where replay begins.
    pub(crate) start: Lsn,
    /// Where the groups of the last checkpoint begin; zero: there was none.
    pub(crate) checkpoint: Lsn,
    /// Up to where it was durable at least.
    pub(crate) durable: Lsn,
    /// Nothing was written behind `durable`.
    pub(crate) closed: bool,
    pub(crate) next_version: u64,
    pub(crate) next_space: SpaceId,
}

/// Called with a group's header and the whole group.
pub type Visit<'v> = dyn FnMut(&GroupHeader, &[u8]) -> Result<(), LogError> + 'v;

/// What was found of a log.
#[derive(Debug)]
pub struct Found {
    /// Where replay begins.
    pub start: Lsn,
    /// Where the log ends.
    pub end: Lsn,
    /// Why it ends there, if there is something behind it that is neither a group nor known to be
    /// left over: from an earlier use of the segment, or behind the end of a log that was closed.
    pub behind: Option<FormatError>,
    /// Up to where it is known to have been durable.
    pub durable: Lsn,
    /// The last incarnation in it.
    pub incarnation: u32,
    /// How many groups change something: the log's own ones, of checkpoints and joints, do not.
    pub groups: u64,
    /// No record has this version word or a higher one.
    pub next_version: u64,
    /// No space has this id or a higher one.
    pub next_space: SpaceId,
    /// Entries of each table at the end.
    pub tally: Tally,
    /// The first and the last group that concern the maps.
    pub(crate) maps: Option<(Lsn, Lsn)>,
    /// Pages of maps that were freed, and where.
    pub(crate) freed: HashMap<PageId, Lsn>,
    /// Where an earlier life ended within a block, and where the next one began.
    gaps: Vec<(Lsn, Lsn)>,
}

/// The groups of the checkpoint that a superblock names: others may lie in between.
enum CheckpointParts {
    /// The first one lies here.
    Begin(Lsn),
    /// More follow, of this incarnation.
    GoOn(u32),
    Done,
}

impl Found {
    fn add(
        &mut self,
        header: &GroupHeader,
        bytes: &[u8],
        start: Lsn,
        checkpoint: &mut CheckpointParts,
    ) -> Result<(), FormatError> {
        let mut is_change = false;
        self.incarnation = header.incarnation;
        self.durable = self.durable.max(header.durable);
        for record in Records::of_group(bytes) {
            let record = record?;
            let space = record.page.space();
            is_change |=
                !matches!(record.operation, Operation::Checkpoint(_) | Operation::Joint { .. });
            self.tally.add_operation(space, &record.operation);
            self.next_space = self
                .next_space
                .max(SpaceId::new(u64::from(space.get()) + 1).unwrap_or(SpaceId::MAX));
            match &record.operation {
                Operation::Insert { version, .. } => {
                    self.next_version = self.next_version.max(version + 1);
                }
                Operation::Checkpoint(counts) => {
                    self.next_version = self.next_version.max(counts.next_version);
                    let is_next = match *checkpoint {
                        CheckpointParts::Begin(at) => at == header.lsn,
                        CheckpointParts::GoOn(incarnation) => incarnation == header.incarnation,
                        CheckpointParts::Done => false,
                    };
                    if is_next && counts.start == start {
                        self.tally.add_counts(&counts.tables);
                        *checkpoint = match counts.more {
                            true => CheckpointParts::GoOn(header.incarnation),
                            false => CheckpointParts::Done,
                        };
                    }
                }
                Operation::Freed => {
                    self.freed.insert(record.page, header.lsn);
                }
                _ => {}
            }
            let is_map = space == SpaceId::FILE && !record.page.is_null()
                || matches!(record.operation, Operation::Directory { .. });
            if is_map {
                let first = self.maps.map_or(header.lsn, |(first, _)| first);
                self.maps = Some((first, header.lsn));
            }
        }
        self.groups += u64::from(is_change);
        Ok(())
    }
}

/// The groups of a log, one after the other.
#[derive(Debug)]
pub struct Groups<'f> {
    file: &'f LogFile,
    at: Lsn,
    incarnation: Option<u32>,
    /// A stretch of the log that was read, and where it begins.
    chunk: Vec<u8>,
    chunk_at: u64,
    ahead: Option<Ahead>,
    reader: Option<BlockReader>,
    /// Groups below this position were found valid before.
    verified: Lsn,
    /// Where there is no group, but one at the next block: a joint.
    gaps: Vec<(Lsn, Lsn)>,
    ended: Option<FormatError>,
}

impl Groups<'_> {
    /// Where the next group begins, or the log has ended.
    pub fn position(&self) -> Lsn {
        self.at
    }

    /// The next group; `None` at the end of the log.
    ///
    /// # Errors
    /// Those of the device.
    #[allow(clippy::should_implement_trait)] // It lends.
    pub fn next(&mut self) -> Result<Option<(GroupHeader, &[u8])>, LogError> {
        loop {
            let gap = self.gaps.iter().find(|(end, _)| *end == self.at).copied();
            if let Some((_, next)) = gap
                && let Look::Group(header) = self.look(next)?
            {
                return Ok(Some(self.give(header)));
            }
            match self.look(self.at)? {
                Look::Pad(len) => self.at = Lsn(self.at.0 + u64::from(len)),
                Look::Group(header) => return Ok(Some(self.give(header))),
                Look::Nothing(why) => {
                    let why = match why {
                        Some(_) if self.is_left_over()? => None,
                        why => why,
                    };
                    // A later life of the store may go on at the next block, and knows this end.
                    let next = Lsn(self.at.0.next_multiple_of(BLOCK));
                    if next > self.at
                        && let Look::Group(header) = self.look(next)?
                    {
                        self.gaps.push((self.at, header.lsn));
                        return Ok(Some(self.give(header)));
                    }
                    self.ended = why;
                    return Ok(None);
                }
            }
        }
    }

    /// Whether a whole group lies here that an earlier use of the segment has left.
    fn is_left_over(&mut self) -> Result<bool, LogError> {
        let (seed, at, share) = (self.file.seed, self.at, self.file.segments.header().share());
        let bytes = self.bytes(at.0, GROUP_HEADER_BYTES)?;
        let Some(lsn) = GroupHeader::claimed_lsn(bytes) else { return Ok(false) };
        let is_earlier = lsn < at && (at.0 - lsn.0).is_multiple_of(share);
        let len = GroupHeader::claimed_len(bytes).filter(|len| *len as u64 <= GROUP_BYTES_MAX);
        let Some(len) = len.filter(|_| is_earlier) else { return Ok(false) };
        Ok(GroupHeader::verify(self.bytes(at.0, len)?, seed, lsn).is_ok())
    }

    fn give(&mut self, header: GroupHeader) -> (GroupHeader, &[u8]) {
        self.incarnation = Some(header.incarnation);
        self.at = header.end();
        let begin = (header.lsn.0 - self.chunk_at) as usize;
        (header, &self.chunk[begin..begin + header.len as usize])
    }

    /// Behind damage: goes on at the next block, before `limit`, where a group begins that is of the
    /// same life of the store or a later one. False: there is none.
    pub(crate) fn resume(&mut self, limit: Lsn) -> Result<bool, LogError> {
        let last = self.incarnation;
        let mut at = self.at.0 / BLOCK * BLOCK + BLOCK;
        while at < limit.0 {
            // A block that the device cannot read holds no group that could be read.
            let header = self.probe(Lsn(at)).unwrap_or(None);
            if header.is_some_and(|header| last.is_none_or(|last| header.incarnation >= last)) {
                (self.at, self.incarnation) = (Lsn(at), None);
                return Ok(true);
            }
            at += BLOCK;
        }
        self.incarnation = last;
        Ok(false)
    }

    /// Why the groups ended, if there is something behind them that is no group.
    pub(crate) fn why_ended(&mut self) -> Option<FormatError> {
        self.ended.take()
    }

    /// The group that begins here, whatever came before.
    fn probe(&mut self, at: Lsn) -> Result<Option<GroupHeader>, LogError> {
        self.incarnation = None;
        Ok(match self.look(at)? {
            Look::Group(header) => Some(header),
            _ => None,
        })
    }

    /// What begins at `at`.
    fn look(&mut self, at: Lsn) -> Result<Look, LogError> {
        let (seed, incarnation) = (self.file.seed, self.incarnation);
        let (end, verified) = (self.at, self.verified);
        let bytes = self.bytes(at.0, GROUP_HEADER_BYTES)?;
        if bytes.len() < 8 {
            return Ok(Look::Nothing(None));
        }
        if let Some(incarnation) = incarnation
            && let Some(len) = Pad::decode(bytes, seed, at, incarnation)
            && (at.0 + u64::from(len)).is_multiple_of(BLOCK)
        {
            return Ok(Look::Pad(len));
        }
        let len = match GroupHeader::claimed_len(bytes) {
            Some(0) => return Ok(Look::Nothing(None)),
            Some(len) if len as u64 <= GROUP_BYTES_MAX => len,
            _ => {
                let what = "the length of a log group is impossible";
                return Ok(Look::Nothing(Some(FormatError::Broken(what))));
            }
        };
        let bytes = self.bytes(at.0, len)?;
        let verified = if at < verified {
            Ok(GroupHeader::read(bytes, at))
        } else {
            GroupHeader::verify(bytes, seed, at)
        };
        let header = match verified {
            Ok(header) => header,
            Err(error) => return Ok(Look::Nothing(Some(error))),
        };
        // LOG-1: of the incarnation of the group before, if that is known, or a joint.
        let follows = incarnation.is_none_or(|now| header.incarnation == now && at == end);
        let is_later = incarnation.is_some_and(|now| header.incarnation > now);
        if follows || is_later && is_joint(bytes, end) {
            return Ok(Look::Group(header));
        }
        Ok(Look::Nothing(Some(FormatError::Field {
            field: "incarnation of a log group",
            found: u64::from(header.incarnation),
            expected: "it is left over from an earlier life of the store",
        })))
    }

    /// At least `len` bytes at `at`, or as many as there are.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], LogError> {
        let there = |this: &Self| {
            let chunk_end = this.chunk_at + this.chunk.len() as u64;
            at >= this.chunk_at && at + len as u64 <= chunk_end
        };
        if !there(self) {
            self.read(at, len)?;
        }
        let begin = (at - self.chunk_at) as usize;
        let end = (begin + len).min(self.chunk.len());
        Ok(&self.chunk[begin.min(end)..end])
    }

    /// Fills the chunk from `at` on. Who reads on gets what was read ahead meanwhile.
    fn read(&mut self, at: u64, len: usize) -> Result<(), LogError> {
        let from = at / BLOCK * BLOCK;
        let chunk_end = self.chunk_at + self.chunk.len() as u64;
        let reads_on = self.chunk_at <= from && from <= chunk_end && !self.chunk.is_empty();
        if reads_on {
            self.chunk.drain(..(from - self.chunk_at) as usize);
        } else {
            self.chunk.clear();
            self.ahead = None;
        }
        self.chunk_at = from;
        let wanted = (at + len as u64).next_multiple_of(BLOCK);
        loop {
            let next = self.chunk_at + self.chunk.len() as u64;
            let (reader, len) = match self.ahead.take().filter(|ahead| ahead.at == next) {
                Some(ahead) => ahead.join(),
                None => Stretch::of(self.file, next).read(self.reader.take()),
            }
            .map_err(LogError::io("read"))?;
            if len == 0 {
                self.reader = Some(reader);
                return Ok(());
            }
            let bytes = reader.bytes(len);
            reserve(&mut self.chunk, bytes.len())?;
            self.chunk.extend_from_slice(bytes);
            let end = next + bytes.len() as u64;
            if end < wanted || !reads_on || threads_with_room(1) == 0 {
                self.reader = Some(reader);
            } else {
                self.ahead = Ahead::start(self.file, end, reader);
            }
            if end >= wanted {
                return Ok(());
            }
        }
    }
}

/// A stretch of the log that lies in one piece in the file.
struct Stretch {
    device: Arc<dyn Device>,
    offset: u64,
    len: u64,
}

impl Stretch {
    /// What begins at `at`, as far as it is read at a time; nothing, if its segment is missing.
    fn of(file: &LogFile, at: u64) -> Stretch {
        let share = file.segments.header().share();
        let offset = file.segments.offset(at);
        let len = if offset.is_some() { CHUNK_BYTES.min(share - at % share) } else { 0 };
        Stretch { device: Arc::clone(&file.device), offset: offset.unwrap_or(0), len }
    }

    /// Reads it into the buffer, or a new one, and gives that back with the length that was read.
    /// (The same memory again and again: memory that is touched for the first time is slow.)
    fn read(&self, reader: Option<BlockReader>) -> io::Result<(BlockReader, usize)> {
        let mut reader = reader.map_or_else(|| BlockReader::new(CHUNK_BYTES as usize), Ok)?;
        let len = self.len as usize;
        if len > 0 {
            reader.read(&*self.device, self.offset, len)?;
        }
        Ok((reader, len))
    }
}

/// A stretch that is read while the one before is looked at.
#[derive(Debug)]
struct Ahead {
    at: u64,
    thread: JoinHandle<io::Result<(BlockReader, usize)>>,
}

impl Ahead {
    fn start(file: &LogFile, at: u64, reader: BlockReader) -> Option<Ahead> {
        let stretch = Stretch::of(file, at);
        let thread = thread::Builder::new().spawn(move || stretch.read(Some(reader))).ok()?;
        Some(Ahead { at, thread })
    }

    fn join(self) -> io::Result<(BlockReader, usize)> {
        let lost = || io::Error::other("the thread that reads the log ended");
        self.thread.join().unwrap_or_else(|_| Err(lost()))
    }
}

enum Look {
    Group(GroupHeader),
    Pad(u32),
    /// No group, and why not if there is something.
    Nothing(Option<FormatError>),
}

/// Whether a group is the first one of a life of the store that found the log to end at `end`.
fn is_joint(group: &[u8], end: Lsn) -> bool {
    let first = Records::of_group(group).next();
    matches!(first, Some(Ok(record)) if record.operation == Operation::Joint { end })
}
