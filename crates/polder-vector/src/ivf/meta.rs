//! The first page of an index: what its vectors are, and where its centroids are.
//!
//! ```text
//!   header, 32 | element 1 | metric 1 | - 2 | dimensions 4 | lists 4 | - 4 | centroids 8 |
//! ```

use polder_format::{PAGE_HEADER_BYTES, PageNo};
use polder_pool::bytes::{PageMut, PageRef};
use polder_structure::page::{ensure, page_no};

use super::Layouts;
use crate::options::IvfOptions;
use crate::vectors::VectorShape;

/// Fields of the page.
mod at {
    use super::PAGE_HEADER_BYTES;

    pub(super) const ELEMENT: usize = PAGE_HEADER_BYTES;
    pub(super) const METRIC: usize = PAGE_HEADER_BYTES + 1;
    pub(super) const DIMENSIONS: usize = PAGE_HEADER_BYTES + 4;
    pub(super) const LISTS: usize = PAGE_HEADER_BYTES + 8;
    /// The first page of the directory of the list of centroids, 0 before all of them are there (`IVF-4`).
    pub(super) const CENTROIDS: usize = PAGE_HEADER_BYTES + 16;
    pub(super) const END: usize = CENTROIDS + 8;
}

/// What the page says of the index.
pub(super) fn options(page: PageRef<'_>) -> Result<IvfOptions, &'static str> {
    let [element, metric] = [at::ELEMENT, at::METRIC].map(|at| page.u8(at));
    let options = IvfOptions {
        shape: VectorShape::in_page(element, metric, page.u32(at::DIMENSIONS))?,
        lists: page.u32(at::LISTS) as usize,
    };
    ensure(
        Layouts::new(&options, page.page_size()).is_ok(),
        "the options of an index are not allowed",
    )?;
    Ok(options)
}

/// Where the directory of the list of centroids begins, if all of them are there.
pub(super) fn centroids(page: PageRef<'_>) -> Option<PageNo> {
    page_no(page, at::CENTROIDS)
}

/// Makes the page of an index that has no centroids yet.
pub(super) fn init(page: &mut PageMut<'_>, options: &IvfOptions) {
    let IvfOptions { shape, lists } = *options;
    page.set_u8(at::ELEMENT, shape.element.to_byte());
    page.set_u8(at::METRIC, shape.metric.to_byte());
    page.set_u32(at::DIMENSIONS, shape.dimensions as u32);
    page.set_u32(at::LISTS, lists as u32);
}

pub(super) fn set_centroids(page: &mut PageMut<'_>, centroids: PageNo) {
    page.set_u64(at::CENTROIDS, centroids.get());
}

/// What is behind the fields: nothing.
pub(super) fn hole(page: PageRef<'_>) -> std::ops::Range<usize> {
    at::END..page.size()
}
