//! The first page of an index: what its vectors are, and where searches begin.
//!
//! ```text
//!   header, 32 | element 1 | metric 1 | links 1 | - 1 | dimensions 4 | width 4 | - 4 | entry 8 | chains 8 each
//! ```
//!
//! * `HNSW-4` The entry is a node; there is none while the index is empty. It is of a high level: of the
//!   highest, until that is removed. No place becomes free whose node is the entry.

use polder_format::PAGE_HEADER_BYTES;
use polder_pool::bytes::{PageMut, PageRef};
use polder_structure::page::ensure;

use crate::hnsw::node::HIGHEST;
use crate::node_id::NodeId;
use crate::options::HnswOptions;
use crate::room::Chain;
use crate::vectors::VectorShape;

/// Fields of the page.
mod at {
    use super::PAGE_HEADER_BYTES;

    pub(super) const ELEMENT: usize = PAGE_HEADER_BYTES;
    pub(super) const METRIC: usize = PAGE_HEADER_BYTES + 1;
    pub(super) const LINKS: usize = PAGE_HEADER_BYTES + 2;
    pub(super) const DIMENSIONS: usize = PAGE_HEADER_BYTES + 4;
    pub(super) const WIDTH: usize = PAGE_HEADER_BYTES + 8;
    /// Of the entry, 5 bytes as everywhere; its level behind them, 1 byte.
    pub(super) const ENTRY: usize = PAGE_HEADER_BYTES + 16;
    /// For each level the number of the first page with free places (`HNSW-6`), 0 if there is none.
    pub(super) const CHAINS: usize = PAGE_HEADER_BYTES + 24;
    pub(super) const END: usize = CHAINS + 8 * (super::HIGHEST as usize + 1);
}

/// Where the level stands in the entry.
const LEVEL_SHIFT: u32 = 40;

/// Where searches begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) node: NodeId,
    pub(crate) level: u8,
}

/// What the page says of the index.
pub(crate) fn options(page: PageRef<'_>) -> Result<HnswOptions, &'static str> {
    let [element, metric] = [at::ELEMENT, at::METRIC].map(|at| page.u8(at));
    let options = HnswOptions {
        shape: VectorShape::in_page(element, metric, page.u32(at::DIMENSIONS))?,
        links: page.u8(at::LINKS).into(),
        insert_width: page.u32(at::WIDTH) as usize,
    };
    ensure(options.layout(page.page_size()).is_ok(), "the options of an index are not allowed")?;
    Ok(options)
}

/// Where searches begin. Means something only once the page has validated.
#[inline(always)]
pub(crate) fn entry(page: PageRef<'_>) -> Option<Entry> {
    let bits = page.u64(at::ENTRY);
    let level = (bits >> LEVEL_SHIFT) as u8;
    NodeId::from_bits(bits).map(|node| Entry { node, level: level.min(HIGHEST) })
}

pub(crate) fn set_entry(page: &mut PageMut<'_>, entry: Option<Entry>) {
    let bits = |entry: Entry| entry.node.to_bits() | u64::from(entry.level) << LEVEL_SHIFT;
    page.set_u64(at::ENTRY, entry.map_or(0, bits));
}

/// The chain of a level.
pub(crate) fn chain(level: u8) -> Chain {
    Chain { first_at: at::CHAINS + 8 * usize::from(level.min(HIGHEST)) }
}

/// Makes the page of an empty index.
pub(crate) fn init(page: &mut PageMut<'_>, options: &HnswOptions) {
    let HnswOptions { shape, links, insert_width } = *options;
    page.set_u8(at::ELEMENT, shape.element.to_byte());
    page.set_u8(at::METRIC, shape.metric.to_byte());
    page.set_u8(at::LINKS, links as u8);
    page.set_u32(at::DIMENSIONS, shape.dimensions as u32);
    page.set_u32(at::WIDTH, insert_width as u32);
}

/// What is behind the fields: nothing.
pub(crate) fn hole(page: PageRef<'_>) -> std::ops::Range<usize> {
    at::END..page.size()
}
