//! What of a graph with codes cannot be seen from outside.

use polder_format::PageSize;
use polder_pool::{Array, FileState, Pool};
use polder_structure::edit;
use polder_structure::page::copy_of;
use polder_testkit::pools;

use super::link::Wish;
use super::node::List;
use super::slots::SlotPageMut;
use super::*;
use crate::element::ElementKind;
use crate::index::Loading;
use crate::metric::Metric;
use crate::vectors::VectorShape;

/// An index of so many vectors, which lie in a plane, and their entries.
fn index(vectors: u64) -> (Pool<Array>, VamanaIndex<Array>, Vec<NodeId>) {
    let config = pools::config(4, PageSize::MIN, FileState::NEW);
    let pool: Pool<Array> = Pool::open(Box::new(pools::disk()), &config, &crate::KINDS).unwrap();
    let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    let options = VamanaOptions { links: 8, insert_width: 20, ..VamanaOptions::new(shape) };
    let sample = [[0.5_f32, 0.5]];
    let index = VamanaIndex::create(pool.create_space().unwrap(), &options, &sample).unwrap();
    let mut random = fastrand::Rng::with_seed(2);
    let entries = (0..vectors).map(|label| index.insert(label, &[random.f32(), random.f32()]));
    let entries = entries.map(Result::unwrap).collect();
    (pool, index, entries)
}

fn list(index: &VamanaIndex<Array>, entry: NodeId) -> List {
    let layout = &index.core.layout;
    index.read_node(entry, |slot| slot.list(layout)).unwrap().unwrap().1
}

/// `VAMANA-7`: also when it is removed, and when all others are.
#[test]
fn the_entry_is_near_to_the_centre() {
    let (_pool, index, mut entries) = index(500);
    let distance = |index: &VamanaIndex<Array>| index.entry().unwrap().unwrap().distance;
    assert!(distance(&index) < 0.01, "{}", distance(&index));
    for left in (0..500).rev() {
        let root = index.entry().unwrap().unwrap().id;
        let at = entries.iter().position(|entry| *entry == root).unwrap();
        // The labels are gone through by `for_each`, since places are not taken again.
        let mut label = None;
        index
            .for_each(|one, entry| {
                label = label.or((entry == root).then_some(one));
                true
            })
            .unwrap();
        assert!(index.remove(label.unwrap(), root).unwrap());
        entries.swap_remove(at);
        if left % 50 == 0 {
            assert_eq!(index.count_reached().unwrap(), left);
            assert_eq!(index.check(&mut |_| true).unwrap().faults, []);
        }
    }
    assert!(index.entry().unwrap().is_none());
}

/// Whoever removes a vector that another thread has removed leaves the one alone that has its place.
#[test]
fn a_vector_that_is_not_leaving_is_not_led_around() {
    let (_pool, index, entries) = index(60);
    let is_link = |entry: &&NodeId| {
        let list = list(&index, **entry);
        list.links[list.children..].contains(&entries[7])
    };
    let from: Vec<NodeId> = entries.iter().filter(is_link).copied().collect();
    let lists = || from.iter().map(|entry| list(&index, *entry)).collect::<Vec<_>>();
    let before = lists();
    assert!(!from.is_empty());
    let wish = Wish::Replace { id: entries[7], label: 7, others: &[] };
    index.relink(&from, wish).unwrap();
    assert_eq!(before, lists());
}

/// `VAMANA-4`: those that are found when an index is opened are those that were made, in order.
#[test]
fn all_pages_of_codes_are_known() {
    let (_pool, index, _) = index(1000);
    let known = index.code_pages().unwrap();
    assert!(known.len() > 5 && known.is_sorted());
    let again = VamanaIndex::open(index.space().clone()).unwrap();
    assert_eq!(again.code_pages().unwrap(), known);
    for label in 1000..2000 {
        again.insert(label, &[label as f32, 0.5]).unwrap();
    }
    let more = index.code_pages().unwrap();
    assert!(more.starts_with(&known) && more.len() > known.len());
    assert_eq!(again.code_pages().unwrap(), more);
    assert_eq!(index.check(&mut |_| true).unwrap().faults, []);
}

/// Vectors that are placed one behind the other are near each other, in whichever order they came.
#[test]
fn near_vectors_are_placed_together() {
    let (_pool, index, _) = index(0);
    let mut random = fastrand::Rng::with_seed(4);
    let vectors: Vec<[f32; 2]> = (0..1000).map(|_| [random.f32(), random.f32()]).collect();
    let mut placed = Vec::new();
    let is_loaded = index.bulk_load((0..).zip(&vectors), 2, 1 << 20, &mut |loading| {
        if let Loading::Placed(these) = loading {
            placed.extend(these.iter().map(|(label, _)| vectors[*label as usize]));
        }
        true
    });
    assert!(is_loaded.unwrap());
    let length = |one: &[f32; 2], other: &[f32; 2]| (one[0] - other[0]).hypot(one[1] - other[1]);
    let sum = |all: &[[f32; 2]]| all.windows(2).map(|two| length(&two[0], &two[1])).sum::<f32>();
    assert!(10.0 * sum(&placed) < sum(&vectors), "{} and {}", sum(&placed), sum(&vectors));
}

/// What was removed is not salvaged, also if its removal was cut off.
#[test]
fn a_node_that_is_leaving_is_not_told() {
    let (_pool, index, entries) = index(3);
    let (node, ()) = index.read_node(entries[1], |_| ()).unwrap().unwrap();
    let page = edit(&index.space, |edit| {
        let mut page = SlotPageMut::new(edit.page_mut(node.page())?);
        page.set_state(&index.core.layout, Kind::Nodes, node.slot(), State::Leaving);
        Ok(copy_of(edit.page(node.page())?))
    });
    let mut told = Vec::new();
    vectors_in(page.unwrap().page(), &mut |label, _| told.push(label));
    assert_eq!(told, [0, 2]);
}

/// A vector that is damaged takes no options away from a salvage.
#[test]
fn a_page_with_a_damaged_vector_tells_the_options() {
    let (_pool, index, entries) = index(3);
    let (node, ()) = index.read_node(entries[1], |_| ()).unwrap().unwrap();
    let page = edit(&index.space, |edit| {
        let layout = &index.core.layout;
        let at = SlotPageMut::new(edit.page_mut(node.page())?).at(layout, Kind::Nodes, node.slot());
        edit.page_mut(node.page())?.set_u32(at + layout::VECTOR, f32::NAN.to_bits());
        Ok(copy_of(edit.page(node.page())?))
    });
    let (options, centre) = options_in(page.unwrap().page()).unwrap();
    assert_eq!((options, centre), (index.options(), Vec::new()));
}
