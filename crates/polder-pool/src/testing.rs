//! Pools for tests of the pool's own modules.

#![allow(clippy::unwrap_used)]

use polder_format::{ChecksumSeed, PageKind, PageNo, PageSize, StoreId, header_at};
use tempfile::TempDir;

use crate::device::{FileDevice, OpenKind};
use crate::replacement::ReplacementKind;
use crate::{
    AccessHint, FileState, Hold, KindOps, OwnedLinks, Pool, PoolConfig, Space, Translation,
};

/// A pool of small pages on a new file.
pub(crate) fn pool<T: Translation>(memory_budget: u64) -> (TempDir, Pool<T>) {
    pool_with(memory_budget, Default::default())
}

/// The same, where readers hold pages in this way.
pub(crate) fn pool_held<T: Translation>(memory_budget: u64, hold: Hold) -> (TempDir, Pool<T>) {
    pool_of(memory_budget, Default::default(), hold)
}

/// The same under another policy.
pub(crate) fn pool_with<T: Translation>(
    memory_budget: u64,
    replacement: ReplacementKind,
) -> (TempDir, Pool<T>) {
    pool_of(memory_budget, replacement, Hold::Optimistic)
}

fn pool_of<T: Translation>(
    memory_budget: u64,
    replacement: ReplacementKind,
    hold: Hold,
) -> (TempDir, Pool<T>) {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::open(dir.path().join("data"), OpenKind::Create).unwrap();
    let config = PoolConfig {
        memory_budget,
        page_size: PageSize::MIN,
        prefault: false,
        seed: ChecksumSeed::new(StoreId([0; 16])),
        file: FileState::NEW,
        journal: None,
        replacement,
        hold,
    };
    let pool = Pool::open(Box::new(device), &config, &[TEST_KIND]).unwrap();
    (dir, pool)
}

/// Where the first link is in a page, and how many there are.
pub(crate) const LINKS_AT: usize = 64;
pub(crate) const LINKS: usize = 300;

/// Pages of which only the header counts, and links.
const TEST_KIND: KindOps = KindOps {
    kind: PageKind(200),
    name: "test page",
    max_layout: 1,
    check: |_| Ok(()),
    links: Some(OwnedLinks { count: |_| LINKS, offset: |_, index| LINKS_AT + 8 * index }),
};

/// A page that is linked.
pub(crate) fn create<T: Translation>(space: &Space<T>) -> PageNo {
    let new = space.create().unwrap();
    let made = space.run(AccessHint::Normal, |_| {
        let mut page = new.latch()?;
        page.page_mut().set_u8(header_at::KIND, TEST_KIND.kind.0);
        page.page_mut().set_u8(header_at::LAYOUT, 1);
        page.excuse();
        Ok(())
    });
    made.unwrap();
    space.link(&[new.id().page()]).unwrap();
    new.id().page()
}
