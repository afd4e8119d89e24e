//! What the pool must know of the pages of each kind: how to check one that came from the device,
//! where its links are, and how a record of the log is done to one again.
//!
//! Structures register their kinds when a pool is opened. Checking bytes before anyone else sees
//! them is what lets all later code rely on a page's offsets; where links are must be known to the
//! translation that swizzles them (`translation/swizzle/`) without knowing the structure.

#![cfg(not(loom))]

use polder_format::log::Operation;
use polder_format::{FormatError, Lsn, PageHeader, PageId, PageKind, header_at};

use crate::page::bytes::{PageMut, PageRef};

/// How a record of a structure is done to its page again: a page of the kind, whose LSN is below
/// that of the record's group. The pool stamps the page afterwards.
///
/// # Errors
/// What is wrong, if the record cannot be about this page. The page is then thrown away, with
/// [`Redone::Suspect`](crate::Redone).
pub type ApplyRecord = fn(&Operation<'_>, PageMut<'_>) -> Result<(), &'static str>;

/// One kind of page, as a structure registers it when a pool is opened
/// ([`Pool::open`](crate::Pool::open)).
///
/// ```
/// use polder_format::{PAGE_HEADER_BYTES, PageKind, PageSize};
/// use polder_pool::KindOps;
/// use polder_pool::bytes::PageBuf;
///
/// const COUNT: usize = PAGE_HEADER_BYTES; // how many numbers of 8 bytes stand behind it
/// const NUMBERS: KindOps = KindOps::plain(PageKind(200), "numbers", |page| {
///     if page.u64(COUNT) <= (page.size() - COUNT - 8) as u64 / 8 {
///         Ok(())
///     } else {
///         Err("there are more numbers than fit in a page")
///     }
/// });
///
/// let mut damaged = PageBuf::new(PageSize::MIN);
/// damaged.page_mut().set_u64(COUNT, 1 << 60);
/// assert!((NUMBERS.check)(damaged.page()).is_err());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct KindOps {
    /// The kind's number, in the header of each of its pages. Those from
    /// [`PageKind::FIRST_OF_OTHERS`] on are free for the structures of others.
    pub kind: PageKind,
    /// What people call the kind.
    pub name: &'static str,
    /// The greatest layout version that is understood. A page with a greater one is refused.
    pub max_layout: u8,
    /// Checks that each offset and length in the page stays inside it, and whatever else the
    /// structure relies on; says what is wrong. Called before anybody sees a page that was loaded
    /// or recovered.
    pub check: fn(PageRef<'_>) -> Result<(), &'static str>,
    /// The links in its pages that own, if it has any.
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
/// link to a neighbour, or to a page that has an owner, is none of them.) `count` and `offset` are
/// asked of pages that may be changing, and of no others than the kind's.
///
/// Links that own are followed in their place, so that a translation may put the frame of the page
/// there:
///
/// ```
/// use polder_format::{PAGE_HEADER_BYTES, PageKind, header_at};
/// use polder_pool::{AccessHint, Array, KindOps, LinkRef, OwnedLinks, Pool, PoolError};
/// # use polder_format::PageSize;
/// # use polder_pool::FileState;
/// # use polder_testkit::pools;
///
/// // Each page of a list owns the next one: its id stands behind the header, 0 in the last page.
/// const NEXT: usize = PAGE_HEADER_BYTES;
/// const ITEM: KindOps = KindOps {
///     links: Some(OwnedLinks {
///         count: |_page| 1,
///         offset: |_page, _index| NEXT,
///         fits: |_parent, _id, page| match page.u8(header_at::KIND) {
///             200 => Ok(()),
///             _ => Err("a list leads to a page that is none of a list"),
///         },
///     }),
///     ..KindOps::plain(PageKind(200), "list item", |_| Ok(()))
/// };
///
/// # let config = pools::config(1, PageSize::MIN, FileState::NEW);
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[ITEM])?;
/// let space = pool.create_space()?;
/// let (first, last) = (space.create()?, space.create()?);
/// space.run(AccessHint::Normal, |_| {
///     for (new, next) in [(&first, last.id().to_bits()), (&last, 0)] {
///         let mut held = new.latch()?;
///         let mut page = held.page_mut();
///         page.set_u8(header_at::KIND, ITEM.kind.0);
///         page.set_u8(header_at::LAYOUT, ITEM.max_layout);
///         page.set_u64(NEXT, next);
///     }
///     Ok(())
/// })?;
/// space.link(&[first.id().page(), last.id().page()])?;
///
/// let length = space.run(AccessHint::Normal, |attempt| {
///     let mut page = space.root(attempt, first.id().page())?;
///     let mut length = 1;
///     while page.page().u64(NEXT) != 0 {
///         page = space.follow(attempt, LinkRef::InPage(page.page(), NEXT), Some(&page))?;
///         length += 1;
///     }
///     page.validate().map(|()| length)
/// })?;
/// assert_eq!(length, 2);
/// # Ok::<(), PoolError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct OwnedLinks {
    /// How many links a page has, null ones included.
    pub count: fn(PageRef<'_>) -> usize,
    /// The offset in bytes of the link with this index, counted from 0: a multiple of 8.
    pub offset: fn(PageRef<'_>, usize) -> usize,
    /// Whether the page with this id (the last argument), which a link in the first page leads to,
    /// is what that one says of it; and what contradicts it if it is not. Asked when it has been
    /// loaded.
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
    pub(crate) fn new(kinds: Vec<KindOps>) -> PageKinds {
        let mut known: Vec<KindOps> = Vec::new();
        for kind in kinds {
            let at = known.partition_point(|before| before.kind.0 <= kind.kind.0);
            known.insert(at, kind);
        }
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

    /// Whether pages of a kind have records of their own, which are known here.
    pub(crate) fn redoes(&self, kind: PageKind) -> bool {
        self.get(kind).is_some_and(|kind| kind.redo.is_some())
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

    /// F8 of a page that was made of the log.
    pub(crate) fn check_made(&self, page: PageRef<'_>) -> Result<(), FormatError> {
        let header = PageHeader {
            kind: PageKind(page.u8(header_at::KIND)),
            layout: page.u8(header_at::LAYOUT),
            page_id: PageId::from_link(page.u64(header_at::PAGE_ID)),
            lsn: Lsn(page.u64(header_at::LSN)),
        };
        self.check(&header, page)
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
