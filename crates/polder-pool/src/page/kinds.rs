//! What the pool must know of the pages of each kind: how to check one that came from the device,
//! where its links are, and how a record of the log is done to one again.
//!
//! Structures register their kinds when a pool is opened. Checking bytes before anyone else sees
//! them is what lets all later code rely on a page's offsets; where links are must be known to the
//! translation that swizzles them (`translation/swizzle/`) without knowing the structure.

#![cfg(not(loom))]

use polder_format::log::Operation;
use polder_format::{FormatError, PageHeader, PageId, PageKind, header_at};

use crate::page::bytes::{PageMut, PageRef};

/// How a record of a structure is done to its page again.
///
/// # Errors
/// If the record cannot be about this page. The page is then to be thrown away.
pub type ApplyRecord = fn(&Operation<'_>, PageMut<'_>) -> Result<(), &'static str>;

/// One kind of page.
#[derive(Debug, Clone, Copy)]
pub struct KindOps {
    /// Which.
    pub kind: PageKind,
    /// For messages.
    pub name: &'static str,
    /// Layout versions that are understood.
    pub max_layout: u8,
    /// Checks that each offset and length in the page stays inside it.
    pub check: fn(PageRef<'_>) -> Result<(), &'static str>,
    /// Its links, if it has any that own.
    pub links: Option<OwnedLinks>,
    /// How the structure's own records are done again. `None`: its pages are logged as full-page
    /// images and patches alone, which the pool does again by itself.
    pub redo: Option<ApplyRecord>,
}

impl KindOps {
    /// A kind of pages with one layout, whose pages own no others and are logged as full-page images
    /// and patches alone: all that a structure needs that is changed by edits
    /// (`polder_structure::Edit`).
    pub const fn plain(
        kind: PageKind,
        name: &'static str,
        check: fn(PageRef<'_>) -> Result<(), &'static str>,
    ) -> KindOps {
        KindOps { kind, name, max_layout: 1, check, links: None, redo: None }
    }
}

/// Where the links of a page are that *own*: the page that one leads to is reached by no other. (A
/// link to a neighbour, or to a page that has an owner, is none of them.) Both are asked of pages
/// that may be changing, and of no others than the kind's.
#[derive(Debug, Clone, Copy)]
pub struct OwnedLinks {
    /// How many there are, null ones included.
    pub count: fn(PageRef<'_>) -> usize,
    /// The offset of one of them, a multiple of 8.
    pub offset: fn(PageRef<'_>, usize) -> usize,
    /// Whether the page with this id, which a link in the first one leads to, is what that one says
    /// of it. Asked when it has been loaded.
    pub fits: fn(PageRef<'_>, PageId, PageRef<'_>) -> Result<(), &'static str>,
}

/// The kinds that a pool knows.
#[derive(Debug, Clone, Default)]
pub struct PageKinds {
    /// In the order of their numbers.
    known: Vec<KindOps>,
}

impl PageKinds {
    /// These kinds.
    pub(crate) fn new(mut known: Vec<KindOps>) -> PageKinds {
        known.sort_by_key(|kind| kind.kind.0);
        PageKinds { known }
    }

    /// What is known of a kind.
    fn get(&self, kind: PageKind) -> Option<&KindOps> {
        let at = self.known.binary_search_by_key(&kind.0, |known| known.kind.0);
        at.ok().map(|at| &self.known[at])
    }

    /// Whether a page is of a kind with links that own, and has some.
    pub(crate) fn has_links(&self, page: PageRef<'_>) -> bool {
        self.owned_links(page, 0).next().is_some()
    }

    /// The links in a page that own, number and offset, from number `first` on and round.
    pub(crate) fn owned_links<'a>(
        &'a self,
        page: PageRef<'a>,
        first: u32,
    ) -> impl Iterator<Item = (u32, usize)> + 'a {
        let links = self.get(PageKind(page.u8(header_at::KIND))).and_then(|kind| kind.links);
        let count = links.map_or(0, |links| (links.count)(page));
        let offset = move |i| links.map_or(0, |links| (links.offset)(page, i));
        let first = first as usize;
        let turned = move |i| (first % count + i) % count;
        (0..count).map(move |i| (turned(i) as u32, offset(turned(i))))
    }

    /// Does a record of a structure to its page again, by the page's kind.
    pub(crate) fn redo(
        &self,
        operation: &Operation<'_>,
        page: PageMut<'_>,
    ) -> Result<(), &'static str> {
        let kind = self.get(PageKind(page.as_ref().u8(header_at::KIND)));
        let redo = kind.and_then(|kind| kind.redo);
        redo.ok_or("a record is about a page of a kind that has no such records")?(operation, page)
    }

    /// Whether a page is what the one that led to it says of it.
    pub(crate) fn check_link(
        &self,
        parent: PageRef<'_>,
        id: PageId,
        page: PageRef<'_>,
    ) -> Result<(), &'static str> {
        let links = self.get(PageKind(parent.u8(header_at::KIND))).and_then(|kind| kind.links);
        links.map_or(Ok(()), |links| (links.fits)(parent, id, page))
    }

    /// F8: whether the page is one that the structures can work with.
    pub(crate) fn check(&self, header: &PageHeader, page: PageRef<'_>) -> Result<(), FormatError> {
        let Some(kind) = self.get(header.kind) else {
            return Err(FormatError::Field {
                field: "kind of page",
                found: u64::from(header.kind.0),
                expected: "no such kind is known",
            });
        };
        if header.layout > kind.max_layout {
            return Err(FormatError::Field {
                field: "layout version",
                found: u64::from(header.layout),
                expected: "a newer version of Polder wrote this page",
            });
        }
        (kind.check)(page).map_err(FormatError::Broken)?;
        let is_plain = |bits: u64| PageId::from_link(bits).to_bits() == bits;
        let plain = self.owned_links(page, 0).all(|(_, at)| is_plain(page.u64(at)));
        plain.then_some(()).ok_or(FormatError::Broken("a link has a tag"))
    }
}
