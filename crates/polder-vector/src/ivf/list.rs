//! Lists: their directories, and how entries come and go.
//!
//! ```text
//!   page of a directory   | header, 32 | next 8 | room 8 | behind 4 | count 4 | pages 8 each |
//!
//!   first page --next--> newest --next--> ... --next--> second        of the directory
//!       |
//!       room --> page --next--> page --next--> 0                      pages of entries with free places
//! ```
//!
//! The first page of a directory is the list's name: it stays where it is. When it is full, another one
//! comes in behind it, in front of those that came before; so an insert looks at the first two alone, and
//! each page of a directory but these stays as it is for ever. `behind` counts the pages that follow: a
//! directory that leads in a circle contradicts itself.
//!
//! A list grows by runs of pages that lie next to each other in the file, each a quarter as long as the
//! list, up to [`MOST_RUN`]: what is read ahead becomes few requests, and little of it is empty.

use polder_format::{PAGE_HEADER_BYTES, PageId, PageKind, PageNo, header_at};
use polder_pool::bytes::{PageMut, PageRef};
use polder_pool::{AccessHint, PoolError, Restart, Space, Translation};
use polder_structure::Edit;
use polder_structure::page::{broken, ensure, page_no};

use super::entries::{EntriesPage, EntriesPageMut, Layout};
use crate::node_id::{MOST_PAGES, NodeId};
use crate::vectors::Vector;

/// Pages by which a list grows at once, at most: an edit keeps all of them in memory.
const MOST_RUN: usize = 8;

/// Fields of a page of a directory.
mod at {
    use super::PAGE_HEADER_BYTES;

    pub(super) const NEXT: usize = PAGE_HEADER_BYTES;
    /// In the first page alone: the first page of entries with free places.
    pub(super) const ROOM: usize = PAGE_HEADER_BYTES + 8;
    pub(super) const BEHIND: usize = PAGE_HEADER_BYTES + 16;
    pub(super) const COUNT: usize = PAGE_HEADER_BYTES + 20;
    pub(super) const PAGES: usize = PAGE_HEADER_BYTES + 24;
}

/// A page of a directory to read. It may change meanwhile: answers count once it has been validated.
#[derive(Clone, Copy)]
pub(super) struct DirectoryPage<'a> {
    page: PageRef<'a>,
}

impl<'a> DirectoryPage<'a> {
    pub(super) fn new(page: PageRef<'a>) -> DirectoryPage<'a> {
        DirectoryPage { page }
    }

    fn is_one(self) -> bool {
        self.page.u8(header_at::KIND) == PageKind::IVF_DIRECTORY.0
    }

    /// How many pages of entries it can lead to.
    fn capacity(self) -> usize {
        (self.page.size() - at::PAGES) / 8
    }

    fn count(self) -> usize {
        (self.page.u32(at::COUNT) as usize).min(self.capacity())
    }

    fn behind(self) -> u32 {
        self.page.u32(at::BEHIND)
    }

    fn next(self) -> Option<PageNo> {
        page_no(self.page, at::NEXT)
    }

    /// The first page of entries with free places.
    pub(super) fn room(self) -> Option<PageNo> {
        page_no(self.page, at::ROOM)
    }

    /// Appends the pages of entries that it leads to. Gives the page that follows in the directory, with
    /// how many follow that. `behind`: what the page in front of it says.
    pub(super) fn read(
        self,
        behind: Option<u32>,
        pages: &mut Vec<PageNo>,
    ) -> Result<Option<(PageNo, u32)>, &'static str> {
        ensure(self.is_one(), "a list of a vector index has a directory that is none")?;
        let is_next = behind.is_none_or(|behind| behind == self.behind());
        ensure(is_next, "a directory leads to a page that does not follow in it")?;
        for i in 0..self.count() {
            let page = page_no(self.page, at::PAGES + 8 * i);
            pages.push(page.ok_or("a directory leads nowhere")?);
        }
        match (self.behind().checked_sub(1), self.next()) {
            (None, None) => Ok(None),
            (Some(behind), Some(next)) => Ok(Some((next, behind))),
            _ => Err("a directory has another number of pages than it says"),
        }
    }

    /// What every page of a directory must be.
    pub(super) fn verify(self) -> Result<(), &'static str> {
        let count = self.page.u32(at::COUNT) as usize;
        ensure(count <= self.capacity(), "a directory leads to more pages than it has room for")?;
        self.read(None, &mut Vec::with_capacity(count)).map(drop)
    }
}

/// A page of a directory, to be changed.
struct DirectoryPageMut<'a> {
    page: PageMut<'a>,
}

impl<'a> DirectoryPageMut<'a> {
    fn new(page: PageMut<'a>) -> DirectoryPageMut<'a> {
        DirectoryPageMut { page }
    }

    fn set_room(&mut self, room: Option<PageNo>) {
        self.page.set_u64(at::ROOM, room.map_or(0, PageNo::get));
    }

    fn set_next(&mut self, next: Option<PageNo>, behind: u32) {
        self.page.set_u64(at::NEXT, next.map_or(0, PageNo::get));
        self.page.set_u32(at::BEHIND, behind);
    }

    /// Leads to these pages as well, for which there is room.
    fn append(&mut self, pages: &[PageNo]) {
        let count = DirectoryPage::new(self.page.as_ref()).count();
        for (i, page) in pages.iter().enumerate() {
            self.page.set_u64(at::PAGES + 8 * (count + i), page.get());
        }
        self.page.set_u32(at::COUNT, (count + pages.len()) as u32);
    }
}

/// The lists of a space whose entries have one layout. A list is named by the first page of its directory.
#[derive(Clone, Copy)]
pub(super) struct Lists<'i, T: Translation> {
    pub(super) space: &'i Space<T>,
    pub(super) layout: &'i Layout,
}

impl<T: Translation> Lists<'_, T> {
    /// Leaves in `pages` those with the entries of a list: all that were there when this began, and
    /// perhaps some that came later. They are the list's for ever (`IVF-2`).
    pub(super) fn pages(&self, list: PageNo, pages: &mut Vec<PageNo>) -> Result<(), PoolError> {
        pages.clear();
        let mut next = Some((list, None));
        while let Some((number, behind)) = next {
            let before = pages.len();
            next = self.space.run(AccessHint::Normal, |attempt| {
                pages.truncate(before);
                let page = self.space.page(attempt, number)?;
                let read = DirectoryPage::new(page.page()).read(behind, pages);
                page.validate()?;
                let next = read.map_err(|what| attempt.fail(broken(page.id(), what)))?;
                Ok(next.map(|(next, behind)| (next, Some(behind))))
            })?;
        }
        Ok(())
    }

    /// Makes an empty list.
    pub(super) fn create(&self, edit: &mut Edit<'_, '_, T>) -> Result<PageNo, Restart> {
        edit.create(PageKind::IVF_DIRECTORY)
    }

    /// Puts an entry into a list. Gives where it lies.
    pub(super) fn insert(
        &self,
        edit: &mut Edit<'_, '_, T>,
        list: PageNo,
        label: u64,
        vector: &Vector,
    ) -> Result<NodeId, Restart> {
        let page = match self.directory(edit, list)?.room() {
            Some(page) => page,
            None => self.grow(edit, list)?,
        };
        let entries = self.entries(edit, page)?;
        let (of, next, slot) = (entries.list(), entries.next(), entries.free_slot(self.layout));
        let Some(slot) = slot.filter(|_| of == Some(list)) else {
            return Err(self.broken(edit, page, "a list has a page with room that has none"));
        };
        let mut entries = EntriesPageMut::new(edit.page_mut(page)?);
        entries.insert(self.layout, slot, label, vector);
        // IVF-3
        if self.entries(edit, page)?.free_slot(self.layout).is_none() {
            EntriesPageMut::new(edit.page_mut(page)?).set_next(None);
            DirectoryPageMut::new(edit.page_mut(list)?).set_room(next);
        }
        NodeId::new(page, 0, slot).ok_or_else(|| {
            let (what, limit) = ("the number of pages of a vector index", MOST_PAGES);
            edit.fail(PoolError::Limit { what, limit })
        })
    }

    /// Removes the entry of a list in this place of a page, if it has this label. Whether it has.
    pub(super) fn remove(
        &self,
        edit: &mut Edit<'_, '_, T>,
        node: NodeId,
        label: u64,
    ) -> Result<bool, Restart> {
        let (page, slot) = (node.page(), node.slot());
        let entries = EntriesPage::new(edit.page(page)?);
        if !has(entries, self.layout, node, label) {
            return Ok(false);
        }
        let was_full = entries.free_slot(self.layout).is_none();
        let list = entries.list();
        EntriesPageMut::new(edit.page_mut(page)?).remove(slot);
        // IVF-3
        if was_full {
            let Some(list) = list else {
                return Err(self.broken(edit, page, "entries are of no list"));
            };
            let room = self.directory(edit, list)?.room();
            EntriesPageMut::new(edit.page_mut(page)?).set_next(room);
            DirectoryPageMut::new(edit.page_mut(list)?).set_room(Some(page));
        }
        Ok(true)
    }

    /// Adds pages to a list that has no room. Gives the first of them.
    fn grow(&self, edit: &mut Edit<'_, '_, T>, list: PageNo) -> Result<PageNo, Restart> {
        let first = self.directory(edit, list)?;
        let (capacity, behind, next) = (first.capacity(), first.behind(), first.next());
        let (mut into, mut count) = (list, first.count());
        let mut run = count / 4 + 1;
        if count == capacity {
            run = MOST_RUN;
            (into, count) = match next {
                Some(newest) => (newest, self.directory(edit, newest)?.count()),
                None => (list, capacity),
            };
            if count == capacity {
                (into, count) = (edit.create(PageKind::IVF_DIRECTORY)?, 0);
                DirectoryPageMut::new(edit.page_mut(into)?).set_next(next, behind);
                let behind = behind.saturating_add(1);
                DirectoryPageMut::new(edit.page_mut(list)?).set_next(Some(into), behind);
            }
        }
        let run = run.min(MOST_RUN).min(capacity - count);
        let pages = edit.create_run(self.layout.kind, run)?;
        for (i, page) in pages.iter().enumerate() {
            let mut entries = EntriesPageMut::new(edit.page_mut(*page)?);
            entries.init(self.layout, list);
            entries.set_next(pages.get(i + 1).copied());
        }
        DirectoryPageMut::new(edit.page_mut(into)?).append(&pages);
        let room = pages.first().copied();
        DirectoryPageMut::new(edit.page_mut(list)?).set_room(room);
        room.ok_or(Restart)
    }

    fn directory<'e>(
        &self,
        edit: &'e mut Edit<'_, '_, T>,
        page: PageNo,
    ) -> Result<DirectoryPage<'e>, Restart> {
        if !DirectoryPage::new(edit.page(page)?).is_one() {
            return Err(self.broken(
                edit,
                page,
                "a list of a vector index has a directory that is none",
            ));
        }
        Ok(DirectoryPage::new(edit.page(page)?))
    }

    fn entries<'e>(
        &self,
        edit: &'e mut Edit<'_, '_, T>,
        page: PageNo,
    ) -> Result<EntriesPage<'e>, Restart> {
        if !EntriesPage::new(edit.page(page)?).is_of(self.layout) {
            return Err(self.broken(
                edit,
                page,
                "a list of a vector index has a page without entries",
            ));
        }
        Ok(EntriesPage::new(edit.page(page)?))
    }

    #[cold]
    fn broken(&self, edit: &mut Edit<'_, '_, T>, page: PageNo, what: &'static str) -> Restart {
        edit.fail(broken(PageId::new(self.space.id(), page), what))
    }
}

/// Whether a page has an entry with this label in the place of a node.
pub(super) fn has(entries: EntriesPage<'_>, layout: &Layout, node: NodeId, label: u64) -> bool {
    let slot = node.slot();
    entries.is_of(layout)
        && !node.is_above()
        && slot < layout.slots()
        && entries.is_taken(slot)
        && entries.label(slot) == label
}
