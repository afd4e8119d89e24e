//! What of lists cannot be seen from outside.

use std::thread;

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool};
use polder_testkit::pools;

use super::*;
use crate::element::ElementKind;
use crate::metric::Metric;
use crate::vectors::VectorShape;

/// An index of two lists, around 0 and 100.
fn index() -> (Pool<Array>, IvfIndex<Array>) {
    let config = pools::config(4, PageSize::MIN, FileState::NEW);
    let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &crate::KINDS).unwrap();
    let shape = VectorShape { element: ElementKind::F32, dimensions: 1, metric: Metric::L2 };
    let options = IvfOptions { shape, lists: 2 };
    let sample = [[0.0_f32], [100.0]];
    let index = IvfIndex::create(pool.create_space().unwrap(), &options, &sample).unwrap();
    (pool, index)
}

/// How often an insert near 0 begins its edit, if another thread inserts another vector in the middle.
fn tries(index: &IvfIndex<Array>, other: f32) -> u32 {
    let vector = index.core.layouts.vectors.distances.vector((&[0.0_f32]).into()).unwrap();
    let list = index.nearest_list(&vector).unwrap();
    let mut tries = 0;
    edit(&index.space, |edit| {
        let node = index.lists().insert(edit, list, 1, &vector)?;
        tries += 1;
        if tries == 1 {
            let insert = || index.insert(2, &[other]).unwrap();
            thread::scope(|scope| scope.spawn(insert).join().unwrap());
        }
        Ok(node)
    })
    .unwrap();
    tries
}

#[test]
fn inserts_into_different_lists_are_not_in_the_way_of_each_other() {
    let (_pool, index) = index();
    // Lists have pages by then.
    index.insert(3, &[0.0_f32]).unwrap();
    index.insert(4, &[100.0_f32]).unwrap();
    assert_eq!(tries(&index, 99.0), 1);
    assert_eq!(tries(&index, 1.0), 2, "in the same list they are");
    assert_eq!(index.check(&mut |_| true).unwrap().entries, 6);
}

/// What was read of a page that another thread has changed meanwhile does not count.
#[test]
fn a_page_that_changes_while_it_is_read_is_read_again() {
    let (_pool, index) = index();
    let (layout, node) = (&index.core.layouts.vectors, index.insert(1, &[0.0_f32]).unwrap());
    let mut calls = 0;
    let labels = index.space.interleave(AccessHint::Normal, |way| {
        scan::Scan::new(&index.space, layout, way).look(node.page(), |entries| {
            let labels: Vec<u64> = entries.taken(layout).map(|slot| entries.label(slot)).collect();
            calls += 1;
            if calls == 1 {
                let insert = || index.insert(2, &[1.0_f32]).unwrap();
                thread::scope(|scope| scope.spawn(insert).join().unwrap());
            }
            labels
        })
    });
    assert_eq!(labels.unwrap(), [1, 2], "after {calls} calls");
}

/// The pages by which a list grows lie next to each other, also where two lists grow by turns.
#[test]
fn lists_grow_by_runs() {
    let (_pool, index) = index();
    let vector = index.core.layouts.vectors.distances.vector((&[0.0_f32]).into()).unwrap();
    let near = index.nearest_list(&vector).unwrap();
    for label in 0..20_000 {
        index.insert(label, &[(label % 2) as f32 * 100.0]).unwrap();
    }
    let mut pages = Vec::new();
    index.lists().pages(near, &mut pages).unwrap();
    let runs: Vec<usize> =
        pages.chunk_by(|a, b| a.get() + 1 == b.get()).map(<[PageNo]>::len).collect();
    let longest = runs.iter().max().copied().unwrap_or(0);
    assert!(pages.len() > 30 && runs.len() * 3 < pages.len(), "{runs:?}");
    assert!(longest >= 8, "{runs:?}");
}
