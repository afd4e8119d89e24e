//! Translation by a chained hash table: the traditional pool, and predictive translation.
//!
//! Both are one table with different steps of predictive-translation.txt switched on, so that each
//! step can be measured, by itself and on top of the ones before (its figure 9):
//!
//! | type | bucket latch | first entry | preferred frames |
//! |---|---|---|---|
//! | [`type@Hash`] | read-write spin latch | behind the bucket | no |
//! | [`HashOptimistic`] | version, 4.2 | behind the bucket | no |
//! | [`HashInlined`] | read-write spin latch | in the bucket, 4.1 | no |
//! | [`HashPreferred`] | read-write spin latch | behind the bucket | by hash, section 3 |
//! | [`HashOptimisticInlined`] | version | in the bucket | no |
//! | [`PredictiveHashed`] | version | in the bucket | by hash: all that is in the paper |
//! | [`Predictive`] | version | in the bucket | by remainder (`preferred.rs`) |
//!
//! Twice as many buckets as frames. A lookup in `Hash` makes three loads that depend on each other
//! (bucket, frame header, page) and two locked instructions; one in `Predictive` loads a bucket of
//! 32 bytes, and the page at the same time: its preferred frame follows from the page id, and the
//! branch that compares it with the word is predicted.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::slice;
use std::sync::Arc;

use polder_format::{PageId, PageNo, SpaceId};

use super::chain::{Apart, Bucket, BucketLatch, Chains, Entry, First, Slot};
use super::chain::{SpinLatch, VersionLatch};
use super::guess::Settles;
use super::page_hash::PageHash;
use super::preferred::{Preference, speculate};
use super::swizzled::RootSwip;
use super::{Claim, Footprint, Placement, Translation, TranslationConfig};
use crate::error::PoolError;
use crate::found::Resolved;
use crate::frames::Frames;
use crate::free_list::FreeList;
use crate::link::LinkRef;
use crate::memory::{HUGE_PAGE_BYTES, Reservation};
use crate::parking::ParkingLot;
use crate::state::{FrameId, StateCell, StateWord};
use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Buckets a frame.
const BUCKETS_A_FRAME: u32 = 2;

/// Which frame a page prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefers {
    /// None.
    Nothing,
    /// One that follows from the hash of its id (predictive-translation.txt, section 3).
    ByHash,
    /// One that follows from its number, so that neighbours lie beside each other.
    ByRemainder,
}

/// Which steps of predictive-translation.txt a table takes.
pub trait Steps: Debug + Send + Sync + 'static {
    /// What users call a pool with these steps.
    const NAME: &'static str;
    /// Which frames pages prefer.
    const PREFERS: Prefers;
    /// Whether they prefer any.
    const PREDICTS: bool = !matches!(Self::PREFERS, Prefers::Nothing);
    /// How a bucket is latched.
    type Latch: BucketLatch;
    /// Where the first entry of a chain is.
    type First: First;
}

macro_rules! steps {
    ($($(#[$about:meta])* $name:ident, $called:literal, $prefers:ident, $latch:ty, $first:ty;)*) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name;

        impl Steps for $name {
            const NAME: &'static str = $called;
            const PREFERS: Prefers = Prefers::$prefers;
            type Latch = $latch;
            type First = $first;
        }
    )*};
}

steps! {
    /// The traditional pool.
    Traditional, "hash", Nothing, SpinLatch, Apart;
    /// With optimistic bucket latches.
    WithVersions, "hash+optimistic", Nothing, VersionLatch, Apart;
    /// With the first entry in the bucket.
    WithFirst, "hash+inlined", Nothing, SpinLatch, Entry;
    /// With preferred frames.
    WithFrames, "hash+preferred", ByHash, SpinLatch, Apart;
    /// With both changes of the table.
    WithTable, "hash+optimistic+inlined", Nothing, VersionLatch, Entry;
    /// With all three.
    WithAll, "predictive-hashed", ByHash, VersionLatch, Entry;
    /// And frames by number.
    Predicting, "predictive", ByRemainder, VersionLatch, Entry;
}

/// The traditional pool: a chained table with a latch on each bucket.
pub type Hash = Chained<Traditional>;
/// [`type@Hash`] with optimistic bucket latches.
pub type HashOptimistic = Chained<WithVersions>;
/// [`type@Hash`] with the first entry in the bucket.
pub type HashInlined = Chained<WithFirst>;
/// [`type@Hash`] with preferred frames.
pub type HashPreferred = Chained<WithFrames>;
/// [`type@Hash`] with optimistic bucket latches and the first entry in the bucket.
pub type HashOptimisticInlined = Chained<WithTable>;
/// Predictive translation as in the paper.
pub type PredictiveHashed = Chained<WithAll>;
/// Predictive translation.
pub type Predictive = Chained<Predicting>;

/// The memory of a chained table: addresses, of which only what is used costs something.
#[derive(Debug)]
pub(super) struct ChainTable<L, F> {
    buckets: Reservation,
    bucket_count: u32,
    slots: Reservation,
    slot_count: u32,
    spare: FreeList,
    kind: PhantomData<(L, F)>,
}

impl<L: BucketLatch, F: First> ChainTable<L, F> {
    /// So many buckets for so many frames.
    pub(super) fn new(bucket_count: u32, frames: u32) -> Result<ChainTable<L, F>, PoolError> {
        let buckets = bucket_count as usize * size_of::<Bucket<L, F>>();
        let slots = (frames as usize + 1) * size_of::<Slot>();
        Ok(ChainTable {
            buckets: Reservation::new("buckets", buckets, HUGE_PAGE_BYTES)?,
            bucket_count,
            slots: Reservation::new("entries", slots, HUGE_PAGE_BYTES)?,
            slot_count: frames,
            spare: FreeList::full(frames),
            kind: PhantomData,
        })
    }

    /// For a table that may stay nearly empty.
    pub(super) fn prefer_small_pages(&self) {
        self.buckets.prefer_small_pages();
        self.slots.prefer_small_pages();
    }

    fn prefer_huge_pages(&self) {
        self.buckets.prefer_huge_pages();
        self.slots.prefer_huge_pages();
    }

    #[inline(always)]
    pub(super) fn chains(&self) -> Chains<'_, L, F> {
        let (buckets, slots) = (self.bucket_count as usize, self.slot_count as usize + 1);
        // SAFETY: `new` reserved so many, zeroed memory is a valid bucket, and they are shared
        // only by means of atomics.
        let buckets =
            unsafe { slice::from_raw_parts(self.buckets.base().as_ptr().cast(), buckets) };
        // SAFETY: as above.
        let slots = unsafe { slice::from_raw_parts(self.slots.base().as_ptr().cast(), slots) };
        Chains { buckets, slots, spare: &self.spare }
    }

    #[inline(always)]
    pub(super) fn bucket(&self, hash: PageHash) -> usize {
        hash.below(self.bucket_count) as usize
    }

    /// Calls `visit` for each page of the space that has an entry.
    pub(super) fn for_each_present(&self, space: SpaceId, visit: &mut dyn FnMut(PageNo)) {
        fence(Ordering::SeqCst);
        let chains = self.chains();
        let first = chains.buckets.iter().filter_map(Bucket::first);
        for entry in first.chain(chains.slots.iter().map(Slot::entry)) {
            let page = entry.page();
            if page.space() == space && !entry.cell().read_after_flag().is_evicted() {
                visit(page.page());
            }
        }
    }

    /// How long the chain of each bucket would be if there were so many.
    fn lengths_among(&self, buckets: NonZeroU32) -> Vec<usize> {
        let chains = self.chains();
        let first = chains.buckets.iter().filter_map(Bucket::first);
        let entries = first.chain(chains.slots.iter().map(Slot::entry));
        let mut lengths = vec![0; buckets.get() as usize];
        for page in entries.map(|entry| entry.page()).filter(|page| !page.is_null()) {
            lengths[PageHash::of(page).below(buckets.get()) as usize] += 1;
        }
        lengths
    }

    /// Memory of the buckets, and of the slots in use (the lowest go first).
    pub(super) fn bytes(&self) -> (u64, u64) {
        let slots = u64::from(self.slot_count).saturating_sub(self.spare.len() as u64);
        (self.buckets.len() as u64, slots * size_of::<Slot>() as u64)
    }
}

/// How often each length is there, from 0 on.
fn histogram(lengths: impl IntoIterator<Item = usize>) -> Vec<u64> {
    let mut counts = Vec::new();
    for length in lengths {
        if counts.len() <= length {
            counts.resize(length + 1, 0);
        }
        counts[length] += 1;
    }
    counts
}

/// Translation by a chained hash table.
#[derive(Debug)]
pub struct Chained<S: Steps> {
    table: ChainTable<S::Latch, S::First>,
    frames: u32,
    preference: Preference,
    steps: PhantomData<S>,
}

/// What is known of one space: the table knows all else.
#[derive(Debug)]
pub struct TableDirectory {
    pub(super) space: SpaceId,
    /// Pages that have an entry, or are about to.
    pub(super) present: AtomicU64,
    /// The link to the root of the space, where links hold frames.
    pub(super) root: RootSwip,
}

impl TableDirectory {
    pub(super) fn new(space: SpaceId) -> Arc<TableDirectory> {
        let root = RootSwip::default();
        Arc::new(TableDirectory { space, present: AtomicU64::new(0), root })
    }

    pub(super) fn id(&self, page: PageNo) -> PageId {
        PageId::new(self.space, page)
    }
}

impl<S: Steps> Chained<S> {
    #[inline(always)]
    fn preferred_by(&self, page: PageId, hash: PageHash) -> FrameId {
        match S::PREFERS {
            Prefers::ByRemainder => self.preference.of_page(page),
            Prefers::Nothing | Prefers::ByHash => FrameId::new(hash.also_below(self.frames) + 1),
        }
    }
}

impl<S: Steps> Translation for Chained<S> {
    const NAME: &'static str = S::NAME;
    const EVICTS: bool = true;
    const SETTLES: Settles = if S::PREDICTS { Settles::Page } else { Settles::Not };
    const NOT_BY_SLICES: Option<&'static str> = if S::PREDICTS {
        Some(
            "the locked instruction of a hold stands between the guess where a page is and the page, \
             and keeps the processor from reading ahead",
        )
    } else {
        None
    };
    type Directory = TableDirectory;

    fn new(config: TranslationConfig) -> Result<Chained<S>, PoolError> {
        let frames = config.frames;
        let table = ChainTable::new(frames * BUCKETS_A_FRAME, frames)?;
        table.prefer_huge_pages();
        Ok(Chained { table, frames, preference: Preference::of(frames), steps: PhantomData })
    }

    fn bytes_per_frame() -> u64 {
        let bucket = size_of::<Bucket<S::Latch, S::First>>() as u64 * u64::from(BUCKETS_A_FRAME);
        bucket + size_of::<Slot>() as u64 + 1
    }

    fn open(&self, space: SpaceId) -> Result<Arc<TableDirectory>, PoolError> {
        Ok(TableDirectory::new(space))
    }

    #[inline(always)]
    fn resolve<'p>(
        &'p self,
        frames: &'p Frames,
        _: &'p TableDirectory,
        link: LinkRef<'_>,
    ) -> Option<Resolved<'p>> {
        let page = PageId::from_link(link.load());
        let hash = PageHash::of(page);
        let (cell, word) = self.table.chains().find(self.table.bucket(hash), page)?;
        if !S::PREDICTS {
            let frame = word.frame();
            return Some(Resolved { cell, word, frame, page: frames.page(frame), astray: false });
        }
        let (frame, astray) = speculate(word, self.preferred_by(page, hash));
        Some(Resolved { cell, word, frame, page: frames.page(frame), astray })
    }

    fn state<'p>(&'p self, directory: &'p TableDirectory, page: PageNo) -> Option<&'p StateCell> {
        let page = directory.id(page);
        // Behind a flag that somebody set: "Two threads that must see each other".
        fence(Ordering::SeqCst);
        Some(self.table.chains().find(self.table.bucket(PageHash::of(page)), page)?.0)
    }

    fn place(
        &self,
        _: &Frames,
        directory: &TableDirectory,
        page: PageNo,
    ) -> Result<Placement, PoolError> {
        Ok(self.preferred(directory, page).map_or(Placement::Anywhere, Placement::Prefer))
    }

    #[inline(always)]
    fn preferred(&self, directory: &TableDirectory, page: PageNo) -> Option<FrameId> {
        let page = directory.id(page);
        S::PREDICTS.then(|| self.preferred_by(page, PageHash::of(page)))
    }

    fn claim<'p>(
        &'p self,
        _: &Frames,
        directory: &'p TableDirectory,
        page: PageNo,
        frame: FrameId,
    ) -> Result<Option<Claim<'p>>, PoolError> {
        let page = directory.id(page);
        // SeqCst: before the entry, so that `is_quiet` misses none.
        directory.present.fetch_add(1, Ordering::SeqCst);
        let claimed = self.table.chains().claim(self.table.bucket(PageHash::of(page)), page);
        fence(Ordering::SeqCst);
        if claimed.is_none() {
            directory.present.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(claimed.map(|cell| Claim { cell, frame, place: None }))
    }

    fn abandon(&self, directory: &TableDirectory, page: PageNo, _: Claim<'_>, lot: &ParkingLot) {
        let page = directory.id(page);
        self.table.chains().remove(self.table.bucket(PageHash::of(page)), page, |cell| {
            cell.publish(StateWord::EVICTED, lot);
        });
        directory.present.fetch_sub(1, Ordering::SeqCst);
    }

    fn retire(&self, _: &Frames, directory: &TableDirectory, page: PageNo, _: FrameId) {
        let page = directory.id(page);
        self.table.chains().remove(self.table.bucket(PageHash::of(page)), page, StateCell::clear);
        directory.present.fetch_sub(1, Ordering::SeqCst);
    }

    fn for_each_present(&self, directory: &TableDirectory, visit: &mut dyn FnMut(PageNo)) {
        self.table.for_each_present(directory.space, visit);
    }

    fn is_quiet(&self, directory: &TableDirectory) -> bool {
        directory.present.load(Ordering::SeqCst) == 0
    }

    fn close(&self, _: &TableDirectory) {}

    fn chain_lengths(&self, buckets: Option<NonZeroU32>) -> Option<Vec<u64>> {
        let chains = self.table.chains();
        match buckets {
            Some(buckets) => Some(histogram(self.table.lengths_among(buckets))),
            None => Some(histogram(chains.buckets.iter().map(|bucket| chains.length(bucket)))),
        }
    }

    fn footprint(&self) -> Footprint {
        // The buckets are touched all over.
        let (buckets, slots) = self.table.bytes();
        let bytes = buckets + slots;
        Footprint::on_huge_pages(bytes)
    }
}
