//! What searches can ask beside the nearest: only what matches a filter, all within a distance, one after
//! the other.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use polder_format::PageSize;
use polder_pool::{Array, Hash, Pool, Swizzle, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;
use polder_testkit::{Random, test_with};
use polder_vector::roaring::RoaringTreemap;
use polder_vector::{Filter, Found, HnswIndex, HnswOptions, Probe, Search, VectorRef};

use crate::support::*;

const DIMENSIONS: usize = 8;
const COUNT: usize = 10;

/// An index of some thousand vectors in clusters, with more memory than they need.
fn filled<T: Translation>() -> (Pool<T>, HnswIndex<T>, Model, Random) {
    let mut random = Random::new(21);
    let options = HnswOptions { links: 12, insert_width: 60, ..HnswOptions::new(l2(DIMENSIONS)) };
    let (pool, index) = new_index::<T>(&disk(), PageSize::MIN, &options, 40);
    let mut model = Model::new();
    for label in 0..steps(3000, 20_000) {
        let vector = vector(&mut random, DIMENSIONS);
        let node = index.insert(label, &vector).unwrap();
        model.insert(label, (node, vector));
    }
    (pool, index, model, random)
}

fn only(model: &Model, filter: &dyn Filter) -> Model {
    let matching = model.iter().filter(|(label, _)| filter.matches(**label));
    matching.map(|(label, vector)| (*label, vector.clone())).collect()
}

/// Labels without a pattern.
fn one_in(of: u64) -> impl Fn(u64) -> bool + Sync {
    move |label: u64| (label.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(of)
}

/// As many as match are found, and of the nearest that match nearly all; by both ways and by comparing
/// with all. Gives how many of so many searches did that.
fn assert_filtered<T: Translation>(
    index: &HnswIndex<T>,
    model: &Model,
    queries: &[Vec<f32>],
    filter: &dyn Filter,
) -> usize {
    let matching = only(model, filter);
    let (mut found, mut wanted, mut exhaustive) = (0, 0, 0);
    for query in queries {
        let truth = nearest(&matching, query, COUNT);
        let exact = index.search_exact(query, &Search::new(COUNT, 0).filter(filter)).unwrap();
        assert_eq!(labels(&exact.found), truth);
        assert!(exact.is_exhaustive);
        let answer = index.search(query, &Search::new(COUNT, 30).filter(filter)).unwrap();
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

fn filters<T: Translation>() {
    let (_pool, index, model, mut random) = filled::<T>();
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

test_with!(filters: array: Array, hash: Hash, swizzle: Swizzle);

/// What matches lies together, and the query far away from it: going through what does not match would
/// lead through half of the graph.
#[test]
fn what_matches_is_far_away() {
    let (_pool, index, model, _) = filled::<Array>();
    let corner = vec![0.0; DIMENSIONS];
    let far = nearest(&model, &corner, model.len()).split_off(model.len() / 2);
    let far: BTreeSet<u64> = far.into_iter().collect();
    let asked = AtomicU64::new(0);
    let filter = |label: u64| {
        asked.fetch_add(1, Ordering::Relaxed);
        far.contains(&label)
    };
    let queries = vec![corner];
    assert_eq!(assert_filtered(&index, &model, &queries, &filter), 0);
    asked.store(0, Ordering::Relaxed);
    let answer = index.search(&queries[0], &Search::new(COUNT, 30).filter(&filter)).unwrap();
    assert_eq!(answer.found.len(), COUNT);
    // The sample, what is seen until it is known, and what lies between.
    let most = 1100 + 600 + model.len() as u64 / 3;
    assert!(asked.load(Ordering::Relaxed) < most, "{asked:?} labels were asked for");
}

/// A filter may panic: the thread searches as before.
#[test]
fn a_filter_that_panics() {
    let (_pool, index, model, mut random) = filled::<Array>();
    let query = vector(&mut random, DIMENSIONS);
    let last = AtomicU64::new(1500);
    let filter = |_: u64| {
        assert!(last.fetch_sub(1, Ordering::Relaxed) > 1, "the filter has had enough");
        true
    };
    let search = || index.search(&query, &Search::new(COUNT, 400).filter(&filter));
    assert!(catch_unwind(AssertUnwindSafe(search)).is_err());
    assert!(
        hits(&super::support::search(&index, &query, COUNT, 60), &nearest(&model, &query, COUNT))
            >= 9
    );
    index.insert(1 << 40, &query).unwrap();
}

/// All within a distance, however many these are, and none beyond it.
#[test]
fn within_a_distance() {
    let (_pool, index, model, mut random) = filled::<Array>();
    let (mut found, mut wanted) = (0, 0);
    for rank in [0, 1, 5, 100, 700] {
        let query = vector(&mut random, DIMENSIONS);
        let order = nearest(&model, &query, model.len());
        let radius = match rank {
            0 => 1e-9,
            _ => distance(&query, &model[&order[rank - 1]].1) * 1.00001,
        };
        let within = Search::new(usize::MAX, 20).within(radius);
        let exact = index.search_exact(&query, &within).unwrap().found;
        assert_eq!(labels(&exact), order[..rank]);
        let near = index.search(&query, &within).unwrap().found;
        assert_true(&near, &model, &query);
        assert!(near.iter().all(|one| one.distance <= radius));
        (found, wanted) = (found + near.len(), wanted + rank);
        // No more than are asked for.
        let few = index.search(&query, &Search { count: 3, ..within }).unwrap().found;
        assert_eq!(few.len(), near.len().min(3));
        // And with a filter.
        let even = |label: u64| label.is_multiple_of(2);
        let near = index.search(&query, &within.filter(&even)).unwrap().found;
        let truth: Vec<u64> = order[..rank].iter().copied().filter(|label| even(*label)).collect();
        assert!(near.iter().all(|one| truth.contains(&one.label)));
        assert!(near.len() * 100 >= truth.len() * 95, "{} of {}", near.len(), truth.len());
    }
    assert!(found * 100 >= wanted * 98, "{found} of {wanted}");
}

fn take<'i>(
    index: &'i HnswIndex<Array>,
    query: &[f32],
    search: &Search<'i>,
    count: usize,
) -> Vec<Found> {
    index.nearest(query, search).unwrap().take(count).map(Result::unwrap).collect()
}

/// Everything is given, once, and nearly in order.
#[test]
fn one_after_the_other() {
    let (_pool, index, model, mut random) = filled::<Array>();
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
