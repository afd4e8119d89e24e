//! Going through many ranges at once, leaf by leaf.
//!
//! A job is the descent to one leaf of a range. What the range has there is copied, as one state of the
//! leaf, and shown once no page is in flight, or after each round if none is. If the range goes on, its
//! next leaf is another job, from the upper fence of this one, which begins when that has been shown: so
//! entries of a range are shown in order, and of one that the user has ended no further leaf is read.
//!
//! Each key that is there all the time is shown exactly once (`CURSOR-1`, `CURSOR-2`): the jobs of a
//! range lie behind each other, a fence is the border between them, whatever is split or merged
//! meanwhile, and what was copied has validated. A leaf that does not cover where the job begins is
//! read by itself, which tells of the damage (`CURSOR-3`); so each job ends above where it began. An
//! entry with a long value is shown by itself, and the job goes on behind it.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

use polder_pool::bytes::PageRef;
use polder_pool::{Optimistic, Restart, Translation};
use polder_structure::many::{Jobs, Read, each};

use super::{KEPT_ANSWERS, KEPT_BYTES, ManyError};
use crate::bounds::end_of;
use crate::cursor::Place;
use crate::descent::TreePages;
use crate::error::TreeError;
use crate::node::{NodeRef, Value};
use crate::tree::Tree;

/// Records that are asked for before a leaf is read.
const ASKED: usize = 8;

/// The bound below and the bound above of a range.
pub type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// Sees an entry of the range of this number, and says whether it wants more of that.
type Visit<'v> = dyn FnMut(usize, &[u8], &[u8]) -> ControlFlow<()> + 'v;

impl<T: Translation> Tree<T> {
    /// Shows the entries of many ranges to `visit`, each with the number of its range; those of one range
    /// in order, until `visit` breaks it off.
    ///
    /// # Errors
    /// The first one that was met, with the number of its range. Others may have been shown in part.
    pub fn range_many(
        &self,
        ranges: &[Bounds<'_>],
        visit: &mut Visit<'_>,
    ) -> Result<(), ManyError> {
        let mut walks = Walks {
            tree: self,
            ranges,
            next: 0,
            ended: vec![false; ranges.len()],
            starts: Vec::new(),
            unused: Vec::new(),
            ready: Vec::new(),
            later: Vec::new(),
            entries: Vec::new(),
            bytes: Vec::new(),
            visit,
        };
        let shown = each::<TreePages, T, _>(&self.space, &mut walks);
        shown.map(drop).map_err(|(walk, source)| ManyError { index: walk.range, source })
    }
}

/// What is left of a range.
#[derive(Debug, Clone, Copy)]
struct Walk {
    range: usize,
    /// Which of the starts it goes on from; none at its begin.
    start: Option<usize>,
}

/// An entry that is kept, and its key and value in the buffer.
struct Entry {
    range: usize,
    key: Range<usize>,
    end: usize,
}

struct Walks<'k, 'v, T: Translation> {
    tree: &'k Tree<T>,
    ranges: &'k [Bounds<'k>],
    /// The first range that nobody has begun.
    next: usize,
    /// Of each range whether the user wants no more.
    ended: Vec<bool>,
    /// Keys from which ranges go on, and which of them nobody needs any more.
    starts: Vec<Vec<u8>>,
    unused: Vec<usize>,
    /// Ranges that go on.
    ready: Vec<Walk>,
    /// Those that do when what is kept has been shown.
    later: Vec<Walk>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    visit: &'v mut Visit<'v>,
}

/// What a range has in a leaf.
enum Part {
    /// Its rest.
    Rest,
    /// What lies below the upper fence.
    UpToFence,
    /// What lies in front of this slot, whose value overflows.
    UpTo(usize),
    /// What lies in front of this slot, which is as much as is kept at a time: long keys with much in
    /// common take more room than their leaf, and what is not a leaf any more may say anything.
    Much(usize),
    /// The leaf is not the one that it should be.
    Broken,
}

impl<T: Translation> Walks<'_, '_, T> {
    /// From where a walk goes on.
    fn from(&self, walk: Walk) -> Bound<&[u8]> {
        match walk.start {
            Some(start) => Bound::Included(&self.starts[start]),
            None => self.ranges[walk.range].0,
        }
    }

    #[inline(always)]
    fn key(&self, walk: Walk) -> &[u8] {
        match self.from(walk) {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        }
    }

    /// The same walk from this key on.
    fn go_on_from(&mut self, walk: Walk, key: &[u8]) -> Walk {
        let start = walk.start.or_else(|| self.unused.pop()).unwrap_or_else(|| {
            self.starts.push(Vec::new());
            self.starts.len() - 1
        });
        self.starts[start].clear();
        self.starts[start].extend_from_slice(key);
        Walk { start: Some(start), ..walk }
    }

    /// Copies what a walk has in a leaf.
    fn copy(&mut self, walk: Walk, node: NodeRef<'_>) -> Part {
        let key = self.key(walk);
        if node.compare_to_fences(key).is_ne() {
            return Part::Broken;
        }
        let (first, is_there) = match node.search_covered(key) {
            Ok(slot) => (slot, true),
            Err(slot) => (slot, false),
        };
        if !node.is_edge(first, key) {
            return Part::Broken;
        }
        let skips = is_there && matches!(self.from(walk), Bound::Excluded(_));
        let (limit, behind) = end_of(self.ranges[walk.range].1);
        let (end, goes_on) = match limit.map(|key| (key, node.compare_to_fences(key))) {
            None | Some((_, Ordering::Greater)) => (node.count(), node.has_upper()),
            Some((_, Ordering::Less)) => (0, false),
            Some((key, Ordering::Equal)) => match node.search_covered(key) {
                Ok(slot) => (slot + usize::from(behind), false),
                Err(slot) => (slot, false),
            },
        };
        let before = self.bytes.len();
        for slot in first + usize::from(skips)..end.min(node.count()) {
            if self.bytes.len() - before > KEPT_BYTES {
                return Part::Much(slot);
            }
            let Value::Inline { at, len } = node.value(slot) else { return Part::UpTo(slot) };
            let begin = self.bytes.len();
            node.append_key(slot, &mut self.bytes);
            let key = begin..self.bytes.len();
            node.page().append_to(at, len, &mut self.bytes);
            self.entries.push(Entry { range: walk.range, key, end: self.bytes.len() });
        }
        if goes_on { Part::UpToFence } else { Part::Rest }
    }
}

impl<T: Translation> Jobs<TreePages> for Walks<'_, '_, T> {
    type Job = Walk;
    type Error = TreeError;

    fn next(&mut self) -> Option<Walk> {
        if let Some(walk) = self.ready.pop() {
            return Some(walk);
        }
        let range = self.next;
        self.next += usize::from(range < self.ranges.len());
        (range < self.ranges.len()).then_some(Walk { range, start: None })
    }

    #[inline(always)]
    fn narrow(&self, walk: Walk, page: PageRef<'_>) -> usize {
        NodeRef::new(page).narrow(self.key(walk))
    }

    #[inline(always)]
    fn link_in(&self, walk: Walk, page: PageRef<'_>, narrowed: usize) -> usize {
        NodeRef::new(page).child_from(self.key(walk), narrowed)
    }

    fn search(&self, walk: Walk, page: PageRef<'_>) -> usize {
        let node = NodeRef::new(page);
        let slot = node.candidate(self.key(walk));
        (slot..node.count().min(slot + ASKED)).for_each(|slot| node.prefetch_found(slot));
        slot
    }

    fn read(
        &mut self,
        walk: Walk,
        _found: usize,
        page: &Optimistic<'_>,
    ) -> Result<Read<Walk>, Restart> {
        let node = NodeRef::new(page.page());
        let (entries, bytes) = (self.entries.len(), self.bytes.len());
        let part = self.copy(walk, node);
        let mut next = Vec::new();
        match part {
            Part::UpToFence => node.append_upper_fence(&mut next),
            Part::UpTo(slot) | Part::Much(slot) => node.append_key(slot, &mut next),
            Part::Rest | Part::Broken => {}
        }
        if let Err(restart) = page.validate() {
            self.entries.truncate(entries);
            self.bytes.truncate(bytes);
            return Err(restart);
        }
        match part {
            Part::Rest => {
                self.unused.extend(walk.start);
                Ok(Read::Done)
            }
            Part::UpToFence | Part::Much(_) => {
                let walk = self.go_on_from(walk, &next);
                self.later.push(walk);
                Ok(Read::Done)
            }
            // What came before is kept, and the job begins at the long value.
            Part::UpTo(_) if self.entries.len() > entries => {
                Ok(Read::Rest(self.go_on_from(walk, &next)))
            }
            Part::UpTo(_) | Part::Broken => Ok(Read::Singly),
        }
    }

    /// Shows one entry.
    #[cold]
    fn run_singly(&mut self, walk: Walk) -> Result<Option<Walk>, TreeError> {
        let (range, upper) = (walk.range, self.ranges[walk.range].1);
        let mut behind = None;
        if !self.ended[range] {
            let mut place = Place::above(self.tree, self.from(walk))?;
            if let Some((key, value)) = place.next(self.tree, upper)?
                && (self.visit)(range, key, value).is_continue()
            {
                // The least key above it.
                behind = Some([key, &[0]].concat());
            }
        }
        match behind {
            Some(key) => Ok(Some(self.go_on_from(walk, &key))),
            None => {
                self.unused.extend(walk.start);
                Ok(None)
            }
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= KEPT_BYTES || self.entries.len() >= KEPT_ANSWERS
    }

    fn deliver(&mut self) {
        for Entry { range, key, end } in self.entries.drain(..) {
            let value = key.end..end;
            if !self.ended[range] {
                let wants = (self.visit)(range, &self.bytes[key], &self.bytes[value]);
                self.ended[range] = wants.is_break();
            }
        }
        self.bytes.clear();
        for walk in self.later.drain(..) {
            match self.ended[walk.range] {
                true => self.unused.extend(walk.start),
                false => self.ready.push(walk),
            }
        }
    }
}
