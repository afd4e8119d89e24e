//! From the root to a page, in a structure whose pages lie on levels.
//!
//! Optimistic lock coupling (leanstore-2018, IV-I): the state of the child is read, then the parent
//! is validated, then the child is read. No latch is taken. A lookup ([`lowest`]) takes each page
//! for what the page above says of it. An operation that wants to change more than the lowest page,
//! or has reason to doubt, goes by [`descend`], which compares each page with the one above.
//!
//! * `LEVEL-1` The root is page 1 of its space, as long as the structure lives.
//! * `LEVEL-2` All children of a page are one level below it; the lowest level is 0.
//! * `LEVEL-3` What is seen to be wrong counts only once all pages in which it was seen have been
//!   validated: pages of different times contradict each other without being wrong.

use polder_format::PageNo;
use polder_pool::bytes::PageRef;
use polder_pool::{
    AccessHint, Attempt, LinkRef, Optimistic, PoolError, Restart, Space, Translation,
};

use crate::page::broken;

/// `LEVEL-1`.
pub const ROOT: u64 = 1;

/// A structure of more levels than this would have more pages than there are page numbers.
pub const MAX_HEIGHT: u8 = 40;

/// The page number of every root.
pub fn root() -> PageNo {
    PageNo::new(ROOT).unwrap_or(PageNo::MAX)
}

/// What is wrong with a page, if anything.
pub type Seen = Result<(), &'static str>;

/// What a descent asks the pages of a structure. The pages may change meanwhile: each answer is one
/// of some bytes, and counts once the page has been validated.
pub trait Levels {
    /// What leads to one page of each level: a key, or its hash.
    type Target<'t>: Copy;

    /// Levels below this page, whatever it holds.
    fn level(page: PageRef<'_>) -> u8;

    /// Asks the processor for what will be read of a page of the lowest level.
    fn prefetch(page: PageRef<'_>);

    /// Asks the processor for what will be read first of a page above that.
    fn prefetch_inner(_page: PageRef<'_>) {}

    /// Which of the page's children the target leads to.
    fn child(page: PageRef<'_>, target: Self::Target<'_>) -> usize;

    /// Where in the page the link of this child begins.
    fn link_offset(page: PageRef<'_>, child: usize) -> usize;

    /// That this can be a root; its level has been looked at.
    fn verify_root(page: PageRef<'_>) -> Seen;

    /// That `below` is what the page says of this child: among other things `LEVEL-2`.
    fn verify_child(page: PageRef<'_>, child: usize, below: PageRef<'_>) -> Seen;

    /// That the page is the one of its level that the target leads to.
    fn covers(page: PageRef<'_>, target: Self::Target<'_>) -> Seen;

    /// That the page holds nothing that contradicts itself.
    fn verify_whole(page: PageRef<'_>) -> Seen;
}

/// The page of the lowest level to which the links lead that `link_in` names, as it finds them.
#[inline(always)]
pub fn lowest<'p, S: Levels, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    link_in: impl Fn(PageRef<'_>) -> usize,
) -> Result<Optimistic<'p>, Restart> {
    let mut page = space.root(attempt, PageNo::new(ROOT).ok_or(Restart)?)?;
    for _ in 0..MAX_HEIGHT {
        let level = S::level(page.page());
        if level == 0 {
            return Ok(page);
        }
        let link = LinkRef::InPage(page.page(), link_in(page.page()));
        page = space.follow(attempt, link, Some(&page))?;
        if level == 1 {
            S::prefetch(page.page());
        }
    }
    Err(too_deep(attempt, page))
}

/// A page, and the one above it with the child that led here (none for the root).
#[derive(Debug)]
pub struct Located<'p> {
    /// The page.
    pub page: Optimistic<'p>,
    /// The page above, and which of its children the page is.
    pub parent: Option<(Optimistic<'p>, usize)>,
}

/// Descends to the page of `level` for a target; if there are fewer levels, to the root. Levels and
/// contents are what the page above says, so that nothing that follows from them goes on for ever.
///
/// # Errors
/// [`Restart`], also where a page is not what the one above says: the attempt has failed then.
pub fn descend<'p, S: Levels, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    target: S::Target<'_>,
    level: u8,
) -> Result<Located<'p>, Restart> {
    let root = space.root(attempt, PageNo::new(ROOT).ok_or(Restart)?)?;
    confirm(attempt, &[root], verify_root::<S>(root.page()))?;
    let mut place = Located { page: root, parent: None };
    // LEVEL-2: each step goes down by one level.
    loop {
        let (above, page) = (place.page, place.page.page());
        if S::level(page) <= level {
            return Ok(place);
        }
        let child = S::child(page, target);
        let below = follow::<S, T>(space, attempt, above, child)?;
        confirm(attempt, &[below, above], S::covers(below.page(), target))?;
        place = Located { page: below, parent: Some((above, child)) };
    }
}

/// A child of a page, compared with what the page says of it.
///
/// # Errors
/// As [`descend`].
pub fn follow<'p, S: Levels, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    above: Optimistic<'p>,
    child: usize,
) -> Result<Optimistic<'p>, Restart> {
    let link = LinkRef::InPage(above.page(), S::link_offset(above.page(), child));
    let below = space.follow(attempt, link, Some(&above))?;
    confirm(attempt, &[below, above], S::verify_child(above.page(), child, below.page()))?;
    Ok(below)
}

fn verify_root<S: Levels>(page: PageRef<'_>) -> Seen {
    S::verify_root(page)?;
    match S::level(page) < MAX_HEIGHT {
        true => Ok(()),
        false => Err("there are more levels than there can be"),
    }
}

/// Ends the operation if what was seen in these pages contradicts itself, and they were so at one
/// time (`LEVEL-3`). The first of them is the one that is named.
///
/// # Errors
/// [`Restart`] in both cases.
pub fn confirm<'p>(
    attempt: &mut Attempt<'p>,
    pages: &[Optimistic<'p>],
    seen: Seen,
) -> Result<(), Restart> {
    match (seen, pages) {
        (Err(what), [page, ..]) => Err(contradiction(attempt, *page, pages, what)),
        _ => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn contradiction<'p>(
    attempt: &mut Attempt<'p>,
    page: Optimistic<'p>,
    pages: &[Optimistic<'p>],
    what: &'static str,
) -> Restart {
    let error = broken(page.id(), what);
    match pages.iter().try_for_each(Optimistic::validate) {
        Ok(()) => attempt.fail(error),
        Err(restart) => restart,
    }
}

/// Ends the operation: links lead on for longer than they can, from the root to this page.
#[cold]
#[inline(never)]
pub fn too_deep<'p>(attempt: &mut Attempt<'p>, page: Optimistic<'p>) -> Restart {
    contradiction(attempt, page, &[page], "the links that lead here form a circle")
}

/// Rounds in which an operation made what it needed, and did not find it afterwards.
const MOST_ROUNDS: u32 = 4096;
/// After each so many of them the way to the target is examined.
pub const EXAMINED_EACH: u32 = 16;

/// How often an operation has begun again. Others may be in its way, but not for ever; pages whose
/// shape is wrong would be.
#[derive(Debug, Default)]
pub struct Rounds(u32);

impl Rounds {
    /// One round more.
    ///
    /// # Errors
    /// [`PoolError::Broken`], if the way to the target is not sound, or after very many rounds.
    pub fn next<S: Levels, T: Translation>(
        &mut self,
        space: &Space<T>,
        target: S::Target<'_>,
    ) -> Result<(), PoolError> {
        self.0 += 1;
        if self.0.is_multiple_of(EXAMINED_EACH) {
            examine::<S, T>(space, target)?;
        }
        if self.0 < MOST_ROUNDS {
            return Ok(());
        }
        let page = space.run(AccessHint::Normal, |attempt| {
            let place = descend::<S, T>(space, attempt, target, 0)?;
            let page = place.page.id();
            place.page.validate()?;
            Ok(page)
        })?;
        Err(broken(page, "the page is not what the ways to it say, however often it is changed"))
    }
}

/// Looks at each page on the way to the target, and whether it is what the one above says of it.
///
/// # Errors
/// [`PoolError::Broken`], which names what is not sound, and those of loading pages.
#[cold]
pub fn examine<S: Levels, T: Translation>(
    space: &Space<T>,
    target: S::Target<'_>,
) -> Result<(), PoolError> {
    let mut level = 0;
    loop {
        let is_root = space.run(AccessHint::Normal, |attempt| {
            let place = descend::<S, T>(space, attempt, target, level)?;
            confirm(attempt, &[place.page], S::verify_whole(place.page.page()))?;
            Ok(place.parent.is_none())
        })?;
        if is_root {
            return Ok(());
        }
        level += 1;
    }
}
