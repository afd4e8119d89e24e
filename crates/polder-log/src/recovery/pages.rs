//! R7: the records of all pages but the maps', dealt to threads by page: as many as there is work
//! for and the system gives; if none, to the caller. Those of one group for one page are done
//! under one latch. What one page is made of another one of goes from thread to thread (`halves.rs`).
//!
//! The final maps say where the pages lie: an extent moves only after its content was copied and
//! synced where it lies then, before the map's record. So every page is found there at some state
//! not older than the copy, and page LSNs say what is missing. A physical page is given to another
//! owner only when the record that freed it is durable, so no crash brings the old owner back.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use polder_format::log::Record;
use polder_format::{Lsn, PageId, SpaceId};
use polder_pool::{Pool, PoolError, Translation, threads_with_room};

use super::ahead::Ahead;
use super::found::Found;
use super::halves::Halves;
use super::redoing::{Redoing, Share, sorted_by_page, worker_of};
use crate::error::{LogError, reserve};
use crate::file::LogFile;

/// Threads that redo pages, at most: as many reads are asked of the device at a time.
const WORKERS: u64 = 16;
/// One for each so many bytes of log; none for less.
const WORKER_BYTES: u64 = 64 << 10;
/// Bytes of groups that are dealt out at a time.
const DEAL_BYTES: usize = 1 << 20;

/// Groups that are dealt out together, and which records each thread gets.
struct Deal {
    share: Share,
    bytes: Arc<Vec<u8>>,
    /// Offset of each record in `bytes`, and the end of its group.
    records: Vec<(u32, Lsn)>,
}

/// Pages that are suspect after their last record, and how many records were done.
type Outcome = (HashMap<PageId, PoolError>, u64);

/// R7. Where a thread cannot be started those that could do the work, or the caller alone.
pub(super) fn redo_pages<T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &Pool<T>,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, LogError> {
    let halves = &Halves::default();
    thread::scope(|scope| {
        let start = |_| {
            let (sender, receiver) = sync_channel::<Deal>(2);
            let work = move || -> Result<Outcome, LogError> {
                let working = halves.begin();
                let mut deals = receiver.iter().peekable();
                let share = deals.peek().map_or(Share::ALL, |deal: &Deal| deal.share);
                let mut redoing = Redoing::new(pool, share, halves);
                deals.try_for_each(|deal| redo_deal(&mut redoing, &deal))?;
                working.finish();
                Ok((redoing.suspects, redoing.redone))
            };
            Some((sender, thread::Builder::new().spawn_scoped(scope, work).ok()?))
        };
        let wanted = ((found.end.0 - found.start.0) / WORKER_BYTES).min(WORKERS);
        let wanted = threads_with_room(wanted as usize);
        let (senders, workers): (Vec<_>, Vec<_>) = (0..wanted).map_while(start).unzip();
        if senders.is_empty() {
            let mut redoing = Redoing::new(pool, Share::ALL, halves);
            let mut hand = |_, deal| redo_deal(&mut redoing, &deal).map(|()| true);
            deal(file, found, 1, &mut hand, progress)?;
            return Ok((redoing.suspects, redoing.redone));
        }
        // False: a worker has ended, which tells why.
        let mut hand = |to: usize, deal| Ok(senders[to].send(deal).is_ok());
        let dealt = deal(file, found, senders.len(), &mut hand, progress);
        drop(senders);
        let (mut suspects, mut redone) = (HashMap::new(), 0);
        for worker in workers {
            let outcome = worker.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            suspects.extend(outcome.0);
            redone += outcome.1;
        }
        dealt.map(|()| (suspects, redone))
    })
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
            let (bytes, records) = (Arc::clone(&shared), std::mem::take(records));
            let deal = Deal { share: Share { worker, workers }, bytes, records };
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
                let worker = worker_of(page, workers);
                hands[worker].push((at as u32, header.end()));
                // Also to the thread that has what the page is made of.
                let left = Record::peek_left(&bytes[at..]).map(|left| worker_of(left, workers));
                if let Some(left) = left.filter(|left| *left != worker) {
                    hands[left].push((at as u32, header.end()));
                }
            }
            at += len;
        }
        Ok(())
    })?;
    send(&mut bytes, &mut hands).map(drop)
}

/// Redoes the records of a deal that are for this worker.
fn redo_deal<T: Translation>(redoing: &mut Redoing<'_, T>, deal: &Deal) -> Result<(), LogError> {
    let mut records: Vec<Record<'_>> = Vec::new();
    let (mut ahead, mut next) = (Ahead::default(), 0);
    for of_group in deal.records.chunk_by(|a, b| a.1 == b.1) {
        let end = of_group[0].1;
        ahead.reach(redoing, (&deal.bytes, &deal.records), next);
        next += of_group.len();
        records.clear();
        for (at, _) in of_group {
            let source = |source| LogError::Record { lsn: end, offset: 0, source };
            records.push(Record::decode(&deal.bytes[*at as usize..]).map_err(source)?);
        }
        redoing.redo(end, sorted_by_page(&mut records))?;
    }
    Ok(())
}
