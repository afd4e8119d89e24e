//! Which pages of a space make up its extent `k`: arithmetic, like a floating-point number with
//! four bits of mantissa. `docs/format.md`, "Paged arrays".

use crate::{PageNo, PageSize};

/// Logarithm of the pages in the very first extent: an allocation map and a root.
const FIRST_LEN_SHIFT: u32 = 1;
/// Extents that are as long as all before them together, from the second one on: 2, 4 and 8 pages.
const YOUNG_EXTENTS: u64 = 3;
/// Logarithm of the pages in those that come then.
const LEN_SHIFT: u32 = 4;
/// Extents until the first doubling: 2, 2, 4, 8, and 31 of 16 pages.
const FIRST_EXTENTS: u64 = 35;
/// From there on, extents for each doubling of the space.
const PER_DOUBLING: u64 = 16;
/// Logarithm of the pages in the first extents together.
const FIRST_PAGES_SHIFT: u32 = 9;
/// Logarithm of the greatest extent in bytes: 64 MiB.
const MAX_BYTES_SHIFT: u32 = 26;

/// One extent of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its number in the space, and in the extent map.
    pub index: u64,
    /// Its first page.
    pub first: PageNo,
    /// How many pages it has.
    pub pages: u64,
}

/// How the spaces of a store grow; depends on its page size alone.
#[derive(Debug, Clone, Copy)]
pub struct ExtentSchedule {
    max_len_shift: u32,
}

impl ExtentSchedule {
    /// The schedule for pages of this size.
    pub fn new(size: PageSize) -> ExtentSchedule {
        ExtentSchedule { max_len_shift: MAX_BYTES_SHIFT - size.shift() }
    }

    /// The extent that holds `page`.
    pub fn of_page(self, page: PageNo) -> Extent {
        let page = page.get();
        let (index, first, len_shift) = if page < 1 << FIRST_LEN_SHIFT {
            (0, 0, FIRST_LEN_SHIFT)
        } else if page < 1 << LEN_SHIFT {
            let exponent = page.ilog2();
            (u64::from(exponent), 1 << exponent, exponent)
        } else if page < 1 << FIRST_PAGES_SHIFT {
            ((page >> LEN_SHIFT) + YOUNG_EXTENTS, page >> LEN_SHIFT << LEN_SHIFT, LEN_SHIFT)
        } else {
            let exponent = page.ilog2();
            let doublings = exponent - FIRST_PAGES_SHIFT;
            let len_shift = exponent - 4;
            if len_shift <= self.max_len_shift {
                let within = (page - (1 << exponent)) >> len_shift;
                let index = FIRST_EXTENTS + u64::from(doublings) * PER_DOUBLING + within;
                (index, page >> len_shift << len_shift, len_shift)
            } else {
                let shift = self.max_len_shift;
                let flat_from = 1u64 << (shift + 5);
                let index = self.extents_below_flat() + ((page - flat_from) >> shift);
                (index, page >> shift << shift, shift)
            }
        };
        Extent { index, first: PageNo::new(first).unwrap_or(PageNo::MAX), pages: 1 << len_shift }
    }

    /// The extent with this number, if page numbers reach so far.
    pub fn extent(self, index: u64) -> Option<Extent> {
        let (first, len_shift) = if index == 0 {
            (0, FIRST_LEN_SHIFT)
        } else if index <= YOUNG_EXTENTS {
            (1 << index, index as u32)
        } else if index < FIRST_EXTENTS {
            ((index - YOUNG_EXTENTS) << LEN_SHIFT, LEN_SHIFT)
        } else if index < self.extents_below_flat() {
            let doublings = ((index - FIRST_EXTENTS) / PER_DOUBLING) as u32;
            let within = (index - FIRST_EXTENTS) % PER_DOUBLING;
            let exponent = FIRST_PAGES_SHIFT + doublings;
            ((1 << exponent) + (within << (exponent - 4)), exponent - 4)
        } else {
            let shift = self.max_len_shift;
            let flat = index - self.extents_below_flat();
            ((1u64 << (shift + 5)).checked_add(flat.checked_mul(1 << shift)?)?, shift)
        };
        let first = PageNo::new(first)?;
        Some(Extent { index, first, pages: 1 << len_shift })
    }

    /// Extents that are shorter than the greatest or in the last doubling up to it.
    fn extents_below_flat(self) -> u64 {
        let doublings = self.max_len_shift + 5 - FIRST_PAGES_SHIFT;
        FIRST_EXTENTS + u64::from(doublings) * PER_DOUBLING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_tile_the_space() {
        for size in [4096, 65536] {
            let schedule = ExtentSchedule::new(PageSize::new(size).unwrap());
            let mut next = 0;
            for index in 0..2000 {
                let extent = schedule.extent(index).unwrap();
                assert_eq!((extent.index, extent.first.get()), (index, next));
                for page in [next, next + extent.pages / 2, next + extent.pages - 1] {
                    assert_eq!(schedule.of_page(PageNo::new(page).unwrap()), extent);
                }
                assert!(extent.pages * u64::from(size) <= 64 << 20);
                let most = if next < 16 { next.max(2) } else { (next / 16).max(16) };
                assert!(extent.pages <= most);
                next += extent.pages;
            }
            let last = schedule.of_page(PageNo::MAX);
            assert_eq!(schedule.extent(last.index), Some(last));
            assert_eq!(schedule.extent(last.index + 1), None);
            assert_eq!(schedule.extent(u64::MAX), None);
        }
    }
}
