//! A heap: rows in the order in which they come, to be found by where they lie or by going through
//! all of them.
//!
//! The pages of a heap are the pages in use of its space, in the order of their numbers: the
//! allocation maps are the only list of them, and a heap never frees one. A row goes to the page at
//! the *tail*; when that has no room for it, a new page becomes the tail: the lowest free number,
//! usually the next one. The tail is remembered in memory alone. If it is wrong (two handles were
//! opened by themselves), rows go to another page than they would, and nothing else happens.
//!
//! * `HEAP-3` Every page in use but the allocation maps is a complete page of the heap: its bit is
//!   set by the group that makes the heap, that appends its first row, or that ends a bulk load.
//! * `HEAP-4` A row never moves: a [`RowId`] stays good as long as its space.
//!
//! A scan copies each page, validates once, and shows rows out of the copy: a caller that looks at
//! them never sees bytes that may be changing, and nothing is allocated or validated for a row. It
//! sees every row that was there when it began; of those that come later it sees some.
//!
//! Appending logs the bytes that it changes (three patches in one group), new pages are logged as
//! full-page images: records of the pool's own, so that recovery needs nothing of ours.
//!
//! Lock order: *growing* comes before everything else, also before a log-space reservation.

mod hosted;
mod page;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use polder_format::log::Operation;
use polder_format::{Lsn, PageId, PageKind, PageNo};
use polder_pool::bytes::PageBuf;
use polder_pool::journal::{full_page_image_bytes, group_bytes, mark_bytes};
use polder_pool::{AccessHint, Holding, KindOps, PoolError, Space, Translation};
use polder_structure::levels::root;
use polder_structure::page::broken;
use polder_structure::{create_root, link_new};

pub use hosted::{HeapStructure, Rows};
use page::{HeapRef, append, copy_rows, init, max_row_len};

use crate::ahead::Ahead;

/// The heap's kind of pages.
pub(crate) const KIND: KindOps =
    KindOps::plain(PageKind::HEAP, "heap page", |page| HeapRef::new(page).verify_shape());

/// Why a heap could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The row does not fit in a page of its own.
    #[error("a row of {len} bytes is too long: the limit is {limit} bytes, what fits in one page")]
    RowTooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The pool could not.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

polder_structure::exhaustion_of!(HeapError);

impl From<HeapError> for PoolError {
    fn from(error: HeapError) -> PoolError {
        match error {
            HeapError::Pool(error) => error,
            other => PoolError::of_structure(other),
        }
    }
}

/// Where a row lies, as long as its space is there (`HEAP-4`). In the order in which a scan comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId {
    /// The page.
    pub page: PageNo,
    /// The row's number in the page.
    pub slot: u16,
}

/// Where rows are appended.
#[derive(Debug)]
struct Tail {
    /// Number of the page. Relaxed: only a hint; a thread that finds the page full asks again
    /// under `growing`, under which it is changed.
    page: AtomicU64,
    /// Held by the thread that makes the next page, so that others wait instead of making one
    /// each.
    growing: Mutex<()>,
}

/// The next page is being made. Other threads may wait for it, so that its maker waits for no frame.
struct Growing<'h> {
    _guard: MutexGuard<'h, ()>,
    _holding: Holding,
}

/// A heap in a space of a pool. Cheap to clone.
///
/// ```
/// # use polder_format::{ChecksumSeed, PageSize, PhysicalPageNo, SpaceId, StoreId};
/// # use polder_pool::{AccessHint, Array, Pool, PoolConfig};
/// # use polder_testkit::{FaultPlan, SimDisk};
/// use std::ops::ControlFlow;
/// use polder_tree::{Heap, KINDS};
///
/// # let (size, seed) = (PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
/// # let config = PoolConfig::new(PoolConfig::least_budget(size), size, seed);
/// # let device = Box::new(SimDisk::new(FaultPlan::new(1)));
/// let pool: Pool<Array> = Pool::open(device, &config, &KINDS)?;
/// let heap = Heap::create(pool.create_space()?)?;
/// let (id, _) = heap.append(b"a row")?;
/// assert_eq!(heap.get(id)?.as_deref(), Some(&b"a row"[..]));
///
/// let mut bytes = 0;
/// let _ = heap.scan(AccessHint::Scan, |_, row| {
///     bytes += row.len();
///     ControlFlow::<()>::Continue(())
/// })?;
/// assert_eq!(bytes, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Heap<T: Translation> {
    space: Space<T>,
    tail: Arc<Tail>,
}

impl<T: Translation> Clone for Heap<T> {
    fn clone(&self) -> Heap<T> {
        Heap { space: self.space.clone(), tail: Arc::clone(&self.tail) }
    }
}

impl<T: Translation> fmt::Debug for Heap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heap({:?})", self.space)
    }
}

impl<T: Translation> Heap<T> {
    /// Makes an empty heap in a new space.
    ///
    /// # Errors
    /// [`PoolError::Broken`] if the space is not empty, and those of making a page.
    pub fn create(space: Space<T>) -> Result<Heap<T>, HeapError> {
        // A space without a page in use could not be opened again.
        create_root(&space, "the space of a new heap is not empty", |held| {
            init(&mut held.page_mut());
            HeapRef::new(held.page()).hole()
        })?;
        Ok(Heap::at(space, root()))
    }

    /// The heap of a space that has one.
    ///
    /// # Errors
    /// [`PoolError::Broken`] if the space holds something else; those of loading its maps and its
    /// last page.
    pub fn open(space: Space<T>) -> Result<Heap<T>, HeapError> {
        let last = space.used_pages()?.pop();
        let Some(last) = last else {
            let page = PageId::new(space.id(), root());
            return Err(broken(page, "there is no heap here").into());
        };
        let is_heap = space.run(AccessHint::Normal, |attempt| {
            let page = space.page(attempt, last)?;
            let is_heap = HeapRef::new(page.page()).is_heap();
            page.validate()?;
            Ok(is_heap)
        })?;
        if !is_heap {
            return Err(not_of_heap(PageId::new(space.id(), last)).into());
        }
        Ok(Heap::at(space, last))
    }

    fn at(space: Space<T>, tail: PageNo) -> Heap<T> {
        let tail = Tail { page: AtomicU64::new(tail.get()), growing: Mutex::new(()) };
        Heap { space, tail: Arc::new(tail) }
    }

    /// Its space.
    pub fn space(&self) -> &Space<T> {
        &self.space
    }

    /// The longest row in bytes.
    pub fn max_row_len(&self) -> usize {
        max_row_len(self.space.page_size().bytes())
    }

    fn check_len(&self, row: &[u8]) -> Result<(), HeapError> {
        let (len, limit) = (row.len(), self.max_row_len());
        if len > limit { Err(HeapError::RowTooLong { len, limit }) } else { Ok(()) }
    }

    fn tail(&self) -> PageNo {
        PageNo::new(self.tail.page.load(Ordering::Relaxed)).unwrap_or(PageNo::MAX)
    }

    fn set_tail(&self, _growing: &Growing<'_>, page: PageNo) {
        self.tail.page.store(page.get(), Ordering::Relaxed);
    }

    fn grow(&self) -> Growing<'_> {
        // It guards no data that a panic could have left half changed.
        let guard = self.tail.growing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Growing { _guard: guard, _holding: Holding::new() }
    }

    /// Appends a row. Gives where it lies, and up to where the log must be durable for it to be.
    ///
    /// # Errors
    /// [`HeapError::RowTooLong`], and those of the pool; nothing has changed then.
    pub fn append(&self, row: &[u8]) -> Result<(RowId, Lsn), HeapError> {
        self.check_len(row)?;
        self.space.when_admitted(|| self.try_append(row))
    }

    fn try_append(&self, row: &[u8]) -> Result<(RowId, Lsn), HeapError> {
        loop {
            let tail = self.tail();
            if let Some(done) = self.append_to(tail, row)? {
                return Ok(done);
            }
            if let Some(done) = self.append_behind(tail, row)? {
                return Ok(done);
            }
        }
    }

    /// `None` if the page has no room.
    fn append_to(&self, page: PageNo, row: &[u8]) -> Result<Option<(RowId, Lsn)>, HeapError> {
        let mut change = self.space.change(group_bytes(3, row.len() + 16))?;
        let done = self.space.run(AccessHint::Normal, |attempt| {
            let guard = self.space.page(attempt, page)?;
            let heap = HeapRef::new(guard.page());
            let (is_heap, append) = (heap.is_heap(), heap.to_append(row));
            if !is_heap {
                guard.validate()?;
                return Err(attempt.fail(not_of_heap(self.id_of(page))));
            }
            let Some(append) = append else {
                guard.validate()?;
                return Ok(None);
            };
            // Goes through only if the page is still what was looked at.
            let mut held = attempt.upgrade(guard)?;
            for (offset, bytes) in append.pieces() {
                let patch = Operation::Patch { offset: offset as u32, backed: 0, bytes };
                change.push(held.id(), &patch);
            }
            let lsn = change.commit(&mut [&mut held]);
            append.write(&mut held.page_mut());
            Ok(Some((RowId { page, slot: append.slot as u16 }, lsn)))
        })?;
        Ok(done)
    }

    /// Appends to a new page behind `full`. `None` if another thread has made one meanwhile.
    fn append_behind(&self, full: PageNo, row: &[u8]) -> Result<Option<(RowId, Lsn)>, HeapError> {
        let growing = self.grow();
        if self.tail() != full {
            return Ok(None);
        }
        let page = self.space.create()?;
        let number = page.id().page();
        // HEAP-3: filled and marked in one group.
        let linked = link_new(&self.space, &page, |held| {
            init(&mut held.page_mut());
            append(&mut held.page_mut(), row);
            HeapRef::new(held.page()).hole()
        });
        drop(page);
        let lsn = linked.inspect_err(|_| self.space.free(number))?;
        self.set_tail(&growing, number);
        Ok(Some((RowId { page: number, slot: 0 }, lsn)))
    }

    fn id_of(&self, page: PageNo) -> PageId {
        PageId::new(self.space.id(), page)
    }

    /// The row, if there is one in this place. Ids that no [`append`](Heap::append),
    /// [`bulk_load`](Heap::bulk_load) or [`scan`](Heap::scan) gave may also find a row that is being
    /// loaded, or one of a load that failed.
    ///
    /// # Errors
    /// Those of loading the page.
    pub fn get(&self, id: RowId) -> Result<Option<Vec<u8>>, HeapError> {
        let mut row = Vec::new();
        let found = self.space.run(AccessHint::Normal, |attempt| {
            row.clear();
            let guard = self.space.page(attempt, id.page)?;
            let heap = HeapRef::new(guard.page());
            let place = heap.row(usize::from(id.slot)).filter(|_| heap.is_heap());
            if let Some(place) = place {
                guard.page().append_to(place.at, place.len, &mut row);
            }
            guard.validate()?;
            Ok(place.is_some())
        });
        match found {
            Ok(found) => Ok(found.then_some(row)),
            // A page that is not in use may be anything, or nothing.
            Err(_) if matches!(self.space.is_used(id.page), Ok(false)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Shows all rows to `visit`, page by page in the order of their numbers, until it breaks off.
    /// No latch is held meanwhile. With [`AccessHint::Scan`] the pages that are loaded for it go
    /// first when room is needed.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn scan<B>(
        &self,
        hint: AccessHint,
        mut visit: impl FnMut(RowId, &[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, HeapError> {
        let mut copy = PageBuf::new(self.space.page_size());
        let pages = self.space.used_pages()?;
        let (mut ahead, mut asked) = (Ahead::default(), 0);
        for (i, &page) in pages.iter().enumerate() {
            let waited = self.space.run(hint, |attempt| {
                let guard = self.space.page(attempt, page)?;
                // The whole page: to look first where its rows end is to wait for a cache line
                // before the copy can begin.
                copy.copy_from(guard.page());
                guard.validate()?;
                Ok(attempt.has_waited())
            })?;
            let next = i + 1;
            asked = asked.max(next);
            if ahead.note(waited && hint == AccessHint::Scan)
                && let Some(wanted) = ahead.wanted(&self.space, asked - next)
                && let end = (next + wanted).min(pages.len())
                && asked < end
            {
                ahead.ask(&self.space, &pages[asked..end]);
                asked = end;
            }
            let (heap, bytes) = (HeapRef::new(copy.page()), copy.bytes());
            if !heap.is_heap() {
                return Err(not_of_heap(self.id_of(page)).into());
            }
            for slot in 0..heap.count() {
                let row = heap.row(slot).and_then(|row| bytes.get(row.at..row.at + row.len));
                let Some(row) = row else {
                    let what = "a row lies outside of its page";
                    return Err(broken(self.id_of(page), what).into());
                };
                if let ControlFlow::Break(result) = visit(RowId { page, slot: slot as u16 }, row) {
                    return Ok(ControlFlow::Break(result));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Appends many rows to new pages, which become part of the heap all together at the end. Gives
    /// how many rows, and up to where the log must be durable for them to be.
    ///
    /// # Errors
    /// As [`Heap::append`]; none of the rows is there then.
    pub fn bulk_load<R: AsRef<[u8]>>(
        &self,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(u64, Lsn), HeapError> {
        let mut made = Vec::new();
        let loaded = self.load(rows.into_iter(), &mut made);
        if loaded.is_err() {
            made.iter().for_each(|page| self.space.free(*page));
        }
        loaded
    }

    fn load<R: AsRef<[u8]>>(
        &self,
        rows: impl Iterator<Item = R>,
        made: &mut Vec<PageNo>,
    ) -> Result<(u64, Lsn), HeapError> {
        let mut draft = PageBuf::new(self.space.page_size());
        init(&mut draft.page_mut());
        let mut number = 0;
        for row in rows {
            let row = row.as_ref();
            self.check_len(row)?;
            if !append(&mut draft.page_mut(), row) {
                self.write_draft(&draft, made)?;
                init(&mut draft.page_mut());
                append(&mut draft.page_mut(), row);
            }
            number += 1;
        }
        if number > 0 {
            self.write_draft(&draft, made)?;
        }
        let Some(last) = made.last() else { return Ok((0, Lsn(0))) };
        let lsn = self.space.when_admitted(|| {
            let mut change = self.space.change(mark_bytes(made))?;
            self.space.run(AccessHint::Normal, |attempt| {
                change.clear();
                change.mark(&self.space, attempt, made, true)?;
                Ok(change.commit(&mut []))
            })
        })?;
        self.set_tail(&self.grow(), *last);
        Ok((number, lsn))
    }

    /// Writes a full page into a new one, which nothing marks as in use yet.
    fn write_draft(&self, draft: &PageBuf, made: &mut Vec<PageNo>) -> Result<(), HeapError> {
        let page = self.space.when_admitted_holding(|| self.space.create())?;
        made.push(page.id().page());
        let mut change = self.space.change(full_page_image_bytes(1, self.space.page_size()))?;
        let space = self.space.id();
        let mut held = page.latch().map_err(|_| PoolError::Dropped { space })?;
        copy_rows(&mut held.page_mut(), draft.page());
        let hole = HeapRef::new(held.page()).hole();
        change.push_full_page_image(&mut held, hole);
        change.commit(&mut [&mut held]);
        Ok(())
    }
}

fn not_of_heap(page: PageId) -> PoolError {
    broken(page, "this is not a page of a heap")
}
