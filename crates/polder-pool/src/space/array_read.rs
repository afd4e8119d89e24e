//! Reading paged arrays: growing arrays of 64-bit words in pages of space 0.
//!
//! Readers go down optimistically, as in a tree; a writer of an element holds the array's mutex.
//! The root never moves when the array grows: its content goes into a new child. So a reader
//! needs nothing but the root's physical page number.
//!
//! A reader treats the array as the parent of its root: it compares the root's physical page
//! number again once it has read the word of the page there. A reader that visits many pages by
//! physical page number alone (a list of all elements) begins again if a page of the array has
//! moved meanwhile (`PagedArray::moved`), and an error that a map causes counts only if nothing
//! was relocated while it was read: what lies where a page was before may be a sound page of
//! another map.

use std::collections::VecDeque;

use polder_format::{
    ARRAY_HEIGHT_AT, ARRAY_WORDS_AT, PageId, PageNo, PhysicalPageNo, SpaceId, array_fanout,
};

use super::MAX_HEIGHT;
use crate::error::PoolError;
use crate::file_map::PagedArray;
use crate::latch::{Exclusive, Optimistic, Restart};
use crate::operation::Attempt;
use crate::page::LinkRef;
use crate::replacement::AccessHint;
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::translation::Translation;

/// A page of an array on the way to an element.
pub(super) struct Step<'p> {
    pub(super) page: Optimistic<'p>,
    /// Where the word for the element is in it.
    pub(super) at: usize,
    pub(super) height: u8,
}

/// How the way to an element ended.
pub(super) enum Way<'p> {
    /// At the page that holds the element.
    Found(Step<'p>),
    /// At an inner page whose word is zero.
    Missing(Step<'p>),
    /// The array has too few levels, or none.
    Beyond,
}

/// Elements below one word of a page of this height.
fn span(fanout: u64, height: u8) -> u64 {
    fanout.saturating_pow(u32::from(height))
}

impl<T: Translation> Shared<T> {
    /// The way down to element `index`. `above`: stop at the page of this height.
    pub(super) fn array_way<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        array: &PagedArray,
        index: u64,
        above: u8,
    ) -> Result<Way<'p>, Restart> {
        let fanout = array_fanout(self.core.page_size());
        let root = array.root();
        if root == PhysicalPageNo::NONE {
            return Ok(Way::Beyond);
        }
        reached!(ArrayRootRead);
        let mut page = self.view(&self.file).follow(attempt, LinkRef::Id(file_page(root)), None)?;
        // The array is the parent of its root: asked after the page's word was read, as any parent
        // is validated. Where the root lay before it moved another array's page may lie.
        if array.root() != root {
            return Err(Restart);
        }
        let mut height = page.page().u8(ARRAY_HEIGHT_AT).min(MAX_HEIGHT);
        if index / fanout >= span(fanout, height) {
            page.validate()?;
            return Ok(Way::Beyond);
        }
        loop {
            let digit = index / span(fanout, height) % fanout;
            let at = ARRAY_WORDS_AT + 8 * digit as usize;
            if height <= above {
                return Ok(Way::Found(Step { page, at, height }));
            }
            if page.page().u64(at) == 0 {
                page.validate()?;
                return Ok(Way::Missing(Step { page, at, height }));
            }
            page = self.view(&self.file).follow(
                attempt,
                LinkRef::Id(PageId::from_link(page.page().u64(at))),
                Some(&page),
            )?;
            let below = page.page().u8(ARRAY_HEIGHT_AT);
            if below.checked_add(1) != Some(height) {
                page.validate()?;
                return Err(attempt.fail(wrong_height(page.id())));
            }
            height = below;
        }
    }

    /// Element `index`; what was never set is zero.
    pub(crate) fn array_get(&self, array: &PagedArray, index: u64) -> Result<u64, PoolError> {
        self.unless_relocated(|| {
            self.view(&self.file)
                .run(AccessHint::Normal, |attempt| self.element(attempt, array, index))
        })
    }

    /// The same, if it is known without waiting.
    pub(crate) fn array_get_at_once(&self, array: &PagedArray, index: u64) -> Option<u64> {
        self.view(&self.file).run_once(|attempt| self.element(attempt, array, index)).ok()
    }

    fn element<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        array: &PagedArray,
        index: u64,
    ) -> Result<u64, Restart> {
        match self.array_way(attempt, array, index, 0)? {
            Way::Found(step) => {
                let word = step.page.page().u64(step.at);
                step.page.validate()?;
                Ok(word)
            }
            Way::Missing(_) | Way::Beyond => Ok(0),
        }
    }

    /// Reads maps again if that failed while something moved in the file: what was read may have
    /// been another map's by then.
    fn unless_relocated<R>(&self, read: impl Fn() -> Result<R, PoolError>) -> Result<R, PoolError> {
        loop {
            let relocations = self.relocations();
            match read() {
                Err(error) if error.is_about_maps() && self.relocations() != relocations => {}
                result => return result,
            }
        }
    }

    /// The page that holds element `index`, latched, and where in it the element is. The caller
    /// holds the array's mutex, and knows that the element is there.
    pub(super) fn latch_element(
        &self,
        array: &PagedArray,
        index: u64,
    ) -> Result<(Exclusive<'_>, usize), PoolError> {
        self.view(&self.file).run(AccessHint::Normal, |attempt| {
            match self.array_way(attempt, array, index, 0)? {
                Way::Found(step) => Ok((attempt.upgrade(step.page)?, step.at)),
                Way::Missing(_) | Way::Beyond => Err(Restart),
            }
        })
    }

    /// All pages of the array, parents before children.
    pub(super) fn array_pages(&self, array: &PagedArray) -> Result<Vec<ArrayPage>, PoolError> {
        self.read_array(array, || {
            let mut pages = Vec::new();
            self.each_array_page(array, &mut |page, _, _| pages.push(page))?;
            Ok(pages)
        })
    }

    /// All elements that are not zero, with their indexes.
    pub(crate) fn array_elements(&self, array: &PagedArray) -> Result<Vec<(u64, u64)>, PoolError> {
        self.read_array(array, || {
            let mut elements = Vec::new();
            self.each_array_page(array, &mut |page, height, words| {
                if height == 0 {
                    let present = words.iter().enumerate().filter(|(_, word)| **word != 0);
                    let index = |i: usize| page.first.saturating_add(i as u64);
                    elements.extend(present.map(|(i, word)| (index(i), *word)));
                }
            })?;
            elements.sort_unstable();
            Ok(elements)
        })
    }

    /// Reads many pages of an array, again and again until none of them has moved meanwhile: a
    /// page that is named by its physical page number alone may be another array's when it is
    /// read.
    fn read_array<R>(
        &self,
        array: &PagedArray,
        read: impl Fn() -> Result<R, PoolError>,
    ) -> Result<R, PoolError> {
        loop {
            let moved = array.moved.load(Ordering::Acquire);
            let result = self.unless_relocated(&read);
            if array.moved.load(Ordering::Acquire) == moved {
                return result;
            }
        }
    }

    /// Calls `visit` with each page, its height and its words, parents before children. Heights
    /// fall by one from each to the next, so that this comes to an end whatever links say.
    fn each_array_page(
        &self,
        array: &PagedArray,
        visit: &mut dyn FnMut(ArrayPage, u8, &[u64]),
    ) -> Result<(), PoolError> {
        let fanout = array_fanout(self.core.page_size());
        let mut todo = VecDeque::new();
        if array.root() != PhysicalPageNo::NONE {
            let root = ArrayPage { physical: array.root(), parent: None, first: 0 };
            todo.push_back((root, None));
        }
        while let Some((page, expected)) = todo.pop_front() {
            reached!(ArrayPageNamed);
            let (height, words) = self.array_words(page.physical)?;
            if expected.is_some_and(|expected| expected != height) {
                return Err(wrong_height(file_page(page.physical)));
            }
            visit(page, height, &words);
            let Some(below) = height.checked_sub(1) else { continue };
            let present = words.iter().enumerate().filter(|(_, word)| **word != 0);
            for (i, word) in present {
                let physical = PhysicalPageNo::new(PageId::from_link(*word).page().get());
                let parent = Some((page.physical, ARRAY_WORDS_AT + 8 * i));
                // What lies beyond all numbers is no element of any array.
                let first = span(fanout, height).saturating_mul(i as u64);
                let first = page.first.saturating_add(first);
                todo.push_back((ArrayPage { physical, parent, first }, Some(below)));
            }
        }
        Ok(())
    }

    /// Height and words of one page of an array.
    pub(super) fn array_words(
        &self,
        physical: PhysicalPageNo,
    ) -> Result<(u8, Vec<u64>), PoolError> {
        let page = file_page(physical);
        self.view(&self.file).run(AccessHint::Normal, |attempt| {
            let guard = self.view(&self.file).follow(attempt, LinkRef::Id(page), None)?;
            let bytes = guard.page();
            let height = bytes.u8(ARRAY_HEIGHT_AT);
            let words = (ARRAY_WORDS_AT..bytes.size()).step_by(8).map(|at| bytes.u64(at)).collect();
            guard.validate()?;
            Ok((height, words))
        })
    }
}

/// One page of an array, and where its link stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayPage {
    pub(super) physical: PhysicalPageNo,
    /// The parent's physical page number and the offset in it; none for the root.
    pub(super) parent: Option<(PhysicalPageNo, usize)>,
    /// The first element below it.
    first: u64,
}

/// The id of the page of a map that lies at a physical page number.
pub(super) fn file_page(physical: PhysicalPageNo) -> PageId {
    PageId::new(SpaceId::FILE, PageNo::new(physical.get()).unwrap_or(PageNo::MAX))
}

fn wrong_height(page: PageId) -> PoolError {
    PoolError::Broken { page, what: "an array page has the wrong height" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{create, pool};

    /// The pages could only be so on a device that gives back what was never written.
    #[test]
    fn maps_that_name_nonsense_are_refused() {
        let (_dir, pool) = pool::<crate::Array>(4 << 20);
        let space = pool.create_space().unwrap();
        let page = create(&space);
        let (shared, map) = (space.shared(), &space.space_core().map);
        let root = file_page(map.root());
        let change = |height: u8, word: u64| {
            let changed = shared.view(&shared.file).run(AccessHint::Normal, |attempt| {
                let guard = shared.view(&shared.file).follow(attempt, LinkRef::Id(root), None)?;
                let mut page = attempt.upgrade(guard)?;
                page.page_mut().set_u8(ARRAY_HEIGHT_AT, height);
                page.page_mut().set_u64(ARRAY_WORDS_AT, word);
                page.set_unlogged();
                Ok(())
            });
            changed.unwrap();
        };
        let is_broken =
            |error: PoolError| assert!(matches!(error, PoolError::Broken { .. }), "{error}");

        let word = shared.array_get(map, 0).unwrap();
        for nowhere in [u64::MAX, u64::MAX - 8, 1 << 52] {
            change(0, nowhere);
            is_broken((shared.locate)(shared, space.space_core(), page).unwrap_err());
            let faults = pool.check_maps().unwrap();
            assert!(faults.iter().any(|fault| fault.contains("behind the end")), "{faults:?}");
        }
        for height in 1..=MAX_HEIGHT {
            change(height, root.to_bits());
            is_broken(shared.array_elements(map).unwrap_err());
            is_broken(shared.array_pages(map).map(|_| ()).unwrap_err());
            is_broken(shared.array_get(map, 0).unwrap_err());
        }
        change(0, word);
        assert_eq!(pool.check_maps().unwrap(), [""; 0]);
    }
}
