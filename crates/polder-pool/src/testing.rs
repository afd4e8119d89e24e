//! Pools for tests of the pool's own modules.

#![allow(clippy::unwrap_used)]

use polder_format::{ChecksumSeed, PageKind, PageNo, PageSize, StoreId, header_at};
use tempfile::TempDir;

use crate::device::{FileDevice, OpenKind};
use crate::{AccessHint, Array, FileState, KindOps, Pool, PoolConfig, Space};

/// A pool of small pages on a new file.
pub(crate) fn pool(memory_budget: u64) -> (TempDir, Pool<Array>) {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::open(dir.path().join("data"), OpenKind::Create).unwrap();
    let config = PoolConfig {
        memory_budget,
        page_size: PageSize::MIN,
        prefault: false,
        seed: ChecksumSeed::new(StoreId([0; 16])),
        file: FileState::NEW,
        journal: None,
        replacement: Default::default(),
        hold: Default::default(),
    };
    let pool = Pool::open(Box::new(device), &config, &[TEST_KIND]).unwrap();
    (dir, pool)
}

/// Pages of which only the header counts.
const TEST_KIND: KindOps = KindOps {
    kind: PageKind(200),
    name: "test page",
    max_layout: 1,
    check: |_| Ok(()),
    visit_links: |_, _| {},
};

/// A page that is linked.
pub(crate) fn create(space: &Space<Array>) -> PageNo {
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
