//! Which slot of the double-write buffer holds which pages, and until when it must.
//!
//! * `SLOT-1` A slot is used again only when every page of its batch is synced in the data file, or
//!   was written again through a later slot.
//! * `SLOT-2` Batches below a slot header's `retired` were synced when the header was written.
//!   Recovery uses only slots at or above the highest such number, and of those for one physical
//!   page all up to the latest whose page is not newer than the log: an older one alone could bring
//!   back a page that was rewritten since, and a newer one a change that the log has lost. Of those
//!   of one page some in the midst may be missing, which were synced and used again while an older one
//!   was not yet; those behind the state that was synced last are all there.
//! * `SLOT-3` A slot holds of a page the lines in which it differs from what was written to its place
//!   before, and of a page of which that is not known all lines. So what lies in place, torn between
//!   what was written there since the last sync, becomes each of these states in turn by the lines of
//!   each slot, in their order; each has its checksum. As nothing tells which state was synced last,
//!   recovery begins with each slot of the page. All that is so where the device leaves of each byte
//!   the old or the new one, which it promises by naming a unit that it writes as a whole, however
//!   small. Else a slot holds all lines.

#![cfg(not(loom))]

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex};

use polder_format::log::{Lines, LogHeader, Region, SlotHeader, SlotPage};
use polder_format::{PageId, PageSize};
use polder_pool::device::Device;
use polder_pool::journal::Outgoing;

use crate::sync::lock;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// The batch is on its way.
    Used,
    /// Written to the data file, not synced. These pages could not be written.
    Placed { failed: Vec<PageId> },
}

#[derive(Debug, Clone)]
struct Slot {
    region: Region,
    state: State,
    sequence: u64,
}

impl Slot {
    fn new(region: Region) -> Slot {
        Slot { region, state: State::Free, sequence: 0 }
    }

    fn has_room(&self, pages: usize, size: PageSize) -> bool {
        (pages as u64) << size.shift() <= self.region.share()
    }
}

/// A batch that is being written to the data file.
#[derive(Debug)]
struct Batch {
    slot: Option<usize>,
    pages: Vec<PageId>,
    /// Those of them that lie in the slot.
    copied: Vec<PageId>,
}

/// Invariants: the sequence numbers of slots that are not free differ, and are below
/// `next_sequence`; a slot is `Used` exactly while its batch is about to be written, or is
/// `under_way`.
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

/// The double-write buffer, and the data file, whose syncs retire its slots.
#[derive(Debug)]
pub(crate) struct DoubleWriteBuffer {
    page_size: PageSize,
    /// The slots that there may be.
    most_slots: usize,
    /// Pages are written twice whatever the device promises.
    always: bool,
    area: Mutex<Area>,
    changed: Condvar,
    pub(crate) data: Arc<dyn Device>,
    /// Held while the data file is synced.
    pub(crate) data_sync: Mutex<()>,
}

impl DoubleWriteBuffer {
    pub(crate) fn new(
        header: &LogHeader,
        slots: Vec<Region>,
        page_size: PageSize,
        always: bool,
        next_sequence: u64,
        data: Arc<dyn Device>,
    ) -> DoubleWriteBuffer {
        let slots = slots.into_iter().map(Slot::new).collect();
        let area = Area {
            slots,
            next_sequence,
            under_way: HashMap::new(),
            next_ticket: 0,
            unsynced: HashSet::new(),
        };
        DoubleWriteBuffer {
            page_size,
            most_slots: header.slots(),
            always,
            area: Mutex::new(area),
            changed: Condvar::new(),
            data,
            data_sync: Mutex::default(),
        }
    }

    /// Whether a page can be torn where it lies.
    pub(crate) fn is_needed(&self) -> bool {
        self.always || self.data.atomic_write_bytes() < self.page_size.bytes() as u64
    }

    /// Whether a page that is torn where it lies has in each of its bytes what was there or what was
    /// to be written: so that the lines that differ suffice to make it whole (`SLOT-3`).
    fn trusts_units(&self) -> bool {
        !self.always && self.data.atomic_write_bytes() > 0
    }

    /// The file has another slot.
    pub(crate) fn add(&self, region: Region) {
        lock(&self.area).slots.push(Slot::new(region));
    }

    /// Whether it may have more.
    pub(crate) fn may_grow(&self) -> bool {
        lock(&self.area).slots.len() < self.most_slots
    }

    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Pages that the largest slot has room for.
    pub(crate) fn most_pages(&self) -> usize {
        let area = lock(&self.area);
        let pages = |slot: &Slot| (slot.region.share() >> self.page_size.shift()) as usize;
        area.slots.iter().map(pages).max().unwrap_or(0)
    }

    /// Where a slot begins in the file.
    pub(crate) fn offset(&self, slot: usize) -> u64 {
        lock(&self.area).slots[slot].region.offset
    }

    /// The smallest free slot that has room for these pages, taken for them: its index and header.
    pub(crate) fn take(&self, pages: &[&Outgoing<'_>]) -> Option<(usize, SlotHeader)> {
        let mut area = lock(&self.area);
        let fits =
            |slot: &&Slot| slot.state == State::Free && slot.has_room(pages.len(), self.page_size);
        let free = area.slots.iter().enumerate().filter(|(_, slot)| fits(slot));
        let (index, _) = free.min_by_key(|(_, slot)| slot.region.bytes)?;
        let sequence = area.next_sequence;
        area.next_sequence += 1;
        let slot = &mut area.slots[index];
        (slot.state, slot.sequence) = (State::Used, sequence);
        let in_use = area.slots.iter().filter(|slot| slot.state != State::Free);
        // SLOT-2: the batches before that of the oldest slot in use were synced.
        let retired = in_use.map(|slot| slot.sequence).min().unwrap_or(sequence);
        debug_assert!(retired <= sequence, "SLOT-2");
        let whole = !self.trusts_units();
        let entry = |page: &&Outgoing<'_>| {
            let lines = if whole { Lines::ALL } else { page.lines };
            SlotPage { page: page.page, physical: page.physical, lines }
        };
        let pages = pages.iter().map(entry).collect();
        Some((index, SlotHeader { sequence, retired, lines_checksum: 0, pages }))
    }

    /// A ticket for a batch that may be written now.
    pub(crate) fn begin(&self, slot: Option<usize>, pages: &[Outgoing<'_>]) -> u64 {
        let mut area = lock(&self.area);
        let ticket = area.next_ticket;
        area.next_ticket += 1;
        let bare = pages.iter().filter(|page| slot.is_some() && !page.imaged);
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
            debug_assert_eq!(area.slots[slot].state, State::Used, "SLOT-1: it was given up");
            area.slots[slot].state = State::Placed { failed: failed.to_vec() };
        }
        drop(area);
        self.changed.notify_all();
    }

    /// The batch of this slot will not be written.
    pub(crate) fn give_up(&self, slot: usize) {
        lock(&self.area).slots[slot].state = State::Placed { failed: Vec::new() };
        self.changed.notify_all();
    }

    pub(crate) fn is_synced(&self, page: PageId) -> bool {
        !lock(&self.area).unsynced.contains(&page)
    }

    /// The data file will be synced: what is in place by now.
    pub(crate) fn before_sync(&self) -> (Vec<u64>, HashSet<PageId>) {
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
    pub(crate) fn after_sync(&self, placed: &[u64]) {
        let mut area = lock(&self.area);
        for slot in &mut area.slots {
            if slot.state != State::Free && placed.contains(&slot.sequence) {
                slot.state = State::Free;
            }
        }
        drop(area);
        self.changed.notify_all();
    }

    pub(crate) fn sync_failed(&self, unsynced: HashSet<PageId>) {
        lock(&self.area).unsynced.extend(unsynced);
    }

    /// Waits a moment if every slot for so many pages is on its way.
    pub(crate) fn await_placed(&self, pages: usize) {
        let area = lock(&self.area);
        let mut fitting = area.slots.iter().filter(|slot| slot.has_room(pages, self.page_size));
        if fitting.all(|slot| slot.state == State::Used) {
            let timeout = std::time::Duration::from_millis(100);
            drop(self.changed.wait_timeout(area, timeout));
        }
    }

    /// Whether no slot for so many pages will be free again.
    pub(crate) fn is_stuck(&self, pages: usize) -> bool {
        let area = lock(&self.area);
        let stuck =
            |slot: &Slot| matches!(&slot.state, State::Placed { failed } if !failed.is_empty());
        area.slots.iter().filter(|slot| slot.has_room(pages, self.page_size)).all(stuck)
    }

    pub(crate) fn unsynced(&self) -> usize {
        lock(&self.area).unsynced.len()
    }
}
