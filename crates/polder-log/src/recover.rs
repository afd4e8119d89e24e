//! Doing again what the log tells: R4 to R8.

#![cfg(not(loom))]

use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use polder_format::log::{Group, LOG_BLOCK_BYTES, Operation, Record, Records, SlotHeader};
use polder_format::{ChecksumSeed, FormatError, Lsn, PageHeader, PageId, PageSize, SpaceId};
use polder_pool::device::{Device, is_full, read_block, write_block};
use polder_pool::{ApplyRecord, Pool, PoolError, Redo, Redone, Translation, threads_with_room};

use crate::error::{LogError, reserve};
use crate::log::{Beginning, Log};
use crate::options::LogOptions;
use crate::scan::{FIRST_LSN, Found, LogFile};
use crate::slots::pages_checksum;
use crate::sync::lock;

/// Threads that redo pages, at most: as many reads are asked of the device at a time.
const WORKERS: u64 = 16;
/// One for each so many bytes of log; none for less.
const WORKER_BYTES: u64 = 64 << 10;
/// Bytes of groups that are dealt out at a time.
const DEAL_BYTES: usize = 1 << 20;

/// How far a recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the log that are done; each is looked at twice.
    pub done: u64,
    /// Bytes in all. While the end of the log is looked for this is what was found so far.
    pub total: u64,
}

/// What a recovery did.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// Bytes of the log that were read.
    pub log_bytes: u64,
    /// Groups of records in them that change something.
    pub groups: u64,
    /// Records that were done again.
    pub redone: u64,
    /// Pages that were torn and have been restored.
    pub restored_pages: u64,
    /// What lay behind the end of the log: a write that was cut short, which nobody was promised; or
    /// something that cannot be told from it. None if the store had been closed.
    pub cut_short: Option<String>,
}

impl Found {
    /// R4 and R5, and opens the log behind its end. Redoing follows ([`recover`]), when there is a
    /// pool. `incarnation` was never used before.
    ///
    /// # Errors
    /// Those of the devices.
    pub fn open(
        &self,
        file: LogFile,
        data: Arc<dyn Device>,
        page_size: PageSize,
        options: LogOptions,
        incarnation: u32,
        recovered: &mut Recovered,
    ) -> Result<Arc<Log>, LogError> {
        let slots = read_slots(&file)?;
        let next_slot = slots.iter().map(|slot| slot.header.sequence + 1).max().unwrap_or(1);
        if self.end > self.start {
            file.device.sync().map_err(LogError::io("sync"))?; // R4
            recovered.restored_pages =
                restore_torn(&file, slots, &*data, page_size, self.start..self.end)?;
        }
        recovered.log_bytes = self.end.0 - self.start.0;
        recovered.groups = self.groups;
        recovered.cut_short = self.behind.as_ref().map(ToString::to_string);
        let tail = Lsn(self.end.0.next_multiple_of(LOG_BLOCK_BYTES as u64));
        let (start, tally) = (self.start, self.tally.clone());
        let beginning = Beginning { start, tail, incarnation, tally, next_slot };
        Log::begin(file.device, data, file.segments, options, beginning)
    }
}

impl LogFile {
    /// The log of a new store, ready to be appended to.
    ///
    /// # Errors
    /// If the system has no memory to give.
    pub fn begin(
        self,
        data: Arc<dyn Device>,
        options: LogOptions,
        incarnation: u32,
    ) -> Result<Arc<Log>, LogError> {
        let beginning = Beginning {
            start: FIRST_LSN,
            tail: FIRST_LSN,
            incarnation,
            tally: crate::tally::Tally::default(),
            next_slot: 1,
        };
        Log::begin(self.device, data, self.segments, options, beginning)
    }

    /// The same file once more, to read from while the log is open.
    ///
    /// # Errors
    /// Those of the device.
    pub fn again(&self) -> Result<LogFile, LogError> {
        LogFile::open(Arc::clone(&self.device), self.segments.header().store_id)
    }
}

impl Log {
    /// R10: the first group of a new life, which knows where the last one ended.
    ///
    /// # Errors
    /// What made the log unusable.
    pub fn join(&self, end: Lsn) -> Result<(), LogError> {
        let mut group = Group::new();
        group.push(PageId::NULL, &Operation::Joint { end });
        self.make_room_for_joint();
        let lsn = self.append_spare(&mut group);
        self.await_sync(lsn).map_err(|source| LogError::Io { what: "write", source })
    }
}

/// R6 to R8: redoes what the log tells of pages.
///
/// # Errors
/// Damage that the log cannot mend, and those of reading.
pub fn recover<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    apply: ApplyRecord,
    recovered: &mut Recovered,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), LogError> {
    let total = 2 * (found.end.0 - found.start.0);
    let half = total / 2;
    redo_maps(file, found, pool, apply, recovered)?;
    pool.redo_maps_done(found.next_space, found.maps.is_some())?;
    let suspects = redo_pages(file, found, pool, apply, recovered, &mut |done| {
        progress(Progress { done: half + done, total });
    })?;
    for (page, error) in suspects {
        if pool.is_in_use(page)? {
            return Err(error.into());
        }
    }
    Ok(())
}

/// R6.
fn redo_maps<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    apply: ApplyRecord,
    recovered: &mut Recovered,
) -> Result<(), LogError> {
    let Some((first, last)) = found.maps else { return Ok(()) };
    let mut suspects = Suspects::default();
    let mut redo = pool.redoing(apply);
    let mut backed = Vec::new();
    file.visit_again(found, (first, Lsn(last.0 + 1)), &mut |header, bytes| {
        let end = header.end();
        let mut records = Vec::new();
        for record in Records::of_group(bytes) {
            let record = record.map_err(|source| broken(file, header.lsn, source))?;
            // Also where the page was freed later: its content lives on in the page that it moved to.
            if record.page.space() == SpaceId::FILE && !record.page.is_null() {
                match record.operation {
                    Operation::Patch { backed: pages @ 1.., bytes, .. } => {
                        backed.push((word_of(bytes), u64::from(pages)));
                    }
                    Operation::Image { .. } => backed.push((record.page.page().get(), 1)),
                    _ => {}
                }
            }
            match record.operation {
                Operation::Directory { place } => pool.redo_directory(place),
                Operation::Freed => {}
                _ if record.page.space() != SpaceId::FILE || record.page.is_null() => {}
                // What was freed later may lie in somebody else's place by now.
                _ if found.freed.get(&record.page).is_some_and(|freed| *freed >= header.lsn) => {}
                _ => records.push(record),
            }
        }
        for of_page in records.chunk_by(|a, b| a.page == b.page) {
            recovered.redone += suspects.redo(&mut redo, end, of_page)?;
        }
        Ok(())
    })?;
    pool.redo_backing(&backed)?;
    for (page, error) in suspects.pages {
        if !found.freed.contains_key(&page) && pool.is_in_use(page)? {
            return Err(error.into());
        }
    }
    Ok(())
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn broken(file: &LogFile, lsn: Lsn, source: FormatError) -> LogError {
    LogError::Record { lsn, offset: file.offset(lsn), source }
}

/// R8: pages that could not be read, or did not fit their records.
#[derive(Debug, Default)]
struct Suspects {
    pages: HashMap<PageId, PoolError>,
}

impl Suspects {
    /// The records of one group for one page. Gives how many were done.
    fn redo<T: Translation>(
        &mut self,
        redo: &mut Redo<'_, T>,
        end: Lsn,
        records: &[Record<'_>],
    ) -> Result<u64, PoolError> {
        let Some(page) = records.first().map(|record| record.page) else { return Ok(0) };
        if !self.pages.is_empty() {
            if matches!(records[0].operation, Operation::Image { .. }) {
                self.pages.remove(&page);
            } else if self.pages.contains_key(&page) {
                return Ok(0);
            }
        }
        // Records that only count belong to the page's table and not to the page.
        let concerns_page = |record: &&Record<'_>| {
            !matches!(record.operation, Operation::Loaded { .. } | Operation::Freed)
        };
        let several: Vec<Operation<'_>>;
        let operations = match records {
            [record] if concerns_page(&record) => std::slice::from_ref(&record.operation),
            _ => {
                let about_page = records.iter().filter(concerns_page);
                several = about_page.map(|record| record.operation.clone()).collect();
                &several
            }
        };
        if operations.is_empty() {
            return Ok(0);
        }
        match redo.redo(page, end, operations)? {
            Redone::Applied => Ok(operations.len() as u64),
            Redone::Known | Redone::Absent => Ok(0),
            Redone::Suspect(error) => {
                self.pages.insert(page, error);
                Ok(0)
            }
        }
    }
}

/// Groups that are dealt out together, and which records are for whom.
struct Deal {
    bytes: Arc<Vec<u8>>,
    /// Offset of each record in `bytes`, and the end of its group.
    records: Vec<(u32, Lsn)>,
}

/// R7. Where a thread cannot be started those that could do the work, or the caller alone.
fn redo_pages<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    apply: ApplyRecord,
    recovered: &mut Recovered,
    progress: &mut dyn FnMut(u64),
) -> Result<HashMap<PageId, PoolError>, LogError> {
    let failure: Mutex<Option<LogError>> = Mutex::new(None);
    let done = Mutex::new((HashMap::new(), 0));
    let finish = |outcome: Result<Worker<'_, T>, LogError>| match outcome {
        Ok(worker) => {
            let mut done = lock(&done);
            done.0.extend(worker.suspects.pages);
            done.1 += worker.redone;
        }
        Err(error) => {
            lock(&failure).get_or_insert(error);
        }
    };
    thread::scope(|scope| {
        let finish = &finish;
        let start = |_| {
            let (sender, receiver) = sync_channel::<Deal>(2);
            let work = move || {
                let mut worker = Worker::new(pool, apply);
                let worked = receiver.iter().try_for_each(|deal| worker.redo_deal(&deal));
                finish(worked.map(|()| worker));
            };
            thread::Builder::new().spawn_scoped(scope, work).ok().map(|_| sender)
        };
        let wanted = ((found.end.0 - found.start.0) / WORKER_BYTES).min(WORKERS);
        let wanted = threads_with_room(wanted as usize);
        let senders: Vec<SyncSender<Deal>> = (0..wanted).map_while(start).collect();
        if senders.is_empty() {
            let mut worker = Worker::new(pool, apply);
            let mut hand = |_, deal| worker.redo_deal(&deal).map(|()| true);
            let dealt = deal(file, found, 1, &mut hand, progress);
            finish(dealt.map(|()| worker));
        } else {
            // False: a worker has ended, which tells why.
            let mut hand = |to: usize, deal| Ok(senders[to].send(deal).is_ok());
            let dealt = deal(file, found, senders.len(), &mut hand, progress);
            drop(senders);
            if let Err(error) = dealt {
                lock(&failure).get_or_insert(error);
            }
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        return Err(error);
    }
    let (suspects, redone) = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    recovered.redone += redone;
    Ok(suspects)
}

/// Takes a deal to a worker; false: it wants no more.
type Hand<'h> = dyn FnMut(usize, Deal) -> Result<bool, LogError> + 'h;

/// Reads the log and deals its records to the workers, by page.
fn deal(
    file: &LogFile,
    found: &Found,
    workers: usize,
    hand: &mut Hand<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), LogError> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut hands: Vec<Vec<(u32, Lsn)>> = vec![Vec::new(); workers];
    let mut send = |bytes: &mut Vec<u8>, hands: &mut Vec<Vec<(u32, Lsn)>>| {
        let shared = Arc::new(std::mem::take(bytes));
        for (worker, records) in hands.iter_mut().enumerate() {
            let deal = Deal { bytes: Arc::clone(&shared), records: std::mem::take(records) };
            if !deal.records.is_empty() && !hand(worker, deal)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let mut goes_on = true;
    file.visit_again(found, (found.start, found.end), &mut |header, group| {
        if !goes_on {
            return Ok(());
        }
        if bytes.len() + group.len() > DEAL_BYTES && !bytes.is_empty() {
            goes_on = send(&mut bytes, &mut hands)?;
            progress(header.lsn.0 - found.start.0);
        }
        if bytes.is_empty() {
            let left = (found.end.0 - header.lsn.0) as usize;
            reserve(&mut bytes, left.min(DEAL_BYTES).max(group.len()))?;
        }
        let begin = bytes.len();
        bytes.extend_from_slice(group);
        let mut at = begin + polder_format::log::GROUP_HEADER_BYTES;
        // Each record was decoded when the end of the log was looked for.
        while let Some((page, len)) = Record::peek(&bytes[at..]) {
            if page.space() != SpaceId::FILE {
                hands[worker_of(page, workers)].push((at as u32, header.end()));
            }
            at += len;
        }
        Ok(())
    })?;
    send(&mut bytes, &mut hands).map(drop)
}

fn worker_of(page: PageId, workers: usize) -> usize {
    (page.to_bits().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize % workers
}

/// Who redoes the records of some of the pages.
struct Worker<'p, T: Translation> {
    redo: Redo<'p, T>,
    suspects: Suspects,
    redone: u64,
}

impl<'p, T: Translation> Worker<'p, T> {
    fn new(pool: &'p Pool<T>, apply: ApplyRecord) -> Worker<'p, T> {
        Worker { redo: pool.redoing(apply), suspects: Suspects::default(), redone: 0 }
    }

    fn redo_deal(&mut self, deal: &Deal) -> Result<(), LogError> {
        let mut records: Vec<Record<'_>> = Vec::new();
        let mut group = Lsn(0);
        for (at, end) in &deal.records {
            let source = |source| LogError::Record { lsn: *end, offset: 0, source };
            let record = Record::decode(&deal.bytes[*at as usize..]).map_err(source)?;
            if *end != group {
                self.redone += redo_group(&mut self.redo, group, &mut records, &mut self.suspects)?;
                group = *end;
            }
            records.push(record);
        }
        self.redone += redo_group(&mut self.redo, group, &mut records, &mut self.suspects)?;
        Ok(())
    }
}

/// The records of one group that this worker has.
fn redo_group<T: Translation>(
    redo: &mut Redo<'_, T>,
    end: Lsn,
    records: &mut Vec<Record<'_>>,
    suspects: &mut Suspects,
) -> Result<u64, PoolError> {
    let mut redone = 0;
    // A stable sort: those of one page stay in order.
    if records.len() > 1 {
        records.sort_by_key(|record| record.page);
    }
    for of_page in records.chunk_by(|a, b| a.page == b.page) {
        redone += suspects.redo(redo, end, of_page)?;
    }
    records.clear();
    Ok(redone)
}

/// A slot of the double-write area that holds a whole batch.
struct SlotFound {
    header: SlotHeader,
    index: u32,
}

fn read_slots(file: &LogFile) -> Result<Vec<SlotFound>, LogError> {
    let log = file.segments.header();
    let mut slots = Vec::new();
    for index in 0..log.slots {
        let block = read_block(&*file.device, log.slot_offset(index), LOG_BLOCK_BYTES);
        let block = block.map_err(LogError::io("read"))?;
        if let Ok(header) = SlotHeader::decode(&block, file.seed) {
            slots.push(SlotFound { header, index });
        }
    }
    Ok(slots)
}

/// R5: restores what is torn in place, and makes all durable. Gives the number of torn pages. `replayed`: the part of the log that is
/// replayed. A page that was not changed in it was synced by the checkpoint that it begins with: if
/// it is not whole it is damaged, and what a slot holds of it may be older than what was there.
fn restore_torn(
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
        if bytes + LOG_BLOCK_BYTES > log.slot_bytes as usize || bytes == 0 {
            continue;
        }
        let from = log.slot_offset(slot.index) + LOG_BLOCK_BYTES as u64;
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
                // A page that was freed later, and its block given back: nobody needs it. If somebody
                // does, R8 finds out.
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
