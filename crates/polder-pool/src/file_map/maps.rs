//! What is known in memory of a space's maps.

use std::sync::Mutex;

use polder_format::PhysicalPageNo;

use crate::sync::atomic::{AtomicU64, Ordering};

/// One paged array.
#[derive(Debug)]
pub(crate) struct PagedArray {
    /// Physical page number of the root page; zero: the array is empty.
    pub(crate) root: AtomicU64,
    /// How often a page of the array has moved, or all of them were given up: raised before their
    /// physical page numbers can serve another array.
    pub(crate) moved: AtomicU64,
    /// Held by a thread that changes the array. Guards no data of its own: the pages are latched
    /// as well.
    pub(crate) change: Mutex<()>,
}

impl PagedArray {
    pub(crate) fn new(root: PhysicalPageNo) -> PagedArray {
        let moved = AtomicU64::new(0);
        PagedArray { root: AtomicU64::new(root.get()), moved, change: Mutex::new(()) }
    }

    /// A page of the array lies elsewhere by now, or none is part of it any more.
    pub(crate) fn note_move(&self) {
        self.moved.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn root(&self) -> PhysicalPageNo {
        PhysicalPageNo::new(self.root.load(Ordering::Acquire))
    }

    pub(crate) fn set_root(&self, root: PhysicalPageNo) {
        self.root.store(root.get(), Ordering::Release);
    }
}

/// What is remembered between allocations.
#[derive(Debug, Default)]
pub(crate) struct AllocState {
    /// No page below this one is free.
    pub(crate) lowest: u64,
    /// How many allocation maps the space has; none if it has not been counted yet.
    pub(crate) maps: Option<u64>,
    /// The root of the extent map that the space directory is known to name.
    pub(crate) recorded: Option<PhysicalPageNo>,
    /// The space is dropped, and its words are there as long as so many pages of it are lent.
    pub(crate) awaits_loans: Option<u64>,
}
