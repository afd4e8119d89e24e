//! An index finds what is nearest, on a pool of the least budget, however much was removed, and stays
//! sound.

use polder_format::PageSize;
use polder_pool::{Array, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;
use polder_testkit::{Random, test_with};
use polder_vector::half::{bf16, f16};
use polder_vector::{Bits, Element, Metric, VectorIndex, VectorShape};

use crate::support::*;

const DIMENSIONS: usize = 12;
const COUNT: usize = 10;

/// Searches, both ways, for something near what is there.
fn look(index: &impl VectorIndex, model: &Model, random: &mut Random) -> (usize, usize) {
    let query = vector(random, DIMENSIONS);
    let nearest = nearest(model, &query, COUNT);
    let exact = search_exact(index, &query, COUNT);
    assert_eq!(labels(&exact), nearest);
    assert_true(&exact, model, &query);
    let found = search(index, &query, COUNT, 60);
    assert_true(&found, model, &query);
    (hits(&found, &nearest), nearest.len())
}

/// Grows, changes, shrinks, is opened again in between, and loses everything at the end.
fn life<F: Family, T: Translation>() {
    let (disk, mut random) = (disk(), Random::new(3));
    let (mut pool, mut index) = new_small::<F, T>(&disk, PageSize::MIN, l2(DIMENSIONS), 1);
    let (mut model, mut next) = (Model::new(), 0);
    let (mut hits, mut wanted) = (0, 0);
    for removes in [1, 5, 9, 4] {
        for _ in 0..steps(400, 2000) {
            if random.below(10) < removes {
                let label = random.below(next + 1);
                let known = model.remove(&label);
                if let Some((node, _)) = known {
                    assert!(!index.remove(label + 1_000_000, node).unwrap(), "another label");
                    assert!(index.remove(label, node).unwrap());
                    assert!(!index.remove(label, node).unwrap(), "it is gone");
                }
            } else {
                let vector = vector(&mut random, DIMENSIONS);
                let node = insert(&index, next, &vector);
                model.insert(next, (node, vector));
                next += 1;
            }
        }
        for _ in 0..20 {
            let (of_these, of_all) = look(&index, &model, &mut random);
            (hits, wanted) = (hits + of_these, wanted + of_all);
        }
        assert_has(&index, &model);
        (pool, index) = reopen(&disk, pool, index);
    }
    assert!(hits * 100 >= wanted * 97, "{hits} of {wanted}");
    let pages = assert_sound(&index, model.len());
    assert!(index.report().levels >= F::LEVELS);
    for (label, (node, _)) in std::mem::take(&mut model) {
        assert!(index.remove(label, node).unwrap());
    }
    assert_sound(&index, 0);
    assert_eq!(search(&index, &vector(&mut random, DIMENSIONS), COUNT, 60), []);
    // Places that became free are used again.
    for label in 0..200 {
        let vector = vector(&mut random, DIMENSIONS);
        let node = insert(&index, label, &vector);
        model.insert(label, (node, vector));
    }
    assert_has(&index, &model);
    let more = assert_sound(&index, model.len());
    assert!(more <= pages + 3, "{more} pages, of {pages} that were there");
    drop(pool);
}

/// Vectors of these elements are found by what is nearest to themselves, by every metric there is for
/// them; pages of every size.
fn elements<F: Family, E: Element + PartialEq + std::fmt::Debug>(
    element: impl Fn(&mut Random) -> E,
) {
    let bits = if E::KIND.bytes(8) == 1 { 8 } else { 1 };
    for (metric, size) in Metric::ALL.into_iter().zip([4096, 8192, 16384, 65536]) {
        if !metric.is_for(E::KIND) {
            continue;
        }
        let shape = VectorShape { element: E::KIND, dimensions: 21 * bits, metric };
        let (disk, mut random) = (disk(), Random::new(5));
        let size = PageSize::new(size).unwrap();
        let (_pool, index) = new_small::<F, Array>(&disk, size, shape, 4);
        let mut model = Model::new();
        for label in 0..300 {
            let vector: Vec<E> = (0..21).map(|_| element(&mut random)).collect();
            model.insert(label, (insert(&index, label, &vector), vector));
        }
        assert_has(&index, &model);
        let (mut found, mut first) = (0, 0);
        for (label, (_, vector)) in &model {
            let exact = search_exact(&index, vector, COUNT);
            let these = search(&index, vector, COUNT, F::WIDTH);
            // Of equally near ones any may be found.
            let farthest = exact.last().unwrap().distance;
            found += these.iter().filter(|one| one.distance <= farthest).count();
            first += usize::from(exact[0].label == *label && exact[0].distance.abs() < 1e-3);
        }
        assert!(found * 100 >= model.len() * COUNT * 97, "{found} by {metric} of {}", E::KIND);
        // A vector may have a greater product with others than with itself.
        assert!(first == model.len() || metric == Metric::InnerProduct, "{first} by {metric}");
    }
}

fn vectors_of_all_elements_by_all_metrics<F: Family>() {
    let number = |random: &mut Random| random.below(2001) as f32 / 1000.0 - 1.0;
    elements::<F, f32>(number);
    elements::<F, f16>(|random| f16::from_f32(number(random)));
    elements::<F, bf16>(|random| bf16::from_f32(number(random)));
    elements::<F, i8>(|random| random.below(256) as u8 as i8);
}

#[test]
fn vectors_of_bits() {
    elements::<Graphs, Bits>(|random| Bits(random.below(256) as u8));
}

/// Many labels have the same vector: lists lead in no direction, and all are found, in and out of order,
/// also when some have gone.
fn the_same_vector_many_times<F: Family>() {
    for metric in [Metric::L2, Metric::Cosine] {
        let disk = disk();
        let shape = VectorShape { metric, ..l2(4) };
        let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, shape, 2);
        let (mut model, mut random) = (Model::new(), Random::new(6));
        for label in 0..300 {
            let vector = match label % 3 {
                0 => vec![1.1, 2.2, 3.3, 4.4],
                _ => vector(&mut random, 4),
            };
            model.insert(label, (insert(&index, label, &vector), vector));
        }
        let same = |model: &Model| model.keys().filter(|label| *label % 3 == 0).count();
        for kept in [300, 150] {
            model.retain(|label, (node, _)| {
                *label % 300 < kept || !index.remove(*label, *node).unwrap()
            });
            assert_has(&index, &model);
            let found = search(&index, &[1.1_f32, 2.2, 3.3, 4.4], 300, 300);
            let these = found.iter().filter(|one| one.label % 3 == 0).count();
            assert_eq!(these, same(&model), "by {metric}");
        }
    }
}

/// Half of the vectors are removed at random and others inserted, five times over: searches find as many
/// of the nearest as before, and there are no more pages.
fn recall_outlasts_removals<F: Family>() {
    let (disk, mut random) = (disk(), Random::new(8));
    let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, l2(DIMENSIONS), 4);
    let mut model = Model::new();
    let count = steps(3000, 10_000);
    let grow = |model: &mut Model, random: &mut Random, first: u64| {
        for label in first.. {
            if model.len() as u64 == count {
                break;
            }
            let vector = vector(random, DIMENSIONS);
            model.insert(label, (insert(&index, label, &vector), vector));
        }
    };
    let recall = |model: &Model| {
        let mut random = Random::new(9);
        let mut found = 0;
        for _ in 0..100 {
            let query = vector(&mut random, DIMENSIONS);
            let these = search(&index, &query, COUNT, 20);
            found += hits(&these, &nearest(model, &query, COUNT));
        }
        found
    };
    grow(&mut model, &mut random, 0);
    let (before, pages) = (recall(&model), assert_sound(&index, model.len()));
    for round in 1..=5 {
        for (label, (node, vector)) in std::mem::take(&mut model) {
            match random.chance(0.5) {
                true => assert!(index.remove(label, node).unwrap()),
                false => {
                    model.insert(label, (node, vector));
                }
            }
        }
        grow(&mut model, &mut random, round * 100_000);
    }
    assert_has(&index, &model);
    let (after, more) = (recall(&model), assert_sound(&index, model.len()));
    assert!(after + 10 >= before, "{after} of 1000 are found, {before} before");
    assert!(more * 10 <= pages * 11, "{more} pages, {pages} before");
}

/// One vector in the middle of others that are as far from each other as can be: all of them want to be
/// linked with that one alone, which has no room for them.
fn a_star_is_reached<F: Family>() {
    let disk = disk();
    let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, l2(150), 4);
    let mut model = Model::new();
    for label in 0..150 {
        let mut vector = vec![0.0; 150];
        if label > 0 {
            vector[label as usize] = 10.0;
        }
        model.insert(label, (insert(&index, label, &vector), vector));
    }
    assert_has(&index, &model);
    // Without the middle.
    let (label, (node, _)) = model.pop_first().unwrap();
    assert!(index.remove(label, node).unwrap());
    assert_has(&index, &model);
}

/// A vector whose list is full of others comes again, many times.
fn the_same_vector_beside_many_others<F: Family>() {
    let disk = disk();
    let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, l2(DIMENSIONS), 4);
    let (mut model, mut random) = (Model::new(), Random::new(12));
    let middle = vec![1.0; DIMENSIONS];
    for label in 0..140 {
        let mut near =
            || (0..DIMENSIONS).map(|_| 1.0 + random.below(200) as f32 / 1e4 - 0.01).collect();
        let vector = match label {
            0 | 40.. => middle.clone(),
            _ => near(),
        };
        model.insert(label, (insert(&index, label, &vector), vector));
    }
    assert_has(&index, &model);
    let found = search(&index, &middle, 101, 120);
    assert!(found.iter().all(|one| one.distance == 0.0), "{found:?}");
    assert_eq!(found.len(), 101);
    for (label, (node, _)) in model.extract_if(.., |label, _| label % 2 == 0).collect::<Vec<_>>() {
        assert!(index.remove(label, node).unwrap());
    }
    assert_has(&index, &model);
}

macro_rules! tests_of {
    ($name:ident: $family:ty) => {
        mod $name {
            use super::*;

            fn life<T: Translation>() {
                super::life::<$family, T>();
            }

            test_with!(life);

            #[test]
            fn vectors_of_all_elements_by_all_metrics() {
                super::vectors_of_all_elements_by_all_metrics::<$family>();
            }

            #[test]
            fn the_same_vector_many_times() {
                super::the_same_vector_many_times::<$family>();
            }

            #[test]
            fn recall_outlasts_removals() {
                super::recall_outlasts_removals::<$family>();
            }

            #[test]
            fn a_star_is_reached() {
                super::a_star_is_reached::<$family>();
            }

            #[test]
            fn the_same_vector_beside_many_others() {
                super::the_same_vector_beside_many_others::<$family>();
            }
        }
    };
}

tests_of!(graphs: Graphs);
tests_of!(steered: Steered);
