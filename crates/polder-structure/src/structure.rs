//! What a store must know of a structure to host it.
//!
//! A store has a table of structures: its own tables are in it, and whatever is registered when it is
//! opened. It gives a structure a space of its own under a name in its catalogue, and serves that space
//! as it serves a table: log, checkpoint and recovery by the kinds of its pages
//! ([`KindOps`]), check and salvage by the functions here. What the structure gives in return is a
//! handle, through which the store's users do what the structure can do.
//!
//! A structure is generic over the pool's translation, and a store is not: it decides once, when it is
//! opened. So a handle is usually a trait object, `dyn MyStack`, of a trait with what the structure can
//! do, which a type with a [`Space`] implements for every translation.

use std::sync::Arc;

use polder_format::{PageNo, header_at};
use polder_pool::bytes::{PageBuf, PageRef};
use polder_pool::{KindOps, PoolError, Space, Translation};

use crate::check::{Next, Report, Walk};
use crate::levels::root;

/// A structure that a store can host: a type without values, which says what the store must know.
///
/// `crates/polder/examples/stack.rs` is one, whole; it stands in the pool's README.
pub trait Structure: 'static {
    /// What the catalogue calls it, in every store: at most 64 bytes. A name of its maker in front
    /// (`example.stack`) keeps it apart from those of others.
    const NAME: &'static str;

    /// The kinds of its pages, from
    /// [`PageKind::FIRST_OF_OTHERS`](polder_format::PageKind::FIRST_OF_OTHERS) on. No other structure
    /// of the same store may have one of them.
    const KINDS: &'static [KindOps];

    /// Whether its records in the log count its entries: inserts, removes and loads do, edits do not.
    /// A check compares the number with what it sees then, and a salvage with what it saves.
    const COUNTS_ENTRIES: bool = false;

    /// What one is made with, and stays: `()` where there is nothing to choose. A structure that has
    /// options writes them down in its pages, in more than one of them if it is to be salvaged
    /// ([`Structure::options`]).
    type Options: 'static;

    /// What users of the store are given.
    type Handle: ?Sized + Send + Sync + 'static;

    /// Makes an empty structure in a new space. The space goes again if that fails.
    ///
    /// # Errors
    /// Those of making pages, and of the structure ([`PoolError::of_structure`]), also if it cannot be
    /// with these options.
    fn create<T: Translation>(space: &Space<T>, options: &Self::Options) -> Result<(), PoolError>;

    /// The handle of a space in which [`Structure::create`] has made one.
    ///
    /// # Errors
    /// Those of reading pages, and of the structure.
    fn open<T: Translation>(space: Space<T>) -> Result<Arc<Self::Handle>, PoolError>;

    /// Looks at all pages of the structure, while nobody writes. `progress` is told how many are done,
    /// and stops the check by returning false.
    ///
    /// By default each page is read and compared with what its kind demands; and, where
    /// [`Structure::leads_to`] says which pages lead where, that one page leads to each, and that none
    /// was lost. A structure that knows more goes through its pages with a [`Walk`] of its own.
    ///
    /// # Errors
    /// Those of the allocation maps. What is wrong with the structure is in the report.
    fn check<T: Translation>(
        space: &Space<T>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Report, PoolError> {
        check_pages(space, Self::KINDS, Self::leads_to, progress)
    }

    /// The pages to which a page leads, for the default check, which begins with page 1. `None`: all
    /// pages in use belong to the structure, and none leads to another.
    fn leads_to(_page: PageRef<'_>) -> Option<Vec<PageNo>> {
        None
    }

    /// What pages of the structure tell of the options that it was made with, for a salvage, which
    /// makes a new one with them and may lack any page. It is given those that are left, in the order of
    /// their numbers, and looks at as many as it needs. By default no page tells them; a structure whose
    /// options are `()` needs none that does.
    fn options(_pages: &mut dyn Iterator<Item = PageBuf>) -> Option<Self::Options> {
        None
    }

    /// Calls `entry` with key and value of each entry that lies in a page, for a salvage: it has the
    /// page as it was when the store was used last, and may lack any other page. Of structures without
    /// keys the key says where in the structure the value was. What the key is, and whether the value
    /// is one, is the structure's own.
    fn entries(page: PageRef<'_>, entry: &mut dyn FnMut(&[u8], &[u8]));

    /// Puts an entry into a new structure, again for a salvage. Pages are gone through in the order of
    /// the first key of each.
    ///
    /// # Errors
    /// Those of the structure.
    fn restore(handle: &Self::Handle, key: &[u8], value: &[u8]) -> Result<(), PoolError>;
}

/// The check that a structure has that brings none.
fn check_pages<T: Translation>(
    space: &Space<T>,
    kinds: &[KindOps],
    leads_to: fn(PageRef<'_>) -> Option<Vec<PageNo>>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report, PoolError> {
    let mut walk = Walk::new(space);
    let see = |walk: &mut Walk<'_, T>, number: PageNo, page: PageRef<'_>| {
        let is_of = |kind: &&KindOps| kind.kind.0 == page.u8(header_at::KIND);
        let check = kinds.iter().find(is_of).map(|kind| kind.check);
        let seen = check.map_or(Err("this is no page of the structure"), |check| check(page));
        walk.note(number, seen);
        seen.is_ok()
    };
    if leads_to(PageBuf::new(space.page_size()).page()).is_some() {
        let first = Next { page: root(), expected: () };
        walk.run(first, progress, |walk, next, page, todo| {
            if see(walk, next.page, page) {
                let led_to = leads_to(page).unwrap_or_default();
                todo.extend(led_to.into_iter().map(|page| Next { page, expected: () }));
            }
        });
        return walk.finish();
    }
    walk.each(space.used_pages()?, progress, |walk, number, page| _ = see(walk, number, page));
    walk.finish()
}
