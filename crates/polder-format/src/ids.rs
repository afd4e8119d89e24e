//! Identifiers: page id, space id, physical page number, LSN, page size. The bit layout is in
//! `docs/format.md`.

use std::fmt;

use crate::FormatError;

const PAGE_BITS: u32 = 34;
const SPACE_BITS: u32 = 28;

/// Which space (table) a page belongs to: 28 bits, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(u32);

impl SpaceId {
    /// The file itself: page numbers are physical page numbers. Maps live here.
    pub const FILE: SpaceId = SpaceId(0);
    /// The catalogue of tables.
    pub const CATALOGUE: SpaceId = SpaceId(1);
    /// The greatest id there can be.
    pub const MAX: SpaceId = SpaceId((1 << SPACE_BITS) - 1);

    /// The space with this number, if it has at most 28 bits.
    pub fn new(id: u64) -> Option<SpaceId> {
        (id <= u64::from(Self::MAX.0)).then_some(SpaceId(id as u32))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {}", self.0)
    }
}

/// Number of a page within its space: 34 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(u64);

impl PageNo {
    /// The greatest page number: 64 TiB in a space at 4 KiB pages.
    pub const MAX: PageNo = PageNo((1 << PAGE_BITS) - 1);

    /// The page number, if it has at most 34 bits.
    pub fn new(no: u64) -> Option<PageNo> {
        (no <= Self::MAX.0).then_some(PageNo(no))
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A page of the store: `tag:2 | space:28 | page:34`. The tag of a valid id is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(u64);

impl PageId {
    /// No page: the null link.
    pub const NULL: PageId = PageId(0);

    /// The page `page` of `space`.
    #[inline]
    pub fn new(space: SpaceId, page: PageNo) -> PageId {
        PageId((u64::from(space.0) << PAGE_BITS) | page.0)
    }

    /// The id in a link as it lies in a page. A torn or damaged link gives an id that may not
    /// exist; its tag is dropped.
    #[inline]
    pub fn from_link(link: u64) -> PageId {
        PageId(link & ((1 << (PAGE_BITS + SPACE_BITS)) - 1))
    }

    /// The 64 bits as they lie in a page.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The space it belongs to.
    #[inline]
    pub fn space(self) -> SpaceId {
        SpaceId((self.0 >> PAGE_BITS) as u32)
    }

    /// Its number within the space.
    #[inline]
    pub fn page(self) -> PageNo {
        PageNo(self.0 & ((1 << PAGE_BITS) - 1))
    }

    /// Whether this is the null link.
    #[inline]
    pub fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of space {}", self.page().0, self.space().0)
    }
}

/// A position in the data file, in pages: byte `number * page size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalPageNo(u64);

impl PhysicalPageNo {
    /// No position.
    pub const NONE: PhysicalPageNo = PhysicalPageNo(0);

    /// The position with this number.
    pub fn new(number: u64) -> PhysicalPageNo {
        PhysicalPageNo(number)
    }

    /// The number.
    #[inline]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The first byte, in a file of pages of this size.
    #[inline]
    pub fn offset(self, size: PageSize) -> u64 {
        self.0 << size.shift()
    }
}

impl fmt::Display for PhysicalPageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "physical page {}", self.0)
    }
}

/// A position in the log: bytes since its beginning. Zero: before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

/// The size of all pages of a store: a power of two from 4 KiB to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u32);

impl PageSize {
    /// 4 KiB, the smallest.
    pub const MIN: PageSize = PageSize(4096);
    /// 64 KiB, the largest.
    pub const MAX: PageSize = PageSize(65536);

    /// A page size of `bytes`.
    pub fn new(bytes: u32) -> Result<PageSize, FormatError> {
        if bytes.is_power_of_two() && (Self::MIN.0..=Self::MAX.0).contains(&bytes) {
            return Ok(PageSize(bytes));
        }
        Err(FormatError::Field {
            field: "page size",
            found: u64::from(bytes),
            expected: "it must be a power of two from 4096 to 65536 bytes",
        })
    }

    /// In bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Logarithm to base two of the size in bytes.
    #[inline]
    pub fn shift(self) -> u32 {
        self.0.trailing_zeros()
    }
}

/// Which store a file belongs to: random, made once with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_id_holds_space_and_page() {
        let id = PageId::new(SpaceId::MAX, PageNo::MAX);
        assert_eq!(id.space(), SpaceId::MAX);
        assert_eq!(id.page(), PageNo::MAX);
        assert_eq!(id.to_bits() >> 62, 0, "the tag stays free");
        assert_eq!(PageId::from_link(u64::MAX), id);
        assert!(PageNo::new(1 << 34).is_none());
        assert!(SpaceId::new(1 << 28).is_none());
    }

    #[test]
    fn page_size_is_checked() {
        for ok in [4096, 8192, 16384, 32768, 65536] {
            assert_eq!(1usize << PageSize::new(ok).unwrap().shift(), ok as usize);
        }
        for bad in [0, 1, 2048, 4097, 12288, 131072] {
            assert!(PageSize::new(bad).is_err());
        }
    }
}
