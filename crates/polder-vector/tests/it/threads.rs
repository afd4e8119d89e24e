//! Many threads on one index and a pool of the least budget: inserts, removals and searches go on at
//! the same places all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use polder_format::PageSize;
use polder_pool::{Array, Hash, Swizzle, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;
use polder_testkit::{Random, if_built};

use polder_vector::{Answer, Search, VectorIndex, VectorRef, search_many};

use crate::support::*;

const THREADS: u64 = 6;
const DIMENSIONS: usize = 8;

/// Each thread has labels of its own, and knows what must be there.
fn all_at_once<F: Family, T: Translation>() {
    let disk = disk();
    let (_pool, index) = new_small::<F, T>(&disk, PageSize::MIN, l2(DIMENSIONS), 2);
    let ended = AtomicBool::new(false);
    let models: Vec<Model> = thread::scope(|scope| {
        let (index, ended) = (&index, &ended);
        let searching = scope.spawn(move || {
            let mut random = Random::new(99);
            while !ended.load(Ordering::Relaxed) {
                // One alone, and many that go on together.
                let many = if random.chance(0.5) { 1 } else { 20 };
                let queries: Vec<_> = (0..many).map(|_| vector(&mut random, DIMENSIONS)).collect();
                let queries: Vec<_> = queries.iter().map(VectorRef::from).collect();
                let found = search_many(index, &queries, &Search::new(20, 40), 1).unwrap();
                for Answer { found, .. } in found {
                    assert!(found.windows(2).all(|pair| pair[0].distance <= pair[1].distance));
                }
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                scope.spawn(move || {
                    let (mut random, mut model) = (Random::new(t), Model::new());
                    for step in 0..steps(300, 2000) {
                        let label = step * THREADS + t;
                        if step > 50 && random.chance(0.45) {
                            let at = random.index(model.len());
                            let known =
                                model.iter().nth(at).map(|(label, (node, _))| (*label, *node));
                            let Some((label, node)) = known else { continue };
                            assert!(index.remove(label, node).unwrap());
                            model.remove(&label);
                        } else {
                            let vector = vector(&mut random, DIMENSIONS);
                            let node = insert(index, label, &vector);
                            model.insert(label, (node, vector));
                        }
                    }
                    model
                })
            })
            .collect();
        let models = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        ended.store(true, Ordering::Relaxed);
        searching.join().unwrap();
        models
    });
    let model: Model = models.into_iter().flatten().collect();
    assert_has(&index, &model);
    let (mut random, mut found) = (Random::new(7), 0);
    for _ in 0..50 {
        let query = vector(&mut random, DIMENSIONS);
        let these = search(&index, &query, 10, 80);
        assert_true(&these, &model, &query);
        found += hits(&these, &nearest(&model, &query, 10));
    }
    assert!(found >= 475, "{found} of 500");
}

/// The first vectors come from several threads at once: each is reached.
fn the_first_ones_come_together<F: Family>() {
    for round in 0..steps(30, 300) {
        let disk = disk();
        let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, l2(4), 1);
        thread::scope(|scope| {
            for t in 0..4 {
                let index = &index;
                scope.spawn(move || {
                    let mut random = Random::new(round * 4 + t);
                    (0..3).for_each(|i| {
                        insert(index, t * 3 + i, &vector(&mut random, 4));
                    });
                });
            }
        });
        assert_sound(&index, 12);
        let found = search(&index, &[0.0_f32; 4], 12, 50);
        assert_eq!(found.len(), 12, "in round {round}");
    }
}

/// A few vectors that come and go, from several threads: each is a neighbour of all others, the entry
/// leaves again and again, and sometimes nothing is left.
fn a_few_that_come_and_go<F: Family>() {
    for round in 0..steps(20, 200) {
        let disk = disk();
        let (_pool, index) = new_small::<F, Array>(&disk, PageSize::MIN, l2(4), 1);
        let models: Vec<Model> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|t| {
                    let index = &index;
                    scope.spawn(move || {
                        let (mut random, mut model) = (Random::new(round * 4 + t), Model::new());
                        for step in 0..100 {
                            let label = step * 4 + t;
                            if random.below(8) < model.len() as u64 * 2 {
                                let (label, (node, vector)) = model.pop_first().unwrap();
                                assert_eq!(get(index, label, node), Some(vector));
                                assert!(index.remove(label, node).unwrap());
                            } else {
                                let vector = vector(&mut random, 4);
                                let node = insert(index, label, &vector);
                                model.insert(label, (node, vector));
                            }
                        }
                        model
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let model: Model = models.into_iter().flatten().collect();
        assert_has(&index, &model);
        for (label, (node, vector)) in &model {
            let found = search(&index, vector, 1, 50);
            assert_eq!((found[0].distance, found[0].node == *node), (0.0, true), "label {label}");
        }
        // As many pages as its vectors need on each level, and one for each thread.
        assert!(index.space().pages_in_use().unwrap() <= 20);
        for (label, (node, _)) in model {
            assert!(index.remove(label, node).unwrap());
        }
        assert_sound(&index, 0);
    }
}

macro_rules! tests_of {
    ($name:ident: $family:ty) => {
        mod $name {
            use super::*;

            #[test]
            fn array() {
                all_at_once::<$family, Array>();
            }

            #[test]
            fn hash() {
                if_built!(Hash, all_at_once::<$family, Hash>());
            }

            #[test]
            fn swizzle() {
                if_built!(Swizzle, all_at_once::<$family, Swizzle>());
            }

            #[test]
            fn the_first_ones_come_together() {
                super::the_first_ones_come_together::<$family>();
            }

            #[test]
            fn a_few_that_come_and_go() {
                super::a_few_that_come_and_go::<$family>();
            }
        }
    };
}

tests_of!(graphs: Graphs);
tests_of!(steered: Steered);
