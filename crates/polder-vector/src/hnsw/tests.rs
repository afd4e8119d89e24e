//! What of a graph cannot be seen from outside.

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool};
use polder_structure::edit;
use polder_structure::page::copy_of;
use polder_testkit::pools;

use super::node::NodePageMut;
use super::relink::Wish;
use super::*;
use crate::element::ElementKind;
use crate::metric::Metric;
use crate::node_id::State;
use crate::vectors::VectorShape;

/// An index of so many vectors, which lie in a plane, and their nodes.
pub(super) fn index(vectors: u64) -> (Pool<Array>, HnswIndex<Array>, Vec<NodeId>) {
    let config = pools::config(4, PageSize::MIN, FileState::NEW);
    let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &KINDS).unwrap();
    let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    let options = HnswOptions { links: 4, insert_width: 20, shape };
    let index = HnswIndex::create(pool.create_space().unwrap(), &options).unwrap();
    let mut random = fastrand::Rng::with_seed(2);
    let nodes = (0..vectors).map(|label| index.insert(label, &[random.f32(), random.f32()]));
    let nodes = nodes.map(Result::unwrap).collect();
    (pool, index, nodes)
}

pub(super) fn links(index: &HnswIndex<Array>, node: NodeId, level: u8) -> Vec<NodeId> {
    let mut links = Vec::new();
    let read = index.read_node(node, |_, found| {
        links.clear();
        found.links(&index.core.layout, level, &mut links);
        assert!(found.state() == State::Live);
    });
    read.unwrap().unwrap();
    links
}

/// On each level most nodes that it has are reached from the entry, which is on the highest.
#[test]
fn every_level_is_linked() {
    let (_pool, index, nodes) = index(600);
    let entry = index.entry().unwrap().unwrap();
    let level_of = |node: &NodeId| index.read_node(*node, |page, _| page.level()).unwrap().unwrap();
    let levels: Vec<u8> = nodes.iter().map(level_of).collect();
    assert_eq!(levels.iter().max(), Some(&entry.level), "HNSW-4");
    assert!(entry.level >= 3, "one in 64 is on level 3");
    for level in 0..=entry.level {
        let (mut reached, mut next) = (vec![entry.node], 0);
        while let Some(node) = reached.get(next) {
            let mut new = links(&index, *node, level);
            new.retain(|link| !reached.contains(link));
            reached.append(&mut new);
            next += 1;
        }
        let there = levels.iter().filter(|of| **of >= level).count();
        assert!(reached.len() * 10 >= there * 8, "{} of {there} on level {level}", reached.len());
    }
}

/// Whoever removes a node that another thread has removed leaves the one alone that has its place.
#[test]
fn a_node_that_is_not_leaving_is_not_led_around() {
    let (_pool, index, nodes) = index(50);
    let leads = |node: &&NodeId| links(&index, **node, 0).contains(&nodes[7]);
    let from: Vec<NodeId> = nodes.iter().filter(leads).copied().collect();
    let lists = || from.iter().map(|node| links(&index, *node, 0)).collect::<Vec<_>>();
    let before = lists();
    assert!(!from.is_empty());
    index.relink(&from, 0, Wish::Replace(nodes[7], 7, &[])).unwrap();
    assert_eq!(before, lists());
}

/// What was removed is not salvaged, also if its removal was cut off.
#[test]
fn a_node_that_is_leaving_is_not_told() {
    let (_pool, index, nodes) = index(3);
    let page = edit(&index.space, |edit| {
        let mut page = NodePageMut::new(edit.page_mut(nodes[1].page())?);
        page.set_state(&index.core.layout, nodes[1].slot(), State::Leaving);
        Ok(copy_of(edit.page(nodes[1].page())?))
    });
    let mut told = Vec::new();
    vectors_in(page.unwrap().page(), &mut |label, _| told.push(label));
    // The page is that of its level alone.
    assert!(told.contains(&0) && !told.contains(&1), "{told:?}");
}
