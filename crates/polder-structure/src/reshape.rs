//! Splitting a page that is full and joining two that are not: how a structure grows and shrinks.
//!
//! * `RESHAPE-1` An operation that changes more than one page latches the parent first, then its
//!   children from left to right, all by upgrades that wait for no thread, or for a moment until
//!   readers that hold the page release it; if one fails, the attempt starts over. These are three
//!   pages and a map at most, whatever the size of the structure.
//! * `RESHAPE-2` New pages are made before the first latch, freed pages are given back after the last.
//! * `RESHAPE-3` A page is split only while its parent, latched, has room for one child more; else the
//!   parent is split first, as an operation of its own.
//! * `RESHAPE-4` The root stays page 1 (`LEVEL-1`): when it is full its content goes into two new
//!   pages, when it has a single child that child's content comes up. So all pages of the lowest level
//!   stay on one level.
//! * `RESHAPE-5` Only children of one parent are joined. The right one goes; whatever still leads to it
//!   fails to validate, or finds that the page does not cover what it looks for.
//!
//! What a full page is, where it is divided and what is logged for it is the structure's own
//! ([`Reshape`]); which pages are latched when is here.

use polder_format::PageId;
use polder_pool::bytes::PageRef;
use polder_pool::journal::{full_page_image_bytes, group_bytes};
use polder_pool::{
    AccessHint, Attempt, Change, Exclusive, NewPage, Optimistic, PoolError, Restart, Shadow, Space,
    Translation, waits,
};

use crate::levels::{Levels, MAX_HEIGHT, Rounds, descend, follow, root};
use crate::page::fail;

/// What joining two pages leaves free of the result: one eighth, so that the next insert does not
/// split it again.
pub const JOIN_FREE_PART: usize = 8;

/// Whether a page is less than a quarter full: worth a look at its neighbour.
pub fn is_underfull(used_bytes: usize, usable_bytes: usize) -> bool {
    used_bytes * 4 < usable_bytes
}

/// What a page needs that was found full, or what is wrong with it.
pub type Needed<S> = Result<Need<S>, &'static str>;

/// What a page needs that was found full.
#[derive(Debug)]
pub enum Need<S> {
    /// Nothing: another thread has made room.
    Nothing,
    /// To be split, here.
    Split(S),
    /// Something that no split gives.
    More,
}

/// A page that is divided, between the one that links it and the one that takes a part: parent, page
/// and new page; or root, left and right page.
pub type Divided<'a, 'p> = [&'a mut Exclusive<'p>; 3];

/// How a structure on [`Levels`] divides its pages and joins them.
///
/// Functions that change pages push the records for them to the [`Change`] as well; it is committed
/// once they are through.
pub trait Reshape: Levels {
    /// What has no room in its page: an entry, or on the levels above a child more.
    type Newcomer<'n>: Copy;
    /// Where a page is divided.
    type Split;

    /// What leads to the newcomer's page.
    fn target<'n>(newcomer: &'n Self::Newcomer<'_>) -> Self::Target<'n>;

    /// Holds a page that will be changed: in its place, where a structure does not say otherwise.
    ///
    /// # Errors
    /// [`Restart`] if the page is not what was read.
    fn latch<'p, T: Translation>(
        _space: &'p Space<T>,
        attempt: &mut Attempt<'p>,
        page: Optimistic<'p>,
    ) -> Result<Shadow<'p, T>, Restart> {
        attempt.upgrade(page).map(Shadow::from)
    }

    /// What a page of the newcomer's level needs, which is latched now and was found full before.
    ///
    /// # Errors
    /// What is wrong with a page that is full and cannot be divided.
    fn need(page: PageRef<'_>, newcomer: Self::Newcomer<'_>) -> Needed<Self::Split>;

    /// Whether the parent of a page that is to be divided has room for one child more.
    fn has_room(parent: PageRef<'_>, split: &Self::Split) -> bool;

    /// What has no room in a parent for which [`Reshape::has_room`] says no.
    fn in_parent(split: &Self::Split) -> Self::Newcomer<'_>;

    /// Moves a part of the page to the new page, and makes that a child of the parent.
    fn divide(change: &mut Change<'_>, split: &Self::Split, pages: Divided<'_, '_>);

    /// Moves the root's content to two new pages, and makes the root their parent.
    fn divide_root(change: &mut Change<'_>, split: &Self::Split, pages: Divided<'_, '_>);

    /// Pairs of children, the left one first, of which one is the given child: those that are worth a
    /// closer look, in this order.
    fn neighbours(
        parent: PageRef<'_>,
        child: usize,
        page: PageRef<'_>,
    ) -> impl Iterator<Item = [usize; 2]>;

    /// Whether two children fit in one page, with room for more.
    fn is_worth_joining(left: PageRef<'_>, right: PageRef<'_>) -> bool;

    /// Takes the content of `right` into the left page, and the right child out of the parent. False,
    /// and nothing has changed, if that is impossible.
    fn join(
        change: &mut Change<'_>,
        children: [usize; 2],
        parent_and_left: [&mut Exclusive<'_>; 2],
        right: PageRef<'_>,
    ) -> bool;

    /// Whether a parent, below which nothing is to be joined, is small enough to be joined itself.
    fn is_small(parent: PageRef<'_>) -> bool;

    /// The child of a root that has only one.
    fn only_child(root: PageRef<'_>) -> Option<usize>;

    /// The root becomes what its only child is.
    fn lift(change: &mut Change<'_>, root: &mut Exclusive<'_>, child: PageRef<'_>);
}

/// Most bytes of log that one split or join takes: three full-page images, and the records
/// between.
fn most_bytes<T: Translation>(space: &Space<T>) -> usize {
    let size = space.page_size();
    full_page_image_bytes(3, size) + group_bytes(6, size.bytes())
}

/// Makes room for what was found to have none in its page of the lowest level. False if no split
/// gives it any ([`Need::More`]).
///
/// # Errors
/// Those of the pool; the structure is sound then, and may have more room than before.
pub fn make_room<S: Reshape, T: Translation>(
    space: &Space<T>,
    newcomer: S::Newcomer<'_>,
) -> Result<bool, PoolError> {
    let mut spares = Vec::new();
    let made = split::<S, T>(space, 0, newcomer, &mut spares);
    let unused: Vec<_> = spares.drain(..).map(|spare| spare.id().page()).collect();
    unused.into_iter().for_each(|page| space.free(page));
    made
}

/// Splits the page of a level. Takes the pages that it needs from `spares`, and makes some if there
/// are none.
fn split<'p, S: Reshape, T: Translation>(
    space: &'p Space<T>,
    level: u8,
    newcomer: S::Newcomer<'_>,
    spares: &mut Vec<NewPage<'p>>,
) -> Result<bool, PoolError> {
    let (mut wanted, mut rounds) = (1, Rounds::default());
    loop {
        // RESHAPE-2: nothing is latched yet.
        while spares.len() < wanted {
            spares.push(space.create()?);
        }
        let outcome = try_with(space, |work| work.split::<S>(level, newcomer, spares))?;
        match outcome {
            Split::Done { pages } => {
                spares.drain(..pages);
                return Ok(true);
            }
            Split::NeedsMore => return Ok(false),
            Split::RootNeedsTwo => wanted = 2,
            Split::ParentFull(split_at) => {
                split::<S, T>(space, level + 1, S::in_parent(&split_at), spares)?;
            }
        }
        rounds.next::<S, T>(space, S::target(&newcomer))?;
    }
}

/// The lowest page for a target has become small: joins it with its neighbours as far as they have
/// room, and does the same on each level above that becomes small by it.
///
/// # Errors
/// Those of the pool; the structure is sound then.
pub fn join_at<S: Reshape, T: Translation>(
    space: &Space<T>,
    target: S::Target<'_>,
) -> Result<(), PoolError> {
    // WAIT-1: for its neighbours, mostly.
    if waits::refuses() {
        return Err(PoolError::WouldWait);
    }
    let mut level = 0;
    while level < MAX_HEIGHT {
        match try_with(space, |work| work.join::<S>(target, level))? {
            // What is joined may have brought pages of the level below together.
            Join::Freed(page) => {
                space.give_back(page); // RESHAPE-2: nothing is latched any more
                level = level.saturating_sub(1);
            }
            Join::Nothing { parent_is_small: true } => level += 1,
            Join::Nothing { parent_is_small: false } => return Ok(()),
        }
    }
    Ok(())
}

/// What joining a page with its right neighbour came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinedNext {
    /// The page has the content of both.
    Joined,
    /// The two have no room in one page.
    DoesNotFit,
    /// The neighbour has another parent.
    IsLastChild,
    /// The page is the root, or there are fewer levels.
    IsRoot,
}

/// Joins the page of a level for a target with the one on its right, if both have the same parent
/// and room in one page: whether the page is small or not.
///
/// # Errors
/// Those of the pool; the structure is sound then.
pub fn join_next<S: Reshape, T: Translation>(
    space: &Space<T>,
    target: S::Target<'_>,
    level: u8,
    children_above: impl Fn(PageRef<'_>) -> usize,
) -> Result<JoinedNext, PoolError> {
    let mut freed = None;
    let joined = try_with(space, |work| {
        let place = descend::<S, T>(work.space, work.attempt, target, level)?;
        let Some((parent, child)) = place.parent else {
            place.page.validate()?;
            return Ok(JoinedNext::IsRoot);
        };
        let is_last = child + 1 >= children_above(parent.page());
        parent.validate()?;
        if is_last {
            return Ok(JoinedNext::IsLastChild);
        }
        freed = work.join_children::<S>(parent, [child, child + 1])?;
        Ok(if freed.is_some() { JoinedNext::Joined } else { JoinedNext::DoesNotFit })
    })?;
    if let Some(page) = freed {
        space.give_back(page); // RESHAPE-2: nothing is latched any more
    }
    Ok(joined)
}

/// Takes levels off a structure whose root has a single child (`RESHAPE-4`), as many as it can.
///
/// # Errors
/// Those of the pool; the structure is sound then.
pub fn lower_root<S: Reshape, T: Translation>(space: &Space<T>) -> Result<(), PoolError> {
    let lower = |work: &mut Work<'_, '_, T>| {
        let root = work.space.root(work.attempt, root())?;
        work.lower_root::<S>(root)
    };
    while let Join::Freed(page) = try_with(space, lower)? {
        space.give_back(page);
    }
    Ok(())
}

/// How an attempt to split ended.
enum Split<S> {
    /// With this many of the new pages; none if another thread has split the page.
    Done { pages: usize },
    /// A root's content goes into two new pages (`RESHAPE-4`).
    RootNeedsTwo,
    /// The parent has no room for a child more (`RESHAPE-3`).
    ParentFull(S),
    /// No split helps.
    NeedsMore,
}

/// How an attempt to join ended.
enum Join {
    /// Two pages are one; this page is free.
    Freed(PageId),
    /// There was nothing to join.
    Nothing {
        /// The parent is worth a look.
        parent_is_small: bool,
    },
}

/// One attempt to change several pages as one.
struct Work<'w, 'p, T: Translation> {
    space: &'p Space<T>,
    attempt: &'w mut Attempt<'p>,
    /// What is logged for it, in one group.
    change: &'w mut Change<'p>,
}

/// Attempts it until others are in the way no more.
fn try_with<'p, T: Translation, R>(
    space: &'p Space<T>,
    mut then: impl FnMut(&mut Work<'_, 'p, T>) -> Result<R, Restart>,
) -> Result<R, PoolError> {
    let mut change = space.change(most_bytes(space))?;
    space.run(AccessHint::Normal, |attempt| {
        change.clear();
        then(&mut Work { space, attempt, change: &mut change })
    })
}

impl<'p, T: Translation> Work<'_, 'p, T> {
    fn split<S: Reshape>(
        &mut self,
        level: u8,
        newcomer: S::Newcomer<'_>,
        spares: &[NewPage<'p>],
    ) -> Result<Split<S::Split>, Restart> {
        // 1. To the page and its parent, each compared with the one above.
        let place = descend::<S, T>(self.space, self.attempt, S::target(&newcomer), level)?;
        // 2. Both are latched, the parent before its child (RESHAPE-1).
        // They are released from the last to the first: the child before its parent.
        let mut parent = place.parent.map(|(parent, _)| self.latch::<S>(parent)).transpose()?;
        let mut page = self.latch::<S>(place.page)?;
        // 3. Another thread may have split the page, or put a level above it.
        if S::level(page.page()) != level {
            return Ok(Split::Done { pages: 0 });
        }
        let split = match S::need(page.page(), newcomer) {
            Ok(Need::Nothing) => return Ok(Split::Done { pages: 0 }),
            Ok(Need::More) => return Ok(Split::NeedsMore),
            Ok(Need::Split(split)) => split,
            Err(what) => return Err(fail(self.attempt, page.id(), what)),
        };
        // 4. A root is divided into two new pages (RESHAPE-4).
        let Some(parent) = &mut parent else {
            let [left, right, ..] = spares else { return Ok(Split::RootNeedsTwo) };
            let numbers = [left.id().page(), right.id().page()];
            let (mut left, mut right) = (left.latch()?, right.latch()?);
            self.change.mark(self.space, self.attempt, &numbers, true)?;
            S::divide_root(self.change, &split, [&mut page, &mut left, &mut right]);
            self.change.commit(&mut [&mut left, &mut right, &mut page]);
            return Ok(Split::Done { pages: 2 });
        };
        // 5. Asked before anything is changed (RESHAPE-3): a page that is not changed must not become
        // dirty, with an LSN that recovery takes for older than all that the log tells.
        if !S::has_room(parent.page(), &split) {
            return Ok(Split::ParentFull(split));
        }
        // 6. The new page is marked as in use. From here on nothing fails.
        let mut new = spares[0].latch()?;
        self.change.mark(self.space, self.attempt, &[spares[0].id().page()], true)?;
        // 7. The three pages are changed, and logged as one group.
        S::divide(self.change, &split, [parent, &mut page, &mut new]);
        self.change.commit(&mut [parent, &mut page, &mut new]);
        Ok(Split::Done { pages: 1 })
    }

    fn join<S: Reshape>(&mut self, target: S::Target<'_>, level: u8) -> Result<Join, Restart> {
        // 1. To the page and its parent.
        let place = descend::<S, T>(self.space, self.attempt, target, level)?;
        let Some((parent, child)) = place.parent else {
            return self.lower_root::<S>(place.page);
        };
        // 2. With the first neighbour below the same parent that it fits together with (RESHAPE-5).
        for children in S::neighbours(parent.page(), child, place.page.page()) {
            if let Some(freed) = self.join_children::<S>(parent, children)? {
                return Ok(Join::Freed(freed));
            }
        }
        // 3. There is none: the level above is next, if it may have become small.
        let parent_is_small = S::is_small(parent.page());
        parent.validate()?;
        place.page.validate()?;
        Ok(Join::Nothing { parent_is_small })
    }

    /// Joins two children of `parent` if that is worth it. Gives the page that was freed.
    fn join_children<S: Reshape>(
        &mut self,
        parent: Optimistic<'p>,
        children: [usize; 2],
    ) -> Result<Option<PageId>, Restart> {
        // 1. Both are looked at, each compared with what the parent says.
        let left = follow::<S, T>(self.space, self.attempt, parent, children[0])?;
        let right = follow::<S, T>(self.space, self.attempt, parent, children[1])?;
        if !S::is_worth_joining(left.page(), right.page()) {
            left.validate()?;
            right.validate()?;
            return Ok(None);
        }
        // 2. The parent is latched first, then its children from left to right (RESHAPE-1).
        let (mut parent, mut left) = (self.latch::<S>(parent)?, self.latch::<S>(left)?);
        let right = self.attempt.upgrade(right)?;
        // 3. The right page is marked as free, and both others are changed, in one group.
        self.change.mark(self.space, self.attempt, &[right.id().page()], false)?;
        if !S::join(self.change, children, [&mut parent, &mut left], right.page()) {
            self.change.clear();
            return Ok(None);
        }
        self.change.commit(&mut [&mut parent, &mut left]);
        // 4. Discarding may wait for the device: no operation needs the page any more but those
        // that will find that it is gone.
        drop((parent, left));
        Ok(Some(self.space.discard(right)))
    }

    /// `RESHAPE-4`: the only child's content comes up into the root.
    fn lower_root<S: Reshape>(&mut self, root: Optimistic<'p>) -> Result<Join, Restart> {
        let Some(child) = S::only_child(root.page()) else {
            root.validate()?;
            return Ok(Join::Nothing { parent_is_small: false });
        };
        let child = follow::<S, T>(self.space, self.attempt, root, child)?;
        let mut root = self.latch::<S>(root)?;
        let child = self.attempt.upgrade(child)?;
        self.change.mark(self.space, self.attempt, &[child.id().page()], false)?;
        S::lift(self.change, &mut root, child.page());
        self.change.commit(&mut [&mut root]);
        drop(root);
        Ok(Join::Freed(self.space.discard(child)))
    }

    fn latch<S: Reshape>(&mut self, page: Optimistic<'p>) -> Result<Shadow<'p, T>, Restart> {
        S::latch(self.space, self.attempt, page)
    }
}
