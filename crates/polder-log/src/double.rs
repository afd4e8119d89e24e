//! Pages are written twice, so that a torn one can be restored: first into a slot of the log file,
//! then in place. `docs/durability.md`, B1 to B4.
//!
//! * `SLOT-1` A slot is used again only when every page of its batch lies in its place, synced, or
//!   was written again through a later slot.
//! * `SLOT-2` Batches below a slot header's `retired` were synced when the header was written.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex};

use polder_format::log::{LOG_BLOCK_BYTES, LogHeader, SlotHeader, SlotPage};
use polder_format::{Lsn, PageHeader, PageId};
use polder_pool::device::{self, Buffer, Direction, Request};
use polder_pool::journal::{Journal, Outgoing, SharedError};

use crate::log::{Log, lock};

/// Pages written since the last sync of the data file, at most; then it is synced.
const UNSYNCED_PAGES: usize = 1 << 16;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// The batch is on its way.
    Used,
    /// In place, not synced. These pages could not be written.
    Placed { failed: Vec<PageId> },
}

#[derive(Debug, Default, Clone)]
struct Slot {
    state: State,
    sequence: u64,
}

/// A batch that is on its way to its places.
#[derive(Debug)]
struct Batch {
    slot: Option<usize>,
    pages: Vec<PageId>,
    /// Those of them that lie in the slot.
    copied: Vec<PageId>,
}

#[derive(Debug)]
struct Area {
    slots: Vec<Slot>,
    next_sequence: u64,
    /// By ticket.
    under_way: HashMap<u64, Batch>,
    next_ticket: u64,
    /// Pages that were written in place, or are on their way there, since the last good sync of the
    /// data file began.
    unsynced: HashSet<PageId>,
}

/// The double-write area.
#[derive(Debug)]
pub(crate) struct Double {
    header: LogHeader,
    area: Mutex<Area>,
    changed: Condvar,
}

#[repr(C, align(4096))]
struct Block([u8; LOG_BLOCK_BYTES]);

impl Double {
    pub(crate) fn new(header: LogHeader, next_sequence: u64) -> Double {
        let slots = vec![Slot::default(); header.slots as usize];
        let area = Area {
            slots,
            next_sequence,
            under_way: HashMap::new(),
            next_ticket: 0,
            unsynced: HashSet::new(),
        };
        Double { header, area: Mutex::new(area), changed: Condvar::new() }
    }

    /// A free slot, taken for these pages: its index and header.
    fn take(&self, pages: &[&Outgoing<'_>]) -> Option<(usize, SlotHeader)> {
        let mut area = lock(&self.area);
        let index = area.slots.iter().position(|slot| slot.state == State::Free)?;
        let sequence = area.next_sequence;
        area.next_sequence += 1;
        area.slots[index] = Slot { state: State::Used, sequence };
        let in_use = area.slots.iter().filter(|slot| slot.state != State::Free);
        // SLOT-2: the batches before that of the oldest slot in use were synced.
        let retired = in_use.map(|slot| slot.sequence).min().unwrap_or(sequence);
        let mut sums = Vec::with_capacity(4 * pages.len());
        pages.iter().for_each(|page| sums.extend_from_slice(&page.bytes[..4]));
        let entry = |page: &&Outgoing<'_>| SlotPage { page: page.page, place: page.place };
        let header = SlotHeader {
            sequence,
            retired,
            pages_checksum: pages_checksum(&sums),
            pages: pages.iter().map(entry).collect(),
        };
        Some((index, header))
    }

    /// A ticket for a batch that may be written now.
    fn begin(&self, slot: Option<usize>, pages: &[Outgoing<'_>]) -> u64 {
        let mut area = lock(&self.area);
        let ticket = area.next_ticket;
        area.next_ticket += 1;
        let bare = pages.iter().filter(|page| slot.is_some() && !page.born);
        let copied = bare.map(|page| page.page).collect();
        let pages: Vec<PageId> = pages.iter().map(|page| page.page).collect();
        area.unsynced.extend(&pages);
        area.under_way.insert(ticket, Batch { slot, pages, copied });
        ticket
    }

    /// B4. Pages of this batch supersede what earlier slots hold of them.
    pub(crate) fn placed(&self, ticket: u64, failed: &[PageId]) {
        let mut area = lock(&self.area);
        let Some(batch) = area.under_way.remove(&ticket) else { return };
        let is_superseded = |page: &PageId| {
            batch.copied.contains(page) || batch.pages.contains(page) && !failed.contains(page)
        };
        for slot in &mut area.slots {
            if let State::Placed { failed: waiting } = &mut slot.state {
                waiting.retain(|page| !is_superseded(page));
            }
        }
        if let Some(slot) = batch.slot {
            area.slots[slot].state = State::Placed { failed: failed.to_vec() };
        }
        drop(area);
        self.changed.notify_all();
    }

    /// The batch of this slot will not be written.
    fn give_up(&self, slot: usize) {
        lock(&self.area).slots[slot].state = State::Placed { failed: Vec::new() };
        self.changed.notify_all();
    }

    pub(crate) fn is_synced(&self, page: PageId) -> bool {
        !lock(&self.area).unsynced.contains(&page)
    }

    /// The data file will be synced: what is in place by now.
    fn before_sync(&self) -> (Vec<u64>, HashSet<PageId>) {
        let mut area = lock(&self.area);
        let placed =
            |slot: &&Slot| matches!(&slot.state, State::Placed { failed } if failed.is_empty());
        let placed = area.slots.iter().filter(placed).map(|slot| slot.sequence).collect();
        // Pages whose batch is under way are not synced by this.
        let under_way = area.under_way.values().flat_map(|batch| batch.pages.clone()).collect();
        let unsynced = std::mem::replace(&mut area.unsynced, under_way);
        (placed, unsynced)
    }

    /// The slots of these batches may be used again (`SLOT-1`).
    fn after_sync(&self, placed: &[u64]) {
        let mut area = lock(&self.area);
        for slot in &mut area.slots {
            if slot.state != State::Free && placed.contains(&slot.sequence) {
                slot.state = State::Free;
            }
        }
        drop(area);
        self.changed.notify_all();
    }

    fn sync_failed(&self, unsynced: HashSet<PageId>) {
        lock(&self.area).unsynced.extend(unsynced);
    }

    /// Whether every slot is on its way, so that one must be waited for.
    fn await_placed(&self) {
        let area = lock(&self.area);
        if area.slots.iter().all(|slot| slot.state == State::Used) {
            let timeout = std::time::Duration::from_millis(100);
            drop(self.changed.wait_timeout(area, timeout));
        }
    }

    fn is_stuck(&self) -> bool {
        let area = lock(&self.area);
        let stuck =
            |slot: &Slot| matches!(&slot.state, State::Placed { failed } if !failed.is_empty());
        area.slots.iter().all(stuck)
    }

    fn unsynced(&self) -> usize {
        lock(&self.area).unsynced.len()
    }
}

/// The checksum in a slot's header, over the checksums that its pages begin with.
pub(crate) fn pages_checksum(sums: &[u8]) -> u32 {
    // Any fixed seed: the header's own checksum is seeded with the store.
    polder_format::log::LogSeed::new(polder_format::StoreId([0; 16])).checksum(sums)
}

impl Log {
    /// B1 to B3.
    pub(crate) fn protect(&self, pages: &[Outgoing<'_>]) -> Result<u64, SharedError> {
        self.check()?;
        let lsn = pages.iter().filter_map(|page| PageHeader::decode(page.bytes).ok());
        let lsn = lsn.map(|header| header.lsn).max().unwrap_or(Lsn(0));
        let bare: Vec<_> = pages.iter().filter(|page| !page.born).collect();
        if self.double.unsynced() > UNSYNCED_PAGES {
            self.sync_data()?;
        }
        if bare.is_empty() {
            self.await_durable(lsn)?;
            return Ok(self.double.begin(None, pages));
        }
        let (index, header) = self.take_slot(&bare)?;
        let written = self.write_slot(index, &header, &bare);
        let protected = written.and_then(|()| {
            let wanted = lock(&self.syncs).begun + 1;
            self.flush_until(|log, syncs| {
                syncs.finished >= wanted && log.durable.load(Ordering::Acquire) >= lsn.0
            })
        });
        protected.inspect_err(|_| self.double.give_up(index))?;
        Ok(self.double.begin(Some(index), pages))
    }

    fn take_slot(&self, pages: &[&Outgoing<'_>]) -> Result<(usize, SlotHeader), SharedError> {
        loop {
            if let Some(taken) = self.double.take(pages) {
                return Ok(taken);
            }
            self.check()?;
            if self.double.is_stuck() {
                let text = "pages could not be written in place, so that no others may be";
                return Err(std::sync::Arc::new(io::Error::other(text)));
            }
            self.double.await_placed();
            self.sync_data()?;
        }
    }

    /// B2.
    fn write_slot(
        &self,
        index: usize,
        header: &SlotHeader,
        pages: &[&Outgoing<'_>],
    ) -> Result<(), SharedError> {
        let mut block = Box::new(Block([0; LOG_BLOCK_BYTES]));
        block.0.copy_from_slice(&header.encode(self.seed));
        let mut at = self.double.header.slot_offset(index as u32);
        let mut requests = Vec::new();
        let mut write = |first: &[u8], len: usize| {
            // SAFETY: borrowed until the batch is complete, and only read by the device.
            let buffer = unsafe { Buffer::new(NonNull::from(first).cast(), len) };
            requests.push(Request::new(Direction::Write, PageId::NULL, at, buffer));
            at += len as u64;
        };
        write(&block.0, block.0.len());
        // Pages that lie one behind the other in memory go in one request.
        let follows =
            |a: &&Outgoing<'_>, b: &&Outgoing<'_>| a.bytes.as_ptr_range().end == b.bytes.as_ptr();
        for run in pages.chunk_by(follows) {
            write(run[0].bytes, run.iter().map(|page| page.bytes.len()).sum());
        }
        let batch = self.device.complete(self.device.submit(device::Batch::Many(requests)));
        let written = batch.into_requests().into_iter().try_for_each(|request| request.outcome);
        written.map_err(|error| self.poison("writing the double-write area", &error))
    }

    /// Syncs the data file, and retires slots.
    pub(crate) fn sync_data(&self) -> Result<(), SharedError> {
        // As with the log: see `sync_device`.
        let _one = lock(&self.data_sync);
        self.check()?;
        let (placed, unsynced) = self.double.before_sync();
        match self.data.sync() {
            Ok(()) => {
                self.double.after_sync(&placed);
                Ok(())
            }
            Err(error) => {
                self.double.sync_failed(unsynced);
                Err(self.poison("syncing the data file", &error))
            }
        }
    }
}
