//! The groups of a log, one after the other: which of them are valid, and where they end.
//!
//! * `LOG-1` A group is valid only with the right checksum, at the LSN that it names, in the
//!   incarnation of the group before; or with the end-of-recovery record of a later incarnation,
//!   at this very position or at the next block, which names this position as the end that was
//!   found.

use polder_format::log::{
    GROUP_HEADER_BYTES, GroupHeader, LOG_BLOCK_BYTES, Operation, Pad, Records,
};
use polder_format::{FormatError, Lsn};

use super::log_file::LogFile;
use super::read_ahead::ReadAhead;
use super::segments::GROUP_BYTES_MAX;
use crate::error::LogError;

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// One that is longer than this must at least claim that it lies here before all of it is read.
const LONG_GROUP_BYTES: usize = 64 << 10;

/// A longer one that an earlier use of a segment has left is not read to the end to tell that.
const LEFT_OVER_BYTES_MAX: u64 = 16 << 20;

/// Called with a group's header and the whole group.
pub type Visit<'v> = dyn FnMut(&GroupHeader, &[u8]) -> Result<(), LogError> + 'v;

impl LogFile {
    /// The groups from `start` on.
    pub fn groups(&self, start: Lsn) -> Groups<'_> {
        Groups {
            stream: ReadAhead::new(self),
            at: start,
            incarnation: None,
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
        self.groups(start).visit(end, visit)
    }
}

/// The groups of a log, one after the other.
#[derive(Debug)]
pub struct Groups<'f> {
    stream: ReadAhead<'f>,
    at: Lsn,
    /// That of the last group; none: a group of any will do.
    incarnation: Option<u32>,
    /// Groups below this position were found valid before.
    verified: Lsn,
    /// Where there is no group, but one at the next block: of an end-of-recovery record.
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
                    // A later incarnation may go on at the next block, and knows this end.
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
        let (seed, at) = (self.stream.file.seed, self.at);
        let bytes = self.stream.bytes(at.0, GROUP_HEADER_BYTES)?;
        let from = Lsn(at.0.saturating_sub(GroupHeader::PART_BYTES));
        let Some(lsn) = GroupHeader::claimed_lsn(bytes, from) else { return Ok(false) };
        let len = GroupHeader::claimed_len(bytes).filter(|len| *len as u64 <= GROUP_BYTES_MAX);
        let Some(len) = len.filter(|_| lsn < at) else { return Ok(false) };
        if len as u64 > LEFT_OVER_BYTES_MAX {
            return Ok(true);
        }
        Ok(GroupHeader::verify(self.stream.bytes(at.0, len)?, seed, lsn).is_ok())
    }

    fn give(&mut self, header: GroupHeader) -> (GroupHeader, &[u8]) {
        self.incarnation = Some(header.incarnation);
        self.at = header.end();
        (header, self.stream.held(header.lsn.0, header.len as usize))
    }

    /// Behind damage: goes on at the next block, before `limit`, where a group begins that is of
    /// the same incarnation or a later one. False: there is none.
    pub(crate) fn resume(&mut self, limit: Lsn) -> Result<bool, LogError> {
        let last = self.incarnation;
        let mut at = self.at.0 / BLOCK * BLOCK + BLOCK;
        while at < limit.0 {
            // A block that the device cannot read holds no group that could be read.
            let header = self.probe(Lsn(at)).unwrap_or(None);
            if header.is_some_and(|header| last.is_none_or(|last| header.incarnation >= last)) {
                self.go_on_at(Lsn(at));
                return Ok(true);
            }
            at += BLOCK;
        }
        self.incarnation = last;
        Ok(false)
    }

    /// Goes on at this position, where a group of any incarnation may begin.
    pub(crate) fn go_on_at(&mut self, at: Lsn) {
        (self.at, self.incarnation) = (at, None);
    }

    /// As if these groups had been read before: those below `verified` were, and `gaps` was found.
    pub(crate) fn trust(&mut self, verified: Lsn, gaps: &[(Lsn, Lsn)]) {
        self.verified = verified;
        self.gaps = gaps.to_vec();
    }

    /// Where an incarnation ended within a block, and where the next one began.
    pub(crate) fn take_gaps(&mut self) -> Vec<(Lsn, Lsn)> {
        std::mem::take(&mut self.gaps)
    }

    /// Calls `visit` with each group below `end`, in order.
    ///
    /// # Errors
    /// Those of the visitor and of the device.
    pub(crate) fn visit(mut self, end: Lsn, visit: &mut Visit<'_>) -> Result<(), LogError> {
        while self.at < end {
            let Some((header, bytes)) = self.next()? else { break };
            visit(&header, bytes)?;
        }
        Ok(())
    }

    /// Why the groups ended, if there is something behind them that is no group.
    pub(crate) fn why_ended(&mut self) -> Option<FormatError> {
        self.ended.take()
    }

    /// The group that begins here, whatever came before.
    pub(crate) fn probe(&mut self, at: Lsn) -> Result<Option<GroupHeader>, LogError> {
        self.incarnation = None;
        Ok(match self.look(at)? {
            Look::Group(header) => Some(header),
            _ => None,
        })
    }

    /// What begins at `at`.
    fn look(&mut self, at: Lsn) -> Result<Look, LogError> {
        let (seed, incarnation) = (self.stream.file.seed, self.incarnation);
        let (end, verified) = (self.at, self.verified);
        let bytes = self.stream.bytes(at.0, GROUP_HEADER_BYTES)?;
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
        if len > LONG_GROUP_BYTES {
            let header = self.stream.bytes(at.0, GROUP_HEADER_BYTES)?;
            if GroupHeader::claimed_lsn(header, at) != Some(at) {
                let what = "a log group claims that it lies elsewhere";
                return Ok(Look::Nothing(Some(FormatError::Broken(what))));
            }
        }
        let bytes = self.stream.bytes(at.0, len)?;
        let verified = if at < verified {
            Ok(GroupHeader::read(bytes, at))
        } else {
            GroupHeader::verify(bytes, seed, at)
        };
        let header = match verified {
            Ok(header) => header,
            Err(error) => return Ok(Look::Nothing(Some(error))),
        };
        // LOG-1: of the incarnation of the group before, if that is known, or an end of recovery.
        let follows = incarnation.is_none_or(|now| header.incarnation == now && at == end);
        let is_later = incarnation.is_some_and(|now| header.incarnation > now);
        if follows || is_later && is_end_of_recovery(bytes, end) {
            return Ok(Look::Group(header));
        }
        Ok(Look::Nothing(Some(FormatError::Field {
            field: "incarnation of a log group",
            found: u64::from(header.incarnation),
            expected: "it is left over from an earlier life of the store",
        })))
    }
}

enum Look {
    Group(GroupHeader),
    Pad(u32),
    /// No group, and why not if there is something.
    Nothing(Option<FormatError>),
}

/// Whether a group is the first one of an incarnation that found the log to end at `end`.
fn is_end_of_recovery(group: &[u8], end: Lsn) -> bool {
    let first = Records::of_group(group).next();
    matches!(first, Some(Ok(record)) if record.operation == Operation::EndOfRecovery { end })
}
