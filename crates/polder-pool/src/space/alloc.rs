//! Giving out pages of a space, and taking them back.
//!
//! Each allocation map (a page of the space itself) has a bit for every page that it speaks of:
//! set if the page is linked. It changes in the group that links or unlinks the page
//! ([`Change::mark`](crate::Change::mark)), so that a crash leaves no page that is in use and
//! linked by nobody. Pages that were made and not linked yet, or unlinked and not discarded yet,
//! are *reserved*, in memory alone. The reservation ends when the bit has been set, and begins
//! before it is cleared, both while the allocation map and everything else of the change is
//! latched; a thread that allocates reserves first and looks at the bit again afterwards. So no
//! number is given out twice.
//!
//! Pages are given out lowest first, so that a space stays dense and its last extents come free.
//! The space's mutex is held throughout; maps and extents are looked at without latches, which
//! nobody else changes meanwhile, so that nothing is loaded while a latch is held.

use polder_format::{ALLOC_MAP_BITS_AT, ALLOC_MAP_NEXT_AT, ALLOC_MAP_USED_AT};
use polder_format::{Extent, PageId, PageKind, PageNo, header_at, pages_per_alloc_map};

use crate::error::PoolError;
use crate::file_map::{AllocState, GivenBack};
use crate::frame::OPERATION_FRAMES;
use crate::journal::full_page_image_bytes;
use crate::latch::NewPage;
use crate::page::{LinkRef, PageBuf, PageRef};
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::space::change::{PATCH_BYTES, log_image, log_word};
use crate::sync::atomic::Ordering;
use crate::sync::lock;
use crate::translation::Translation;

impl<T: Translation> Shared<T> {
    /// A new page of a space, all zeros behind its header. None: no page in front of `limit` is
    /// free.
    pub(crate) fn create_page<'p>(
        &'p self,
        space: &'p SpaceCore<T>,
        limit: PageNo,
    ) -> Result<Option<NewPage<'p>>, PoolError> {
        self.when_admitted(OPERATION_FRAMES, || {
            let Some(page) = self.allocate_page(space, limit)? else { return Ok(None) };
            let made = self.make(space, page).inspect_err(|_| {
                self.free_page(space, page);
            });
            made.map(Some)
        })
    }

    /// Frees a reserved page that nothing refers to, resident or not. If it is lent it stays reserved
    /// until it is not (`LOAN-3`).
    pub(crate) fn discard_and_free(&self, space: &SpaceCore<T>, page: PageNo) {
        // REMEMBER-1, also for a page that is not resident, or stays for a while.
        space.discarded.fetch_add(1, Ordering::AcqRel);
        if let Some(held) = self.latch_resident(space, page) {
            if held.leaves_later() {
                return;
            }
            self.discard(space, held);
        }
        self.free_page(space, page);
    }

    /// Whether the maps say that a page is in use.
    pub(crate) fn is_used(&self, space: &SpaceCore<T>, page: PageNo) -> Result<bool, PoolError> {
        let per_map = pages_per_alloc_map(self.core.page_size());
        let (m, bit) = (page.get() / per_map, page.get() % per_map);
        let _admitted = self.admit();
        if m >= self.count_maps(space, &mut lock(&space.alloc))? {
            return Ok(false);
        }
        Ok(self.find_free(space, self.alloc_map(m)?, bit, 1)? != Some(bit))
    }

    /// How many pages of the space are in use, allocation maps included.
    pub(crate) fn pages_in_use(&self, space: &SpaceCore<T>) -> Result<u64, PoolError> {
        let mut pages = 0;
        self.each_map(space, 0, &mut |_, map| {
            pages += u64::from(map.u32(ALLOC_MAP_USED_AT));
            true
        })?;
        Ok(pages)
    }

    /// In front of which page number all pages of the space have room: the end of the extent that
    /// the last of them would lie in, but never so far that one more allocation map is needed.
    pub(crate) fn dense_end(&self, space: &SpaceCore<T>) -> Result<PageNo, PoolError> {
        let per_map = pages_per_alloc_map(self.core.page_size());
        let mut pages = 0;
        self.each_map(space, 0, &mut |_, map| {
            pages += u64::from(map.u32(ALLOC_MAP_USED_AT)).saturating_sub(1);
            true
        })?;
        let maps = pages.div_ceil(per_map - 1).max(1);
        let last = PageNo::new(pages + maps - 1).ok_or(TOO_MANY_PAGES)?;
        let extent = self.core.map.schedule.of_page(last);
        let end = (extent.first.get() + extent.pages).min(maps * per_map);
        Ok(PageNo::new(end).unwrap_or(PageNo::MAX))
    }

    /// The numbers of all pages in use but the allocation maps, in order.
    pub(crate) fn used_pages(&self, space: &SpaceCore<T>) -> Result<Vec<PageNo>, PoolError> {
        self.used_pages_from(space, 0, usize::MAX)
    }

    /// The numbers of the pages in use from `from` on, as [`Shared::used_pages`]: those of so many
    /// allocation maps that there are at least `enough` of them.
    pub(crate) fn used_pages_from(
        &self,
        space: &SpaceCore<T>,
        from: u64,
        enough: usize,
    ) -> Result<Vec<PageNo>, PoolError> {
        let per_map = pages_per_alloc_map(self.core.page_size());
        let mut pages = Vec::new();
        self.each_map(space, from / per_map, &mut |first, map| {
            let first_bit = from.saturating_sub(first);
            for at in (ALLOC_MAP_BITS_AT..map.size()).step_by(8) {
                let mut word = map.u64(at);
                while word != 0 {
                    let bit =
                        (at - ALLOC_MAP_BITS_AT) as u64 * 8 + u64::from(word.trailing_zeros());
                    if bit != 0 && bit >= first_bit {
                        pages.extend(PageNo::new(first + bit));
                    }
                    word &= word - 1;
                }
            }
            pages.len() < enough
        })?;
        Ok(pages)
    }

    /// Calls `visit` with a copy of each allocation map from the `from`th on and the number of its
    /// first page, until it gives false.
    fn each_map(
        &self,
        space: &SpaceCore<T>,
        from: u64,
        visit: &mut dyn FnMut(u64, PageRef<'_>) -> bool,
    ) -> Result<(), PoolError> {
        let mut copy = PageBuf::new(self.core.page_size());
        let _admitted = self.admit();
        let maps = {
            let mut state = lock(&space.alloc);
            self.count_maps(space, &mut state)?
        };
        for m in from..maps {
            let page = self.alloc_map(m)?;
            let (view, link) = (self.view(space), LinkRef::Id(PageId::new(space.id, page)));
            let read = view.run_as::<true, _>(AccessHint::Normal, |attempt| {
                let map = view.follow(attempt, link, None)?;
                copy.copy_from(map.page());
                map.validate()
            });
            if let Err(error) = read {
                // The last maps go when they are no longer needed.
                let is_gone = self.count_maps(space, &mut lock(&space.alloc))? <= m;
                return if is_gone { Ok(()) } else { Err(error) };
            }
            if !visit(page.get(), copy.page()) {
                break;
            }
        }
        Ok(())
    }

    /// Reserves the first free page, if it lies in front of `limit`.
    fn allocate_page(
        &self,
        space: &SpaceCore<T>,
        limit: PageNo,
    ) -> Result<Option<PageNo>, PoolError> {
        let mut state = lock(&space.alloc);
        space.check_not_dropped()?;
        let per_map = pages_per_alloc_map(self.core.page_size());
        let maps = self.count_maps(space, &mut state)?;
        for m in state.lowest / per_map..=maps {
            if m * per_map >= limit.get() {
                return Ok(None);
            }
            if m == maps {
                self.make_alloc_map(space, &mut state, m)?;
                state.maps = Some(maps + 1);
            }
            let map = self.alloc_map(m)?;
            let from = state.lowest.saturating_sub(map.get());
            let Some(bit) = self.reserve_free(space, map, from, 1)? else { continue };
            let page = PageNo::new(map.get() + bit).ok_or(TOO_MANY_PAGES)?;
            if page >= limit {
                lock(&space.reserved).remove(page.get(), 1);
                state.lowest = page.get();
                return Ok(None);
            }
            if let Err(error) = self.ensure_extent(space, &mut state, page) {
                lock(&space.reserved).remove(page.get(), 1);
                return Err(error);
            }
            state.lowest = page.get() + 1;
            return Ok(Some(page));
        }
        Err(TOO_MANY_PAGES)
    }

    /// Reserves so many pages in front of `limit`, in ascending order: the first run of so many free ones
    /// in the map that has the lowest free page, so that a space stays dense; or the lowest free pages.
    /// On an error, and if there are not so many, none.
    pub(crate) fn reserve_pages(
        &self,
        space: &SpaceCore<T>,
        count: usize,
        limit: PageNo,
    ) -> Result<Option<Vec<PageNo>>, PoolError> {
        self.when_admitted(OPERATION_FRAMES, || {
            if count > 1
                && let Some(run) = self.reserve_run(space, count as u64, limit)?
            {
                return Ok(Some(run));
            }
            let mut pages = Vec::with_capacity(count);
            while pages.len() < count {
                match self.allocate_page(space, limit) {
                    Ok(Some(page)) => pages.push(page),
                    other => {
                        pages.iter().for_each(|page| self.free_page(space, *page));
                        return other.map(|_| None);
                    }
                }
            }
            Ok(Some(pages))
        })
    }

    fn reserve_run(
        &self,
        space: &SpaceCore<T>,
        count: u64,
        limit: PageNo,
    ) -> Result<Option<Vec<PageNo>>, PoolError> {
        let mut state = lock(&space.alloc);
        space.check_not_dropped()?;
        let per_map = pages_per_alloc_map(self.core.page_size());
        let m = state.lowest / per_map;
        if m >= self.count_maps(space, &mut state)? {
            return Ok(None);
        }
        let map = self.alloc_map(m)?;
        let from = state.lowest.saturating_sub(map.get());
        let Some(bit) = self.reserve_free(space, map, from, count)? else { return Ok(None) };
        let (first, end) = (map.get() + bit, map.get() + bit + count);
        let pages: Vec<_> = (first..end).filter_map(PageNo::new).collect();
        let schedule = &self.core.map.schedule;
        let same =
            |a: &PageNo, b: &PageNo| schedule.of_page(*a).index == schedule.of_page(*b).index;
        // Beyond the limit it needs none.
        let mut extents = pages.chunk_by(same).filter(|_| end <= limit.get());
        let ensured = extents
            .try_for_each(|of_one| self.ensure_extent(space, &mut state, of_one[0]).map(drop));
        if ensured.is_err() || end > limit.get() {
            lock(&space.reserved).remove(first, count);
            return ensured.map(|()| None);
        }
        if first == state.lowest {
            state.lowest = end;
        }
        Ok(Some(pages))
    }

    /// The first of so many bits from `from` on that are all zero.
    fn find_free(
        &self,
        space: &SpaceCore<T>,
        map: PageNo,
        from: u64,
        count: u64,
    ) -> Result<Option<u64>, PoolError> {
        let id = PageId::new(space.id, map);
        let view = self.view(space);
        view.run(AccessHint::Normal, |attempt| {
            let guard = view.follow(attempt, LinkRef::Id(id), None)?;
            let page = guard.page();
            let bits = (page.size() - ALLOC_MAP_BITS_AT) as u64 * 8;
            // The run that ends in front of the next bit.
            let (mut begin, mut at) = (from, from);
            while at < bits && at - begin < count {
                let used = page.u64(ALLOC_MAP_BITS_AT + 8 * (at / 64) as usize) >> (at % 64);
                let left = 64 - at % 64;
                let free = u64::from(used.trailing_zeros()).min(left);
                at += free;
                if free < left && at - begin < count {
                    // Past those that are used.
                    at += u64::from((used >> free).trailing_ones());
                    begin = at;
                }
            }
            guard.validate()?;
            Ok((at - begin >= count).then_some(begin))
        })
    }

    /// Reserves so many pages in a row, the first ones from bit `from` of a map on that are neither in use
    /// nor reserved.
    fn reserve_free(
        &self,
        space: &SpaceCore<T>,
        map: PageNo,
        mut from: u64,
        count: u64,
    ) -> Result<Option<u64>, PoolError> {
        loop {
            let Some(bit) = self.find_free(space, map, from, count)? else { return Ok(None) };
            let (first, end) = (map.get() + bit, map.get() + bit + count);
            {
                let mut reserved = lock(&space.reserved);
                if let Some(end) = reserved.last_end_within(first, end) {
                    from = end - map.get();
                    continue;
                }
                reserved.insert(first, count);
            }
            // A thread that had one reserved may have linked it since the bits were read: the bit
            // is set before the reservation ends.
            let found = self.find_free(space, map, bit, count);
            if matches!(found, Ok(Some(free)) if free == bit) {
                return Ok(Some(bit));
            }
            lock(&space.reserved).remove(first, count);
            found?;
            from = bit + 1;
        }
    }

    /// The page of the `m`th allocation map.
    fn alloc_map(&self, m: u64) -> Result<PageNo, PoolError> {
        PageNo::new(m * pages_per_alloc_map(self.core.page_size())).ok_or(TOO_MANY_PAGES)
    }

    /// How many allocation maps the space has.
    fn count_maps(&self, space: &SpaceCore<T>, state: &mut AllocState) -> Result<u64, PoolError> {
        if let Some(maps) = state.maps {
            return Ok(maps);
        }
        let mut maps = 0;
        let mut more = self.array_get(&space.map, 0)? != 0;
        while more {
            let id = PageId::new(space.id, self.alloc_map(maps)?);
            let view = self.view(space);
            more = view.run(AccessHint::Normal, |attempt| {
                let map = view.follow(attempt, LinkRef::Id(id), None)?;
                let next = map.page().u32(ALLOC_MAP_NEXT_AT);
                map.validate()?;
                Ok(next == 1)
            })?;
            maps += 1;
        }
        state.maps = Some(maps);
        Ok(maps)
    }

    /// A reserved page is free.
    pub(crate) fn free_page(&self, space: &SpaceCore<T>, page: PageNo) {
        if self.core.map.deferred.note(GivenBack::Page(PageId::new(space.id, page))) {
            return;
        }
        {
            let mut state = lock(&space.alloc);
            lock(&space.reserved).remove(page.get(), 1);
            state.lowest = state.lowest.min(page.get());
        }
        self.core.map.freed.add();
    }

    /// Makes the `m`th allocation map. Its predecessor tells of it last, so that an error leaves
    /// no map behind that was not made.
    fn make_alloc_map(
        &self,
        space: &SpaceCore<T>,
        state: &mut AllocState,
        m: u64,
    ) -> Result<(), PoolError> {
        let map = self.alloc_map(m)?;
        let fresh = self.ensure_extent(space, state, map)?;
        let new = match self.make(space, map) {
            Ok(new) => new,
            Err(error) if fresh => {
                self.release_extent(space, self.core.map.schedule.of_page(map))?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let mut change = self.change(full_page_image_bytes(1, self.core.page_size()))?;
        if let Ok(mut latched) = new.latch() {
            let mut page = latched.page_mut();
            page.set_u8(header_at::KIND, PageKind::ALLOC_MAP.0);
            page.set_u8(header_at::LAYOUT, 1);
            page.set_u32(ALLOC_MAP_USED_AT, 1);
            page.set_u64(ALLOC_MAP_BITS_AT, 1);
            log_image(&mut change, &mut latched);
            change.commit(&mut [&mut latched]);
        }
        drop(change);
        match m.checked_sub(1) {
            Some(before) => self.tell_next_map(space, before, true),
            None => Ok(()),
        }
    }

    /// Has the `m`th allocation map tell whether there is a next one.
    fn tell_next_map(&self, space: &SpaceCore<T>, m: u64, next: bool) -> Result<(), PoolError> {
        let mut change = self.change(PATCH_BYTES)?;
        let id = PageId::new(space.id, self.alloc_map(m)?);
        let view = self.view(space);
        view.run(AccessHint::Normal, |attempt| {
            let guard = view.follow(attempt, LinkRef::Id(id), None)?;
            let mut map = attempt.upgrade(guard)?;
            map.page_mut().set_u32(ALLOC_MAP_NEXT_AT, u32::from(next));
            log_word(&mut change, &mut map, ALLOC_MAP_USED_AT, 0);
            Ok(())
        })
    }

    /// Drops the last allocation maps of a space, as far as they speak of no page in use but
    /// themselves: else each would keep its extent. The caller holds the space's mutex, so that
    /// nothing is given out meanwhile.
    ///
    /// The map before it tells first that it is gone; a crash behind that leaves a page that
    /// nobody reads, in an extent that is released later.
    pub(super) fn drop_last_maps(
        &self,
        space: &SpaceCore<T>,
        state: &mut AllocState,
    ) -> Result<(), PoolError> {
        let per_map = pages_per_alloc_map(self.core.page_size());
        loop {
            let last = self.count_maps(space, state)?.saturating_sub(1);
            let Some(before) = last.checked_sub(1) else { return Ok(()) };
            let map = self.alloc_map(last)?;
            // The two looks are those of `extent_is_free`.
            let is_reserved =
                || lock(&space.reserved).any_within(map.get(), map.get().saturating_add(per_map));
            if is_reserved() || self.used_of_map(space, map)? > 1 || is_reserved() {
                return Ok(());
            }
            self.tell_next_map(space, before, false)?;
            state.maps = Some(last);
            state.lowest = state.lowest.min(map.get());
            if let Some(held) = self.latch_resident(space, map) {
                self.discard(space, held);
            }
        }
    }

    /// How many pages are in use of those that an allocation map speaks of.
    fn used_of_map(&self, space: &SpaceCore<T>, map: PageNo) -> Result<u32, PoolError> {
        let view = self.view(space);
        view.run(AccessHint::Normal, |attempt| {
            let guard = view.follow(attempt, LinkRef::Id(PageId::new(space.id, map)), None)?;
            let used = guard.page().u32(ALLOC_MAP_USED_AT);
            guard.validate()?;
            Ok(used)
        })
    }

    /// Whether no page of this extent is in use. The caller holds the space's mutex.
    pub(super) fn extent_is_free(
        &self,
        space: &SpaceCore<T>,
        state: &mut AllocState,
        extent: Extent,
    ) -> Result<bool, PoolError> {
        let per_map = pages_per_alloc_map(self.core.page_size());
        let maps = self.count_maps(space, state)?;
        let end = extent.first.get() + extent.pages;
        let is_reserved = || lock(&space.reserved).any_within(extent.first.get(), end);
        // Before the bits: what was reserved and is linked meanwhile. (Nothing is given out: the
        // caller holds the mutex.)
        if is_reserved() {
            return Ok(false);
        }
        let mut next = extent.first.get();
        while next < end && next / per_map < maps {
            let map = self.alloc_map(next / per_map)?;
            let last = (map.get() + per_map).min(end);
            if self.any_used(space, map, next - map.get(), last - map.get())? {
                return Ok(false);
            }
            next = last;
        }
        // And after them: what was unlinked meanwhile and is not discarded yet.
        Ok(!is_reserved())
    }

    fn any_used(
        &self,
        space: &SpaceCore<T>,
        map: PageNo,
        from: u64,
        to: u64,
    ) -> Result<bool, PoolError> {
        let id = PageId::new(space.id, map);
        let view = self.view(space);
        view.run(AccessHint::Normal, |attempt| {
            let guard = view.follow(attempt, LinkRef::Id(id), None)?;
            let page = guard.page();
            // An extent is shorter than a word and within one, or consists of parts of words.
            let used = (from / 64..to.div_ceil(64)).any(|word| {
                let low = from.max(64 * word) - 64 * word;
                let high = to.min(64 * word + 64) - 64 * word;
                let bits = (u64::MAX >> (64 - (high - low))) << low;
                page.u64(ALLOC_MAP_BITS_AT + 8 * word as usize) & bits != 0
            });
            guard.validate()?;
            Ok(used)
        })
    }
}

/// A space has as many pages as there are numbers for.
const TOO_MANY_PAGES: PoolError =
    PoolError::Limit { what: "a space's pages", limit: PageNo::MAX.get() };
