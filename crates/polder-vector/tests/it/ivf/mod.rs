//! Tests of indexes of lists, and what they share.

mod bad_input;
mod hostile;
mod model;
mod redo;
mod searches;
pub mod sift;
mod threads;

use polder_format::PageSize;
use polder_pool::{Pool, Translation};
use polder_testkit::SimDisk;
use polder_vector::{IvfIndex, IvfOptions, VectorRef, VectorShape};

use crate::support::*;

/// A new index, and its pool, of the least budget so many times.
fn new_index_of<'v, T: Translation, V: Into<VectorRef<'v>>>(
    disk: &SimDisk,
    size: PageSize,
    options: &IvfOptions,
    times: u64,
    sample: impl IntoIterator<Item = V>,
) -> (Pool<T>, IvfIndex<T>) {
    with_pool(disk, size, times, |space| IvfIndex::create(space, options, sample).unwrap())
}

/// The same of vectors of f32, trained on such as [`vector`] makes.
fn new_index<T: Translation>(
    disk: &SimDisk,
    shape: VectorShape,
    lists: usize,
    times: u64,
) -> (Pool<T>, IvfIndex<T>) {
    let sample = sample(shape.dimensions, 20 * lists);
    new_index_of(disk, PageSize::MIN, &IvfOptions { shape, lists }, times, &sample)
}
