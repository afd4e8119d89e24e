//! Loading pages before they are asked for, by those who wait for it.

use std::collections::VecDeque;

use polder_format::{PageId, PageNo, Temperature};
use polder_pool::{PoolError, Prewarmed, Space, Translation};

use crate::any::dispatch;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::handle::Store;
use crate::table::Table;

/// Pages that are looked up in the maps of a table at a time, at least.
const AT_A_TIME: usize = 1024;

impl Store {
    /// Loads the pages that were in memory when the list of these was saved last
    /// ([`Options::warm_restart`](crate::Options::warm_restart)), and waits for it: for an application
    /// that begins to serve when it is warm. A store does the same in the background when it is opened;
    /// that makes way.
    ///
    /// Only free memory is filled, so that nothing goes that was used since the store was opened, and
    /// while others read from the device they get half of its time. `goes_on` hears how many pages were
    /// seen to, of how many, and says whether it goes on.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let done = store.prewarm(&mut |done, all| done <= all)?;
    /// assert_eq!(done.loaded, 0); // a new store has no list
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::ResidentList`] if the list is damaged or another store's, [`StoreError::Closed`].
    pub fn prewarm(
        &self,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Prewarmed, StoreError> {
        dispatch!(&self.engine, engine => {
            engine.quiesce.check_open()?;
            let done = engine.warm.load_now(&engine.pool, goes_on);
            engine.quiesce.check_open()?;
            done.map_err(|source| StoreError::ResidentList { source: source.into() })
        })
    }

    /// Writes the list of the pages that are in memory now, for the next opening; gives how many are
    /// in it. A store does that by itself now and then, and when it is closed. It writes none while only
    /// few pages are in memory, or where it has no directory.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// assert_eq!(store.save_resident_pages()?, 0); // too few
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Closed`], and [`StoreError::ResidentList`] if it cannot be
    /// written; then the list stays that was there.
    pub fn save_resident_pages(&self) -> Result<u64, StoreError> {
        dispatch!(&self.engine, engine => {
            engine.quiesce.check_may_write()?;
            let saved = engine.warm.save(&engine.pool);
            saved.map_err(|source| StoreError::ResidentList { source: source.into() })
        })
    }
}

impl Table {
    /// Loads the pages of the table, in the order in which they lie in the file, as many as there is
    /// free memory for; as [`Store::prewarm`] does those of the list.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let words = store.open_table("words")?;
    /// words.put("dike", "dijk")?;
    /// let done = words.prewarm(&mut |_, _| true)?;
    /// assert_eq!(done.loaded, 0); // all of it was in memory
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Dropped`], [`StoreError::Closed`], and those of reading the maps that tell which
    /// pages it has. A page that cannot be read is skipped.
    pub fn prewarm(
        &self,
        goes_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Prewarmed, StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            let of_pool = |error| StoreError::of_pool(table.name.get(), error);
            let space = table.tree.space();
            let all = space.pages_in_use().map_err(of_pool)?;
            let (done, error) = prewarm_space(&table.engine, space, all, goes_on);
            table.check()?;
            error.map_or(Ok(done), |error| Err(of_pool(error)))
        })
    }
}

fn prewarm_space<T: Translation>(
    engine: &Engine<T>,
    space: &Space<T>,
    all: u64,
    goes_on: &mut dyn FnMut(u64, u64) -> bool,
) -> (Prewarmed, Option<PoolError>) {
    let (mut some, mut next, mut error) = (VecDeque::new(), Some(0), None);
    let pages = std::iter::from_fn(|| {
        if some.is_empty()
            && let Some(from) = next.take().and_then(PageNo::new)
        {
            match space.used_pages_from(from, AT_A_TIME) {
                Ok(found) => some = found.into(),
                Err(why) => error = Some(why),
            }
            next = some.back().map(|last: &PageNo| last.get() + 1);
        }
        let page = some.pop_front()?;
        Some((PageId::new(space.id(), page), Temperature::Warm))
    });
    // Others may make pages meanwhile.
    let done = engine.pool.prewarm(pages, |at| {
        let seen = at.loaded + at.skipped;
        goes_on(seen, all.max(seen))
    });
    (done, error)
}
