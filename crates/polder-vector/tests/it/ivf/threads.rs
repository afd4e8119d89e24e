//! Many threads on one index of lists and a pool of the least budget.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use polder_pool::{Array, Hash, Swizzle, Translation};
use polder_testkit::effort::steps;
use polder_testkit::pools::disk;
use polder_testkit::{Random, if_built};

use polder_vector::Search;

use super::*;

const THREADS: u64 = 6;
const DIMENSIONS: usize = 8;

/// Each thread has labels of its own, and knows what must be there, at any time: what it has inserted and
/// not removed is found by whoever looks.
fn all_at_once<T: Translation>(lists: usize) {
    let disk = disk();
    let (_pool, index) = new_index::<T>(&disk, l2(DIMENSIONS), lists, 2);
    let mut random = Random::new(50);
    // These stay, and every search that compares all must find them.
    let kept: Vec<u64> = (1_000_000..1_000_050).collect();
    let mut model = Model::new();
    for label in &kept {
        let vector = vector(&mut random, DIMENSIONS);
        model.insert(*label, (index.insert(*label, &vector).unwrap(), vector));
    }
    let ended = AtomicBool::new(false);
    let models: Vec<Model> = thread::scope(|scope| {
        let (index, ended, kept) = (&index, &ended, &kept);
        let searching = scope.spawn(move || {
            let is_kept = |label: u64| label >= 1_000_000;
            let mut random = Random::new(99);
            while !ended.load(Ordering::Relaxed) {
                let query = vector(&mut random, DIMENSIONS);
                let found = search(index, &query, 20, 3);
                assert!(found.windows(2).all(|pair| pair[0].distance <= pair[1].distance));
                let all = Search::new(1000, 1).filter(&is_kept);
                for found in [index.search(&query, &all), index.search_exact(&query, &all)] {
                    let mut found = labels(&found.unwrap().found);
                    found.sort_unstable();
                    assert_eq!(found, *kept);
                }
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                scope.spawn(move || {
                    let (mut random, mut model) = (Random::new(t), Model::new());
                    for step in 0..steps(400, 3000) {
                        let label = step * THREADS + t;
                        if step > 50 && random.chance(0.45) && !model.is_empty() {
                            let at = random.index(model.len());
                            let known = model.iter().nth(at);
                            let (label, node) = known.map(|(l, (node, _))| (*l, *node)).unwrap();
                            assert!(index.remove(label, node).unwrap());
                            model.remove(&label);
                        } else {
                            let vector = vector(&mut random, DIMENSIONS);
                            let node = index.insert(label, &vector).unwrap();
                            assert_eq!(get(index, label, node).as_ref(), Some(&vector));
                            model.insert(label, (node, vector));
                        }
                    }
                    model
                })
            })
            .collect();
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ended.store(true, Ordering::Relaxed);
        searching.join().unwrap();
        joined.into_iter().map(Result::unwrap).collect()
    });
    model.extend(models.into_iter().flatten());
    assert_has(&index, &model);
    let mut found = labels(&search_exact(&index, &[0.0_f32; DIMENSIONS], 100_000));
    found.sort_unstable();
    assert_eq!(found, model.keys().copied().collect::<Vec<_>>());
}

#[test]
fn array() {
    all_at_once::<Array>(8);
}

/// All of them in the same two lists.
#[test]
fn two_lists() {
    all_at_once::<Array>(2);
}

#[test]
fn hash() {
    if_built!(Hash, all_at_once::<Hash>(8));
}

#[test]
fn swizzle() {
    if_built!(Swizzle, all_at_once::<Swizzle>(8));
}
