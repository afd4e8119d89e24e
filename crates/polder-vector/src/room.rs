//! Room for new vectors in pages of graphs: pages that are being filled, and chains of pages in which places
//! became free (`HNSW-6`, `VAMANA-3`).

use std::collections::HashMap;
use std::sync::Mutex;

use polder_format::{PAGE_HEADER_BYTES, PageId, PageNo};
use polder_pool::bytes::PageRef;
use polder_pool::{PoolError, Restart, Space, Translation, lock};
use polder_structure::levels::root;
use polder_structure::page::{broken, page_no};
use polder_structure::{Edit, edit};

/// Pages that one edit takes out of a chain: others may have filled them, as those of near vectors.
const MOST_UNCHAINED: usize = 16;
/// Where a page with places has the next page of its chain, 8 bytes: the number of that, and one; the page
/// itself is in no chain if this is 0, and the last one if it is 1.
const NEXT_AT: usize = PAGE_HEADER_BYTES + 16;

/// A page in which there may be room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    page: PageNo,
    /// Whether this thread fills it, and not only finds room there. (Others may find room there.)
    is_filled: bool,
}

impl Room {
    /// A page that this thread fills.
    pub(crate) fn filled(page: PageNo) -> Room {
        Room { page, is_filled: true }
    }

    /// A page in which this thread finds room.
    pub(crate) fn found(page: PageNo) -> Room {
        Room { page, is_filled: false }
    }

    /// The room that is left in a page in which a place was taken: in this room, or in a new page, which the
    /// thread fills.
    pub(crate) fn left(room: Option<Room>, page: PageNo) -> Room {
        Room { page, is_filled: room.is_none_or(|room| room.is_filled) }
    }

    pub(crate) fn page(self) -> PageNo {
        self.page
    }
}

/// Pages with room that no thread fills at the moment, each with the chain in which it could be. In memory
/// alone: what is forgotten is found again beside near vectors.
#[derive(Default)]
pub(crate) struct Filling(Mutex<Vec<(Chain, PageNo)>>);

impl Filling {
    /// A page that this thread is to fill: one of these, or one out of the chain ([`Chain::take`]). `None` if
    /// there must be a new one.
    pub(crate) fn take<T: Translation>(
        &self,
        space: &Space<T>,
        chain: Chain,
        has_room: impl Fn(PageRef<'_>) -> Option<bool>,
    ) -> Result<Option<Room>, PoolError> {
        let known = {
            let mut filling = lock(&self.0);
            let at = filling.iter().position(|(of, _)| *of == chain);
            at.map(|at| filling.swap_remove(at).1)
        };
        let page = match known {
            Some(page) => Some(page),
            None => chain.take(space, has_room)?,
        };
        Ok(page.map(Room::filled))
    }

    /// A page that may have room for more is filled by whoever comes next, if this thread had it for itself.
    pub(crate) fn put_back(&self, chain: Chain, room: Option<Room>) {
        if let Some(room) = room.filter(|room| room.is_filled) {
            lock(&self.0).push((chain, room.page));
        }
    }
}

/// A chain of pages in which places became free. A page is in it once, until somebody takes it from there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Where the first page of the index has the number of the chain's first one, 8 bytes; 0 if there is none.
    pub(crate) first_at: usize,
}

impl Chain {
    /// Its first page, as the first page of the index says.
    pub(crate) fn first(self, meta: PageRef<'_>) -> Option<PageNo> {
        page_no(meta, self.first_at)
    }

    /// Takes a page out of it that has room, as `has_room` says of it; `None` is said of a page that can be in
    /// no such chain.
    fn take<T: Translation>(
        self,
        space: &Space<T>,
        has_room: impl Fn(PageRef<'_>) -> Option<bool>,
    ) -> Result<Option<PageNo>, PoolError> {
        edit(space, |edit| {
            let begun = self.first(edit.page(root())?);
            let (mut first, mut found) = (begun, None);
            for _ in 0..MOST_UNCHAINED {
                let Some(page) = first else { break };
                let read = edit.page(page)?;
                let (has_room, behind) = (has_room(read), behind(read));
                let Some(has_room) = has_room else {
                    let what = "the chain of pages with room leads to a page of another kind";
                    return Err(edit.fail(broken(PageId::new(space.id(), page), what)));
                };
                first = behind.flatten();
                edit.page_mut(page)?.set_u64(NEXT_AT, 0);
                if has_room {
                    found = Some(page);
                    break;
                }
            }
            if first != begun {
                self.set_first(edit, first)?;
            }
            Ok(found)
        })
    }

    /// Puts a page in front, if it is in none.
    pub(crate) fn put<T: Translation>(
        self,
        edit: &mut Edit<'_, '_, T>,
        page: PageNo,
    ) -> Result<(), Restart> {
        if behind(edit.page(page)?).is_some() {
            return Ok(());
        }
        let next = self.first(edit.page(root())?).map_or(0, PageNo::get) + 1;
        edit.page_mut(page)?.set_u64(NEXT_AT, next);
        self.set_first(edit, Some(page))
    }

    fn set_first<T: Translation>(
        self,
        edit: &mut Edit<'_, '_, T>,
        first: Option<PageNo>,
    ) -> Result<(), Restart> {
        edit.page_mut(root())?.set_u64(self.first_at, first.map_or(0, PageNo::get));
        Ok(())
    }
}

/// Whether a page is in a chain, and the page behind it there.
pub(crate) fn behind(page: PageRef<'_>) -> Option<Option<PageNo>> {
    let next = page.u64(NEXT_AT).checked_sub(1)?;
    Some(PageNo::new(next).filter(|next| next.get() > 0))
}

/// Compares chains, of each of which the first page is given, with the pages that say that they are in one,
/// each with the page behind it. `is_of` says whether a page is of a chain's kind.
pub(crate) fn check_chains<K: Copy>(
    chains: &[(K, Option<PageNo>)],
    mut chained: HashMap<PageNo, Option<PageNo>>,
    is_of: impl Fn(PageNo, K) -> bool,
    mut fault: impl FnMut(PageNo, &'static str),
) {
    for (kind, first) in chains {
        let mut next = *first;
        while let Some(page) = next {
            let behind = chained.remove(&page);
            if behind.is_none() || !is_of(page, *kind) {
                fault(page, "the page is in a chain wrongly");
            }
            next = behind.flatten();
        }
    }
    chained
        .into_keys()
        .for_each(|page| fault(page, "the page is in no chain, and says that it is"));
}
