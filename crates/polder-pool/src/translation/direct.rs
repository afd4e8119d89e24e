//! Direct translation: the page number says the frame. The yardstick of in-memory speed.
//!
//! Nothing is ever evicted; when the budget is used up, an error says so. The frame follows from
//! the page number by an addition, and the state words lie dense, 8 bytes a frame, so that this is
//! the least that any translation with a latch a page must do. Frames are addresses in doubling
//! chunks; only touched ones cost memory, and the pool counts those against the budget. Where the
//! kernel backs them by huge pages a space costs whole ones: up to 2 MiB more than is counted.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use polder_format::{PageId, PageNo, SpaceId};

use super::chunks::{chunk_count, chunk_first, chunk_len, chunk_of};
use super::{Claim, Footprint, LinkRef, Placement, Resolved, Translation, TranslationConfig};
use crate::error::PoolError;
use crate::frames::Frames;
use crate::memory::{HUGE_PAGE_BYTES, Reservation};
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::lock;

/// The first chunk of a space has 2^10 pages: 4 MiB at 4 KiB.
const FIRST: u32 = 10;
const CHUNKS: usize = chunk_count(FIRST);
/// Frames reserved on top of the budget's multiple, for the first chunks of many small spaces.
const SMALL_SPACES: u32 = 1 << 18;

/// Direct translation.
#[derive(Debug)]
pub struct Direct {
    cells: Reservation,
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

impl Direct {
    #[inline(always)]
    fn cell(&self, frame: FrameId) -> &StateCell {
        debug_assert!(frame.get() <= self.frames);
        // SAFETY: there is a cell for each frame, chunks are cut from the frames, and zeroed
        // memory is a valid cell.
        unsafe { self.cells.base().cast::<StateCell>().add(frame.get() as usize).as_ref() }
    }
}

impl Translation for Direct {
    const NAME: &'static str = "direct";
    const EVICTS: bool = false;
    const FIXED_FRAMES: bool = true;
    const GIVES_BACK: bool = true;
    const NOT_BY_SLICES: Option<&'static str> =
        Some("nothing is ever evicted, so that no page needs to be held resident");
    type Directory = DirectDirectory;

    fn new(config: TranslationConfig) -> Result<Direct, PoolError> {
        let frames = Self::frame_range(config);
        let bytes = (frames as usize + 1) * size_of::<StateCell>();
        let cells = Reservation::new("state words", bytes, HUGE_PAGE_BYTES)?;
        cells.prefer_huge_pages();
        Ok(Direct {
            cells,
            frames,
            runs: Mutex::new(Runs { next: 1, idle: Default::default() }),
            give_backs: AtomicU64::new(0),
        })
    }

    /// Chunks double, so that a space may have reserved twice what it uses; dropped ones leave
    /// chunks that fit only such as they were.
    fn frame_range(config: TranslationConfig) -> u32 {
        config.frames.saturating_mul(4).saturating_add(SMALL_SPACES).min(FrameId::MAX.get())
    }

    fn bytes_per_frame() -> u64 {
        4 * size_of::<StateCell>() as u64
    }

    fn open(&self, space: SpaceId) -> Result<Arc<DirectDirectory>, PoolError> {
        Ok(Arc::new(DirectDirectory {
            space,
            first_frames: Default::default(),
            closed: Mutex::new(false),
        }))
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
        Some(Resolved { cell, word: cell.read(), frame, page: frames.page(frame), astray: false })
    }

    fn state<'p>(&'p self, directory: &'p DirectDirectory, page: PageNo) -> Option<&'p StateCell> {
        fence(Ordering::SeqCst);
        let cell = self.cell(directory.frame(page)?);
        (!cell.read_after_flag().is_evicted()).then_some(cell)
    }

    fn place(&self, directory: &DirectDirectory, page: PageNo) -> Result<Placement, PoolError> {
        if let Some(frame) = directory.frame(page) {
            return Ok(Placement::Fixed(frame));
        }
        let closed = lock(&directory.closed);
        if *closed {
            return Err(PoolError::Dropped { space: directory.space });
        }
        if directory.frame(page).is_none() {
            let k = chunk_of(FIRST, page.get());
            let mut runs = lock(&self.runs);
            let first = match runs.idle[k].pop() {
                Some(first) => first,
                None => {
                    let first = runs.next;
                    let next = u64::from(first) + chunk_len(FIRST, k);
                    if next > u64::from(self.frames) {
                        return Err(PoolError::DoesNotFit {
                            frames: u64::from(self.frames),
                            translation: Self::NAME,
                        });
                    }
                    runs.next = next as u32;
                    first
                }
            };
            directory.first_frames[k].store(first, Ordering::Release);
            // Before the claimer looks at flags: pairs with the fence of `is_quiet` and `state`.
            fence(Ordering::SeqCst);
        }
        drop(closed);
        self.place(directory, page)
    }

    fn claim<'p>(
        &'p self,
        _: &Frames,
        directory: &'p DirectDirectory,
        page: PageNo,
        _: FrameId,
    ) -> Result<Option<Claim<'p>>, PoolError> {
        let Some(frame) = directory.frame(page) else {
            return Err(PoolError::Dropped { space: directory.space });
        };
        let cell = self.cell(frame);
        Ok(cell.claim().then_some(Claim { cell, frame, place: None }))
    }

    fn abandon(&self, _: &DirectDirectory, _: PageNo, claim: Claim<'_>, lot: &ParkingLot) {
        claim.cell.publish(StateWord::EVICTED, lot);
    }

    fn retire(&self, _: &Frames, _: &DirectDirectory, _: PageNo, frame: FrameId) {
        self.cell(frame).clear();
    }

    fn give_back(&self, frames: &Frames, pages: &mut [NonNull<u8>]) {
        pages.iter().for_each(|page| frames.discard(*page));
        self.give_backs.fetch_add(pages.len() as u64, Ordering::Relaxed);
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

    fn is_quiet(&self, directory: &DirectDirectory) -> bool {
        fence(Ordering::SeqCst);
        let mut quiet = true;
        self.for_each_present(directory, &mut |_| quiet = false);
        quiet
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

    fn frames_in_use(&self) -> u32 {
        lock(&self.runs).next
    }

    fn footprint(&self) -> Footprint {
        let given = u64::from(lock(&self.runs).next);
        Footprint {
            give_backs: self.give_backs.load(Ordering::Relaxed),
            ..Footprint::on_huge_pages(given * size_of::<StateCell>() as u64)
        }
    }
}
