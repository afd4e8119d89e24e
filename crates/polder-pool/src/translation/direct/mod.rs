//! Direct translation: the page number says the frame. The yardstick of in-memory speed.
//!
//! 1. A space has a few chunks of frames that follow each other, each twice as long as the one before it. Its
//!    directory says where each begins; the page number says which chunk, and the place in it: the frame
//!    follows by an addition.
//! 2. The state words lie dense, 8 bytes a frame, in the order of the frames. So this is the least that any
//!    translation with a latch a page must do.
//! 3. A page that comes takes its frame from the budget, which counts those in use: frames are addresses, and
//!    only touched ones cost memory. Nothing is ever evicted; when the budget is used up, an error says so.
//! 4. The chunks of a space that was dropped are given to the next one that wants chunks of their length.
//!
//! The first chunks of a space are small and lie on small pages of the kernel beside those of other spaces, so
//! that many small spaces cost what they use; large chunks are on huge pages, of which the last one that a
//! space has come to may be touched in part: up to 2 MiB more than is counted, for a space of at least 16 MiB.
//!
//! * `DIRECT-1` A chunk on huge pages begins where one begins, and so does what follows it.

#![cfg(not(loom))]

use std::array;
use std::ptr::NonNull;
use std::sync::Mutex;

use polder_format::{PageId, PageNo, SpaceId};

use super::parts::chunks::{chunk_count, chunk_first, chunk_len, chunk_of};
use super::seam::{
    Footprint, PageMemory, Placement, ReadModes, Translation, TranslationConfig, Words,
};
use crate::error::PoolError;
use crate::frame::Frames;
use crate::latch::{FrameId, Latches, Resolved, StateCell};
use crate::machine::{HUGE_PAGE_BYTES, Table, Zeroed};
use crate::page::bytes::prefetch_line;
use crate::page::{LinkRef, PageRef};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::lock;

/// The first chunk of a space has 2 pages: the fewest that a space with something in it uses.
const FIRST: u32 = 1;
const CHUNKS: usize = chunk_count(FIRST);
/// Chunks from this size on are on huge pages: the space has as much in smaller ones, so that the
/// part of a huge page that it does not use is small beside it.
const HUGE_CHUNK_BYTES: u64 = 16 << 20;
/// Pages of the file for the smallest space: an extent. It uses three, one of them in space 0, and
/// chunks double: so there are addresses for more such spaces than the budget pays for.
const FILE_PAGES: u32 = 16;
/// Frames reserved on top of the budget's multiple, for what spaces use no more.
const SMALL_SPACES: u32 = 1 << 18;

/// Direct translation: the page number says the frame, and nothing is ever evicted.
#[derive(Debug)]
pub struct Direct {
    cells: Table<StateCell>,
    frames: u32,
    runs: Mutex<Runs>,
    give_backs: AtomicU64,
}

#[derive(Debug)]
struct Runs {
    /// Frames from here on were never given out.
    next: u32,
    /// First frames of the chunks of dropped spaces, by their place in a directory.
    idle: [Vec<u32>; CHUNKS],
}

impl Runs {
    /// The first frame of a chunk for the place `k` of a space's directory, if there are `most`
    /// frames.
    fn take(&mut self, space: SpaceId, k: usize, frames: &Frames, most: u32) -> Option<u32> {
        // Space 0 has its pages where the file has maps: few, and far from each other. It is never
        // dropped, so that nobody finds its chunks among the idle ones.
        let is_sparse = space == SpaceId::FILE;
        if let Some(first) = self.idle[k].pop_if(|_| !is_sparse) {
            return Some(first);
        }
        let (len, shift) = (chunk_len(FIRST, k), frames.page_size().shift());
        let is_huge = !is_sparse && len << shift >= HUGE_CHUNK_BYTES;
        let first = match is_huge {
            true => self.next.next_multiple_of((HUGE_PAGE_BYTES >> shift) as u32), // DIRECT-1
            false => self.next,
        };
        let next = u64::from(first) + len;
        if next > u64::from(most) {
            return None;
        }
        if is_huge {
            frames.prefer_huge_pages(FrameId::new(first), len);
        }
        self.next = next as u32;
        Some(first)
    }
}

/// Where the chunks of one space lie among the frames.
#[derive(Debug)]
pub struct DirectDirectory {
    space: SpaceId,
    /// Frame of the first page of each chunk, 0 if there is no such chunk.
    first_frames: [AtomicU32; CHUNKS],
    closed: Mutex<bool>,
}

impl DirectDirectory {
    #[inline(always)]
    fn frame(&self, page: PageNo) -> Option<FrameId> {
        let k = chunk_of(FIRST, page.get());
        let first = self.first_frames[k].load(Ordering::Acquire);
        if first == 0 {
            return None;
        }
        Some(FrameId::new(first + (page.get() - chunk_first(FIRST, k)) as u32))
    }
}

// SAFETY: all zero is a page that is not resident, and it is an atomic.
unsafe impl Zeroed for StateCell {}

impl Direct {
    #[inline(always)]
    fn cell(&self, frame: FrameId) -> &StateCell {
        // SAFETY: there is one for each frame and one more; frames come from `Runs::take`, which
        // gives none above `frames`.
        unsafe { self.cells.get_unchecked(frame.get() as usize) }
    }
}

impl Words for Direct {
    type Directory = DirectDirectory;

    fn bytes_per_frame() -> u64 {
        4 * size_of::<StateCell>() as u64
    }

    fn footprint(&self) -> Footprint {
        let given = u64::from(lock(&self.runs).next);
        Footprint {
            give_backs: self.give_backs.load(Ordering::Relaxed),
            page_moves: 0,
            ..Footprint::on_huge_pages(given * size_of::<StateCell>() as u64)
        }
    }

    fn open(&self, space: SpaceId) -> DirectDirectory {
        DirectDirectory {
            space,
            first_frames: array::from_fn(|_| AtomicU32::new(0)),
            closed: Mutex::new(false),
        }
    }

    fn close(&self, directory: &DirectDirectory) {
        *lock(&directory.closed) = true;
        let mut runs = lock(&self.runs);
        for k in 0..CHUNKS {
            let first = directory.first_frames[k].swap(0, Ordering::AcqRel);
            if first != 0 {
                runs.idle[k].push(first);
            }
        }
    }

    fn for_each_present(&self, directory: &DirectDirectory, visit: &mut dyn FnMut(PageNo)) {
        for k in 0..CHUNKS {
            let first = directory.first_frames[k].load(Ordering::Acquire);
            if first == 0 {
                continue;
            }
            for i in 0..chunk_len(FIRST, k) {
                let cell = self.cell(FrameId::new(first + i as u32));
                if let (false, Some(page)) =
                    (cell.read_after_flag().is_evicted(), PageNo::new(chunk_first(FIRST, k) + i))
                {
                    visit(page);
                }
            }
        }
    }

    fn state<'p>(&'p self, directory: &'p DirectDirectory, page: PageNo) -> Option<&'p StateCell> {
        fence(Ordering::SeqCst);
        let cell = self.cell(directory.frame(page)?);
        (!cell.read_after_flag().is_evicted()).then_some(cell)
    }

    fn claim<'p>(
        &'p self,
        _: &Latches,
        directory: &'p DirectDirectory,
        page: PageNo,
        _: FrameId,
    ) -> Result<Option<&'p StateCell>, PoolError> {
        let Some(frame) = directory.frame(page) else {
            return Err(PoolError::Dropped { space: directory.space });
        };
        let cell = self.cell(frame);
        Ok(cell.claim().then_some(cell))
    }

    fn remove(
        &self,
        _: &Latches,
        _: &DirectDirectory,
        _: PageNo,
        frame: FrameId,
        end: impl FnOnce(&StateCell),
    ) {
        end(self.cell(frame));
    }
}

impl Translation for Direct {
    const NAME: &'static str = "direct";
    const EVICTS: bool = false;
    const MEMORY: PageMemory = PageMemory::FramesByPage;
    const READ_MODES: ReadModes =
        ReadModes::no_slices("nothing is ever evicted, so that no page needs to be held resident");
    type Words = Direct;

    fn new(config: TranslationConfig) -> Result<Direct, PoolError> {
        let frames = Self::frame_range(config);
        let cells = Table::new("state words", frames as usize + 1, HUGE_PAGE_BYTES)?;
        cells.memory().prefer_huge_pages();
        Ok(Direct {
            cells,
            frames,
            runs: Mutex::new(Runs { next: 1, idle: [const { Vec::new() }; CHUNKS] }),
            give_backs: AtomicU64::new(0),
        })
    }

    /// Chunks double, so that a space may have reserved twice what it uses; dropped ones leave
    /// chunks that fit only such as they were. Space 0 has addresses for as many pages as the file,
    /// in which the smallest space takes `FILE_PAGES`, however few are used.
    fn frame_range(config: TranslationConfig) -> u32 {
        let all = config.frames.saturating_mul(FILE_PAGES).saturating_add(SMALL_SPACES);
        all.min(FrameId::MAX.get())
    }

    fn words(&self) -> &Direct {
        self
    }

    #[inline(always)]
    fn prefetch<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p DirectDirectory,
        link: LinkRef<'_>,
    ) -> Option<PageRef<'p>> {
        let frame = directory.frame(PageId::from_link(link.load()).page())?;
        prefetch_line(self.cell(frame));
        Some(frames.page(frame))
    }

    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p DirectDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let frame = directory.frame(PageId::from_link(link.load()).page())?;
        let cell = self.cell(frame);
        Some(Resolved {
            cell,
            word: cell.read(),
            frame,
            page: frames.page(frame),
            misplaced: false,
        })
    }

    fn place(
        &self,
        frames: &Frames,
        directory: &DirectDirectory,
        page: PageNo,
    ) -> Result<Placement, PoolError> {
        if let Some(frame) = directory.frame(page) {
            return Ok(Placement::Fixed(frame));
        }
        let closed = lock(&directory.closed);
        if *closed {
            return Err(PoolError::Dropped { space: directory.space });
        }
        if directory.frame(page).is_none() {
            let k = chunk_of(FIRST, page.get());
            let first = lock(&self.runs).take(directory.space, k, frames, self.frames);
            let first = first.ok_or(PoolError::NoAddresses {
                page: PageId::new(directory.space, page),
                frames: u64::from(self.frames),
                translation: Self::NAME,
            })?;
            directory.first_frames[k].store(first, Ordering::Release);
            // Before the claimer looks at flags: pairs with the fence of `present` and `state`.
            fence(Ordering::SeqCst);
        }
        drop(closed);
        self.place(frames, directory, page)
    }

    fn give_back(&self, frames: &Frames, pages: &mut [NonNull<u8>]) {
        pages.iter().for_each(|page| frames.discard(*page));
        self.give_backs.fetch_add(pages.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use polder_format::PageSize;

    use super::*;
    use crate::testing::{create, pool};

    /// Each uses a page or two, and as much of the file as an extent takes.
    #[test]
    fn many_small_spaces_cost_what_they_use() {
        let (_dir, pool) = pool::<Direct>(64 << 20);
        let spaces: Vec<_> = (0..3000)
            .map(|number| {
                let space = pool.create_space().unwrap_or_else(|e| panic!("space {number}: {e}"));
                create(&space);
                space
            })
            .collect();
        let resident = pool.stats().resident_pages;
        assert!(resident < 4 * spaces.len() as u64, "{resident}");
        let given: u64 = spaces
            .iter()
            .flat_map(|space| &space.space_core().directory.first_frames)
            .zip((0..CHUNKS).cycle())
            .filter(|(first, _)| first.load(Ordering::Relaxed) != 0)
            .map(|(_, k)| chunk_len(FIRST, k))
            .sum();
        assert!(given <= 4 * spaces.len() as u64, "{given} frames were given to spaces");
    }

    /// Large chunks begin where huge pages do, whatever lies before them; those of maps do not.
    #[test]
    fn addresses_end_with_an_error_that_names_them() {
        let config = TranslationConfig::of(128, PageSize::MIN);
        let direct = Direct::new(config).unwrap();
        let frames = Frames::new(direct.frames, PageSize::MIN, true, false).unwrap();
        let directory = direct.open(SpaceId::CATALOGUE);
        let page = |number| PageNo::new(number).unwrap();
        let first = |number| match direct.place(&frames, &directory, page(number)).unwrap() {
            Placement::Fixed(frame) => frame.get(),
            other => panic!("{other:?}"),
        };
        assert_eq!((first(0), first(1), first(2)), (1, 2, 3));
        let huge_len = HUGE_CHUNK_BYTES >> PageSize::MIN.shift();
        let huge_page = (HUGE_PAGE_BYTES >> PageSize::MIN.shift()) as u32;
        assert_eq!(first(huge_len), huge_page);
        let refused = direct.place(&frames, &directory, PageNo::MAX).unwrap_err();
        assert!(matches!(refused, PoolError::NoAddresses { .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains(&direct.frames.to_string()) && text.contains("address"), "{text}");
        assert_eq!(first(1), 2, "others go on");
    }
}
