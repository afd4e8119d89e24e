//! Changing paged arrays. A thread that does so holds the array's mutex.

use polder_format::header_at;
use polder_format::log::Operation;
use polder_format::{
    ARRAY_HEIGHT_AT, ARRAY_WORDS_AT, PageId, PageKind, PageNo, PhysicalPageNo, SpaceId,
};

use super::MAX_HEIGHT;
use super::array_read::{Way, file_page};
use crate::error::PoolError;
use crate::file_map::PagedArray;
use crate::journal::full_page_image_bytes;
use crate::latch::{NewPage, Restart};
use crate::page::{LinkRef, PageMut};
use crate::replacement::AccessHint;
use crate::shared::Shared;
use crate::space::change::{PATCH_BYTES, log_image, log_word};
use crate::translation::Translation;

impl<T: Translation> Shared<T> {
    /// Sets element `index`. The caller holds the array's mutex, and no latch. `backed`: the value
    /// is the physical page number of an extent of so many pages.
    ///
    /// Each step is a change of its own, and leaves a sound array.
    pub(super) fn array_set(
        &self,
        array: &PagedArray,
        index: u64,
        value: u64,
        backed: u64,
    ) -> Result<(), PoolError> {
        loop {
            let mut change = self.change(PATCH_BYTES)?;
            /// What is missing on the way.
            enum Lack {
                Root,
                Level,
                Child { height: u8 },
            }
            let lack = self.view(&self.file).run(AccessHint::Normal, |attempt| {
                Ok(match self.array_way(attempt, array, index, 0)? {
                    Way::Found(step) => {
                        let mut page = attempt.upgrade(step.page)?;
                        page.page_mut().set_u64(step.at, value);
                        log_word(&mut change, &mut page, step.at, backed);
                        None
                    }
                    Way::Missing(step) => Some(Lack::Child { height: step.height - 1 }),
                    Way::Beyond if array.root() == PhysicalPageNo::NONE => Some(Lack::Root),
                    Way::Beyond => Some(Lack::Level),
                })
            })?;
            // What is made now needs room in the log of its own.
            drop(change);
            match lack {
                None => return Ok(()),
                Some(Lack::Root) => {
                    let page = self.new_array_page(0)?;
                    self.set_array_root(array, PhysicalPageNo::new(page.id().page().get()))?;
                }
                Some(Lack::Level) => self.array_grow(array)?,
                Some(Lack::Child { height }) => {
                    let child = self.new_array_page(height)?;
                    let mut change = self.change(PATCH_BYTES)?;
                    self.view(&self.file).run(AccessHint::Normal, |attempt| {
                        // Nobody else changes the array, so that the way ends where it did.
                        let above = height + 1;
                        let Way::Found(step) = self.array_way(attempt, array, index, above)? else {
                            return Err(Restart);
                        };
                        let mut parent = attempt.upgrade(step.page)?;
                        parent.page_mut().set_u64(step.at, child.id().to_bits());
                        log_word(&mut change, &mut parent, step.at, 0);
                        Ok(())
                    })?;
                }
            }
        }
    }

    /// The array begins at this page from now on. For the space directory that is logged; the root
    /// of a space's map is an element of the directory.
    pub(super) fn set_array_root(
        &self,
        array: &PagedArray,
        root: PhysicalPageNo,
    ) -> Result<(), PoolError> {
        if std::ptr::eq(array, &self.directory) {
            let mut change = self.change(PATCH_BYTES)?;
            change.push(PageId::NULL, &Operation::Directory { physical: root });
            change.commit(&mut []);
        }
        array.set_root(root);
        Ok(())
    }

    /// One more level: the root's content goes into a new child.
    fn array_grow(&self, array: &PagedArray) -> Result<(), PoolError> {
        let child = self.new_array_page(0)?;
        let mut change = self.change(full_page_image_bytes(2, self.core.page_size()))?;
        self.view(&self.file).run(AccessHint::Normal, |attempt| {
            let root = LinkRef::Id(file_page(array.root()));
            let root = self.view(&self.file).follow(attempt, root, None)?;
            let mut root = attempt.upgrade(root)?;
            let mut lower = child.latch()?;
            let size = root.page().size();
            let height = root.page().u8(ARRAY_HEIGHT_AT);
            if height == MAX_HEIGHT {
                let limit = u64::from(MAX_HEIGHT);
                return Err(
                    attempt.fail(PoolError::Limit { what: "a paged array's height", limit })
                );
            }
            let mut below = lower.page_mut();
            below.set_u8(ARRAY_HEIGHT_AT, height);
            below.copy_from(root.page(), ARRAY_WORDS_AT, ARRAY_WORDS_AT, size - ARRAY_WORDS_AT);
            let mut page = root.page_mut();
            page.set_u8(ARRAY_HEIGHT_AT, height + 1);
            page.zero(ARRAY_WORDS_AT, size - ARRAY_WORDS_AT);
            page.set_u64(ARRAY_WORDS_AT, child.id().to_bits());
            log_image(&mut change, &mut lower);
            log_image(&mut change, &mut root);
            change.commit(&mut [&mut lower, &mut root]);
            Ok(())
        })
    }

    /// An empty array page at a free physical page number.
    pub(super) fn new_array_page(&self, height: u8) -> Result<NewPage<'_>, PoolError> {
        let physical = self.allocate_file_pages(SpaceId::FILE, 1)?;
        self.make_array_page(physical, height).inspect_err(|_| self.free_array_page(physical))
    }

    fn make_array_page(
        &self,
        physical: PhysicalPageNo,
        height: u8,
    ) -> Result<NewPage<'_>, PoolError> {
        let page = PageNo::new(physical.get())
            .ok_or(PoolError::Limit { what: "the file", limit: PageNo::MAX.get() })?;
        let new = self.make(&self.file, page)?;
        let mut change = self.change(full_page_image_bytes(1, self.core.page_size()))?;
        if let Ok(mut latched) = new.latch() {
            init(&mut latched.page_mut(), height);
            log_image(&mut change, &mut latched);
            change.commit(&mut [&mut latched]);
        }
        Ok(new)
    }

    /// Logs that these pages of maps are gone, so that a recovery does not write where they lay.
    pub(super) fn log_freed(
        &self,
        places: impl Iterator<Item = PhysicalPageNo>,
    ) -> Result<(), PoolError> {
        for physical in places {
            let mut change = self.change(PATCH_BYTES)?;
            change.push(file_page(physical), &Operation::Freed);
            change.commit(&mut []);
        }
        Ok(())
    }

    /// Frees the physical page of an array page that nothing refers to.
    pub(super) fn free_array_page(&self, physical: PhysicalPageNo) {
        let page = file_page(physical).page();
        if let Some(held) = self.latch_resident(&self.file, page) {
            self.discard(&self.file, held);
        }
        self.release_file_pages(physical, 1);
    }
}

fn init(page: &mut PageMut<'_>, height: u8) {
    page.set_u8(header_at::KIND, PageKind::ARRAY.0);
    page.set_u8(header_at::LAYOUT, 1);
    page.set_u8(ARRAY_HEIGHT_AT, height);
}
