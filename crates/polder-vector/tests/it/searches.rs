//! What searches can ask beside the nearest: only what matches a filter, all within a distance, one after
//! the other.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use polder_format::PageSize;
use polder_pool::{Array, Pool, Space, Swizzle, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::{disk, tight};
use polder_testkit::{FaultPlan, Random, SimDisk, test_with};
use polder_vector::roaring::RoaringTreemap;
use polder_vector::{
    Answer, Filter, Found, HnswIndex, HnswOptions, NodeId, Places, Probe, Search, VamanaIndex,
    VamanaOptions, VectorError, VectorIndex, VectorRef, search_many,
};

use crate::support::*;

pub const DIMENSIONS: usize = 8;
/// Of vectors of which few fit a page.
const LONG: usize = 100;
const COUNT: usize = 10;

/// A graph of which most of what is near is found.
pub trait Searched: Family {
    fn rich<T: Translation>(space: Space<T>, dimensions: usize) -> Self::Of<T>;

    /// Labels for which a filter of what is far away is asked, at most, of so many vectors: not all, and
    /// those that were seen before it was known what matches.
    fn most_asked(vectors: u64) -> u64;

    /// So often a filter is asked before a search has gone through some nodes.
    const ASKED_FIRST: u64;
}

impl Searched for Graphs {
    fn rich<T: Translation>(space: Space<T>, dimensions: usize) -> HnswIndex<T> {
        let of = HnswOptions { links: 12, insert_width: 60, ..HnswOptions::new(l2(dimensions)) };
        HnswIndex::create(space, &of).unwrap()
    }

    /// The sample, what is seen until it is known, and what lies between.
    fn most_asked(vectors: u64) -> u64 {
        1100 + 600 + vectors / 3
    }

    const ASKED_FIRST: u64 = 1500;
}

impl Searched for Steered {
    fn rich<T: Translation>(space: Space<T>, dimensions: usize) -> VamanaIndex<T> {
        let of =
            VamanaOptions { links: 24, insert_width: 60, ..VamanaOptions::new(l2(dimensions)) };
        VamanaIndex::create(space, &of, &sample(dimensions, 100)).unwrap()
    }

    /// The seeds, what is seen until it is known, and once each label.
    fn most_asked(vectors: u64) -> u64 {
        1600 + 600 + vectors
    }

    const ASKED_FIRST: u64 = 150;
}

/// An index of some thousand vectors in clusters, with more memory than they need.
pub fn filled<F: Searched, T: Translation>() -> (Pool<T>, F::Of<T>, Model, Random) {
    fill::<F, T>(&disk(), DIMENSIONS)
}

fn fill<F: Searched, T: Translation>(
    disk: &SimDisk,
    dimensions: usize,
) -> (Pool<T>, F::Of<T>, Model, Random) {
    let mut random = Random::new(21);
    let rich = |space| F::rich::<T>(space, dimensions);
    let (pool, index) = with_pool(disk, PageSize::MIN, 40, rich);
    let mut model = Model::new();
    for label in 0..steps(3000, 20_000) {
        let vector = vector(&mut random, dimensions);
        model.insert(label, (insert(&index, label, &vector), vector));
    }
    (pool, index, model, random)
}

/// What a search finds that can ask for more than the nearest.
fn find(index: &impl VectorIndex, query: &[f32], search: &Search<'_>) -> Answer {
    VectorIndex::search(index, query.into(), search).unwrap()
}

fn only(model: &Model, filter: &dyn Filter) -> Model {
    let matching = model.iter().filter(|(label, _)| filter.matches(**label));
    matching.map(|(label, vector)| (*label, vector.clone())).collect()
}

/// Labels without a pattern.
pub fn one_in(of: u64) -> impl Fn(u64) -> bool + Sync {
    move |label: u64| (label.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(of)
}

/// As many as match are found, and of the nearest that match nearly all; in the graph, and by comparing with
/// all that match. Gives how many of so many searches did that.
pub fn assert_filtered(
    index: &impl VectorIndex,
    model: &Model,
    queries: &[Vec<f32>],
    filter: &dyn Filter,
) -> usize {
    let matching = only(model, filter);
    let (mut found, mut wanted, mut exhaustive) = (0, 0, 0);
    for query in queries {
        let truth = nearest(&matching, query, COUNT);
        let search = Search::new(COUNT, 0).filter(filter);
        let exact = VectorIndex::search_exact(index, query.into(), &search).unwrap();
        assert_eq!(labels(&exact.found), truth);
        assert!(exact.is_exhaustive);
        let answer = find(index, query, &Search::new(COUNT, 30).filter(filter));
        assert_true(&answer.found, &matching, query);
        assert_eq!(answer.found.len(), truth.len());
        assert!(!answer.is_exhaustive || answer == exact);
        found += hits(&answer.found, &truth);
        wanted += truth.len();
        exhaustive += usize::from(answer.is_exhaustive);
    }
    assert!(found * 100 >= wanted * 95, "{found} of {wanted} are found");
    exhaustive
}

fn filters<F: Searched, T: Translation>() {
    let (_pool, index, model, mut random) = filled::<F, T>();
    let queries: Vec<_> = (0..20).map(|_| vector(&mut random, DIMENSIONS)).collect();
    let all = queries.len();
    assert_eq!(assert_filtered(&index, &model, &queries, &|_| true), 0);
    assert_eq!(assert_filtered(&index, &model, &queries, &one_in(2)), 0);
    // As many are compared whichever way is taken.
    assert_eq!(assert_filtered(&index, &model, &queries, &one_in(300)), all);
    assert_eq!(assert_filtered(&index, &model, &queries, &|label| label == 77), all);
    assert_eq!(assert_filtered(&index, &model, &queries, &|_| false), all);
    let set: RoaringTreemap = (0..1000).chain(1 << 40..(1 << 40) + 5).collect();
    assert_filtered(&index, &model, &queries, &set);
    assert_eq!(assert_filtered(&index, &model, &queries, &RoaringTreemap::new()), all);
}

/// What matches lies together, and the query far away from it: going through what does not match would
/// lead through half of the graph, and all of that be asked for.
fn what_matches_is_far_away<F: Searched>() {
    let (_pool, index, model, _) = filled::<F, Array>();
    let corner = vec![0.0; DIMENSIONS];
    let far = nearest(&model, &corner, model.len()).split_off(model.len() / 2);
    let far: BTreeSet<u64> = far.into_iter().collect();
    let asked = AtomicU64::new(0);
    let filter = |label: u64| {
        asked.fetch_add(1, Ordering::Relaxed);
        far.contains(&label)
    };
    assert_filtered(&index, &model, std::slice::from_ref(&corner), &filter);
    asked.store(0, Ordering::Relaxed);
    let answer = find(&index, &corner, &Search::new(COUNT, 30).filter(&filter));
    assert_eq!(answer.found.len(), COUNT);
    let most = F::most_asked(model.len() as u64);
    assert!(asked.load(Ordering::Relaxed) < most, "{asked:?} labels were asked for");
}

/// The same of many searches at once, while most pages must be read.
fn far_away_beyond_memory<F: Searched>() {
    let (image, file, model) = {
        let disk = disk();
        let (pool, _, model, _) = fill::<F, Array>(&disk, LONG);
        pool.flush().unwrap();
        (disk.image(), pool.file_state(), model)
    };
    let disk = SimDisk::from_image(&image, FaultPlan::new(1).delay(0.3, Duration::ZERO));
    let pool = open_pool::<Array>(&disk, &tight::<Array>(PageSize::MIN, file));
    let index = F::Of::<Array>::opened(pool.open_space(SPACE).unwrap());
    let corner = vec![0.0; LONG];
    let far = nearest(&model, &corner, model.len()).split_off(model.len() / 2);
    let far: BTreeSet<u64> = far.into_iter().collect();
    let filter = |label: u64| far.contains(&label);
    let queries: Vec<Vec<f32>> = (0..20).map(|i| vec![i as f32 / 10.0; LONG]).collect();
    assert_filtered(&index, &model, &queries, &filter);
    let queries: Vec<_> = queries.iter().map(VectorRef::from).collect();
    let search = Search::new(COUNT, 30).filter(&filter);
    let alone = queries.iter().map(|query| VectorIndex::search(&index, *query, &search).unwrap());
    let alone: Vec<Answer> = alone.collect();
    for threads in [1, 3] {
        assert_alike::<F>(&search_many(&index, &queries, &search, threads).unwrap(), &alone);
    }
    let reads = pool.stats().device_reads;
    assert!(reads > 2000, "{reads} reads: the pool is not too small for the index");
}

/// A filter may panic: the thread searches as before.
fn a_filter_that_panics<F: Searched>() {
    let (_pool, index, model, mut random) = filled::<F, Array>();
    let query = vector(&mut random, DIMENSIONS);
    let last = AtomicU64::new(F::ASKED_FIRST);
    let filter = |_: u64| {
        assert!(last.fetch_sub(1, Ordering::Relaxed) > 1, "the filter has had enough");
        true
    };
    let panics = || find(&index, &query, &Search::new(COUNT, 400).filter(&filter));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let found = search(&index, &query, COUNT, 60);
    assert!(hits(&found, &nearest(&model, &query, COUNT)) >= 9);
    insert(&index, 1 << 40, &query);
}

/// A filter may use the index that asks it.
fn a_filter_that_searches<F: Searched>() {
    let (_pool, index, model, _) = filled::<F, Array>();
    let there = model[&7].1.clone();
    let nested = |label: u64| search(&index, &there, 1, 10)[0].label == 7 && label < 100;
    let answer = find(&index, &there, &Search::new(20, 20).filter(&nested));
    assert_eq!((answer.found.len(), answer.found[0].label), (20, 7));
}

/// While a filter is asked, the vector is removed, and another one gets its place: that one was not asked
/// about, and is not found.
fn a_filter_that_changes_what_it_is_asked_about<F: Searched>() {
    let (_pool, index, model, _) = filled::<F, Array>();
    let (mut node, there) = model[&7].clone();
    // What it is asked about 7 at last is whether that still matches; before, whether it is to be found.
    let asked = AtomicU64::new(0);
    let counting = |label: u64| {
        asked.fetch_add(u64::from(label == 7), Ordering::Relaxed);
        true
    };
    find(&index, &there, &Search::new(20, 20).filter(&counting));
    let last_but_one = asked.load(Ordering::Relaxed).saturating_sub(2);
    for (all, when) in [(true, 0), (true, last_but_one), (false, 0)] {
        let (asked, changed) = (AtomicU64::new(0), AtomicBool::new(false));
        let changing = |label: u64| {
            let is_it = label == 7 && asked.fetch_add(1, Ordering::Relaxed) >= when;
            if is_it && !changed.swap(true, Ordering::Relaxed) {
                assert!(VectorIndex::remove(&index, 7, node).unwrap());
                insert(&index, 100_000, &there);
            }
            label < 10 || all && label < 100_000
        };
        let found = find(&index, &there, &Search::new(20, 20).filter(&changing)).found;
        assert!(changed.load(Ordering::Relaxed));
        assert!(found.iter().all(|one| one.label != 7 && one.label < 100_000), "{found:?}");
        let other = search(&index, &there, 1, 60)[0];
        assert!(VectorIndex::remove(&index, 100_000, other.node).unwrap());
        node = insert(&index, 7, &there);
    }
}

/// All within a distance, however many these are, and none beyond it.
fn within_a_distance<F: Searched>() {
    let (_pool, index, model, mut random) = filled::<F, Array>();
    let (mut found, mut wanted) = (0, 0);
    for rank in [0, 1, 5, 100, 700] {
        let query = vector(&mut random, DIMENSIONS);
        let order = nearest(&model, &query, model.len());
        let radius = match rank {
            0 => 1e-9,
            _ => distance(&query, &model[&order[rank - 1]].1) * 1.00001,
        };
        let within = Search::new(usize::MAX, 20).within(radius);
        let exact = VectorIndex::search_exact(&index, (&query).into(), &within).unwrap().found;
        assert_eq!(labels(&exact), order[..rank]);
        let near = find(&index, &query, &within).found;
        assert_true(&near, &model, &query);
        assert!(near.iter().all(|one| one.distance <= radius));
        (found, wanted) = (found + near.len(), wanted + rank);
        // However few are in sight at first.
        for width in [0, 1, 3] {
            let near = find(&index, &query, &Search { width, ..within }).found;
            (found, wanted) = (found + near.len(), wanted + rank);
        }
        // No more than are asked for.
        let few = find(&index, &query, &Search { count: 3, ..within }).found;
        assert_eq!(few.len(), near.len().min(3));
        // And with a filter.
        let even = |label: u64| label.is_multiple_of(2);
        let near = find(&index, &query, &within.filter(&even)).found;
        let truth: Vec<u64> = order[..rank].iter().copied().filter(|label| even(*label)).collect();
        assert!(near.iter().all(|one| truth.contains(&one.label)));
        assert!(near.len() * 100 >= truth.len() * 95, "{} of {}", near.len(), truth.len());
    }
    assert!(found * 100 >= wanted * 98, "{found} of {wanted}");
}

/// By the trait that all indexes have; and a probe tells what searches find.
fn an_index_like_any_other<F: Searched>() {
    let (_pool, index, model, mut random) = filled::<F, Array>();
    let index: &dyn VectorIndex = &index;
    assert_eq!(index.options().shape(), l2(DIMENSIONS));
    let mut labels = BTreeSet::new();
    index
        .for_each(&mut |label, node| {
            assert_eq!(model[&label].0, node);
            labels.insert(label)
        })
        .unwrap();
    assert_eq!(labels.len(), model.len());
    let queries: Vec<_> = (0..30).map(|_| vector(&mut random, DIMENSIONS)).collect();
    let queries: Vec<_> = queries.iter().map(VectorRef::from).collect();
    let probe = Probe::new(index, &queries, &Search::new(COUNT, 0), &mut |_| true);
    let probe = probe.unwrap().unwrap();
    assert_eq!(probe.measure(model.len()).unwrap().recall, 1.0);
    assert!(probe.width_for(0.99).unwrap().unwrap().width < 200);
    // Many at once are answered as one after the other.
    let search = Search::new(COUNT, 60);
    let single: Vec<_> =
        queries.iter().map(|query| index.search(*query, &search).unwrap()).collect();
    for threads in [0, 1, 3, 50] {
        assert_eq!(search_many(index, &queries, &search, threads).unwrap(), single);
    }
    let wrong = [queries[0], (&[1.0_f32]).into(), queries[1]];
    let error = search_many(index, &wrong, &search, 2).unwrap_err();
    assert!(matches!(error, VectorError::Dimensions { given: 1, .. }), "{error}");
    assert_eq!(search_many(index, &[], &search, 2).unwrap(), []);
}

fn take<'i>(
    index: &'i impl VectorIndex,
    query: &[f32],
    search: &Search<'i>,
    count: usize,
) -> Vec<Found> {
    let found = VectorIndex::nearest(index, query.into(), search).unwrap();
    found.take(count).map(Result::unwrap).collect()
}

/// Everything is given, once, and nearly in order.
fn one_after_the_other<F: Searched>() {
    let (_pool, index, model, mut random) = filled::<F, Array>();
    let query = vector(&mut random, DIMENSIONS);
    let all = Search::new(usize::MAX, 40);
    for count in [1, 10, 45, 500] {
        let truth = nearest(&model, &query, count);
        let found = take(&index, &query, &all, count);
        assert_eq!(found.len(), count);
        let hits = hits(&found, &truth);
        assert!(hits * 100 >= count * 97, "{hits} of {count}");
    }
    let found = take(&index, &query, &all, usize::MAX);
    assert_eq!(labels(&found).into_iter().collect::<BTreeSet<_>>().len(), found.len(), "once");
    assert_eq!(found.len(), model.len());
    let late = found.windows(2).filter(|pair| pair[0].distance > pair[1].distance).count();
    assert!(late * 100 <= found.len(), "{late} are found late");
    // No more than the search asks for; none beyond its distance.
    assert_eq!(take(&index, &query, &Search::new(12, 5), usize::MAX).len(), 12);
    assert_eq!(take(&index, &query, &Search::new(0, 5), usize::MAX), []);
    let radius = found[50].distance;
    let near = take(&index, &query, &all.within(radius), usize::MAX);
    assert!(near.iter().all(|one| one.distance <= radius));
    assert!(near.len() >= 49);
    // Only what matches, and all of that, however few these are.
    for of in [1, 3, 200] {
        let filter = one_in(of);
        let found = take(&index, &query, &all.filter(&filter), usize::MAX);
        let labels: BTreeSet<u64> = labels(&found).into_iter().collect();
        assert_eq!(labels.len(), found.len(), "once");
        assert_eq!(labels, only(&model, &filter).into_keys().collect());
    }
}

/// A node to which many links lead cannot be swizzled into all of them: swizzling finds its page through its
/// table, for each that a search reads (calico-2026, table 1).
fn swizzling_goes_by_its_table<F: Searched>() {
    let (pool, index, _, mut random) = filled::<F, Swizzle>();
    let query = vector(&mut random, DIMENSIONS);
    let by_table = |width| {
        let before = pool.stats().pages_by_table;
        find(&index, &query, &Search::new(COUNT, width));
        pool.stats().pages_by_table - before
    };
    let (narrow, wide) = (by_table(10), by_table(40));
    assert!(narrow >= 10 && wide > narrow, "{narrow} and {wide} pages");
}

/// Where it is known where what matches lies, the nearest of few are found by looking at these alone, those of
/// many as of any filter; and nothing that was removed, or of which nothing is true.
pub fn assert_among(
    pool: &Pool<Swizzle>,
    index: &impl VectorIndex,
    model: &mut Model,
    random: &mut Random,
) {
    let removed = model.pop_first().unwrap();
    assert!(index.remove(removed.0, removed.1.0).unwrap());
    let query = vector(random, DIMENSIONS);
    // Pages that a search has looked at.
    let looked_at = |search: &dyn Fn() -> Answer| {
        let before = pool.stats().pages_by_table;
        let answer = search();
        (answer, pool.stats().pages_by_table - before)
    };
    for count in [0, 1, 4, 300, model.len()] {
        let mut labels: Vec<u64> = model.keys().copied().collect();
        labels.sort_by_key(|label| Random::new(*label).next_u64());
        let wanted: BTreeSet<u64> = labels.into_iter().take(count).collect();
        let there = wanted.iter().map(|label| (*label, model[label].0));
        let places: Places = there.clone().collect();
        assert_eq!((places.len(), places.is_empty()), (count as u64, count == 0));
        // Others lie there, or nothing.
        let more = (0..60_u64).filter_map(|n| Some((1 << 40 | n, NodeId::from_bits(n << 20 | n)?)));
        let known = wanted.first().map(|label| model[label].0);
        // Of a place other labels are known, below and above the one that is there.
        let others = [removed.0, 1 << 41].into_iter().filter_map(|label| Some((label, known?)));
        let more = more.chain([(removed.0, removed.1.0)]).chain(others);
        let with_more: Places = there.chain(more).collect();
        let truth = nearest(&only(model, &places), &query, COUNT);
        for places in [&places, &with_more] {
            let exact = Search::new(COUNT, 0).filter(places);
            let by_places = || VectorIndex::search_exact(index, (&query).into(), &exact).unwrap();
            let (answer, pages) = looked_at(&by_places);
            assert_eq!(labels_of(&answer), truth, "of {count}");
            assert!(answer.is_exhaustive);
            let set: RoaringTreemap = wanted.iter().copied().collect();
            let exact = Search::new(COUNT, 0).filter(&set);
            let by_labels = || VectorIndex::search_exact(index, (&query).into(), &exact).unwrap();
            let (same, all_pages) = looked_at(&by_labels);
            assert_eq!(answer, same);
            let search = Search::new(COUNT, 30).filter(places);
            let near = find(index, &query, &search);
            assert_eq!(near.found.len(), truth.len());
            let alike = hits(&near.found, &truth);
            assert!(alike * 10 >= truth.len() * 9, "{alike} of {} of {count}", truth.len());
            if count <= 4 && places.len() == count as u64 {
                assert_eq!(near, answer);
                // Vectors in lists, or entries and nodes; each is looked at some times.
                assert!(pages <= 6 * count as u64, "{pages} of {all_pages} pages");
            }
        }
        // And what else the filter says.
        let even = Both(&places, &|label| label % 2 == 0);
        let answer = find(index, &query, &Search::new(COUNT, 30).filter(&even));
        let both = |label: u64| even.matches(label);
        let truth = nearest(&only(model, &both), &query, COUNT);
        assert!(hits(&answer.found, &truth) * 10 >= truth.len() * 9, "of {count}");
        assert_eq!(answer.found.len(), truth.len());
    }
}

/// Those of some places of which something else is true.
struct Both<'b>(&'b Places, &'b (dyn Fn(u64) -> bool + Sync));

impl Filter for Both<'_> {
    fn matches(&self, label: u64) -> bool {
        self.0.matches(label) && self.1(label)
    }

    fn places(&self) -> Option<&Places> {
        Some(self.0)
    }
}

fn labels_of(answer: &Answer) -> Vec<u64> {
    labels(&answer.found)
}

fn among_places<F: Searched>() {
    let (pool, index, mut model, mut random) = filled::<F, Swizzle>();
    assert_among(&pool, &index, &mut model, &mut random);
}

macro_rules! tests_of {
    ($name:ident: $family:ty) => {
        mod $name {
            use super::*;

            fn filters<T: Translation>() {
                super::filters::<$family, T>();
            }

            test_with!(filters: array: Array, hash: Hash, swizzle: Swizzle);

            #[test]
            fn swizzling_goes_by_its_table() {
                super::swizzling_goes_by_its_table::<$family>();
            }

            #[test]
            fn among_places() {
                super::among_places::<$family>();
            }

            #[test]
            fn what_matches_is_far_away() {
                super::what_matches_is_far_away::<$family>();
            }

            #[test]
            fn far_away_beyond_memory() {
                super::far_away_beyond_memory::<$family>();
            }

            #[test]
            fn a_filter_that_panics() {
                super::a_filter_that_panics::<$family>();
            }

            #[test]
            fn a_filter_that_searches() {
                super::a_filter_that_searches::<$family>();
            }

            #[test]
            fn a_filter_that_changes_what_it_is_asked_about() {
                super::a_filter_that_changes_what_it_is_asked_about::<$family>();
            }

            #[test]
            fn within_a_distance() {
                super::within_a_distance::<$family>();
            }

            #[test]
            fn one_after_the_other() {
                super::one_after_the_other::<$family>();
            }

            #[test]
            fn an_index_like_any_other() {
                super::an_index_like_any_other::<$family>();
            }
        }
    };
}

tests_of!(graphs: Graphs);
tests_of!(steered: Steered);

/// Few match: of what lies together as much is found by way of what matches as of what is near, and less is
/// asked for than to compare with all; of what lies anywhere all that match are compared.
#[test]
fn few_that_lie_together() {
    let (_pool, index, model, mut random) = filled::<Graphs, Array>();
    let corner = vec![0.0; DIMENSIONS];
    let near = nearest(&model, &corner, 300);
    let asked = AtomicU64::new(0);
    let filter = |label: u64| {
        asked.fetch_add(1, Ordering::Relaxed);
        near.contains(&label)
    };
    let (few, matching) = (one_in(model.len() as u64 / 300), only(&model, &filter));
    let (count, width) = (5, 10);
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..20 {
        let query = vector(&mut random, DIMENSIONS);
        let search = |filter| find(&index, &query, &Search::new(count, width).filter(filter));
        assert!(search(&few).is_exhaustive);
        // A sample has been drawn.
        asked.store(0, Ordering::Relaxed);
        let answer = search(&filter);
        assert!(!answer.is_exhaustive);
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked < model.len() as u64, "{asked} labels were asked for");
        assert_eq!(answer.found.len(), count);
        found += hits(&answer.found, &nearest(&matching, &query, count));
        wanted += count;
    }
    assert!(found * 100 >= wanted * 80, "{found} of {wanted} are found");
}

/// A probe tells what searches find, and which width finds enough.
#[test]
fn probes() {
    let mut random = Random::new(8);
    let options = HnswOptions { links: 4, insert_width: 10, ..HnswOptions::new(l2(24)) };
    let (_pool, index) = new_index::<Array>(&disk(), PageSize::MIN, &options, 40);
    let count = steps(1500, 10_000);
    for label in 0..count {
        index.insert(label, &vector(&mut random, 24)).unwrap();
    }
    let queries: Vec<_> = (0..30).map(|_| vector(&mut random, 24)).collect();
    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();
    let (filter, mut told) = (one_in(2), Vec::new());
    for search in [Search::new(COUNT, 0), Search::new(COUNT, 0).filter(&filter)] {
        let progress = &mut |done| {
            told.push(done);
            true
        };
        let probe = Probe::new(&index, &queries, &search, progress).unwrap().unwrap();
        let (few, many) = (probe.measure(10).unwrap(), probe.measure(count as usize).unwrap());
        assert!(few.recall < 1.0 && few.recall > 0.5, "{few:?}");
        assert_eq!((many.width, many.recall), (count as usize, 1.0));
        assert!(few.mean <= few.p99);
        let enough = probe.width_for(0.99).unwrap().unwrap();
        assert!(enough.recall >= 0.99);
        assert!(probe.measure(enough.width * 8 / 10).unwrap().recall < 0.99, "{enough:?}");
    }
    assert_eq!(told, (0..30).chain(0..30).collect::<Vec<_>>());
    let stopped = Probe::new(&index, &queries, &Search::new(COUNT, 0), &mut |done| done < 3);
    assert!(stopped.unwrap().is_none());
}

/// Of an index that is empty, and of one that was filled since the last search with a filter.
#[test]
fn a_filter_of_an_index_that_grows() {
    let mut random = Random::new(5);
    let (_pool, index) = new_index::<Array>(&disk(), PageSize::MIN, &narrow(l2(DIMENSIONS)), 40);
    let (mut model, query) = (Model::new(), vec![1.0; DIMENSIONS]);
    let even = |label: u64| label.is_multiple_of(2);
    let search = Search::new(COUNT, 30).filter(&even);
    assert_eq!(index.search(&query, &search).unwrap().found, []);
    assert_eq!(take(&index, &query, &search, 5), []);
    for label in 0..2000 {
        let vector = vector(&mut random, DIMENSIONS);
        model.insert(label, (index.insert(label, &vector).unwrap(), vector));
        if label % 100 == 99 {
            let found = index.search(&query, &search).unwrap().found;
            let truth = nearest(&only(&model, &even), &query, COUNT);
            assert!(hits(&found, &truth) >= 8, "of {label}");
        }
    }
    let answer = index.search(&query, &search).unwrap();
    assert!(!answer.is_exhaustive, "the sample is of what is there");
}
