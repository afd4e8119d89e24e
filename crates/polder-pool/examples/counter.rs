//! The pool by itself: a file, a space, a page, a write and a read.
//!
//! `cargo run -p polder-pool --example counter`

use std::error::Error;

use polder_format::{ChecksumSeed, PageId, PageKind, PageSize, StoreId, header_at};
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{
    AccessHint, Array, FileState, KindOps, LinkRef, Pool, PoolConfig, PoolError, Space,
};

/// Our kind of page: a number behind the header.
const COUNTER: KindOps = KindOps {
    kind: PageKind(200),
    name: "counter",
    max_layout: 1,
    check: |_| Ok(()),
    links: None,
    redo: None,
};
const COUNT_AT: usize = 32;

/// A page that counts. Nothing is latched when this returns.
fn create(space: &Space<Array>) -> Result<PageId, PoolError> {
    let new = space.create()?;
    // Nobody else knows of the page, so that the latch is free or soon will be.
    space.run(AccessHint::Normal, |_| {
        let mut held = new.latch()?;
        let mut page = held.page_mut();
        page.set_u8(header_at::KIND, COUNTER.kind.0);
        page.set_u8(header_at::LAYOUT, COUNTER.max_layout);
        Ok(())
    })?;
    // Until now it was reserved, in memory alone.
    space.link(&[new.id().page()])?;
    Ok(new.id())
}

/// Exclusive: others wait, or begin again.
fn add(space: &Space<Array>, counter: PageId, n: u64) -> Result<(), PoolError> {
    space.run(AccessHint::Normal, |attempt| {
        let page = space.follow(attempt, LinkRef::Id(counter), None)?;
        let mut held = attempt.upgrade(page)?;
        let count = held.page().u64(COUNT_AT);
        held.page_mut().set_u64(COUNT_AT, count + n);
        Ok(())
    })
}

/// Optimistic: nothing is held, so that what was read counts only once it has been validated.
fn get(space: &Space<Array>, counter: PageId) -> Result<u64, PoolError> {
    space.run(AccessHint::Normal, |attempt| {
        let page = space.follow(attempt, LinkRef::Id(counter), None)?;
        let count = page.page().u64(COUNT_AT);
        page.validate()?;
        Ok(count)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data");
    let page_size = PageSize::MIN;
    let config = |file| PoolConfig {
        file,
        ..PoolConfig::new(
            PoolConfig::least_budget(page_size),
            page_size,
            ChecksumSeed::new(StoreId([1; 16])),
        )
    };

    let device = Box::new(FileDevice::open(&path, OpenKind::Create)?);
    let pool: Pool<Array> = Pool::open(device, &config(FileState::NEW), &[COUNTER])?;
    let space = pool.create_space()?;
    let counter = create(&space)?;
    std::thread::scope(|scope| {
        let threads = [1, 10, 100].map(|n| {
            let space = &space;
            scope.spawn(move || (0..1000).try_for_each(|_| add(space, counter, n)))
        });
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    println!("counted to {}", get(&space, counter)?);

    // What `file_state` tells must be kept somewhere: a store writes it into a superblock.
    pool.flush()?;
    let file = pool.file_state();
    drop((space, pool));

    let device = Box::new(FileDevice::open(&path, OpenKind::Existing)?);
    let pool: Pool<Array> = Pool::open(device, &config(file), &[COUNTER])?;
    let space = pool.open_space(counter.space())?;
    println!("found {} again", get(&space, counter)?);
    let stats = pool.stats();
    println!(
        "{} of {} frames in use, {} faults, {} restarts, {} bytes of translation",
        stats.resident_pages, stats.frames, stats.faults, stats.restarts, stats.translation_bytes
    );
    Ok(())
}
