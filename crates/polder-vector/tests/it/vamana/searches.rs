//! What searches can ask beside the nearest: only what matches a filter, all within a distance.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use polder_format::PageSize;
use polder_pool::{Array, Hash, Pool, Swizzle, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;
use polder_testkit::{Random, test_with};
use polder_vector::roaring::RoaringTreemap;
use polder_vector::{
    Filter, Probe, Search, VamanaIndex, VamanaOptions, VectorIndex, VectorRef, VectorShape,
};

use crate::support::*;

const DIMENSIONS: usize = 8;
const COUNT: usize = 10;

fn new<T: Translation>(shape: VectorShape) -> (Pool<T>, VamanaIndex<T>) {
    let options = VamanaOptions { links: 24, insert_width: 60, ..VamanaOptions::new(shape) };
    with_pool(&disk(), PageSize::MIN, 40, |space| {
        VamanaIndex::create(space, &options, &sample(shape.dimensions, 100)).unwrap()
    })
}

/// An index of some thousand vectors in clusters, with more memory than they need.
fn filled<T: Translation>() -> (Pool<T>, VamanaIndex<T>, Model, Random) {
    let mut random = Random::new(21);
    let (pool, index) = new::<T>(l2(DIMENSIONS));
    let mut model = Model::new();
    for label in 0..steps(3000, 20_000) {
        let vector = vector(&mut random, DIMENSIONS);
        model.insert(label, (insert(&index, label, &vector), vector));
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

/// As many as match are found, and of the nearest that match nearly all; in the graph and by going through
/// the codes. Gives how many of so many searches have compared all that match.
fn assert_filtered<T: Translation>(
    index: &VamanaIndex<T>,
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
    // More match than the search is wide.
    assert_eq!(assert_filtered(&index, &model, &queries, &one_in(50)), 0);
    assert_eq!(assert_filtered(&index, &model, &queries, &one_in(300)), all);
    assert_eq!(assert_filtered(&index, &model, &queries, &|label| label == 77), all);
    assert_eq!(assert_filtered(&index, &model, &queries, &|_| false), all);
    let set: RoaringTreemap = (0..1000).chain(1 << 40..(1 << 40) + 5).collect();
    assert_eq!(assert_filtered(&index, &model, &queries, &set), 0);
    assert_eq!(assert_filtered(&index, &model, &queries, &RoaringTreemap::new()), all);
}

test_with!(filters: array: Array, hash: Hash, swizzle: Swizzle);

/// What matches lies together, and the query far away from it: the graph is given up soon.
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
    assert_filtered(&index, &model, std::slice::from_ref(&corner), &filter);
    asked.store(0, Ordering::Relaxed);
    let answer = index.search(&corner, &Search::new(COUNT, 30).filter(&filter)).unwrap();
    assert_eq!(answer.found.len(), COUNT);
    // The seeds, what is seen until it is known, and once each label.
    let most = 1600 + 600 + model.len() as u64;
    assert!(asked.load(Ordering::Relaxed) < most, "{asked:?} labels were asked for");
}

/// A filter may panic: the thread searches as before.
#[test]
fn a_filter_that_panics() {
    let (_pool, index, model, mut random) = filled::<Array>();
    let query = vector(&mut random, DIMENSIONS);
    let last = AtomicU64::new(150);
    let filter = |_: u64| {
        assert!(last.fetch_sub(1, Ordering::Relaxed) > 1, "the filter has had enough");
        true
    };
    let panics = || index.search(&query, &Search::new(COUNT, 400).filter(&filter));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let found = search(&index, &query, COUNT, 60);
    assert!(hits(&found, &nearest(&model, &query, COUNT)) >= 9);
    index.insert(1 << 40, &query).unwrap();
}

/// A filter may use the index that asks it.
#[test]
fn a_filter_that_searches() {
    let (_pool, index, model, _) = filled::<Array>();
    let there = model[&7].1.clone();
    let nested = |label: u64| search(&index, &there, 1, 10)[0].label == 7 && label < 100;
    let answer = index.search(&there, &Search::new(20, 20).filter(&nested)).unwrap();
    assert_eq!((answer.found.len(), answer.found[0].label), (20, 7));
}

/// While a filter is asked, the vector is removed, and another one gets its place: that one was not asked
/// about, and is not found.
#[test]
fn a_filter_that_changes_what_it_is_asked_about() {
    let (_pool, index, model, _) = filled::<Array>();
    let (node, there) = model[&7].clone();
    for all in [true, false] {
        let changed = AtomicBool::new(false);
        let changing = |label: u64| {
            if label == 7 && !changed.swap(true, Ordering::Relaxed) {
                assert!(index.remove(7, node).unwrap());
                assert_eq!(insert(&index, 100_000, &there), node);
            }
            label < 10 || all && label < 100_000
        };
        let found = index.search(&there, &Search::new(20, 20).filter(&changing)).unwrap().found;
        assert!(changed.load(Ordering::Relaxed));
        assert!(found.iter().all(|one| one.label != 7 && one.label < 100_000), "{found:?}");
        assert!(index.remove(100_000, node).unwrap());
        assert_eq!(insert(&index, 7, &there), node);
    }
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
        // However few are in sight at first.
        for width in [0, 1, 3] {
            let near = index.search(&query, &Search { width, ..within }).unwrap().found;
            (found, wanted) = (found + near.len(), wanted + rank);
        }
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

/// By the trait that all indexes have; and a probe tells what searches find.
#[test]
fn an_index_like_any_other() {
    let (_pool, index, model, mut random) = filled::<Array>();
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
    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();
    let probe = Probe::new(index, &queries, &Search::new(COUNT, 0), &mut |_| true);
    let probe = probe.unwrap().unwrap();
    assert_eq!(probe.measure(model.len()).unwrap().recall, 1.0);
    assert!(probe.width_for(0.99).unwrap().unwrap().width < 200);
}
