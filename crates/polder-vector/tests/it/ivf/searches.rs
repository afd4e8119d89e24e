//! What searches in lists find, compared with everything.

use std::sync::atomic::{AtomicBool, Ordering};

use polder_pool::{Array, Swizzle};
use polder_testkit::Random;
use polder_testkit::pools::disk;
use polder_vector::roaring::RoaringTreemap;
use polder_vector::{Answer, Search, VectorIndex, VectorRef};

use super::*;
use crate::searches::assert_among;

const DIMENSIONS: usize = 8;
const LISTS: usize = 16;

fn filled(vectors: u64) -> (Pool<Array>, IvfIndex<Array>, Model) {
    let disk = disk();
    let (pool, index) = new_index::<Array>(&disk, l2(DIMENSIONS), LISTS, 2);
    let (mut model, mut random) = (Model::new(), Random::new(21));
    for label in 0..vectors {
        let vector = vector(&mut random, DIMENSIONS);
        model.insert(label, (index.insert(label, &vector).unwrap(), vector));
    }
    (pool, index, model)
}

/// Among vectors of which it is known where they lie.
#[test]
fn among_places() {
    let (pool, index) = new_index::<Swizzle>(&disk(), l2(DIMENSIONS), LISTS, 2);
    let (mut model, mut random) = (Model::new(), Random::new(25));
    for label in 0..2000 {
        let vector = vector(&mut random, DIMENSIONS);
        model.insert(label, (index.insert(label, &vector).unwrap(), vector));
    }
    assert_among(&pool, &index, &mut model, &mut random);
}

/// With more lists more is found, and in all of them everything; a few are enough for most.
#[test]
fn recall_grows_with_width() {
    let (_pool, index, model) = filled(2000);
    let mut random = Random::new(22);
    let queries: Vec<Vec<f32>> = (0..100).map(|_| vector(&mut random, DIMENSIONS)).collect();
    let recall = |width| -> usize {
        let of = |query: &Vec<f32>| {
            let found = search(&index, query, 10, width);
            assert_true(&found, &model, query);
            hits(&found, &nearest(&model, query, 10))
        };
        queries.iter().map(of).sum()
    };
    let found = [1, 2, 4, 8, LISTS].map(recall);
    assert!(found.is_sorted(), "{found:?} of 1000");
    assert!(found[0] > 400 && found[0] < 1000, "{found:?} of 1000");
    assert!(found[2] > 900, "{found:?} of 1000");
    assert_eq!(found[4], 1000);
    // A width of none is one of one.
    assert_eq!(search(&index, &queries[0], 10, 0), search(&index, &queries[0], 10, 1));
}

/// What matches, of everything.
fn matching(
    model: &Model,
    query: &[f32],
    count: usize,
    matches: impl Fn(u64, f32) -> bool,
) -> Vec<u64> {
    let mut kept = model.clone();
    kept.retain(|label, (_, vector)| matches(*label, distance(query, vector)));
    nearest(&kept, query, count)
}

#[test]
fn filters() {
    let (_pool, index, model) = filled(1500);
    let mut random = Random::new(23);
    for modulus in [1, 3, 50, 700, 5000] {
        let is_match = |label: u64| label.is_multiple_of(modulus);
        let set: RoaringTreemap = (0..1500).filter(|label| is_match(*label)).collect();
        let (mut exhaustive, mut found, mut wanted) = (0, 0, 0);
        for _ in 0..30 {
            let query = vector(&mut random, DIMENSIONS);
            let expected = matching(&model, &query, 10, |label, _| is_match(label));
            let search = Search::new(10, 4).filter(&is_match);
            let exact = index.search_exact(&query, &search).unwrap();
            assert_eq!(labels(&exact.found), expected, "of {modulus}");
            let Answer { found: some, is_exhaustive } = index.search(&query, &search).unwrap();
            assert_true(&some, &model, &query);
            assert!(some.iter().all(|one| is_match(one.label)));
            // As many as there are, in farther lists if need be.
            assert_eq!(some.len(), expected.len(), "of {modulus}");
            if is_exhaustive {
                assert_eq!(labels(&some), expected);
            }
            assert_eq!(index.search(&query, &Search::new(10, 4).filter(&set)).unwrap().found, some);
            let all = index.search(&query, &Search::new(10, LISTS).filter(&set)).unwrap();
            assert_eq!((labels(&all.found), all.is_exhaustive), (expected.clone(), true));
            exhaustive += u32::from(is_exhaustive);
            found += hits(&some, &expected);
            wanted += expected.len();
        }
        assert!(found * 100 >= wanted * 85, "{found} of {wanted}");
        // Only where there is nothing else to find all lists are compared.
        assert_eq!(exhaustive, if modulus >= 700 { 30 } else { 0 }, "of {modulus}");
    }
}

/// Of what matches, all is near to one vector, or far from it.
#[test]
fn filters_of_what_is_far_away() {
    let (_pool, index, model) = filled(3000);
    let mut random = Random::new(26);
    let centre = vector(&mut random, DIMENSIONS);
    let by_distance = nearest(&model, &centre, model.len());
    for kept in [&by_distance[..30], &by_distance[..300], &by_distance[2700..]] {
        let set: RoaringTreemap = kept.iter().copied().collect();
        let (mut found, mut asked) = (0, 0);
        for _ in 0..30 {
            let query = vector(&mut random, DIMENSIONS);
            let expected = matching(&model, &query, 10, |label, _| set.contains(label));
            let some = index.search(&query, &Search::new(10, 6).filter(&set)).unwrap().found;
            assert_eq!(some.len(), 10);
            (found, asked) = (found + hits(&some, &expected), asked + 10);
        }
        assert!(found * 100 >= asked * 95, "{found} of {asked}, of {}", kept.len());
    }
}

#[test]
fn one_after_the_other() {
    let (_pool, index, model) = filled(1500);
    let mut random = Random::new(25);
    let query = vector(&mut random, DIMENSIONS);
    let take = |search: &Search<'_>, count: usize| -> Vec<u64> {
        let found = VectorIndex::nearest(&index, VectorRef::from(&query), search).unwrap();
        found.take(count).map(|found| found.unwrap().label).collect()
    };
    let all = Search::new(usize::MAX, 6);
    for count in [1, 10, 100, 700] {
        let found = take(&all, count);
        let truth = nearest(&model, &query, count);
        let hits = found.iter().filter(|label| truth.contains(label)).count();
        assert!(found.len() == count && hits * 100 >= count * 95, "{hits} of {count}");
    }
    let mut each = take(&all, usize::MAX);
    each.sort_unstable();
    assert!(each.into_iter().eq(0..1500));
    assert_eq!(take(&Search::new(20, 6), usize::MAX).len(), 20);
    let is_match = |label: u64| label.is_multiple_of(100);
    let mut matching = take(&all.filter(&is_match), usize::MAX);
    matching.sort_unstable();
    assert!(matching.into_iter().eq((0..1500).step_by(100)));
    let wrong = VectorIndex::nearest(&index, VectorRef::from(&[1.0_f32; 3]), &all);
    assert!(wrong.is_err());
}

#[test]
fn within_a_distance() {
    let (_pool, index, model) = filled(1500);
    let mut random = Random::new(24);
    let (mut found, mut wanted, mut exhaustive) = (0, 0, 0);
    for round in 0..60 {
        let within = [0.5, 3.0, 8.0, 30.0][round % 4];
        let query = vector(&mut random, DIMENSIONS);
        let is_near = |_, distance: f32| distance <= within;
        let expected = matching(&model, &query, usize::MAX, is_near);
        let search = Search::new(usize::MAX, 2).within(within);
        let exact = index.search_exact(&query, &search).unwrap();
        assert_eq!(labels(&exact.found), expected, "within {within}");
        let some = index.search(&query, &search).unwrap();
        assert!(some.found.iter().all(|one| one.distance <= within));
        assert_true(&some.found, &model, &query);
        (found, wanted) = (found + hits(&some.found, &expected), wanted + expected.len());
        exhaustive += usize::from(some.is_exhaustive);
        // Not more than are wanted, and the nearest of them.
        let few = index.search(&query, &Search::new(3, LISTS).within(within)).unwrap();
        assert_eq!(labels(&few.found), &expected[..expected.len().min(3)]);
        // With a filter as well.
        let is_odd = |label: u64| label % 2 == 1;
        let odd = matching(&model, &query, 100, |label, far| is_odd(label) && far <= within);
        let search = Search::new(100, LISTS).within(within).filter(&is_odd);
        assert_eq!(labels(&index.search(&query, &search).unwrap().found), odd);
    }
    assert!(found * 100 >= wanted * 90, "{found} of {wanted}");
    assert!(exhaustive < 40, "{exhaustive} of 60 searches compared all lists");
}

/// A filter may use the index that asks it.
#[test]
fn a_filter_that_searches() {
    let (_pool, index, model) = filled(300);
    let there = model[&7].1.clone();
    let nested = |label: u64| search(&index, &there, 1, 1)[0].label == 7 && label < 100;
    let answer = index.search(&there, &Search::new(20, 2).filter(&nested)).unwrap();
    assert_eq!((answer.found.len(), answer.found[0].label), (20, 7));
}

/// While a filter is asked, the vector is removed, and another one gets its place: that one was not asked
/// about, and is not found.
#[test]
fn a_filter_that_changes_what_it_is_asked_about() {
    let (_pool, index, model) = filled(300);
    let (node, there) = model[&7].clone();
    let changed = AtomicBool::new(false);
    let changing = |label: u64| {
        if label == 7 && !changed.swap(true, Ordering::Relaxed) {
            assert!(index.remove(7, node).unwrap());
            assert_eq!(index.insert(1000, &there).unwrap(), node);
        }
        label < 1000
    };
    let found = index.search(&there, &Search::new(20, 2).filter(&changing)).unwrap().found;
    assert!(changed.load(Ordering::Relaxed));
    assert!(found.iter().all(|one| one.label != 7 && one.label != 1000), "{found:?}");
}

/// By the trait that all indexes have.
#[test]
fn an_index_like_any_other() {
    let (_pool, index, model) = filled(100);
    let index: &dyn VectorIndex = &index;
    assert_eq!(index.options().shape(), l2(DIMENSIONS));
    let query = model[&3].1.clone();
    let query = VectorRef::from(&query);
    let found = index.search(query, &Search::new(1, 1)).unwrap().found;
    assert_eq!((found[0].label, found[0].distance), (3, 0.0));
    assert_eq!(index.search_exact(query, &Search::new(1, 0)).unwrap().found, found);
    let node = index.insert(1000, query).unwrap();
    let vector = index.get(1000, node).unwrap().unwrap();
    assert_eq!(vector.elements(), Some(&model[&3].1[..]));
    assert!(index.remove(1000, node).unwrap());
}
