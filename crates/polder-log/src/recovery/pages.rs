//! R7: the records of all pages but the maps', dealt to threads by page: as many as there is work for and
//! the system gives; if none, to the caller. Those of one group for one page are done under one latch.
//!
//! The final maps say where the pages lie: an extent moves only after its content was copied and synced
//! at the new place, before the map's record. So the new place holds every page at some state not older
//! than the copy, and page LSNs say what is missing. A place is given to another owner only when the
//! record that freed it is durable, so no crash brings the old owner back.

use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use polder_format::log::Record;
use polder_format::{Lsn, PageId, SpaceId};
use polder_pool::{ApplyRecord, Pool, PoolError, Redo, Translation, threads_with_room};

use super::found::Found;
use super::open::Recovered;
use super::suspects::Suspects;
use crate::error::{LogError, reserve};
use crate::file::LogFile;
use crate::sync::lock;

/// Threads that redo pages, at most: as many reads are asked of the device at a time.
const WORKERS: u64 = 16;
/// One for each so many bytes of log; none for less.
const WORKER_BYTES: u64 = 64 << 10;
/// Bytes of groups that are dealt out at a time.
const DEAL_BYTES: usize = 1 << 20;

/// Groups that are dealt out together, and which records are for whom.
struct Deal {
    bytes: Arc<Vec<u8>>,
    /// Offset of each record in `bytes`, and the end of its group.
    records: Vec<(u32, Lsn)>,
}

/// R7. Where a thread cannot be started those that could do the work, or the caller alone.
pub(super) fn redo_pages<T: Translation>(
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

/// A thread that redoes the records of some of the pages.
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
