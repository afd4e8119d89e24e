//! From one leaf to the next, in both directions.
//!
//! Between two leaves a walk holds no latch and no pin, and believes nothing but what it has written
//! down: the fences of its leaf, and numbers of pages. It goes on to the leaf that covers the upper
//! fence, or to the one below the lower fence, whatever has been split or merged meanwhile:
//!
//! * `WALK-1` A walk goes by number, if it can: to the right by the right link, to the left by what the
//!   node above said of the leaf's siblings. The number leads to a page of the tree, or nowhere
//!   (`REMEMBER-1`); and the leaf is the next one if it begins, or ends, at the fence where the last one
//!   ended, or began. Two leaves of a tree that cover the same keys do not exist. Else, and where the
//!   page is not resident, the way from the root leads there.
//! * `WALK-2` A leaf by number always begins at the fence. By the way from the root it may begin below
//!   it: it was merged with what was walked before.
//! * `WALK-3` Each leaf covers what lies just beyond the fence, or the step ends with an error. So no
//!   file makes a walk go on for ever.
//!
//! What is taken of a leaf is read where it lies, and counts once that has been validated. A writer is
//! never kept waiting, but by the read modes that hold pages: a walk holds one leaf there, while it reads
//! it.
//!
//! A walk that comes to leaves that are not in memory asks for those ahead of it ([`Siblings`]).

use std::ops::Range;

use polder_format::PageNo;
use polder_pool::{AccessHint, Attempt, Discards, Optimistic, Restart, Translation};
use polder_structure::Levels;
use polder_structure::levels::confirm;
use polder_structure::page::page_of;

use crate::descent::{Course, Target, TreePages};
use crate::error::TreeError;
use crate::node::NodeRef;
use crate::siblings::Siblings;
use crate::tree::Tree;
use crate::way;

/// Leaves that a walk reads before it counts as a scan.
const SCAN_FROM: u32 = 4;

/// What a walk keeps of a leaf.
#[derive(Debug, Default)]
struct Edges {
    lower: Vec<u8>,
    upper: Vec<u8>,
    has_lower: bool,
    has_upper: bool,
    page: Option<PageNo>,
    right: Option<PageNo>,
    /// How many pages had been discarded before the leaf was known to be in the tree.
    since: Discards,
}

impl Edges {
    fn read(&mut self, leaf: NodeRef<'_>) {
        self.lower.clear();
        self.upper.clear();
        leaf.append_lower_fence(&mut self.lower);
        leaf.append_upper_fence(&mut self.upper);
        (self.has_lower, self.has_upper) = (leaf.has_lower(), leaf.has_upper());
        self.right = Some(page_of(leaf.right_link()));
    }
}

/// Where a walk has come to.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    at: Edges,
    /// Those of the next leaf, so that an error leaves the walk where it is.
    next: Edges,
    leaves: u32,
    /// The last step was one by number.
    by_number: bool,
    siblings: Siblings,
}

impl Walk {
    /// Begins anew, in the memory that it has.
    pub(crate) fn reset(&mut self) {
        self.leaves = 0;
        self.siblings.forget();
    }

    /// To the leaf for a target, by the way from the root; `take` reads it.
    pub(crate) fn begin<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        target: Target<'_>,
        mut take: impl FnMut(NodeRef<'_>),
    ) -> Result<(), TreeError> {
        let hint = self.hint();
        let next = &mut self.next;
        let waited = tree.space.run(hint, |attempt| {
            from_root(tree, attempt, target, next, &mut take)?;
            Ok(attempt.has_waited())
        })?;
        std::mem::swap(&mut self.at, &mut self.next);
        self.siblings.note(hint, waited);
        Ok(())
    }

    /// To the next leaf on this course; `take` reads it. False if there is none.
    #[inline]
    pub(crate) fn step<T: Translation>(
        &mut self,
        tree: &Tree<T>,
        course: Course<'_>,
        mut take: impl FnMut(NodeRef<'_>),
    ) -> Result<bool, TreeError> {
        let (there, fence) = match course {
            Course::Up(_) => (self.at.has_upper, &self.at.upper),
            Course::Down(_) => (self.at.has_lower, &self.at.lower),
        };
        if !there {
            return Ok(false);
        }
        let target = match course {
            Course::Up(_) => Target::Key(fence),
            Course::Down(_) => Target::Before(fence),
        };
        if matches!(course, Course::Down(_)) {
            self.siblings.look_down(tree, target)?;
        }
        let hint = hint_of(&mut self.leaves);
        let by_number = match course {
            Course::Up(_) => self.at.right.map(|page| (page, self.at.since)),
            Course::Down(_) => self.siblings.next(),
        };
        let next = &mut self.next;
        let (by_number, waited) = tree.space.run(hint, |attempt| {
            let borders = neighbour(tree, attempt, by_number, target, next, &mut take)?;
            if !borders {
                from_root(tree, attempt, target, next, &mut take)?;
            }
            Ok((borders, attempt.has_waited()))
        })?;
        self.by_number = by_number;
        std::mem::swap(&mut self.at, &mut self.next);
        self.siblings.came_to(self.at.page);
        if self.siblings.note(hint, waited) {
            // What could not be read here is met again by the walk, which tells.
            let _ = self.siblings.ask(tree, course, (&self.at.lower, &self.at.upper));
        }
        Ok(true)
    }

    /// The last step is undone, as the leaf could not be used.
    pub(crate) fn undo(&mut self) {
        std::mem::swap(&mut self.at, &mut self.next);
        self.siblings.forget();
    }

    /// The fence at which the last leaf ended, or began, if this one may have entries on the other side of
    /// it (`WALK-2`).
    pub(crate) fn overlap(&self, course: Course<'_>) -> Option<&[u8]> {
        match course {
            _ if self.by_number => None,
            Course::Up(_) => Some(&self.next.upper),
            Course::Down(_) => Some(&self.next.lower),
        }
    }

    /// Has the processor fetch these bytes of the leaf that is next, as far as its number is known.
    /// Nothing is read there, so that a number that is no longer true does no harm.
    #[inline]
    pub(crate) fn prefetch<T: Translation>(
        &self,
        tree: &Tree<T>,
        course: Course<'_>,
        bytes: Range<usize>,
    ) {
        let next = match course {
            Course::Up(_) => self.at.right.filter(|_| self.at.has_upper),
            Course::Down(_) => self.siblings.next().map(|(page, _)| page),
        };
        if let Some(page) = next {
            tree.space.prefetch_part(page, bytes);
        }
    }

    fn hint(&mut self) -> AccessHint {
        hint_of(&mut self.leaves)
    }

    /// The fence at which the next leaf begins, or ends; none at the end of the tree.
    pub(crate) fn fence(&self, course: Course<'_>) -> Option<&[u8]> {
        match course {
            Course::Up(_) => self.at.has_upper.then_some(&self.at.upper),
            Course::Down(_) => self.at.has_lower.then_some(&self.at.lower),
        }
    }
}

fn hint_of(leaves: &mut u32) -> AccessHint {
    *leaves = leaves.saturating_add(1);
    if *leaves > SCAN_FROM { AccessHint::Scan } else { AccessHint::Normal }
}

/// `WALK-1`: the leaf with this number, if it is the one. False if it is not.
#[inline]
fn neighbour<'p, T: Translation>(
    tree: &'p Tree<T>,
    attempt: &mut Attempt<'p>,
    by_number: Option<(PageNo, Discards)>,
    target: Target<'_>,
    next: &mut Edges,
    take: &mut impl FnMut(NodeRef<'_>),
) -> Result<bool, Restart> {
    let Some((page, since)) = by_number else { return Ok(false) };
    let Some(leaf) = tree.space.remembered(attempt, page, since)? else { return Ok(false) };
    let node = NodeRef::new(leaf.page());
    let borders = match target {
        Target::Key(fence) => node.lower_fence_is(fence),
        Target::Before(fence) => node.upper_fence_is(fence),
        Target::First | Target::Last => false,
    };
    if !borders || !node.is_leaf() || TreePages::covers(leaf.page(), target).is_err() {
        return Ok(false);
    }
    next.read(node);
    (next.page, next.since) = (Some(page), since);
    take(node);
    leaf.validate()?;
    Ok(true)
}

/// The leaf for a target, by the way from the root.
#[inline]
fn from_root<'p, T: Translation>(
    tree: &'p Tree<T>,
    attempt: &mut Attempt<'p>,
    target: Target<'_>,
    next: &mut Edges,
    take: &mut impl FnMut(NodeRef<'_>),
) -> Result<Optimistic<'p>, Restart> {
    // D1, before anything that leads there is read.
    let since = tree.space.discards();
    let leaf = way::leaf(&tree.space, attempt, target)?;
    let node = NodeRef::new(leaf.page());
    next.read(node);
    (next.page, next.since) = (Some(leaf.id().page()), since);
    take(node);
    let seen = TreePages::covers(leaf.page(), target);
    leaf.validate()?;
    confirm(attempt, &[leaf], seen)?; // WALK-3
    Ok(leaf)
}
