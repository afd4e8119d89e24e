//! The steps of a search: from level to level, and through the lowest one, with a filter or without.

use polder_pool::{PoolError, Translation};

use super::Core;
use super::filtered::Filtered;
use super::meta::Entry;
use super::walk::{Halt, Walk};
use crate::near::{Near, Nearest};
use crate::node_id::NodeId;
use crate::reads::{Awaited, Reads};
use crate::vectors::Vector;

/// A search, until it has gone through what is in sight.
pub(super) struct Steps<'s> {
    walk: Walk<'s, Vector>,
    /// With a filter: how the lowest level is gone through.
    filtered: Option<Filtered<'s>>,
    /// Where the level is begun.
    start: NodeId,
    /// So many are kept in sight on the lowest level, and with `keeps_all` what is not among them for later.
    width: usize,
    keeps_all: bool,
}

impl<'s> Steps<'s> {
    /// Of a search that begins there.
    pub(super) fn new(
        core: &'s Core,
        query: Vector,
        entry: Entry,
        filtered: Option<Filtered<'s>>,
        (width, keeps_all): (usize, bool),
    ) -> Steps<'s> {
        let walk = Walk::new(core, query);
        let mut steps = Steps { walk, filtered, start: entry.node, width, keeps_all };
        steps.begin(entry.level);
        steps
    }

    fn begin(&mut self, level: u8) {
        let Steps { walk, filtered, start, width, keeps_all } = self;
        match filtered {
            Some(filtered) if level == 0 => filtered.begin(walk, *start, *width, *keeps_all),
            _ if level == 0 => walk.begin(*start, *width, 0, *keeps_all),
            _ => walk.begin(*start, 1, level, false),
        }
    }

    /// Goes on until a page is missing, the filter is to be asked, or the links of all nodes in sight have been read.
    #[inline(always)]
    pub(super) fn go_on<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<Halt, PoolError> {
        loop {
            let level = self.walk.level();
            let halt = match &mut self.filtered {
                Some(filtered) if level == 0 => filtered.go_on(&mut self.walk, reads)?,
                _ => self.walk.go_on(reads)?,
            };
            match halt {
                Halt::Over if level > 0 => {
                    let nearest = self.found().next();
                    self.start = nearest.map_or(self.start, |found| found.node);
                    self.begin(level - 1);
                }
                halt => return Ok(halt),
            }
        }
    }

    /// Looks at what was awaited.
    pub(super) fn look<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
        awaited: Awaited,
        may_wait: bool,
    ) -> Result<bool, PoolError> {
        match &mut self.filtered {
            Some(filtered) if self.walk.level() == 0 => {
                filtered.look(&mut self.walk, reads, awaited, may_wait)
            }
            _ => self.walk.look(reads, awaited, may_wait),
        }
    }

    /// Asks the filter about what was seen. No page may be on its way (`MANY-4`).
    pub(super) fn judge(&mut self) {
        if let Some(filtered) = &mut self.filtered {
            filtered.judge(&mut self.walk);
        }
    }

    /// Goes on until the links of all nodes in sight have been read, alone.
    pub(super) fn finish<T: Translation>(
        &mut self,
        reads: &mut Reads<'_, '_, T>,
    ) -> Result<(), PoolError> {
        loop {
            match self.go_on(reads)? {
                Halt::Awaits(_) => {
                    reads.finish(|reads, awaited, may_wait| self.look(reads, awaited, may_wait))?;
                }
                Halt::Judges => self.judge(),
                Halt::Over => return Ok(()),
            }
        }
    }

    /// Keeps more in sight from here on, when it was over.
    pub(super) fn widen(&mut self, width: usize) {
        self.nearest().widen(width);
    }

    /// What is looked for.
    pub(super) fn query(&self) -> &Vector {
        &self.walk.query
    }

    /// What is in sight.
    pub(super) fn nearest(&mut self) -> &mut Nearest {
        self.walk.nearest()
    }

    /// What was found, nearest first.
    pub(super) fn found(&self) -> impl Iterator<Item = Near> {
        self.walk.found()
    }

    /// With a filter: whether to compare with all costs less.
    pub(super) fn is_given_up(&self) -> bool {
        self.filtered.as_ref().is_some_and(Filtered::is_given_up)
    }
}
