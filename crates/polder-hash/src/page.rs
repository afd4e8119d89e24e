//! What nodes and buckets have in common: the beginning of their header.

use polder_format::{PAGE_HEADER_BYTES, header_at};
use polder_pool::bytes::{PageMut, PageRef};
use polder_structure::page::ensure;

use crate::hash::{KeyHash, Prefix};

/// The most pages of a chain, the first one included: a thousand keys of 16 bytes with their values, in
/// the smallest pages, and never fewer than 24.
pub(crate) const MAX_CHAIN: usize = 6;

/// Layout version that this code writes, and the only one that it reads.
pub(crate) const LAYOUT_VERSION: u8 = 1;

/// Fields that both kinds have.
pub(crate) mod at {
    use super::PAGE_HEADER_BYTES;

    /// Level, 1 byte: 0 in a bucket.
    pub(crate) const LEVEL: usize = PAGE_HEADER_BYTES;
    /// Bits of the prefix, 1 byte.
    pub(crate) const BITS: usize = 33;
    /// Entries or children, 2 bytes.
    pub(crate) const COUNT: usize = 34;
    /// The prefix, 8 bytes.
    pub(crate) const PREFIX: usize = 40;
    /// Where slots or links begin.
    pub(crate) const CONTENT: usize = 64;
}

/// Levels below this one, whatever the page is.
#[inline(always)]
pub(crate) fn level(page: PageRef<'_>) -> u8 {
    page.u8(at::LEVEL)
}

/// What the page covers.
#[inline]
pub(crate) fn prefix(page: PageRef<'_>) -> Prefix {
    Prefix::of(KeyHash::new(page.u64(at::PREFIX)), page.u8(at::BITS))
}

pub(crate) fn set_prefix(page: &mut PageMut<'_>, prefix: Prefix) {
    page.set_u8(at::BITS, prefix.bits());
    page.set_u64(at::PREFIX, prefix.first().bits());
}

/// Whether layout version and prefix are ones that a page can have.
pub(crate) fn verify(page: PageRef<'_>) -> Result<(), &'static str> {
    ensure(page.u8(header_at::LAYOUT) == LAYOUT_VERSION, "the page has an unknown layout version")?;
    ensure(page.u8(at::BITS) <= 64, "a prefix has more bits than a hash")?;
    let clean = prefix(page).first().bits() == page.u64(at::PREFIX);
    ensure(clean, "a prefix has bits behind its end")
}

/// Whether a page has the level and the prefix that the page above says.
pub(crate) fn verify_below(
    page: PageRef<'_>,
    wanted: u8,
    covered: Prefix,
) -> Result<(), &'static str> {
    let right = level(page) == wanted && prefix(page) == covered;
    ensure(right, "a page of a hash index is not what the page above says")
}
