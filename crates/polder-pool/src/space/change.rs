//! A change to pages that is logged as one group, and the allocation maps that change with it.
//!
//! The steps are A1 to A6 of polder-log's `append.rs`; here is the side that has the pages. Log
//! space is reserved for the most that the group can be before its first latch (A1,
//! `Change::new`). Then all pages and maps are latched, and records are pushed (A2).
//! [`Change::commit`] appends the group, and stamps the pages with its LSN (A3 to A6); behind it
//! all of them are unlatched.

#![cfg(not(loom))]

use std::cell::Cell;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use polder_format::log::{Group, Operation};
use polder_format::{ALLOC_MAP_BITS_AT, ALLOC_MAP_USED_AT, pages_per_alloc_map};
use polder_format::{Lsn, PageId, PageNo, SpaceId};

use crate::core::Core;
use crate::error::PoolError;
use crate::file_map::Runs;
use crate::journal::{Journal, full_page_image_bytes, group_bytes};
use crate::latch::{Exclusive, Restart};
use crate::operation::Attempt;
use crate::page::{LinkRef, PageMut};
use crate::shared::{Shared, View};
use crate::sync::lock;
use crate::thread::Holding;
use crate::translation::Translation;

/// What a thread keeps of a buffer between two changes, at most; for a larger change memory is
/// asked for each time.
const KEPT_BYTES: usize = 1 << 20;

/// Runs of bits in one record: a map has so many bits that a record of all could be longer than
/// the log's buffer.
const RUNS_A_RECORD: usize = 1024;

thread_local! {
    /// The buffer of this thread's last change, to be used again. Boxed: a pointer moves by way of
    /// a register, but a load of a whole structure that was just written in parts waits until
    /// these stores have left the processor, and behind them stand the slow ones to pages and the
    /// log.
    static BUFFER: Cell<Option<Box<Group>>> = const { Cell::new(None) };
}

/// A thread that is ending has none to use again: destructors of other thread-locals may still
/// write.
#[inline]
fn buffer() -> Box<Group> {
    BUFFER.try_with(Cell::take).ok().flatten().unwrap_or_default()
}

/// A change to pages that is logged as one group: a log-space reservation, the records so far, and
/// the allocation maps that change with it. It is begun by [`Space::change`] with no latch held,
/// filled while all its pages are latched, and ended by [`Change::commit`]; dropped without that it
/// has logged nothing.
///
/// Without a journal records are not kept, and committing only changes the maps.
///
/// [`Space::change`]: crate::Space::change
///
/// ```
/// use polder_format::log::Operation;
/// use polder_format::{Lsn, PAGE_HEADER_BYTES, PageKind, PageNo, PageSize, header_at};
/// use polder_pool::journal::{full_page_image_bytes, group_bytes, mark_bytes};
/// use polder_pool::{AccessHint, Array, Exclusive, KindOps, Pool, PoolError, Space};
/// # use polder_pool::FileState;
/// # use polder_testkit::{pools, recovery::MemoryLog};
/// # use std::sync::Arc;
///
/// const ACCOUNT: KindOps = KindOps::plain(PageKind(200), "account", |_| Ok(()));
/// const AT: usize = PAGE_HEADER_BYTES;
///
/// /// A page with an amount: the whole page, and that it is in use, in one group.
/// fn open(space: &Space<Array>, amount: u64) -> Result<PageNo, PoolError> {
///     // Once more from here on if the pool had no frame.
///     space.when_admitted(|| {
///         let new = space.create()?;
///         let number = [new.id().page()];
///         let most = full_page_image_bytes(1, space.page_size()) + mark_bytes(&number);
///         let made = space.change(most).and_then(|mut change| {
///             space.run(AccessHint::Normal, |attempt| {
///                 change.clear(); // what the try before has left
///                 let mut held = new.latch()?;
///                 held.set_unlogged(); // if this one comes to nothing
///                 let mut page = held.page_mut();
///                 page.set_u8(header_at::KIND, ACCOUNT.kind.0);
///                 page.set_u8(header_at::LAYOUT, ACCOUNT.max_layout);
///                 page.set_u64(AT, amount);
///                 change.mark(space, attempt, &number, true)?;
///                 change.push_full_page_image(&mut held, AT + 8..space.page_size().bytes());
///                 Ok(change.commit(&mut [&mut held]))
///             })
///         });
///         drop(new);
///         made.inspect_err(|_| space.free(number[0]))?;
///         Ok(number[0])
///     })
/// }
///
/// /// Both pages change, or none.
/// fn pay(space: &Space<Array>, from: PageNo, to: PageNo, sum: u64) -> Result<Lsn, PoolError> {
///     space.when_admitted(|| {
///         let mut change = space.change(group_bytes(2, 16))?;
///         space.run(AccessHint::Normal, |attempt| {
///             change.clear();
///             let (from, to) = (space.page(attempt, from)?, space.page(attempt, to)?);
///             let (mut from, mut to) = (attempt.upgrade(from)?, attempt.upgrade(to)?);
///             let mut write = |held: &mut Exclusive<'_>, amount: u64| {
///                 held.page_mut().set_u64(AT, amount);
///                 let bytes = amount.to_le_bytes();
///                 let patch = Operation::Patch { offset: AT as u32, backed: 0, bytes: &bytes };
///                 change.push(held.id(), &patch);
///             };
///             let Some(left) = from.page().u64(AT).checked_sub(sum) else {
///                 return Err(attempt.fail("there is not so much in the account"));
///             };
///             let amount = to.page().u64(AT) + sum;
///             write(&mut from, left);
///             write(&mut to, amount);
///             Ok(change.commit(&mut [&mut from, &mut to]))
///         })
///     })
/// }
///
/// # let log = Arc::<MemoryLog>::default();
/// # let config = log.behind(pools::config(1, PageSize::MIN, FileState::NEW));
/// # let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &[ACCOUNT])?;
/// let space = pool.create_space()?;
/// let (one, other) = (open(&space, 100)?, open(&space, 0)?);
/// let groups = log.groups().len();
/// pay(&space, one, other, 30)?;
/// let refused = pay(&space, other, one, 31).unwrap_err();
/// assert_eq!(refused.to_string(), "there is not so much in the account");
/// assert_eq!(log.groups().len(), groups + 1);
/// # Ok::<(), PoolError>(())
/// ```
pub struct Change<'p> {
    core: &'p Core,
    journal: Option<&'p dyn Journal>,
    reserved: u64,
    group: ManuallyDrop<Box<Group>>,
    half: Option<Half>,
    maps: Vec<MapChange<'p>>,
    _holding: Holding,
}

/// A page that was logged as the right half of another one.
struct Half {
    page: PageId,
    /// As of its full-page image.
    hole: Range<usize>,
}

/// An allocation map, latched, and the runs of bits that will be set and cleared in it.
struct MapChange<'p> {
    page: Exclusive<'p>,
    /// The reservations of the space, and the page number of bit 0.
    reserved: &'p Mutex<Runs>,
    first: u64,
    linked: Vec<(u32, u32)>,
    freed: Vec<(u32, u32)>,
}

impl MapChange<'_> {
    /// Whether this is the map of a space that begins with page `first`.
    fn is(&self, space: SpaceId, first: u64) -> bool {
        self.first == first && self.page.id().space() == space
    }

    /// Changes the bits. This happens while everything is latched, so that nobody can link or
    /// unlink one of these pages again in between: what is freed stays reserved until it is
    /// discarded and given back, the reservation of what is linked ends here. A page without a bit
    /// is reserved at all times.
    fn apply(mut self) {
        let mut reserved = lock(self.reserved);
        let mut page = self.page.page_mut();
        for (first, count) in self.freed {
            reserved.insert(self.first + u64::from(first), u64::from(count));
            mark(&mut page, first, count, false);
        }
        for (first, count) in self.linked {
            mark(&mut page, first, count, true);
            reserved.remove(self.first + u64::from(first), u64::from(count));
        }
    }
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Change({} bytes, {} maps)", self.group.len(), self.maps.len())
    }
}

impl<'p> Change<'p> {
    /// A1.
    fn new(core: &'p Core, most: usize) -> Result<Change<'p>, PoolError> {
        let journal = core.journal.as_deref();
        let reserved = if journal.is_some() { most.max(1) as u64 } else { 0 };
        if let Some(journal) = journal {
            journal.reserve(reserved).map_err(|source| PoolError::Journal { source })?;
        }
        let mut group = ManuallyDrop::new(buffer());
        if reserved > KEPT_BYTES as u64 && group.reserve(most).is_err() {
            journal.iter().for_each(|journal| journal.release(reserved));
            let source = Arc::new(io::ErrorKind::OutOfMemory.into());
            let what = "the records of a change";
            return Err(PoolError::Memory { what, bytes: most as u64, source });
        }
        let (half, maps) = (None, Vec::new());
        Ok(Change { core, journal, reserved, group, half, maps, _holding: Holding::new() })
    }

    /// Whether records are kept: whether the pool has a journal.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.journal.is_some()
    }

    /// Begins again, if nothing was committed: there are no records and no map is held. Each try of
    /// an operation begins by this; the reservation stays.
    pub fn clear(&mut self) {
        self.group.clear();
        self.half = None;
        self.maps.clear();
    }

    /// Adds a record about a page that is latched. The records of a change, those of its maps
    /// included, take no more bytes of log than were reserved
    /// ([`group_bytes`](crate::journal::group_bytes)).
    #[inline]
    pub fn push(&mut self, page: PageId, operation: &Operation<'_>) {
        if self.is_logged() {
            self.group.push(page, operation);
        }
    }

    /// Adds the whole page as it is now, but for the bytes in `hole`, which count as zeros; a hole
    /// is cut off at the end of the page. It takes
    /// [`full_page_image_bytes`](crate::journal::full_page_image_bytes) at most. Links are logged
    /// as the ids of their pages.
    pub fn push_full_page_image(&mut self, page: &mut Exclusive<'_>, hole: Range<usize>) {
        if !self.is_logged() {
            return;
        }
        let (id, bytes) = (page.id(), page.page());
        let size = bytes.size();
        let high = hole.end.clamp(hole.start.min(size), size);
        let low = hole.start.min(high);
        self.group.push_full_page_image(id, size as u32, (low, size - high), |first, last| {
            for (begin, part) in [(0, first), (high, last)] {
                bytes.copy_to(begin, part);
                (self.core.copied_out)(&self.core.kinds, bytes, id.space(), begin, part);
            }
        });
        page.set_imaged();
    }

    /// Adds all of `right`, which is a new page and was given what `left` had behind this place, so many
    /// slots and the separator: as its right half, if the log has enough of `left` to make it of that
    /// again (`HALF-1`), or else as [`Change::push_full_page_image`]. Beside all else of the change room
    /// for two full-page images is to be reserved: an image may be logged behind the half (`HALF-2`).
    ///
    /// * `HALF-1` A page is logged as a right half only if no checkpoint sweeps and, looked at behind that,
    ///   its left one is imaged. So whatever lies in place of the left one, a recovery has its image, and
    ///   makes of that what the left one was when it was split. (A sweep writes what is imaged, and `imaged`
    ///   ends with that: one that was done before the first look has done so before the second.)
    /// * `HALF-2` A checkpoint that begins between these looks and A3 would have a recovery begin behind the
    ///   image, with a left page in place that was split already. It cannot be done while the left page is
    ///   latched. So it is looked for once more behind A3, and the full-page image of the right page logged
    ///   then, in a group of its own, before the latches are released: nobody can see the one without the
    ///   other.
    pub fn push_right_half(
        &mut self,
        left: &Exclusive<'_>,
        right: &mut Exclusive<'_>,
        (left_count, separator): (u32, &[u8]),
        hole: Range<usize>,
    ) {
        let Some(journal) = self.journal else { return };
        if journal.is_sweeping() || !left.meta().is_imaged() {
            return self.push_full_page_image(right, hole);
        }
        let left = left.id().to_bits();
        self.group.push(right.id(), &Operation::RightHalf { left, left_count, separator });
        self.half = Some(Half { page: right.id(), hole });
        right.set_imaged();
    }

    /// A5 and A6: logs what was pushed, changes the maps, and stamps all pages that the records
    /// name. `pages` must be those, and none of them may have been unlatched. The records may have
    /// been pushed before the pages are changed, or after.
    ///
    /// Gives the LSN at which the group ends, which the pages bear now: the change is durable when
    /// the log is durable up to there. It is 0 without a journal. The reservation is used up, so
    /// that a change is committed once.
    pub fn commit(&mut self, pages: &mut [&mut Exclusive<'_>]) -> Lsn {
        // A2 (all is latched, and nothing behind this can fail: the bits belong to the group, too)
        if self.journal.is_some() {
            for map in &self.maps {
                for (used, runs) in [(true, &map.linked), (false, &map.freed)] {
                    for runs in runs.chunks(RUNS_A_RECORD) {
                        let runs = runs.to_vec();
                        self.group.push(map.page.id(), &Operation::Mark { used, runs });
                    }
                }
            }
        }
        let mut lsn = Lsn(0);
        if let Some(journal) = self.journal {
            // A3 to A5, under all latches: the order of latches is that of the log
            let reserved = std::mem::take(&mut self.reserved);
            lsn = match self.half.take() {
                None => journal.append(&mut self.group, reserved),
                Some(half) => self.append_half(journal, half, reserved, pages),
            };
            // A6
            pages.iter_mut().for_each(|page| page.stamp(lsn));
            self.maps.iter_mut().for_each(|map| map.page.stamp(lsn));
        }
        self.maps.drain(..).for_each(MapChange::apply);
        self.group.clear();
        lsn
    }

    /// `HALF-2`: the group, and the image of the right half if it must be there.
    fn append_half(
        &mut self,
        journal: &dyn Journal,
        half: Half,
        reserved: u64,
        pages: &mut [&mut Exclusive<'_>],
    ) -> Lsn {
        let for_image =
            (full_page_image_bytes(1, self.core.page_size()) + group_bytes(1, 0)) as u64;
        let lsn = journal.append_keeping(&mut self.group, reserved, for_image);
        let right = pages.iter_mut().find(|page| page.id() == half.page);
        debug_assert!(right.is_some(), "{} was logged, and is not committed", half.page);
        let Some(right) = right.filter(|_| journal.is_sweeping()) else {
            journal.release(for_image);
            return lsn;
        };
        self.group.clear();
        self.push_full_page_image(right, half.hole);
        // An image of a leaf that is alone in its group is one of a bulk load, which is not linked yet.
        self.push(half.page, &Operation::Loaded { entries: 0 });
        journal.append(&mut self.group, for_image)
    }

    /// As [`Change::mark`].
    pub(crate) fn mark_in<T: Translation>(
        &mut self,
        view: View<'p, T>,
        attempt: &mut Attempt<'p>,
        pages: &[PageNo],
        used: bool,
    ) -> Result<(), Restart> {
        let mut sorted: Vec<u64> = pages.iter().map(|page| page.get()).collect();
        sorted.sort_unstable();
        let per_map = pages_per_alloc_map(self.core.page_size());
        let of_maps = || sorted.chunk_by(|a, b| a / per_map == b / per_map);
        let before = self.maps.len();
        for of_map in of_maps() {
            let first = of_map[0] / per_map * per_map;
            if let Err(restart) = self.latch_map(view, attempt, first) {
                // What is latched here must not stay so until the next try.
                self.maps.truncate(before);
                return Err(restart);
            }
        }
        for of_map in of_maps() {
            let first = of_map[0] / per_map * per_map;
            let runs = runs_of(of_map.iter().map(|page| (page - first) as u32));
            let Some(map) = self.maps.iter_mut().find(|map| map.is(view.space.id, first)) else {
                return Err(Restart);
            };
            let right = |(bit, count): &(u32, u32)| {
                (*bit..bit + count).all(|bit| is_used(&map.page, bit) != used)
            };
            if !runs.iter().all(right) {
                let what = if used { "a free page is in use" } else { "a page was freed twice" };
                return Err(attempt.fail(PoolError::Broken { page: map.page.id(), what }));
            }
            if used { map.linked.extend(runs) } else { map.freed.extend(runs) }
        }
        Ok(())
    }

    /// Latches the allocation map that begins with page `first`, if this change does not hold it.
    fn latch_map<T: Translation>(
        &mut self,
        view: View<'p, T>,
        attempt: &mut Attempt<'p>,
        first: u64,
    ) -> Result<(), Restart> {
        if self.maps.iter().any(|map| map.is(view.space.id, first)) {
            return Ok(());
        }
        let id = PageId::new(view.space.id, PageNo::new(first).unwrap_or(PageNo::MAX));
        let map = view.follow(attempt, LinkRef::Id(id), None)?;
        self.maps.push(MapChange {
            page: attempt.upgrade(map)?,
            reserved: &view.space.reserved,
            first,
            linked: Vec::new(),
            freed: Vec::new(),
        });
        Ok(())
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.filter(|_| self.reserved > 0) {
            journal.release(self.reserved);
        }
        self.group.clear();
        // SAFETY: nobody uses the group behind this.
        let group = unsafe { ManuallyDrop::take(&mut self.group) };
        if group.capacity() > KEPT_BYTES {
            return;
        }
        // A thread that is ending keeps no buffer.
        let _ = BUFFER.try_with(|buffer| buffer.set(Some(group)));
    }
}

fn is_used(map: &Exclusive<'_>, bit: u32) -> bool {
    let word = map.page().u64(ALLOC_MAP_BITS_AT + 8 * (bit / 64) as usize);
    word >> (bit % 64) & 1 == 1
}

/// Ascending numbers as runs of first and length.
fn runs_of(bits: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for bit in bits {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == bit => *count += 1,
            _ => runs.push((bit, 1)),
        }
    }
    runs
}

/// Sets or clears a run of bits in an allocation map, as far as they are not so already.
pub(crate) fn mark(map: &mut PageMut<'_>, first: u32, count: u32, used: bool) {
    let bits = (map.size() - ALLOC_MAP_BITS_AT) as u32 * 8;
    let end = first.saturating_add(count).min(bits);
    let mut changed = 0;
    let mut bit = first;
    while bit < end {
        let in_word = (64 - bit % 64).min(end - bit);
        let mask = (u64::MAX >> (64 - in_word)) << (bit % 64);
        let at = ALLOC_MAP_BITS_AT + 8 * (bit / 64) as usize;
        let word = map.as_ref().u64(at);
        let new = if used { word | mask } else { word & !mask };
        changed += (word ^ new).count_ones();
        map.set_u64(at, new);
        bit += in_word;
    }
    let count = map.as_ref().u32(ALLOC_MAP_USED_AT);
    let count = if used { count + changed } else { count.wrapping_sub(changed) };
    map.set_u32(ALLOC_MAP_USED_AT, count);
}

/// Bytes of log that one changed word takes.
pub(crate) const PATCH_BYTES: usize = 128;

/// Logs the word at `at`, which has been changed.
pub(crate) fn log_word(change: &mut Change<'_>, page: &mut Exclusive<'_>, at: usize, backed: u64) {
    let bytes = page.page().u64(at).to_le_bytes();
    let (offset, backed) = (at as u32, backed as u32);
    change.push(page.id(), &Operation::Patch { offset, backed, bytes: &bytes });
    change.commit(&mut [page]);
}

/// Pushes a full-page image of a page of a map, without the zeros at its end.
pub(crate) fn log_image(change: &mut Change<'_>, page: &mut Exclusive<'_>) {
    let size = page.page().size();
    let used = (0..size).step_by(8).rev().find(|at| page.page().u64(*at) != 0);
    change.push_full_page_image(page, used.map_or(0, |at| at + 8)..size);
}

impl<T: Translation> Shared<T> {
    /// A change by a thread that holds nothing others wait for: goes no faster than the log is
    /// made shorter.
    #[inline]
    pub(crate) fn change_at_pace(&self, most: usize) -> Result<Change<'_>, PoolError> {
        if let Some(journal) = &self.core.journal
            && !journal.throttle(most as u64)
        {
            return Err(PoolError::WouldWait);
        }
        self.change(most)
    }

    /// A change of the pool's own maps, by a caller that may hold what guards them.
    #[inline]
    pub(crate) fn change(&self, most: usize) -> Result<Change<'_>, PoolError> {
        Change::new(&self.core, most)
    }

    /// Waits until everything that was logged so far is durable: before what a map has ceased to
    /// name may be overwritten or punched.
    pub(crate) fn settle_log(&self) -> Result<(), PoolError> {
        let Some(journal) = &self.core.journal else { return Ok(()) };
        journal.await_durable(journal.end()).map_err(|source| PoolError::Journal { source })
    }
}
