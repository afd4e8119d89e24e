//! Where the fields of the pages lie that make up paged arrays and allocation maps.

use crate::PageSize;

/// Array page: its height, 1 byte. Height 0 holds elements, greater ones hold physical
/// page numbers.
pub const ARRAY_HEIGHT_AT: usize = 32;
/// Array page: its words, 8 bytes each, to the end of the page.
pub const ARRAY_WORDS_AT: usize = 64;
/// Allocation map: how many of its pages are in use, 4 bytes.
pub const ALLOC_MAP_USED_AT: usize = 32;
/// Allocation map: 1 if the space's next allocation map exists, 4 bytes.
pub const ALLOC_MAP_NEXT_AT: usize = 36;
/// Allocation map: one bit a page, lowest bit first, to the end of the page.
pub const ALLOC_MAP_BITS_AT: usize = 64;

/// Words in one array page.
pub fn array_fanout(size: PageSize) -> u64 {
    ((size.bytes() - ARRAY_WORDS_AT) / 8) as u64
}

/// Pages that one allocation map speaks of, itself included. Every page whose number is a
/// multiple of this is an allocation map.
pub fn pages_per_alloc_map(size: PageSize) -> u64 {
    ((size.bytes() - ALLOC_MAP_BITS_AT) * 8) as u64
}
