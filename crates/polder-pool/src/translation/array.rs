//! Array translation (calico.txt, section 4): the page number indexes an array of state words.
//!
//! One load gives frame, version and latch; neighbouring pages have neighbouring words; there is
//! nothing to hash, chase or lock. The array is reserved address space in doubling chunks, backed
//! by memory only where pages are or were resident: the word of an evicted page is zero, and a
//! group of 512 words that are all zero is punched out.
//!
//! The load of the word and then that of the page are two cache misses one behind the other. So a
//! page prefers the frame that its number names (modulo the frames), and gets it if it is free when
//! the page is loaded: the processor predicts that the word says so, and begins to load from there
//! at the same time as the word (predictive-translation.txt, section 4, for a hash table). Where
//! that is wrong it costs a mispredicted branch.
//!
//! * `ARRAY-1` A chunk, once mapped, stays mapped until the pool is dropped (`POOL-2`). When its
//!   space is dropped it serves other spaces; what a stale reader sees there fails to validate
//!   (`POOL-3`).
//! * `ARRAY-2` A group is punched only by the holder of its counter's punching bit, while no entry
//!   is nonzero (`POOL-6`).

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polder_format::{PageId, PageNo, SpaceId};
use rustix::mm::{Advice, madvise};

use super::chunks::{chunk_count, chunk_first, chunk_len, chunk_of};
use super::preferred::speculate;
use super::{Claim, Footprint, GroupCounter, LinkRef, Placement, Resolved};
use super::{Translation, TranslationConfig};
use crate::error::PoolError;
use crate::frames::Frames;
use crate::memory::{Reservation, kernel_page_bytes};
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord};
use crate::sync::lock;

/// The first chunk has 2^15 entries: 256 KiB of addresses, 128 MiB of data at 4 KiB pages.
const FIRST: u32 = 15;
const CHUNKS: usize = chunk_count(FIRST);
/// Array translation.
#[derive(Debug)]
pub struct Array {
    /// Bytes of a group of entries: what the kernel backs, and takes back, in one piece.
    group_bytes: usize,
    preference: Preference,
    chunks: Mutex<Chunks>,
    /// Groups that are backed by memory.
    live_groups: AtomicU64,
    hole_punches: AtomicU64,
}

/// Which frame a page prefers: its number and its space's offset, modulo the number of frames.
#[derive(Debug, Clone, Copy)]
struct Preference {
    frames: u64,
}

impl Preference {
    fn new(frames: u32) -> Preference {
        Preference { frames: u64::from(frames.max(1)) }
    }

    /// Where the first page of a space lies: spaces should not all begin at the same frame.
    fn offset(self, space: SpaceId) -> u64 {
        u64::from(space.get().wrapping_mul(0x9E37_79B9)) % self.frames
    }

    /// On the way to every page, before the page can be loaded: so without a division where all
    /// pages of a space can be resident at once.
    #[inline(always)]
    fn frame(self, offset: u64, page: PageNo) -> FrameId {
        let number = page.get() + offset;
        let mut folded = if number < self.frames { number } else { number - self.frames };
        if folded >= self.frames {
            folded %= self.frames;
        }
        FrameId::new(folded as u32 + 1)
    }
}

#[derive(Debug, Default)]
struct Chunks {
    /// All that were ever made; boxed, so that they do not move.
    #[allow(clippy::vec_box)]
    all: Vec<Box<Chunk>>,
    /// Those of dropped spaces, by their place in a directory.
    idle: [Vec<usize>; CHUNKS],
}

/// Entries and their group counters, in one reservation.
#[derive(Debug)]
struct Chunk {
    memory: Reservation,
    entries: u64,
    /// Entries in a group.
    group_len: u64,
    index: usize,
    /// A bit for each page table that the kernel had to make.
    tables: Box<[AtomicU64]>,
}

impl Chunk {
    fn new(k: usize, index: usize, group_bytes: usize) -> Result<Chunk, PoolError> {
        let entries = chunk_len(FIRST, k);
        let group_len = (group_bytes / size_of::<StateCell>()) as u64;
        let bytes = entries as usize * size_of::<StateCell>()
            + (entries / group_len) as usize * size_of::<GroupCounter>();
        let memory = Reservation::new("a translation array", bytes, group_bytes)?;
        memory.prefer_small_pages();
        let mut chunk = Chunk { memory, entries, group_len, index, tables: Box::default() };
        let tables = entries.div_ceil(chunk.table_len() * 64);
        chunk.tables = (0..tables).map(|_| AtomicU64::new(0)).collect();
        Ok(chunk)
    }

    /// Entries whose page table is one page: as many groups as words in a page.
    fn table_len(&self) -> u64 {
        self.group_len * self.group_len
    }

    /// The first entry of each group.
    fn groups(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.entries).step_by(self.group_len as usize)
    }

    fn cells(&self) -> *mut StateCell {
        self.memory.base().as_ptr().cast()
    }

    fn group(&self, entry: u64) -> &GroupCounter {
        debug_assert!(entry < self.entries);
        let group = (entry / self.group_len) as usize;
        // SAFETY: the counters lie behind the entries, one for each group of them, and zeroed
        // memory is a valid counter.
        unsafe { &*self.cells().add(self.entries as usize).cast::<GroupCounter>().add(group) }
    }

    fn note_page_table(&self, entry: u64) {
        let table = entry / self.table_len();
        self.tables[(table / 64) as usize].fetch_or(1 << (table % 64), Ordering::Relaxed);
    }
}

/// Where the chunks of one space are.
#[derive(Debug)]
pub struct ArrayDirectory {
    space: SpaceId,
    /// So that the first pages of all spaces do not prefer the same frames.
    offset: u64,
    /// Address of the entry that page 0 would have, for each chunk (so that a page number is added
    /// as it is); null if there is no such chunk.
    origins: [AtomicPtr<StateCell>; CHUNKS],
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    closed: Mutex<bool>,
}

impl ArrayDirectory {
    #[inline(always)]
    fn cell(&self, page: PageNo) -> Option<&StateCell> {
        let page = page.get();
        let origin = self.origins[chunk_of(FIRST, page)].load(Ordering::Acquire);
        if origin.is_null() {
            return None;
        }
        // SAFETY: chunk_of says that `page` has its entry in this chunk, which stays mapped
        // (ARRAY-1), and `origin` is as many entries before the chunk as its first page's number.
        Some(unsafe { &*origin.wrapping_add(page as usize) })
    }

    fn chunk(&self, page: PageNo) -> Option<(&Chunk, u64)> {
        let k = chunk_of(FIRST, page.get());
        let chunk = self.chunks[k].load(Ordering::Acquire);
        // SAFETY: null, or a box in `Array::chunks`, which is never dropped before the pool.
        Some((unsafe { chunk.as_ref() }?, page.get() - chunk_first(FIRST, k)))
    }
}

impl Array {
    fn enter(&self, chunk: &Chunk, entry: u64) {
        if chunk.group(entry).enter() {
            self.live_groups.fetch_add(1, Ordering::Relaxed);
            chunk.note_page_table(entry);
        }
    }

    fn leave(&self, group: &GroupCounter, cell: &StateCell) {
        group.leave(|| {
            let group = ptr::from_ref(cell).map_addr(|at| at & !(self.group_bytes - 1));
            // SAFETY: the group of this cell: entries that are all zero and stay so while the
            // counter is punching (ARRAY-2), and just what the kernel takes back in one piece.
            // Readers find zeros before and after.
            let punched = unsafe {
                madvise(group.cast_mut().cast(), self.group_bytes, Advice::LinuxDontNeed)
            };
            if punched.is_ok() {
                self.live_groups.fetch_sub(1, Ordering::Relaxed);
                self.hole_punches.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

impl Translation for Array {
    const NAME: &'static str = "array";
    const EVICTS: bool = true;
    type Directory = ArrayDirectory;

    fn new(config: TranslationConfig) -> Result<Array, PoolError> {
        Ok(Array {
            preference: Preference::new(config.frames),
            group_bytes: kernel_page_bytes(),
            chunks: Mutex::default(),
            live_groups: AtomicU64::new(0),
            hole_punches: AtomicU64::new(0),
        })
    }

    /// Four words: one resident page in four neighbours.
    fn bytes_per_frame() -> u64 {
        4 * size_of::<StateCell>() as u64
    }

    fn open(&self, space: SpaceId) -> Result<Arc<ArrayDirectory>, PoolError> {
        Ok(Arc::new(ArrayDirectory {
            space,
            offset: self.preference.offset(space),
            origins: Default::default(),
            chunks: Default::default(),
            closed: Mutex::new(false),
        }))
    }

    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        directory: &'p ArrayDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let page = PageId::from_link(link.load()).page();
        let cell = directory.cell(page)?;
        let word = cell.read();
        let preferred = self.preference.frame(directory.offset, page);
        let (frame, _) = speculate(word, preferred);
        Some(Resolved { cell, word, frame, page: frames.page(frame), astray: false })
    }

    fn state<'p>(&'p self, directory: &'p ArrayDirectory, page: PageNo) -> Option<&'p StateCell> {
        directory.cell(page)
    }

    fn place(&self, directory: &ArrayDirectory, page: PageNo) -> Result<Placement, PoolError> {
        let preferred = Placement::Prefer(self.preference.frame(directory.offset, page));
        if directory.cell(page).is_some() {
            return Ok(preferred);
        }
        let closed = lock(&directory.closed);
        if *closed {
            return Err(PoolError::Dropped { space: directory.space });
        }
        if directory.cell(page).is_none() {
            let k = chunk_of(FIRST, page.get());
            let mut chunks = lock(&self.chunks);
            let index = match chunks.idle[k].pop() {
                Some(index) => index,
                None => {
                    let index = chunks.all.len();
                    chunks.all.push(Box::new(Chunk::new(k, index, self.group_bytes)?));
                    index
                }
            };
            let chunk: &Chunk = &chunks.all[index];
            let origin = chunk.cells().wrapping_sub(chunk_first(FIRST, k) as usize);
            directory.chunks[k].store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
            directory.origins[k].store(origin, Ordering::Release);
        }
        Ok(preferred)
    }

    fn claim<'p>(
        &'p self,
        directory: &'p ArrayDirectory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<Claim<'p>>, PoolError> {
        // The chunk is loaded once: if the space is dropped and the chunk goes to another one
        // meanwhile, what is counted up here is counted down there too.
        let Some((chunk, entry)) = directory.chunk(page) else {
            return Err(PoolError::Dropped { space: directory.space });
        };
        // SAFETY: `entry` is below the number of entries in this chunk.
        let cell = unsafe { &*chunk.cells().add(entry as usize) };
        let group = chunk.group(entry);
        self.enter(chunk, entry);
        if cell.claim() {
            return Ok(Some(Claim { cell, frame, group: Some(group) }));
        }
        self.leave(group, cell);
        Ok(None)
    }

    fn abandon(&self, _: &ArrayDirectory, _: PageNo, claim: Claim<'_>, lot: &ParkingLot) {
        claim.cell.publish(StateWord::EVICTED, lot);
        if let Some(group) = claim.group {
            self.leave(group, claim.cell);
        }
    }

    fn retire(&self, directory: &ArrayDirectory, page: PageNo, _: FrameId) {
        if let (Some((chunk, entry)), Some(cell)) = (directory.chunk(page), directory.cell(page)) {
            cell.clear();
            self.leave(chunk.group(entry), cell);
        }
    }

    fn for_each_present(&self, directory: &ArrayDirectory, visit: &mut dyn FnMut(PageNo)) {
        for k in 0..CHUNKS {
            let first = chunk_first(FIRST, k);
            let Some((chunk, _)) = PageNo::new(first).and_then(|page| directory.chunk(page)) else {
                continue;
            };
            for group in chunk.groups() {
                if chunk.group(group).count() == 0 {
                    continue;
                }
                for entry in group..group + chunk.group_len {
                    // SAFETY: below the number of entries in this chunk.
                    let cell = unsafe { &*chunk.cells().add(entry as usize) };
                    if let (false, Some(page)) =
                        (cell.read_after_flag().is_evicted(), PageNo::new(first + entry))
                    {
                        visit(page);
                    }
                }
            }
        }
    }

    fn is_quiet(&self, directory: &ArrayDirectory) -> bool {
        (0..CHUNKS)
            .filter_map(|k| directory.chunk(PageNo::new(chunk_first(FIRST, k))?))
            .all(|(chunk, _)| chunk.groups().all(|entry| chunk.group(entry).count() == 0))
    }

    fn close(&self, directory: &ArrayDirectory) {
        *lock(&directory.closed) = true;
        let mut chunks = lock(&self.chunks);
        for k in 0..CHUNKS {
            directory.origins[k].store(ptr::null_mut(), Ordering::Release);
            let chunk = directory.chunks[k].swap(ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: null, or a box in `chunks.all`.
            if let Some(chunk) = unsafe { chunk.as_ref() } {
                chunks.idle[k].push(chunk.index);
            }
        }
    }

    fn footprint(&self) -> Footprint {
        let chunks = lock(&self.chunks);
        let (mut counters, mut tables) = (0, 0);
        for chunk in &chunks.all {
            // The counters of a chunk are small and scattered: all of them are taken as touched.
            counters += chunk.entries / chunk.group_len * size_of::<GroupCounter>() as u64;
            tables += chunk
                .tables
                .iter()
                .map(|t| u64::from(t.load(Ordering::Relaxed).count_ones()))
                .sum::<u64>();
        }
        let groups = self.live_groups.load(Ordering::Relaxed);
        Footprint {
            translation_bytes: groups * self.group_bytes as u64 + counters,
            page_table_bytes: tables * self.group_bytes as u64,
            hole_punches: self.hole_punches.load(Ordering::Relaxed),
            give_backs: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_frame_is_a_remainder() {
        for frames in [1, 2, 3, 100, 127, 128, 1_000_003, FrameId::MAX.get()] {
            let preference = Preference::new(frames);
            for number in [0, 1, 2, 99, 127, 128, 12_345_678, 1 << 28, PageNo::MAX.get()] {
                for space in [SpaceId::FILE, SpaceId::CATALOGUE, SpaceId::MAX] {
                    let offset = preference.offset(space);
                    let page = PageNo::new(number).unwrap();
                    let expected = (number + offset) % u64::from(frames) + 1;
                    assert_eq!(u64::from(preference.frame(offset, page).get()), expected);
                }
            }
        }
    }

    #[test]
    fn pages_of_an_empty_pool_lie_where_they_prefer() {
        use crate::device::{FileDevice, OpenKind};
        use polder_format::{ChecksumSeed, PageSize, Place, StoreId};
        let dir = tempfile::tempdir().unwrap();
        let device = FileDevice::open(dir.path().join("data"), OpenKind::Create).unwrap();
        let config = crate::PoolConfig {
            memory_budget: 64 << 20,
            page_size: PageSize::MIN,
            prefault: false,
            seed: ChecksumSeed::new(StoreId([0; 16])),
            file: crate::FileState {
                space_directory: Place::NONE,
                next_space: SpaceId::CATALOGUE,
                file_pages: 0,
            },
            journal: None,
            replacement: Default::default(),
        };
        let pool = crate::Pool::<Array>::open(Box::new(device), &config, &[]).unwrap();
        let space = pool.create_space().unwrap();
        let pages: Vec<_> = (0..10_000).map(|_| space.create().unwrap().id().page()).collect();
        let (array, directory) = (&space.shared().translation, &space.space_core().directory);
        let preferred = |page: &&PageNo| {
            let word = array.state(directory, **page).unwrap().read();
            word.frame() == array.preference.frame(directory.offset, **page)
        };
        let there = pages.iter().filter(preferred).count();
        assert!(there * 100 >= pages.len() * 99, "{there} of {}", pages.len());
    }
}
