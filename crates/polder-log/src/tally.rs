//! How many entries each table has, at any point of the log.
//!
//! The records themselves say when a key is new or gone. The leader of a group commit adds them up
//! as it walks over the groups, so that the numbers belong to one position of the log exactly, and
//! no writer shares a counter.

#![cfg(not(loom))]

use polder_format::SpaceId;
use polder_format::log::{GROUP_HEADER_BYTES, Operation, RecordHead, TableCount, flag, kind};

use crate::ring::{Change, Mark, Ring};

/// Entries of each table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// By the numbers of the tables' spaces, in their order.
    counts: Vec<(u32, i64)>,
    /// The table that was counted last, and what is not in `counts` yet.
    last: (u32, i64),
}

impl Tally {
    /// What a checkpoint said.
    pub fn add_counts(&mut self, tables: &[TableCount]) {
        tables.iter().for_each(|table| self.add(table.space.get(), table.entries as i64));
    }

    /// One record of a group.
    pub fn add_operation(&mut self, space: SpaceId, operation: &Operation<'_>) {
        let change = operation.entries();
        if change != 0 {
            self.add(space.get(), change);
        }
    }

    #[inline]
    fn add(&mut self, space: u32, change: i64) {
        if self.last.0 != space {
            self.settle();
            self.last = (space, 0);
        }
        self.last.1 += change;
    }

    fn settle(&mut self) {
        let (space, change) = self.last;
        if change != 0 {
            match self.find(space) {
                Ok(at) => self.counts[at].1 += change,
                Err(at) => self.counts.insert(at, (space, change)),
            }
            self.last.1 = 0;
        }
    }

    /// Where a table stands in `counts`, or would.
    fn find(&self, space: u32) -> Result<usize, usize> {
        self.counts.binary_search_by_key(&space, |(space, _)| *space)
    }

    /// A complete group at `at` in the ring, or a part of one.
    #[inline]
    pub(crate) fn add_group(&mut self, ring: &Ring, at: u64, mark: Mark) {
        match mark.change() {
            Change::Nothing => {}
            Change::One(space, change) => self.add(space.get(), change),
            Change::More => {
                self.add_records(ring, at + GROUP_HEADER_BYTES as u64, at + mark.len());
            }
            Change::Continued => self.add_records(ring, at, at + mark.len()),
        }
    }

    /// The records from `next` up to `end`.
    fn add_records(&mut self, ring: &Ring, mut next: u64, end: u64) {
        while next < end {
            let bytes = ring.head(next, end - next);
            let Some((head, content)) = RecordHead::read(&bytes) else { return };
            if head.flags & flag::COUNTS != 0 {
                let change = match head.number {
                    kind::INSERT => 1,
                    kind::REMOVE => -1,
                    kind::LOADED => {
                        content.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
                    }
                    _ => 0,
                };
                self.add(head.page.space().get(), change);
            }
            next += (bytes.len() - content.len() + head.len) as u64;
        }
    }

    /// The tables that have entries.
    pub fn counts(&self) -> Vec<TableCount> {
        let mut settled = self.clone();
        settled.settle();
        let table = |(space, entries): &(u32, i64)| {
            let entries = u64::try_from(*entries).ok().filter(|entries| *entries > 0)?;
            Some(TableCount { space: SpaceId::new(u64::from(*space))?, entries })
        };
        settled.counts.iter().filter_map(table).collect()
    }

    /// Entries of one table.
    pub fn entries(&self, space: SpaceId) -> u64 {
        let last = if self.last.0 == space.get() { self.last.1 } else { 0 };
        let entries = self.find(space.get()).map_or(0, |at| self.counts[at].1) + last;
        u64::try_from(entries).unwrap_or(0)
    }

    /// The table was dropped.
    pub fn forget(&mut self, space: SpaceId) {
        self.settle();
        if let Ok(at) = self.find(space.get()) {
            self.counts.remove(at);
        }
    }
}
