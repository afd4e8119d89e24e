//! Pools for tests of the pool's own modules.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;

use polder_format::{ChecksumSeed, PageKind, PageNo, PageSize, StoreId, header_at};
use tempfile::TempDir;

use crate::device::{Device, FileDevice, OpenKind};
use crate::machine::Nodes;
use crate::replacement::ReplacementKind;
use crate::{
    AccessHint, KindOps, OwnedLinks, Pool, PoolConfig, ReadMode, Space, TierConfig, Translation,
};

/// Steps of the code at which a test can have something else happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A reader of a paged array knows where the root lies, and has not come to it.
    ArrayRootRead,
    /// A page that migrates was copied, if it is copied as by a reader, and is not held yet.
    MigrationCopied,
    /// A reader of all of an array is about to read the page at a physical page number.
    ArrayPageNamed,
}

type Planned = (Step, Box<dyn FnOnce()>);

thread_local! {
    /// What this thread does when it comes to a step, once.
    static PLANNED: RefCell<Option<Planned>> = const { RefCell::new(None) };
}

/// Has this thread do something when it next comes to `step`, in the middle of the code.
pub(crate) fn at(step: Step, then: impl FnOnce() + 'static) {
    PLANNED.set(Some((step, Box::new(then))));
}

/// Whether what was planned is still to come.
pub(crate) fn is_planned() -> bool {
    PLANNED.with_borrow(Option::is_some)
}

pub(crate) fn reach(step: Step) {
    let planned = PLANNED.with_borrow_mut(|planned| planned.take_if(|(at, _)| *at == step));
    if let Some((_, then)) = planned {
        then();
    }
}

/// A pool of small pages on a new file.
pub(crate) fn pool<T: Translation>(memory_budget: u64) -> (TempDir, Pool<T>) {
    pool_with(memory_budget, Default::default())
}

/// The same, where readers hold pages in this way.
pub(crate) fn pool_held<T: Translation>(memory_budget: u64, hold: ReadMode) -> (TempDir, Pool<T>) {
    open(Nodes::of_machine(), PoolConfig { read_mode: hold, ..config(memory_budget) })
}

/// The same under another policy.
pub(crate) fn pool_with<T: Translation>(
    memory_budget: u64,
    replacement: ReplacementKind,
) -> (TempDir, Pool<T>) {
    open(Nodes::of_machine(), PoolConfig { replacement, ..config(memory_budget) })
}

/// A pool on a machine with these nodes.
pub(crate) fn pool_on<T: Translation>(nodes: Nodes, memory_budget: u64) -> (TempDir, Pool<T>) {
    open(nodes, config(memory_budget))
}

/// The same, all of it backed at once.
pub(crate) fn prefaulted_on<T: Translation>(
    nodes: Nodes,
    memory_budget: u64,
) -> (TempDir, Pool<T>) {
    open(nodes, PoolConfig { prefault: true, ..config(memory_budget) })
}

/// A pool of a first tier of so many bytes, and others.
pub(crate) fn pool_in<T: Translation>(memory_budget: u64, tiers: TierConfig) -> (TempDir, Pool<T>) {
    pool_of(PoolConfig { tiers, ..config(memory_budget) })
}

pub(crate) fn config(memory_budget: u64) -> PoolConfig {
    PoolConfig::new(memory_budget, PageSize::MIN, ChecksumSeed::new(StoreId([0; 16])))
}

/// A pool of this configuration.
pub(crate) fn pool_of<T: Translation>(config: PoolConfig) -> (TempDir, Pool<T>) {
    open(Nodes::of_machine(), config)
}

fn open<T: Translation>(nodes: Nodes, config: PoolConfig) -> (TempDir, Pool<T>) {
    let (dir, device) = file();
    (dir, Pool::open_on(nodes, Box::new(device), &config, &[TEST_KIND]).unwrap())
}

/// A new file.
pub(crate) fn file() -> (TempDir, FileDevice) {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::open(dir.path().join("data"), OpenKind::Create).unwrap();
    (dir, device)
}

/// A pool on a device of the test's own.
pub(crate) fn pool_on_device<T: Translation>(device: Box<dyn Device>) -> Pool<T> {
    Pool::open(device, &config(4 << 20), &[TEST_KIND]).unwrap()
}

/// Has the calling thread run on this core alone. False if it must not run there.
pub(crate) fn stay_on(core: usize) -> bool {
    // SAFETY: plain data, for which all zeros is a value; the calls get its address and size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
    }
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
    links: Some(OwnedLinks {
        count: |_| LINKS,
        offset: |_, index| LINKS_AT + 8 * index,
        fits: |_, _, _| Ok(()),
    }),
    redo: None,
};

/// A page that is linked.
pub(crate) fn create<T: Translation>(space: &Space<T>) -> PageNo {
    let new = space.create().unwrap();
    let made = space.run(AccessHint::Normal, |_| {
        let mut page = new.latch()?;
        page.page_mut().set_u8(header_at::KIND, TEST_KIND.kind.0);
        page.page_mut().set_u8(header_at::LAYOUT, 1);
        page.set_unlogged();
        Ok(())
    });
    made.unwrap();
    space.link(&[new.id().page()]).unwrap();
    new.id().page()
}
