//! The leaves beyond the one at which a walk is, as the nodes above them say.
//!
//! Their numbers serve two ends. A walk to the left has no links to go by: it goes to its left sibling
//! by its number (`WALK-1`). And a walk, in either direction, that comes to leaves that are not in memory
//! has those ahead of it loaded by the pool, far enough ahead that the device is busy all the time, and
//! many at once, so that neighbours in the file are one request. The numbers go on behind the last child
//! of a node with the children of the next one.
//!
//! They end at the last key that is wanted. Numbers that are out of date cost a read for nothing, and no
//! more.

use polder_format::PageNo;
use polder_pool::{AccessHint, Discards, Translation};
use polder_structure::Levels;
use polder_structure::levels::descend;
use polder_structure::page::page_of;

use crate::ahead::Ahead;
use crate::descent::{Course, Target, TreePages};
use crate::error::TreeError;
use crate::node::NodeRef;
use crate::tree::Tree;

/// Siblings that a walk to the left looks up at once, as long as it finds them in memory.
const LOOKED_UP: usize = 16;
/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// In the order of the walk; those before `next` lie behind it.
    pages: Vec<PageNo>,
    next: usize,
    /// Up to here they have been asked for.
    asked: usize,
    /// Before the oldest of them was read.
    since: Discards,
    /// Where the children of the next node begin, or end; if there are any that are wanted.
    fence: Vec<u8>,
    goes_on: bool,
    ahead: Ahead,
    is_cold: bool,
}

impl Siblings {
    pub(crate) fn forget(&mut self) {
        self.clear();
        self.ahead = Ahead::default();
    }

    fn clear(&mut self) {
        self.pages.clear();
        (self.next, self.asked, self.goes_on) = (0, 0, false);
    }

    /// The next one, and how many pages had been discarded before its number was read.
    pub(crate) fn next(&self) -> Option<(PageNo, Discards)> {
        self.pages.get(self.next).map(|page| (*page, self.since))
    }

    /// The walk has come to this page.
    #[inline]
    pub(crate) fn came_to(&mut self, page: Option<PageNo>) {
        let Some(rest) = self.pages.get(self.next..).filter(|rest| !rest.is_empty()) else {
            return;
        };
        // Some may have been merged into others meanwhile.
        match rest.iter().take(LOOKED_UP).position(|sibling| Some(*sibling) == page) {
            Some(at) => self.next += at + 1,
            None => self.clear(),
        }
    }

    /// The walk has come to a leaf: whether those ahead are to be asked for.
    #[inline]
    pub(crate) fn note(&mut self, hint: AccessHint, waited: bool) -> bool {
        self.is_cold = self.ahead.note(waited && hint == AccessHint::Scan);
        self.is_cold
    }

    /// Finds the siblings to the left of a target, unless some are known.
    #[inline]
    pub(crate) fn look_down<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        target: Target<'_>,
    ) -> Result<(), TreeError> {
        match self.next {
            next if next < self.pages.len() && self.since == tree.space.discards() => Ok(()),
            _ => {
                self.clear();
                let most = if self.is_cold { usize::MAX } else { LOOKED_UP };
                self.find(tree, target, Course::Down(None), most)
            }
        }
    }

    /// Asks for what lies ahead of the leaf with these fences.
    #[cold]
    pub(crate) fn ask<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        course: Course<'_>,
        (lower, upper): (&[u8], &[u8]),
    ) -> Result<(), TreeError> {
        self.asked = self.asked.max(self.next);
        let left = self.asked - self.next;
        let Some(wanted) = self.ahead.wanted(&tree.space, left) else { return Ok(()) };
        if self.next == self.pages.len() {
            self.clear();
            match course {
                Course::Up(_) if upper.is_empty() => return Ok(()),
                Course::Down(_) if lower.is_empty() => return Ok(()),
                Course::Up(_) => self.find(tree, Target::Key(upper), course, usize::MAX)?,
                Course::Down(_) => self.find(tree, Target::Before(lower), course, usize::MAX)?,
            }
        }
        while self.pages.len() - self.next < wanted && self.goes_on {
            let fence = std::mem::take(&mut self.fence);
            let found = match course {
                Course::Up(_) => self.find(tree, Target::Key(&fence), course, usize::MAX),
                Course::Down(_) => self.find(tree, Target::Before(&fence), course, usize::MAX),
            };
            found?;
        }
        let end = (self.next + wanted).min(self.pages.len());
        if self.asked < end {
            self.ahead.ask(&tree.space, &self.pages[self.asked..end]);
            self.asked = end;
        }
        Ok(())
    }

    /// Appends children of the node above the target's leaf, from that leaf on, at most so many; none if
    /// the leaf is the root.
    fn find<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        target: Target<'_>,
        course: Course<'_>,
        most: usize,
    ) -> Result<(), TreeError> {
        self.pages.drain(..self.next);
        self.asked -= self.next;
        self.next = 0;
        let Siblings { pages, fence, goes_on, .. } = self;
        let (known, space) = (pages.len(), &tree.space);
        let since = space.run(AccessHint::Normal, |attempt| {
            pages.truncate(known);
            let since = space.discards();
            let above = descend::<TreePages, T>(space, attempt, target, 1)?.page;
            let node = NodeRef::new(above.page());
            *goes_on = false;
            if node.level() == 1 {
                let (first, last) = (TreePages::child(above.page(), target), node.count());
                fence.clear();
                let page = |child| page_of(node.link(child));
                match course {
                    Course::Up(limit) => {
                        let limit = limit.filter(|key| node.compare_to_fences(key).is_eq());
                        let end = limit.map_or(last, |key| node.child_index(key));
                        *goes_on = node.has_upper() && limit.is_none();
                        node.append_upper_fence(fence);
                        pages.extend((first..=end).take(most).map(page));
                    }
                    Course::Down(limit) => {
                        let limit = limit.filter(|key| node.compare_to_fences(key).is_eq());
                        let end = limit.map_or(0, |key| node.child_index(key));
                        *goes_on = node.has_lower() && limit.is_none() && first < most;
                        node.append_lower_fence(fence);
                        pages.extend((end..=first).rev().take(most).map(page));
                    }
                }
            }
            above.validate()?;
            Ok(since)
        })?;
        if known == 0 {
            self.since = since;
        }
        Ok(())
    }
}
