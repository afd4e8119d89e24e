//! An index of lists has what was inserted and not removed, on a pool of the least budget, and finds it.

use polder_format::PageSize;
use polder_pool::{Array, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;
use polder_testkit::{Random, test_with};
use polder_vector::half::{bf16, f16};
use polder_vector::{Bits, Element, IvfOptions, Metric, Search, VectorRef, VectorShape};

use super::*;

const DIMENSIONS: usize = 12;
const LISTS: usize = 10;
const COUNT: usize = 10;

/// Searches, in all lists and in some, for something near what is there. Gives how many of the nearest the
/// second has found.
fn look<T: Translation>(index: &IvfIndex<T>, model: &Model, random: &mut Random) -> usize {
    let query = vector(random, DIMENSIONS);
    let nearest = nearest(model, &query, COUNT);
    let exact = search_exact(index, &query, COUNT);
    assert_eq!(labels(&exact), nearest);
    assert_true(&exact, model, &query);
    for width in [LISTS, LISTS + 1, usize::MAX] {
        let all = index.search(&query, &Search::new(COUNT, width)).unwrap();
        assert_eq!((all.found, all.is_exhaustive), (exact.clone(), true), "in {width} lists");
    }
    let found = search(index, &query, COUNT, 3);
    assert_true(&found, model, &query);
    assert_eq!(found.len(), nearest.len());
    hits(&found, &nearest)
}

/// Grows, changes, shrinks, is opened again in between, and loses everything at the end.
fn life<T: Translation>() {
    let (disk, mut random) = (disk(), Random::new(3));
    let (mut pool, mut index) = new_index::<T>(&disk, l2(DIMENSIONS), LISTS, 1);
    let (mut model, mut next, mut hits) = (Model::new(), 0, 0);
    assert_sound(&index, 0);
    look(&index, &model, &mut random);
    for removes in [1, 5, 9, 4] {
        for _ in 0..steps(800, 4000) {
            if random.below(10) < removes {
                let label = random.below(next + 1);
                if let Some((node, _)) = model.remove(&label) {
                    assert!(!index.remove(label + 1_000_000, node).unwrap(), "another label");
                    assert!(index.remove(label, node).unwrap());
                    assert!(!index.remove(label, node).unwrap(), "it is gone");
                    assert!(index.get(label, node).unwrap().is_none(), "it is gone");
                }
            } else {
                let vector = vector(&mut random, DIMENSIONS);
                let node = index.insert(next, &vector).unwrap();
                model.insert(next, (node, vector));
                next += 1;
            }
        }
        for _ in 0..20 {
            hits += look(&index, &model, &mut random);
        }
        assert_has(&index, &model);
        (pool, index) = reopen(&disk, pool, index);
    }
    assert!(hits * 100 >= 4 * 20 * COUNT * 95, "{hits} of {}", 4 * 20 * COUNT);
    let (pages, there) = (assert_sound(&index, model.len()), model.len());
    for (label, (node, _)) in std::mem::take(&mut model) {
        assert!(index.remove(label, node).unwrap());
    }
    assert_eq!(assert_sound(&index, 0), pages, "pages stay with their lists");
    look(&index, &model, &mut random);
    // Places that became free are used again.
    for label in 0..there as u64 {
        let vector = vector(&mut random, DIMENSIONS);
        let node = index.insert(label, &vector).unwrap();
        model.insert(label, (node, vector));
    }
    assert_has(&index, &model);
    let more = assert_sound(&index, model.len());
    assert!(more <= pages + pages / 5, "{more} pages, of {pages} that were there");
    drop(pool);
}

test_with!(life);

/// How far two vectors are, by the definition.
fn by_definition(metric: Metric, a: &[f64], b: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    match metric {
        Metric::L2 => a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum(),
        Metric::InnerProduct => 1.0 - product(a, b),
        Metric::Cosine => 1.0 - product(a, b) / (product(a, a) * product(b, b)).sqrt(),
        _ => a.iter().zip(b).filter(|(a, b)| a != b).count() as f64,
    }
}

/// Vectors of these elements are found by every metric there is for them, as they are by the definition;
/// pages of every size.
fn elements<E: Element + PartialEq + std::fmt::Debug>(
    element: impl Fn(&mut Random) -> E,
    numbers: impl Fn(&[E]) -> Vec<f64>,
) where
    for<'v> &'v Vec<E>: Into<VectorRef<'v>>,
{
    let bits = if E::KIND.bytes(8) == 1 { 8 } else { 1 };
    for (metric, size) in Metric::ALL.into_iter().zip([4096, 8192, 16384, 65536]) {
        if !metric.is_for(E::KIND) {
            continue;
        }
        let shape = VectorShape { element: E::KIND, dimensions: 21 * bits, metric };
        let (disk, mut random) = (disk(), Random::new(5));
        // Some around each of a few, so that there is something to find nearby.
        let centres: Vec<Vec<E>> =
            (0..9).map(|_| (0..21).map(|_| element(&mut random)).collect()).collect();
        let mut vector = || -> Vec<E> {
            let centre = &centres[random.index(9)];
            let number = |at| if random.chance(0.7) { centre[at] } else { element(&mut random) };
            (0..21).map(number).collect()
        };
        let vectors: Vec<Vec<E>> = (0..300).map(|_| vector()).collect();
        let options = IvfOptions { shape, lists: 6 };
        let size = PageSize::new(size).unwrap();
        let (_pool, index) = new_index_of::<Array, _>(&disk, size, &options, 4, &vectors);
        let mut model = Model::new();
        for (label, vector) in (0..).zip(vectors) {
            model.insert(label, (index.insert(label, &vector).unwrap(), vector));
        }
        assert_has(&index, &model);
        let mut hits = 0;
        for _ in 0..50 {
            let query = vector();
            let exactly =
                |label: &u64| by_definition(metric, &numbers(&query), &numbers(&model[label].1));
            let mut nearest: Vec<f64> = model.keys().map(exactly).collect();
            nearest.sort_by(f64::total_cmp);
            let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-4 + a.abs() * 1e-4;
            let all = index.search(&query, &Search::new(COUNT, 6)).unwrap();
            assert!(all.is_exhaustive);
            assert_eq!(all.found, search_exact(&index, &query, COUNT), "{metric} of {}", E::KIND);
            // Of equally near ones any may be found.
            for (one, nearest) in all.found.iter().zip(&nearest) {
                assert!(is_near(exactly(&one.label), one.distance.into()), "{metric}: {one:?}");
                assert!(is_near(*nearest, one.distance.into()), "{metric}: {one:?}");
            }
            let some = search(&index, &query, COUNT, 2);
            let farthest = nearest[COUNT - 1] + 1e-4;
            hits += some.iter().filter(|one| f64::from(one.distance) <= farthest).count();
        }
        assert!(hits >= 50 * COUNT * 7 / 10, "{hits} of 500 by {metric} of {}", E::KIND);
    }
}

#[test]
fn vectors_of_all_elements_by_all_metrics() {
    let number = |random: &mut Random| random.below(2001) as f32 / 1000.0 - 1.0;
    elements::<f32>(number, |all| all.iter().map(|one| (*one).into()).collect());
    elements::<f16>(
        |random| f16::from_f32(number(random)),
        |all| all.iter().map(|one| one.to_f64()).collect(),
    );
    elements::<bf16>(
        |random| bf16::from_f32(number(random)),
        |all| all.iter().map(|one| one.to_f64()).collect(),
    );
    elements::<i8>(
        |random| random.below(256) as u8 as i8,
        |all| all.iter().map(|one| (*one).into()).collect(),
    );
    elements::<Bits>(
        |random| Bits(random.below(256) as u8),
        |all| all.iter().flat_map(|one| (0..8).map(|i| (one.0 >> i & 1).into())).collect(),
    );
}

/// More vectors in one list than a page of its directory leads to: all are the same.
#[test]
fn a_long_list() {
    let disk = disk();
    let (_pool, index) = new_index::<Array>(&disk, l2(400), 2, 2);
    let mut model = Model::new();
    // Two to a page, and 505 pages to one of a directory.
    for label in 0..2400 {
        let vector = vec![1.0; 400];
        model.insert(label, (index.insert(label, &vector).unwrap(), vector));
    }
    assert_has(&index, &model);
    let found = search(&index, &vec![1.0_f32; 400], 3000, 1);
    assert_eq!(found.len(), 2400);
    let pages = assert_sound(&index, 2400);
    for (label, (node, _)) in model.extract_if(.., |label, _| label % 3 == 0).collect::<Vec<_>>() {
        assert!(index.remove(label, node).unwrap());
    }
    assert_has(&index, &model);
    for label in (0..2400).step_by(3) {
        let vector = vec![1.0; 400];
        model.insert(label, (index.insert(label, &vector).unwrap(), vector));
    }
    assert_has(&index, &model);
    assert_eq!(assert_sound(&index, 2400), pages);
}
