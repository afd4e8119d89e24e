//! Tests of indexes of lists, and what they share.

mod bad_input;
mod beyond_memory;
mod hostile;
mod model;
mod redo;
mod searches;
mod sift;
mod threads;

use polder_format::PageSize;
use polder_pool::{FileState, Pool, PoolConfig, Translation};
use polder_testkit::pools::tight;
use polder_testkit::{Random, SimDisk};
use polder_vector::{Element, Found, IvfIndex, IvfOptions, NodeId, Search, VectorRef, VectorShape};

use crate::support::{Model, SPACE, open_pool, vector};

/// Vectors of clusters, to train on.
fn sample(dimensions: usize, count: usize) -> Vec<Vec<f32>> {
    let mut random = Random::new(77);
    (0..count).map(|_| vector(&mut random, dimensions)).collect()
}

/// A new index, and its pool, of the least budget so many times.
fn new_index_of<'v, T: Translation, V: Into<VectorRef<'v>>>(
    disk: &SimDisk,
    size: PageSize,
    options: &IvfOptions,
    times: u64,
    sample: impl IntoIterator<Item = V>,
) -> (Pool<T>, IvfIndex<T>) {
    let config = tight::<T>(size, FileState::NEW);
    let config = PoolConfig { memory_budget: config.memory_budget * times, ..config };
    let pool = open_pool(disk, &config);
    let index = IvfIndex::create(pool.create_space().unwrap(), options, sample).unwrap();
    (pool, index)
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

/// Flushes, and opens the file with another pool.
fn reopen<T: Translation>(
    disk: &SimDisk,
    old: Pool<T>,
    index: IvfIndex<T>,
) -> (Pool<T>, IvfIndex<T>) {
    old.flush().unwrap();
    let (file, size, options) = (old.file_state(), old.page_size(), index.options());
    drop((old, index));
    let pool = open_pool(disk, &tight::<T>(size, file));
    let index = IvfIndex::open(pool.open_space(SPACE).unwrap()).unwrap();
    assert_eq!(index.options(), options);
    (pool, index)
}

/// What a search in so many lists finds.
fn search<'v, T: Translation>(
    index: &IvfIndex<T>,
    query: impl Into<VectorRef<'v>>,
    count: usize,
    width: usize,
) -> Vec<Found> {
    index.search(query, &Search::new(count, width)).unwrap().found
}

/// What is nearest.
fn search_exact<'v, T: Translation>(
    index: &IvfIndex<T>,
    query: impl Into<VectorRef<'v>>,
    count: usize,
) -> Vec<Found> {
    let answer = index.search_exact(query, &Search::new(count, 0)).unwrap();
    assert!(answer.is_exhaustive);
    answer.found
}

/// The vector of a node.
fn get<E: Element, T: Translation>(
    index: &IvfIndex<T>,
    label: u64,
    node: NodeId,
) -> Option<Vec<E>> {
    index.get(label, node).unwrap().map(|vector| vector.elements().unwrap())
}

/// Everything that `check` looks at is as it should be. Gives the pages of the index.
fn assert_sound<T: Translation>(index: &IvfIndex<T>, vectors: usize) -> u64 {
    let report = index.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, [], "of {} pages", report.pages);
    assert!(!report.stopped);
    assert_eq!(report.entries, vectors as u64);
    assert_eq!(index.space().pool().check_maps().unwrap(), Vec::<String>::new());
    report.pages
}

/// The index has these vectors, and no others, and is sound.
fn assert_has<T: Translation, E: Element + PartialEq + std::fmt::Debug>(
    index: &IvfIndex<T>,
    model: &Model<E>,
) {
    assert_sound(index, model.len());
    for (label, (node, vector)) in model {
        assert_eq!(get(index, *label, *node).as_ref(), Some(vector), "label {label}");
    }
}
