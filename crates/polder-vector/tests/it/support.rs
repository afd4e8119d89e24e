//! What the tests share: pools on a simulated disk, vectors, and what must be found.

use std::collections::BTreeMap;

use polder_format::{PageSize, SpaceId};
use polder_pool::{FileState, Pool, PoolConfig, Space, Translation};
use polder_testkit::pools::tight;
use polder_testkit::{Random, SimDisk};
use polder_vector::{
    Answer, Element, ElementKind, Found, HnswIndex, HnswOptions, IvfIndex, IvfOptions, KINDS,
    Metric, NodeId, Report, Search, VamanaIndex, VamanaOptions, VectorIndex, VectorRef,
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

/// The same of a graph with codes.
pub fn few_links(shape: VectorShape) -> VamanaOptions {
    VamanaOptions { links: 16, insert_width: 30, ..VamanaOptions::new(shape) }
}

pub fn open_pool<T: Translation>(disk: &SimDisk, config: &PoolConfig) -> Pool<T> {
    Pool::open(Box::new(disk.clone()), config, &KINDS).unwrap()
}

/// An index, whichever it is.
pub trait Tested: VectorIndex + Sized {
    type On: Translation;

    /// One of these vectors, with options that make much of few vectors.
    fn small(space: Space<Self::On>, shape: VectorShape) -> Self;
    fn opened(space: Space<Self::On>) -> Self;
    fn space(&self) -> &Space<Self::On>;
    fn report(&self) -> Report;
    /// Each vector is found by those who look as they do.
    fn assert_found(&self, vectors: usize);
}

impl<T: Translation> Tested for HnswIndex<T> {
    type On = T;

    fn small(space: Space<T>, shape: VectorShape) -> HnswIndex<T> {
        HnswIndex::create(space, &narrow(shape)).unwrap()
    }

    fn opened(space: Space<T>) -> HnswIndex<T> {
        HnswIndex::open(space).unwrap()
    }

    fn space(&self) -> &Space<T> {
        HnswIndex::space(self)
    }

    fn report(&self) -> Report {
        self.check(&mut |_| true).unwrap()
    }

    fn assert_found(&self, vectors: usize) {
        let reached = self.count_reached().unwrap();
        assert_eq!(reached, vectors as u64, "so many are reached");
    }
}

impl<T: Translation> Tested for IvfIndex<T> {
    type On = T;

    fn small(space: Space<T>, shape: VectorShape) -> IvfIndex<T> {
        let lists = 10;
        let sample = sample(shape.dimensions, 20 * lists);
        IvfIndex::create(space, &IvfOptions { shape, lists }, &sample).unwrap()
    }

    fn opened(space: Space<T>) -> IvfIndex<T> {
        IvfIndex::open(space).unwrap()
    }

    fn space(&self) -> &Space<T> {
        IvfIndex::space(self)
    }

    fn report(&self) -> Report {
        self.check(&mut |_| true).unwrap()
    }

    /// Those of the first list that is compared are followed by all others, which `check` has seen.
    fn assert_found(&self, _: usize) {}
}

impl<T: Translation> Tested for VamanaIndex<T> {
    type On = T;

    fn small(space: Space<T>, shape: VectorShape) -> VamanaIndex<T> {
        let count = if shape.element == ElementKind::F32 { 100 } else { 0 };
        let sample = sample(shape.dimensions, count);
        VamanaIndex::create(space, &few_links(shape), &sample).unwrap()
    }

    fn opened(space: Space<T>) -> VamanaIndex<T> {
        VamanaIndex::open(space).unwrap()
    }

    fn space(&self) -> &Space<T> {
        VamanaIndex::space(self)
    }

    fn report(&self) -> Report {
        self.check(&mut |_| true).unwrap()
    }

    fn assert_found(&self, vectors: usize) {
        let reached = self.count_reached().unwrap();
        assert_eq!(reached, vectors as u64, "so many are reached");
    }
}

/// Which index it is, on any translation.
pub trait Family {
    type Of<T: Translation>: Tested<On = T>;
    /// With which most of the ten nearest are found.
    const WIDTH: usize;
    /// Levels of a graph of some hundred vectors.
    const LEVELS: u8 = 0;
    /// Whether an operation fails for a single read that does. Else nearly all reads are of several pages at
    /// once, and what fails of these is read once more.
    const MEETS_READS: bool = true;
    /// Whether what a search finds depends a little on which pages are in memory: it looks ahead as long as none
    /// was missing.
    const LOOKS_AHEAD: bool = false;
    /// Reads that are under way at once in many searches, at least.
    const READS_TOGETHER: u64 = 4;
}

pub struct Graphs;

impl Family for Graphs {
    type Of<T: Translation> = HnswIndex<T>;
    const WIDTH: usize = 60;
    const LEVELS: u8 = 2;
    const MEETS_READS: bool = false;
    const LOOKS_AHEAD: bool = true;
    // A search alone reads no more than the nodes to which one links.
    const READS_TOGETHER: u64 = 40;
}

pub struct Lists;

impl Family for Lists {
    type Of<T: Translation> = IvfIndex<T>;
    const WIDTH: usize = 3;
}

pub struct Steered;

impl Family for Steered {
    type Of<T: Translation> = VamanaIndex<T>;
    const WIDTH: usize = 100;
    const MEETS_READS: bool = false;
    // A search alone reads no more than all pages of codes, which are 48, or four nodes.
    const READS_TOGETHER: u64 = 50;
}

/// Vectors of clusters, to train on.
pub fn sample(dimensions: usize, count: usize) -> Vec<Vec<f32>> {
    let mut random = Random::new(77);
    (0..count).map(|_| vector(&mut random, dimensions)).collect()
}

/// A pool of the least budget so many times, with a new index.
pub fn with_pool<I: Tested>(
    disk: &SimDisk,
    size: PageSize,
    times: u64,
    new: impl FnOnce(Space<I::On>) -> I,
) -> (Pool<I::On>, I) {
    let config = tight::<I::On>(size, FileState::NEW);
    let config = PoolConfig { memory_budget: config.memory_budget * times, ..config };
    let pool = open_pool(disk, &config);
    let index = new(pool.create_space().unwrap());
    (pool, index)
}

/// A new graph, and its pool.
pub fn new_index<T: Translation>(
    disk: &SimDisk,
    size: PageSize,
    options: &HnswOptions,
    times: u64,
) -> (Pool<T>, HnswIndex<T>) {
    with_pool(disk, size, times, |space| HnswIndex::create(space, options).unwrap())
}

/// Flushes, and opens the file with another pool.
pub fn reopen<I: Tested>(disk: &SimDisk, old: Pool<I::On>, index: I) -> (Pool<I::On>, I) {
    old.flush().unwrap();
    let (file, size, options) = (old.file_state(), old.page_size(), VectorIndex::options(&index));
    drop((old, index));
    let pool = open_pool(disk, &tight::<I::On>(size, file));
    let index = I::opened(pool.open_space(SPACE).unwrap());
    assert_eq!(VectorIndex::options(&index), options);
    (pool, index)
}

/// Numbers around one of a few centres.
pub fn vector(random: &mut Random, dimensions: usize) -> Vec<f32> {
    let centre = random.below(8) as f32;
    let number = |i| centre * (i % 3) as f32 + random.below(1000) as f32 / 500.0;
    (0..dimensions).map(number).collect()
}

/// Inserts a vector.
pub fn insert<'v>(
    index: &impl VectorIndex,
    label: u64,
    vector: impl Into<VectorRef<'v>>,
) -> NodeId {
    index.insert(label, vector.into()).unwrap()
}

/// The same is found, but by few searches that look ahead, and by these mostly.
pub fn assert_alike<F: Family>(some: &[Answer], others: &[Answer]) {
    assert_eq!(some.len(), others.len());
    let differ: Vec<_> = some.iter().zip(others).filter(|(one, other)| one != other).collect();
    let most = if F::LOOKS_AHEAD { 1 + some.len() / 25 } else { 0 };
    assert!(differ.len() <= most, "{} of {} answers differ", differ.len(), some.len());
    for (one, other) in differ {
        let same = one.found.iter().filter(|found| other.found.contains(found)).count();
        let most = one.found.len().max(other.found.len());
        assert!(3 * same >= 2 * most, "{same} of {most} are the same");
    }
}

/// A new index with options that make much of few vectors, and its pool.
pub fn new_small<F: Family, T: Translation>(
    disk: &SimDisk,
    size: PageSize,
    shape: VectorShape,
    times: u64,
) -> (Pool<T>, F::Of<T>) {
    with_pool(disk, size, times, |space| F::Of::<T>::small(space, shape))
}

/// What a search finds.
pub fn search<'v>(
    index: &impl VectorIndex,
    query: impl Into<VectorRef<'v>>,
    count: usize,
    width: usize,
) -> Vec<Found> {
    VectorIndex::search(index, query.into(), &Search::new(count, width)).unwrap().found
}

/// What is nearest.
pub fn search_exact<'v>(
    index: &impl VectorIndex,
    query: impl Into<VectorRef<'v>>,
    count: usize,
) -> Vec<Found> {
    let search = Search::new(count, 0);
    let answer = VectorIndex::search_exact(index, query.into(), &search).unwrap();
    assert!(answer.is_exhaustive);
    answer.found
}

/// The vector of a node.
pub fn get<E: Element>(index: &impl VectorIndex, label: u64, node: NodeId) -> Option<Vec<E>> {
    VectorIndex::get(index, label, node).unwrap().map(|vector| vector.elements().unwrap().to_vec())
}

pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Everything that `check` looks at is as it should be. Gives the pages of the index.
pub fn assert_sound(index: &impl Tested, vectors: usize) -> u64 {
    let report = index.report();
    assert_eq!(report.faults, [], "of {} pages", report.pages);
    assert!(!report.stopped);
    assert_eq!(report.entries, vectors as u64);
    assert_eq!(index.space().pool().check_maps().unwrap(), Vec::<String>::new());
    index.assert_found(vectors);
    report.pages
}

/// The index has these vectors, and no others, and is sound.
pub fn assert_has<E: Element + PartialEq + std::fmt::Debug>(index: &impl Tested, model: &Model<E>) {
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
