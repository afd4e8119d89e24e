//! Finding where the log ends: R2 and R3.
//!
//! The end is the first position without a valid group. But damage looks like an end: so the
//! highest durable LSN that anybody knows of must not lie behind it. It stands in the superblock,
//! in the groups that were read, and in valid groups of the same or a later incarnation behind the
//! end.

use std::collections::HashMap;

use polder_format::log::LOG_BLOCK_BYTES;
use polder_format::{FormatError, Lsn, SpaceId, Superblock};

use super::found::{CheckpointParts, Found};
use crate::error::LogError;
use crate::file::{GROUP_BYTES_MAX, LogFile, Visit};
use crate::leader::WINDOW_BYTES;
use crate::tally::Tally;

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// R3: how far behind the end of the log a group must be looked for that knows better. What is not
/// synced fits two windows, and a group that is being written.
const LOOK_AHEAD_BYTES: u64 = 2 * WINDOW_BYTES + 2 * GROUP_BYTES_MAX;

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

impl LogFile {
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

    /// R2 and R3 of a log of which this is known.
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
            catalogue: None,
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
        found.end = groups.position();
        found.gaps = groups.take_gaps();
        let ended = groups.why_ended();
        // A store that was closed ends behind its checkpoint; nothing was written there.
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
                match self.segments.begin_behind(at) {
                    Some(begin) => at = begin,
                    None => break,
                }
                continue;
            }
            if let Some(header) = groups.probe(Lsn(at))?
                && header.incarnation >= found.incarnation
            {
                found.durable = found.durable.max(header.durable);
                // A group that was appended while that sync was under way did not know of it;
                // those that follow in the same block do.
                groups.go_on_at(Lsn(at));
                while let Some((header, _)) = groups.next()? {
                    found.durable = found.durable.max(header.durable);
                }
                at = at.max(groups.position().0 / BLOCK * BLOCK);
            }
            at += BLOCK;
        }
        Ok(())
    }

    /// As `visit`, of a log whose end was found: its groups are not verified again.
    pub(crate) fn visit_again(
        &self,
        found: &Found,
        (start, end): (Lsn, Lsn),
        visit: &mut Visit<'_>,
    ) -> Result<(), LogError> {
        let mut groups = self.groups(start);
        groups.trust(found.end, &found.gaps);
        groups.visit(end, visit)
    }
}
