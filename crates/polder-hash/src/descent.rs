//! From the root to a bucket.
//!
//! Optimistic lock coupling, as in a tree (leanstore.txt, IV-F): the state of the child is read, then
//! the parent is validated, then the child is read. No latch is taken.

use polder_format::PageNo;
use polder_pool::{Attempt, LinkRef, Optimistic, Restart, Space, Translation};

use crate::bucket::BucketRef;
use crate::hash::{KeyHash, Prefix};
use crate::node::{MAX_LEVELS, NodeRef};
use crate::page::{self, broken, level};

/// Page 1 of a space is the root of its index, always.
pub(crate) const ROOT: u64 = 1;

pub(crate) fn root() -> PageNo {
    PageNo::new(ROOT).unwrap_or(PageNo::MAX)
}

/// Descends to the bucket for a hash.
#[inline(always)]
pub(crate) fn bucket<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    hash: KeyHash,
) -> Result<Optimistic<'p>, Restart> {
    let mut page = space.root(attempt, PageNo::new(ROOT).ok_or(Restart)?)?;
    for _ in 0..=MAX_LEVELS {
        let node = NodeRef::new(page.page());
        let level = node.level();
        if level == 0 {
            return Ok(page);
        }
        let link = LinkRef::InPage(page.page(), node.link_for(hash));
        page = space.follow(attempt, link, Some(&page))?;
        if level == 1 {
            BucketRef::new(page.page()).prefetch();
        }
    }
    Err(circle(attempt, page))
}

/// A page, and the node that leads to it (none for the root).
pub(crate) struct Place<'p> {
    pub(crate) page: Optimistic<'p>,
    pub(crate) parent: Option<Optimistic<'p>>,
}

/// Descends to the page of level `wanted` for a hash, for who wants to change its parent as well. If
/// the directory is not that high: to the root. Levels and prefixes are what the page above says: so
/// nothing that follows from them goes on for ever.
pub(crate) fn descend<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    hash: KeyHash,
    wanted: u8,
) -> Result<Place<'p>, Restart> {
    let mut place = Place { page: space.root(attempt, root())?, parent: None };
    check(attempt, &place.page, level(place.page.page()), Prefix::ALL)?;
    for _ in 0..=MAX_LEVELS {
        let (page, node) = (place.page.page(), NodeRef::new(place.page.page()));
        let level = node.level();
        if level <= wanted {
            return Ok(place);
        }
        let (link, prefix) = (LinkRef::InPage(page, node.link_for(hash)), node.prefix_for(hash));
        let child = space.follow(attempt, link, Some(&place.page))?;
        check(attempt, &child, level - 1, prefix)?;
        place = Place { page: child, parent: Some(place.page) };
    }
    Err(circle(attempt, place.page))
}

/// Whether a page has the level and the prefix that it must have.
pub(crate) fn check(
    attempt: &mut Attempt<'_>,
    page: &Optimistic<'_>,
    wanted: u8,
    prefix: Prefix,
) -> Result<(), Restart> {
    if let Err(what) = page::verify_below(page.page(), wanted, prefix) {
        page.validate()?;
        return Err(attempt.fail(broken(page.id(), what)));
    }
    Ok(())
}

/// Links lead on for longer than they can.
#[cold]
pub(crate) fn circle(attempt: &mut Attempt<'_>, page: Optimistic<'_>) -> Restart {
    let error = broken(page.id(), "the links of a hash index form a circle");
    match page.validate() {
        Ok(()) => attempt.fail(error),
        Err(restart) => restart,
    }
}
