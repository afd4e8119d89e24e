//! What the pool's tests share: a small kind of page, and ways to make, read and change one.

use std::cell::Cell;
use std::num::NonZeroU32;

use polder_format::{PageId, PageKind, PageNo, PageSize, SpaceId, header_at};
use polder_pool::bytes::{PageBuf, PageMut, PageRef};
use polder_pool::{
    AccessHint, FileState, KindOps, Migration, NewPage, Pool, PoolConfig, PoolError, ReadMode,
    Sampling, Space, Tier, TierConfig, Translation,
};
pub use polder_testkit::pools::{RESTLESS, disk};
use polder_testkit::{SimDisk, pools};

pub const SIZE: PageSize = PageSize::MIN;
pub const PAGE_BYTES: u64 = 4096;

/// A page of tests: a count at both ends, and between them words that follow from the page's id.
pub const KIND: KindOps = KindOps {
    kind: PageKind(200),
    name: "test page",
    max_layout: 1,
    check: |_| Ok(()),
    links: None,
    redo: None,
};
const COUNT_AT: usize = 32;
const COUNT_AGAIN_AT: usize = PAGE_BYTES as usize - 8;

thread_local! {
    /// How readers of the pools hold pages that this thread opens.
    static HOLD: Cell<ReadMode> = const { Cell::new(ReadMode::Optimistic) };
    /// Which of their pages are sampled.
    static SAMPLING: Cell<Sampling> = const { Cell::new(Sampling::Off) };
    /// How many slower tiers they have.
    static SLOWER_TIERS: Cell<usize> = const { Cell::new(0) };
    /// What goes where in them; `None`: the pools find out.
    static MIGRATION: Cell<Option<Migration>> = const { Cell::new(Some(RESTLESS)) };
}

/// Runs a test in which pools have so many tiers, the slower ones as small as may be, and pages go to
/// and fro.
pub fn in_tiers(tiers: usize, test: fn()) {
    let before = SLOWER_TIERS.replace(tiers - 1);
    test();
    SLOWER_TIERS.set(before);
}

/// Runs a test in which the pools themselves find out what goes where.
pub fn tuned(test: fn()) {
    let before = MIGRATION.replace(None);
    test();
    MIGRATION.set(before);
}

/// Runs a test in which the pools hear of all accesses to one page in so many.
pub fn sampling(interval: u32, test: fn()) {
    let before = SAMPLING.replace(Sampling::OneIn(NonZeroU32::new(interval).unwrap()));
    test();
    SAMPLING.set(before);
}

/// So many slower tiers of so many pages.
pub fn tiers(slower: usize, pages: u64, migration: Migration) -> TierConfig {
    let tier = Tier::new(pages * PAGE_BYTES);
    TierConfig { slower: vec![tier; slower], migration: Some(migration), ..TierConfig::default() }
}

/// What a frame of a slower tier takes in the first one at most: what is known of it, and its part of
/// the buffers through which pages are written.
pub const BESIDE: u64 = 1024;

/// What a sampler of all pages takes in the smallest pools.
const SAMPLER: u64 = 64 << 10;

/// Runs a test in which readers hold pages in this way.
pub fn holding(hold: ReadMode, test: fn()) {
    let before = HOLD.replace(hold);
    test();
    HOLD.set(before);
}

/// The least budget, so many times.
pub fn config(times: u64, file: FileState) -> PoolConfig {
    let (read_mode, slower) = (HOLD.get(), SLOWER_TIERS.get());
    let tiers = TierConfig { migration: MIGRATION.get(), ..tiers(slower, 64, RESTLESS) };
    let config = PoolConfig { miss_ratios: SAMPLING.get(), ..pools::config(times, SIZE, file) };
    let sampler = if config.miss_ratios == Sampling::Off { 0 } else { SAMPLER };
    let beside = BESIDE * 64 * slower as u64 + sampler;
    PoolConfig { read_mode, tiers, memory_budget: config.memory_budget + beside, ..config }
}

pub fn open<T: Translation>(disk: &SimDisk, times: u64, file: FileState) -> Pool<T> {
    Pool::open(Box::new(disk.clone()), &config(times, file), &[KIND]).unwrap()
}

/// A pool that `pages` are too many for, if the translation can evict.
pub fn tight<T: Translation>(disk: &SimDisk, file: FileState) -> Pool<T> {
    open(disk, if T::EVICTS { 1 } else { 64 }, file)
}

pub fn number(page: u64) -> PageNo {
    PageNo::new(page).unwrap()
}

fn word(id: PageId, at: usize) -> u64 {
    polder_testkit::random::scramble(id.to_bits() ^ ((at as u64) << 48))
}

fn fill(page: &mut PageMut<'_>, id: PageId) {
    page.set_u8(header_at::KIND, KIND.kind.0);
    page.set_u8(header_at::LAYOUT, 1);
    for at in (COUNT_AT + 8..COUNT_AGAIN_AT).step_by(8) {
        page.set_u64(at, word(id, at));
    }
}

/// The page's count, if the page is what it should be.
fn check(page: PageRef<'_>, id: PageId) -> u64 {
    assert_eq!(page.u64(header_at::PAGE_ID), id.to_bits(), "{id} is another page");
    for at in (COUNT_AT + 8..COUNT_AGAIN_AT).step_by(8) {
        assert_eq!(page.u64(at), word(id, at), "{id} at byte {at}");
    }
    assert_eq!(page.u64(COUNT_AT), page.u64(COUNT_AGAIN_AT), "{id}: a torn read was validated");
    page.u64(COUNT_AT)
}

/// A filled page, still pinned.
pub fn try_create<T: Translation>(space: &Space<T>) -> Result<NewPage<'_>, PoolError> {
    let new = space.create()?;
    space.run(AccessHint::Normal, |_| {
        fill(&mut new.latch()?.page_mut(), new.id());
        Ok(())
    })?;
    space.link(&[new.id().page()])?;
    Ok(new)
}

pub fn create<T: Translation>(space: &Space<T>) -> PageNo {
    try_create(space).unwrap().id().page()
}

pub fn create_many<T: Translation>(space: &Space<T>, pages: usize) -> Vec<PageNo> {
    (0..pages).map(|_| create(space)).collect()
}

pub fn read_as<T: Translation>(
    space: &Space<T>,
    page: PageNo,
    hint: AccessHint,
) -> Result<u64, PoolError> {
    let mut copy = PageBuf::new(SIZE);
    space.run(hint, |attempt| {
        let guard = space.page(attempt, page)?;
        copy.copy_from(guard.page());
        guard.validate()
    })?;
    Ok(check(copy.page(), PageId::new(space.id(), page)))
}

/// The count of a page, after a look at all of its bytes.
pub fn read<T: Translation>(space: &Space<T>, page: PageNo) -> Result<u64, PoolError> {
    read_as(space, page, AccessHint::Normal)
}

/// Adds one to the page's count.
pub fn increment<T: Translation>(space: &Space<T>, page: PageNo) -> Result<(), PoolError> {
    space.run(AccessHint::Normal, |attempt| {
        let guard = space.page(attempt, page)?;
        let mut held = attempt.upgrade(guard)?;
        let count = held.page().u64(COUNT_AT) + 1;
        let mut bytes = held.page_mut();
        bytes.set_u64(COUNT_AT, count);
        bytes.set_u64(COUNT_AGAIN_AT, count);
        Ok(())
    })
}

pub fn free<T: Translation>(space: &Space<T>, page: PageNo) {
    space.unlink(&[page]).unwrap();
    let id = space.run(AccessHint::Normal, |attempt| {
        let guard = space.page(attempt, page)?;
        let held = attempt.upgrade(guard)?;
        Ok(space.discard(held))
    });
    space.give_back(id.unwrap());
}

pub fn is_resident<T: Translation>(space: &Space<T>, page: PageNo) -> bool {
    space.is_resident(page)
}

/// Flushes, drops the pool and opens the file again.
pub fn reopen<T: Translation>(
    pool: Pool<T>,
    disk: &SimDisk,
    spaces: &[SpaceId],
) -> (Pool<T>, Vec<Space<T>>) {
    pool.flush().unwrap();
    assert_sound(&pool);
    let file = pool.file_state();
    drop(pool);
    let pool = tight::<T>(disk, file);
    let spaces = spaces.iter().map(|id| pool.open_space(*id).unwrap()).collect();
    (pool, spaces)
}

pub fn assert_sound<T: Translation>(pool: &Pool<T>) {
    assert_eq!(pool.check_maps().unwrap(), Vec::<String>::new());
}

/// Physical page numbers at which the disk's image holds a page of this id.
pub fn places_of(disk: &SimDisk, id: PageId) -> Vec<u64> {
    let image = disk.image();
    let pages = image.chunks(PAGE_BYTES as usize).enumerate();
    let holds = |bytes: &[u8]| {
        bytes[header_at::KIND] != 0
            && bytes[header_at::PAGE_ID..][..8] == id.to_bits().to_le_bytes()
    };
    pages.filter(|(_, bytes)| holds(bytes)).map(|(place, _)| place as u64).collect()
}
