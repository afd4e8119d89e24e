//! What the log tells of itself, group by group, as it is read for the first time.

use std::collections::HashMap;

use polder_format::log::{GroupHeader, Operation, Records};
use polder_format::{FormatError, Lsn, PageId, SpaceId};

use crate::tally::Tally;

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
    /// How many groups change something: the log's own ones, of checkpoints and ends of recovery,
    /// do not.
    pub groups: u64,
    /// No record has this version word or a higher one.
    pub next_version: u64,
    /// No space has this id or a higher one.
    pub next_space: SpaceId,
    /// Entries of each table at the end.
    pub tally: Tally,
    /// The first and the last group that concern the maps.
    pub(crate) maps: Option<(Lsn, Lsn)>,
    /// The first and the last group that concern the catalogue's pages.
    pub(crate) catalogue: Option<(Lsn, Lsn)>,
    /// Pages of maps that were freed, and where.
    pub(crate) freed: HashMap<PageId, Lsn>,
    /// Where an earlier incarnation ended within a block, and where the next one began.
    pub(super) gaps: Vec<(Lsn, Lsn)>,
}

/// The groups of the checkpoint that a superblock names: others may lie in between.
pub(super) enum CheckpointParts {
    /// The first one lies here.
    Begin(Lsn),
    /// More follow, of this incarnation.
    GoOn(u32),
    Done,
}

impl Found {
    pub(super) fn add(
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
            is_change |= !matches!(
                record.operation,
                Operation::Checkpoint(_) | Operation::EndOfRecovery { .. }
            );
            self.tally.add_operation(space, &record.operation);
            self.next_space = self
                .next_space
                .max(SpaceId::new(u64::from(space.get()) + 1).unwrap_or(SpaceId::MAX));
            match &record.operation {
                Operation::Insert { version, .. } => {
                    self.next_version = self.next_version.max(version.saturating_add(1));
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
            let range = match space {
                SpaceId::CATALOGUE => &mut self.catalogue,
                _ if is_map => &mut self.maps,
                _ => continue,
            };
            let first = range.map_or(header.lsn, |(first, _)| first);
            *range = Some((first, header.lsn));
        }
        self.groups += u64::from(is_change);
        Ok(())
    }
}
