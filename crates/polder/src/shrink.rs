//! Making the file of a store that has become sparse short again, while the store is used.
//!
//! ```text
//! for the catalogue and each table:  sparse nodes are merged, and pages moved to the lowest numbers
//!                                    of the space (`polder-tree/src/compact.rs`)
//! then for the file:                 extents without pages are released, the last ones move down,
//!                                    the end is cut off (`polder-pool/src/space/shrink.rs`)
//! ```
//!
//! All of it is done in steps, each of which leaves a sound store. Between two steps the thread
//! leaves the store as a writer does after an operation, so that a check or a close waits for one
//! step at most; a step that fails takes nothing back, and the next part begins behind it. One thread shrinks at a
//! time (`turn`); tables may be made and dropped meanwhile, except during a step that moves extents
//! (`ddl`), which may read the maps of all of them.

use std::thread;
use std::time::{Duration, Instant};

use polder_format::{PageNo, SpaceId};
use polder_pool::{PoolError, Space, Translation, event};
use polder_tree::{CompactStep, Tree};

use crate::any::dispatch;
use crate::catalogue::{Lodger, SpaceRecord};
use crate::engine::Engine;
use crate::error::{CATALOGUE, StoreError};
use crate::handle::Store;
use crate::quiesce::Entered;

/// How long a thread works that takes rests, before it takes one.
const WORKS_FOR: Duration = Duration::from_millis(2);
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// What [`Store::shrink_with`] is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShrinkStep {
    /// Merging sparse pages of a table: pages that were looked at, of those in use.
    Merging,
    /// Moving pages of a table to the front: those that were moved, of those that must be.
    Moving,
    /// Moving parts of the file to the front and cutting off its end: pages by which it has become
    /// shorter, of those by which it would be if nothing was written meanwhile.
    Cutting,
}

/// How far [`Store::shrink_with`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShrinkProgress<'t> {
    /// What it is doing. Each table is merged and then moved; cutting comes last.
    pub step: ShrinkStep,
    /// The table that it is at; none for what the store itself needs.
    pub table: Option<&'t str>,
    /// Pages done in this step.
    pub done_pages: u64,
    /// Pages in this step. It may change while others write.
    pub all_pages: u64,
    /// Length of the data file in bytes.
    pub file_bytes: u64,
}

impl Store {
    /// Makes the data file as short as it can be: merges pages of which much was removed, moves
    /// pages and parts of the file to the front, and cuts off the end. Gives the bytes by which the
    /// file became shorter. Readers and writers go on meanwhile.
    ///
    /// What is left is about what a bulk load of the same entries takes, an eighth of each page kept
    /// free for what is inserted next. What a writer adds meanwhile has its room, too, and a value
    /// in pages of its own stays where it is if there is no room for all of it further in front, as
    /// do the pages of [structures](crate::structure) that are no tables. The
    /// log has a file and a limit of its own ([`Options::log_limit`](crate::Options::log_limit)) and
    /// becomes no shorter; it grows by the pages that are moved.
    ///
    /// A store does this by itself, a little at a time, when pages were freed and the file is twice
    /// as long as it need be and more than 16 MiB: a program calls it only if it cannot wait.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use polder::{Durability, Options, Store};
    /// # let options = Options::new(dir.path().join("s")).memory_budget(8 << 20);
    /// # let store = Store::open(options.durability(Durability::None))?;
    /// let visits = store.open_table("visits")?;
    /// for hour in 0..5000u64 {
    ///     visits.put(hour.to_be_bytes(), [7; 100])?;
    /// }
    /// for hour in 0..4900u64 {
    ///     visits.delete(hour.to_be_bytes())?;
    /// }
    /// let before = store.stats().pool.file_bytes;
    /// let shorter_by = store.shrink()?;
    /// assert_eq!(store.stats().pool.file_bytes, before - shorter_by);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first one of reading and writing; what was done stays, and what could be done was done
    /// all the same. [`StoreError::Nested`] from
    /// within an operation of the store.
    pub fn shrink(&self) -> Result<u64, StoreError> {
        self.shrink_with(&mut |_| true)
    }

    /// As [`Store::shrink`], and tells `progress` after each step, of which there are many thousands
    /// in a large store. False stops it there: the store is sound, and as small as it has become.
    /// `progress` must not write to the store.
    ///
    /// # Errors
    /// As [`Store::shrink`].
    pub fn shrink_with(
        &self,
        progress: &mut dyn FnMut(&ShrinkProgress<'_>) -> bool,
    ) -> Result<u64, StoreError> {
        dispatch!(&self.engine, engine => shrink(engine, progress))
    }
}

fn shrink<T: Translation>(
    engine: &Engine<T>,
    progress: &mut dyn FnMut(&ShrinkProgress<'_>) -> bool,
) -> Result<u64, StoreError> {
    // A thread that is within the store would wait for itself.
    drop(engine.quiesce.enter()?);
    let _turn = engine.shrinker.take_turn();
    Shrinking::begin(engine, 0, progress)?.run()
}

/// The same at low priority: after each piece of work it rests so many times as long. Nothing, if
/// another thread is at it.
pub(crate) fn shrink_resting<T: Translation>(
    engine: &Engine<T>,
    rests: u32,
    goes_on: &dyn Fn() -> bool,
) -> Result<u64, StoreError> {
    let Some(_turn) = engine.shrinker.try_turn() else { return Ok(0) };
    Shrinking::begin(engine, rests, &mut |_| goes_on())?.run()
}

/// How many pages the file would have if those of tables lay as close together as they can, and
/// those of other structures where they lie.
pub(crate) fn pages_needed<T: Translation>(engine: &Engine<T>) -> Result<u64, StoreError> {
    let _pass = engine.quiesce.enter()?;
    pages_needed_within(engine)
}

fn pages_needed_within<T: Translation>(engine: &Engine<T>) -> Result<u64, StoreError> {
    let of_pool = |error| StoreError::of_pool(CATALOGUE, error);
    let tables = engine.records()?.into_iter().filter(|(_, record)| is_table(record));
    let mut trees: Vec<SpaceId> = tables.map(|(_, record)| record.space).collect();
    trees.push(engine.catalogue.space().id());
    trees.sort_unstable();
    let mut pages = 0;
    for id in engine.pool.spaces().map_err(of_pool)? {
        let end = engine.pool.open_space(id).and_then(|space| match trees.binary_search(&id) {
            Ok(_) => space.dense_end().map(PageNo::get),
            Err(_) => end_of(&space),
        });
        match end {
            Ok(end) => pages += end,
            Err(PoolError::NoSuchSpace { .. } | PoolError::Dropped { .. }) => {}
            Err(error) => return Err(of_pool(error)),
        }
    }
    Ok(pages)
}

/// Where the pages of a space end.
fn end_of<T: Translation>(space: &Space<T>) -> Result<u64, PoolError> {
    let mut end = 1;
    while let Some(from) = PageNo::new(end)
        && let Some(last) = space.used_pages_from(from, 1)?.last()
    {
        end = last.get() + 1;
    }
    Ok(end)
}

/// How the pages of other structures may move only these know.
fn is_table(record: &SpaceRecord) -> bool {
    record.lodger == Lodger::Own
}

/// One run of shrinking.
struct Shrinking<'e, 'p, T: Translation> {
    engine: &'e Engine<T>,
    progress: &'p mut dyn FnMut(&ShrinkProgress<'_>) -> bool,
    /// How many times as long as it works it rests.
    rests: u32,
    /// Since when it works.
    since: Instant,
    /// It is within the store, but for a moment between two steps.
    pass: Option<Entered<'e>>,
    /// It was told to end, or could not come back.
    ends: bool,
    /// The first error. What comes behind it is done all the same.
    failed: Option<StoreError>,
}

impl<'e, 'p, T: Translation> Shrinking<'e, 'p, T> {
    fn begin(
        engine: &'e Engine<T>,
        rests: u32,
        progress: &'p mut dyn FnMut(&ShrinkProgress<'_>) -> bool,
    ) -> Result<Self, StoreError> {
        let pass = Some(engine.quiesce.enter()?);
        let since = Instant::now();
        Ok(Shrinking { engine, progress, rests, since, pass, ends: false, failed: None })
    }

    fn run(mut self) -> Result<u64, StoreError> {
        let before = self.file_pages();
        let catalogue = self.engine.catalogue.clone();
        self.compact(None, &catalogue);
        let tables = if self.ends { Ok(Vec::new()) } else { self.engine.records() };
        let tables = self.note(tables).unwrap_or_default();
        for (name, record) in tables.into_iter().filter(|(_, record)| is_table(record)) {
            if self.ends {
                break;
            }
            match self.engine.pool.open_space(record.space) {
                Ok(space) => self.compact(Some(&name), &Tree::open(space)),
                // It was dropped.
                Err(PoolError::NoSuchSpace { .. } | PoolError::Dropped { .. }) => {}
                Err(error) => _ = self.note::<()>(Err(StoreError::of_pool(&name, error))),
            }
        }
        if !self.ends {
            self.cut();
        }
        let pages = before.saturating_sub(self.file_pages());
        event!(info, pages = pages, "the data file was made shorter");
        match self.failed {
            Some(error) => Err(error),
            None => Ok(pages << self.engine.pool.page_size().shift()),
        }
    }

    fn file_pages(&self) -> u64 {
        self.engine.pool.file_state().file_pages
    }

    /// Keeps the first error; a table that was dropped meanwhile is none.
    fn note<R>(&mut self, result: Result<R, StoreError>) -> Option<R> {
        match result {
            Ok(value) => return Some(value),
            Err(StoreError::Dropped { .. }) => {}
            Err(error) => _ = self.failed.get_or_insert(error),
        }
        None
    }

    fn compact(&mut self, name: Option<&str>, tree: &Tree<T>) {
        let compacted = tree.compact(&mut |step, done, all| {
            let step = match step {
                CompactStep::Moving => ShrinkStep::Moving,
                _ => ShrinkStep::Merging,
            };
            self.between(step, name, (done, all))
        });
        self.note(compacted.map_err(|error| StoreError::of(name.unwrap_or(CATALOGUE), error)));
    }

    /// The last part: the file itself.
    fn cut(&mut self) {
        let of_pool = |error| StoreError::of_pool(CATALOGUE, error);
        let (pool, ddl) = (&self.engine.pool, &self.engine.ddl);
        let begun = self.file_pages();
        let needed = self.note(pages_needed_within(self.engine)).unwrap_or(begun);
        // Maps of tables that come and go meanwhile would be read while they are freed.
        let mut released = Some(SpaceId::FILE);
        loop {
            let all = begun.saturating_sub(needed);
            let done = begun.saturating_sub(self.file_pages()).min(all);
            if !self.between(ShrinkStep::Cutting, None, (done, all)) {
                break;
            }
            let _ddl = ddl.lock();
            if let Some(last) = released {
                let step = pool.release_free_behind(last).map_err(of_pool);
                released = self.note(step).flatten();
            } else if self.note(pool.move_last().map_err(of_pool)).flatten().is_none() {
                break;
            }
        }
        // Unless the store refused it: it may be closed by now.
        if self.pass.is_some() {
            let _ddl = ddl.lock();
            pool.punch_free();
        }
    }

    /// Between two steps: nothing is held. False: it ends here.
    fn between(&mut self, step: ShrinkStep, table: Option<&str>, pages: (u64, u64)) -> bool {
        self.pass = None;
        self.rest();
        match self.engine.quiesce.enter() {
            Ok(pass) => self.pass = Some(pass),
            Err(error) => {
                self.ends = true;
                self.note::<()>(Err(error));
                return false;
            }
        }
        let file_bytes = self.file_pages() << self.engine.pool.page_size().shift();
        let (done_pages, all_pages) = pages;
        let progress = ShrinkProgress { step, table, done_pages, all_pages, file_bytes };
        self.ends = !(self.progress)(&progress);
        !self.ends
    }

    fn rest(&mut self) {
        let worked = self.since.elapsed();
        if self.rests > 0 && worked >= WORKS_FOR {
            thread::sleep((worked * self.rests).min(LONGEST_REST));
            self.since = Instant::now();
        }
    }
}
