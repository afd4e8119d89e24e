//! What the tests share: pools on a simulated disk, vectors, and what must be found.

use std::collections::BTreeMap;

use polder_format::{PageSize, SpaceId};
use polder_pool::{FileState, Pool, PoolConfig, Translation};
use polder_testkit::pools::tight;
use polder_testkit::{Random, SimDisk};
use polder_vector::{
    Element, ElementKind, Found, HnswIndex, HnswOptions, KINDS, Metric, NodeId, Search, VectorRef,
    VectorShape,
};

/// The space of the only index of a test.
pub const SPACE: SpaceId = SpaceId::CATALOGUE;

/// What an index must have: vectors by their labels, and where they lie.
pub type Model<E = f32> = BTreeMap<u64, (NodeId, Vec<E>)>;

pub fn l2(dimensions: usize) -> VectorShape {
    VectorShape { element: ElementKind::F32, dimensions, metric: Metric::L2 }
}

/// Few links and narrow inserts, so that lists are full soon.
pub fn narrow(shape: VectorShape) -> HnswOptions {
    HnswOptions { links: 6, insert_width: 30, ..HnswOptions::new(shape) }
}

pub fn open_pool<T: Translation>(disk: &SimDisk, config: &PoolConfig) -> Pool<T> {
    Pool::open(Box::new(disk.clone()), config, &KINDS).unwrap()
}

/// A new index, and its pool, of the least budget so many times.
pub fn new_index<T: Translation>(
    disk: &SimDisk,
    size: PageSize,
    options: &HnswOptions,
    times: u64,
) -> (Pool<T>, HnswIndex<T>) {
    let config = tight::<T>(size, FileState::NEW);
    let config = PoolConfig { memory_budget: config.memory_budget * times, ..config };
    let pool = open_pool(disk, &config);
    let index = HnswIndex::create(pool.create_space().unwrap(), options).unwrap();
    (pool, index)
}

/// Flushes, and opens the file with another pool.
pub fn reopen<T: Translation>(
    disk: &SimDisk,
    old: Pool<T>,
    index: HnswIndex<T>,
) -> (Pool<T>, HnswIndex<T>) {
    old.flush().unwrap();
    let (file, size, options) = (old.file_state(), old.page_size(), index.options());
    drop((old, index));
    let pool = open_pool(disk, &tight::<T>(size, file));
    let index = HnswIndex::open(pool.open_space(SPACE).unwrap()).unwrap();
    assert_eq!(index.options(), options);
    (pool, index)
}

/// Numbers around one of a few centres.
pub fn vector(random: &mut Random, dimensions: usize) -> Vec<f32> {
    let centre = random.below(8) as f32;
    let number = |i| centre * (i % 3) as f32 + random.below(1000) as f32 / 500.0;
    (0..dimensions).map(number).collect()
}

/// What a search finds.
pub fn search<'v, T: Translation>(
    index: &HnswIndex<T>,
    query: impl Into<VectorRef<'v>>,
    count: usize,
    width: usize,
) -> Vec<Found> {
    index.search(query, &Search::new(count, width)).unwrap().found
}

/// What is nearest.
pub fn search_exact<'v, T: Translation>(
    index: &HnswIndex<T>,
    query: impl Into<VectorRef<'v>>,
    count: usize,
) -> Vec<Found> {
    let answer = index.search_exact(query, &Search::new(count, 0)).unwrap();
    assert!(answer.is_exhaustive);
    answer.found
}

/// The vector of a node.
pub fn get<E: Element, T: Translation>(
    index: &HnswIndex<T>,
    label: u64,
    node: NodeId,
) -> Option<Vec<E>> {
    index.get(label, node).unwrap().map(|vector| vector.elements().unwrap())
}

pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Everything that `check` looks at is as it should be. Gives the pages of the index.
pub fn assert_sound<T: Translation>(index: &HnswIndex<T>, vectors: usize) -> u64 {
    let report = index.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, [], "of {} pages", report.pages);
    assert!(!report.stopped);
    assert_eq!(report.entries, vectors as u64);
    assert_eq!(index.space().pool().check_maps().unwrap(), Vec::<String>::new());
    let reached = index.count_reached().unwrap();
    assert_eq!(reached, vectors as u64, "so many are reached");
    report.pages
}

/// The index has these vectors, and no others, and is sound.
pub fn assert_has<T: Translation, E: Element + PartialEq + std::fmt::Debug>(
    index: &HnswIndex<T>,
    model: &Model<E>,
) {
    assert_sound(index, model.len());
    for (label, (node, vector)) in model {
        assert_eq!(get(index, *label, *node).as_ref(), Some(vector), "label {label}");
    }
}

/// Vectors of the model, nearest to the query first.
pub fn nearest(model: &Model, query: &[f32], count: usize) -> Vec<u64> {
    let mut all: Vec<(f32, u64)> =
        model.iter().map(|(label, (_, vector))| (distance(query, vector), *label)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().take(count).map(|(_, label)| label).collect()
}

/// What was found is in the model, as far away as it says, in order, and nothing twice.
pub fn assert_true(found: &[Found], model: &Model, query: &[f32]) {
    for one in found {
        let (node, vector) = &model[&one.label];
        assert_eq!(*node, one.node);
        let exact = distance(query, vector);
        assert!((exact - one.distance).abs() <= exact * 1e-5, "{} and {exact}", one.distance);
    }
    assert!(found.windows(2).all(|pair| pair[0].distance <= pair[1].distance));
    let mut labels = labels(found);
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), found.len());
}

pub fn labels(found: &[Found]) -> Vec<u64> {
    found.iter().map(|found| found.label).collect()
}

/// How many of the nearest are among what was found.
pub fn hits(found: &[Found], nearest: &[u64]) -> usize {
    nearest.iter().filter(|label| found.iter().any(|found| found.label == **label)).count()
}
