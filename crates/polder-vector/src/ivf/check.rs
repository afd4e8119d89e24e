//! Finding what is broken.

use std::collections::HashMap;

use polder_format::{PageKind, PageNo, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{PoolError, Space, Translation};
use polder_structure::check::{Next, Walk};
use polder_structure::levels::root;
use polder_structure::page::ensure;

use super::entries::EntriesPage;
use super::list::DirectoryPage;
use super::{Core, IvfIndex, meta};
use crate::Report;
use crate::error::VectorError;

/// What a page must be.
enum Expected {
    Meta,
    /// A page of the directory of a list, behind which so many follow, if that is known.
    Directory {
        list: PageNo,
        behind: Option<u32>,
    },
    Entries {
        list: PageNo,
    },
}

/// What was seen of the lists.
#[derive(Default)]
struct Seen {
    centroids: usize,
    /// Each list, with its first page that has room.
    lists: Vec<(PageNo, Option<PageNo>)>,
    /// Each page with room, with its list and the page behind it.
    rooms: HashMap<PageNo, (PageNo, Option<PageNo>)>,
}

impl<T: Translation> IvfIndex<T> {
    /// Looks at all pages, while nobody writes: that each is of one list (`IVF-2`) and none is lost, that
    /// directories and entries are what they must be, that those with free places are known to be
    /// (`IVF-3`), and that each list has a centroid (`IVF-1`). The report's entries are the vectors, its
    /// nodes the pages that lead to others.
    ///
    /// `progress` is told how many pages are done, and stops the check by returning false.
    ///
    /// # Errors
    /// Those of the allocation maps. What is wrong with the index is in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Report, PoolError> {
        self.core.check(&self.space, progress)
    }
}

/// The same of an index in a space that need not be opened for it: only its first page must be there.
pub(crate) fn check<T: Translation>(
    space: &Space<T>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Result<Report, PoolError>, VectorError> {
    Core::read(space).map(|core| core.check(space, progress))
}

impl Core {
    fn check<T: Translation>(
        &self,
        space: &Space<T>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        let mut walk = Walk::new(space);
        let mut seen = Seen::default();
        let first = Next { page: root(), expected: Expected::Meta };
        walk.run(first, progress, |walk, next, page, todo| {
            let found = match next.expected {
                Expected::Meta => self.see_meta(page, todo),
                Expected::Directory { list, behind } => {
                    let see = see_directory(next.page, page, list, behind, todo);
                    see.map(|first| seen.lists.extend(first))
                }
                Expected::Entries { list } => self.see_entries(&next, list, page, todo, &mut seen),
            };
            let is_entries = matches!(next.expected, Expected::Entries { .. });
            walk.report.nodes += u64::from(!is_entries);
            if let Expected::Entries { list } = next.expected
                && list != self.centroids
                && found.is_ok()
            {
                let used = EntriesPage::new(page).used(&self.layouts.vectors);
                walk.report.entries += used as u64;
            }
            walk.note(next.page, found);
        });
        if !walk.report.stopped && walk.report.faults.is_empty() {
            // IVF-1
            if seen.centroids != self.options.lists {
                walk.fault(root(), format!("the index has {} centroids", seen.centroids));
            }
            // IVF-3
            for (list, mut next) in seen.lists {
                while let Some(page) = next {
                    match seen.rooms.remove(&page) {
                        Some((of, behind)) if of == list => next = behind,
                        _ => {
                            walk.fault(page, "it has no room for its list, which says that it has");
                            break;
                        }
                    }
                }
            }
            for page in seen.rooms.into_keys() {
                walk.fault(page, "the page has room, of which its list does not know");
            }
        }
        walk.finish()
    }

    fn see_meta(
        &self,
        page: PageRef<'_>,
        todo: &mut Vec<Next<Expected>>,
    ) -> Result<(), &'static str> {
        ensure(page.u8(header_at::KIND) == PageKind::IVF_META.0, "the index has no first page")?;
        let list = self.centroids;
        let is_same = meta::options(page)? == self.options && meta::centroids(page) == Some(list);
        ensure(is_same, "the first page has changed since the index was opened")?;
        todo.push(Next { page: list, expected: Expected::Directory { list, behind: None } });
        Ok(())
    }

    fn see_entries(
        &self,
        next: &Next<Expected>,
        list: PageNo,
        page: PageRef<'_>,
        todo: &mut Vec<Next<Expected>>,
        seen: &mut Seen,
    ) -> Result<(), &'static str> {
        let is_of_centroids = list == self.centroids;
        let layouts = &self.layouts;
        let layout = if is_of_centroids { &layouts.centroids } else { &layouts.vectors };
        let entries = EntriesPage::new(page);
        ensure(entries.is_of(layout), "a list has a page without entries")?;
        entries.verify()?;
        ensure(entries.list() == Some(list), "the page is of another list")?;
        if entries.free_slot(layout).is_some() {
            seen.rooms.insert(next.page, (list, entries.next()));
        }
        if is_of_centroids {
            for slot in entries.taken(layout) {
                let list = PageNo::new(entries.label(slot)).ok_or("a centroid has no list")?;
                let expected = Expected::Directory { list, behind: None };
                todo.push(Next { page: list, expected });
                seen.centroids += 1;
            }
        }
        Ok(())
    }
}

/// Gives the list and its first page with room, if this is the first page of its directory.
fn see_directory(
    number: PageNo,
    page: PageRef<'_>,
    list: PageNo,
    behind: Option<u32>,
    todo: &mut Vec<Next<Expected>>,
) -> Result<Option<(PageNo, Option<PageNo>)>, &'static str> {
    let directory = DirectoryPage::new(page);
    let mut pages = Vec::new();
    let next = directory.read(behind, &mut pages)?;
    directory.verify()?;
    todo.extend(pages.into_iter().map(|page| Next { page, expected: Expected::Entries { list } }));
    todo.extend(next.map(|(page, behind)| Next {
        page,
        expected: Expected::Directory { list, behind: Some(behind) },
    }));
    Ok((number == list).then(|| (list, directory.room())))
}
