//! Inner nodes: separators and links against a `BTreeMap`.

use std::collections::BTreeMap;

use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::super::{NodeBuilder, NodeRef};
use super::{KeyShape, Level, key_of, key_shapes, page_sizes};

/// Link of the leftmost child.
const FIRST: u64 = 1 << 40;

/// Separator to link. The separators between nodes, which only their parent has, are in it too.
type Model = BTreeMap<Vec<u8>, u64>;

fn insert(level: &mut Level, separator: &[u8], link: u64) {
    for attempt in 0.. {
        let index = level.covering(separator);
        if level.node_mut(index).insert_child(separator, link).is_ok() {
            return;
        }
        assert_eq!(attempt, 0, "there is no room after a split");
        let split = level.node(index).choose_inner_split(separator);
        level.split(index, &split.expect("a full node can be split"));
        level.check();
    }
}

fn check(level: &Level, model: &Model) {
    level.check();
    let mut found = Vec::new();
    for index in 0..level.nodes.len() {
        let node = level.node(index);
        match node.lower_fence() {
            Some(fence) => found.push((fence, node.link(0))),
            None => assert_eq!(node.link(0), FIRST),
        }
        for slot in 0..node.count() {
            found.push((key_of(node, slot), node.link(slot + 1)));
        }
    }
    let found: Model = found.into_iter().collect();
    assert_eq!(&found, model);
}

/// The link that leads to `key`, and that to the keys just below it, by the model.
fn expected(model: &Model, key: &[u8]) -> (u64, u64) {
    let at = model.range(..=key.to_vec()).next_back().map_or(FIRST, |(_, link)| *link);
    let before = model.range(..key.to_vec()).next_back().map_or(FIRST, |(_, link)| *link);
    (at, before)
}

fn descend(level: &Level, key: &[u8]) -> (u64, u64) {
    let link = |node: NodeRef<'_>, offset| {
        assert!((0..=node.count()).any(|index| node.link_offset(index) == offset));
        node.page().u64(offset)
    };
    let index = level.covering(key);
    // The node for the keys just below a lower fence is the one on the left.
    let below = index - usize::from(level.node(index).lower_fence_is(key));
    let (node, left) = (level.node(index), level.node(below));
    (link(node, node.child_at(key)), link(left, left.child_before(key)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn inner_nodes_agree_with_the_model(
        size in page_sizes(),
        steps in prop::collection::vec((key_shapes(), 0u8..12), 1..400),
    ) {
        let (mut level, mut model) = (Level::new(size, 1, FIRST), Model::new());
        for (step, (shape, what)) in steps.iter().enumerate() {
            let (key, link) = (shape.key(size), step as u64 + 1);
            let index = level.covering(&key);
            match what {
                // A separator is never empty, and never a fence of its own node.
                0..8 if !key.is_empty() && !level.node(index).lower_fence_is(&key) => {
                    insert(&mut level, &key, link);
                    model.insert(key, link);
                }
                8..10 if level.node(index).count() > 0 => {
                    let gone = step % level.node(index).count();
                    model.remove(&key_of(level.node(index), gone));
                    level.node_mut(index).remove_child(gone + 1);
                }
                10 => {
                    level.merge(index);
                }
                _ => prop_assert_eq!(descend(&level, &key), expected(&model, &key)),
            }
            if step % 16 == 0 {
                check(&level, &model);
            }
        }
        check(&level, &model);
        for (shape, _) in &steps {
            let key = shape.key(size);
            prop_assert_eq!(descend(&level, &key), expected(&model, &key));
        }
    }

    #[test]
    fn a_split_makes_room_for_extreme_separators(
        size in page_sizes(),
        separators in prop::collection::vec((any::<u16>(), any::<bool>()), 1..300),
    ) {
        let (mut level, mut model) = (Level::new(size, 3, FIRST), Model::new());
        for (number, long) in separators {
            let key = if long { KeyShape::Longest(number).key(size) } else { number.to_be_bytes().to_vec() };
            if level.node(level.covering(&key)).lower_fence_is(&key) {
                continue;
            }
            insert(&mut level, &key, 5);
            model.insert(key, 5);
        }
        check(&level, &model);
    }

    #[test]
    fn built_inner_nodes_hold_the_input(
        size in page_sizes(),
        shapes in prop::collection::vec(key_shapes(), 0..800),
    ) {
        let keys = shapes.iter().map(|shape| shape.key(size)).filter(|key| !key.is_empty());
        let model: Model = keys.zip(1..).collect();
        let mut level = Level { size, nodes: vec![PageBuf::new(size)] };
        let mut builder = NodeBuilder::inner(size.bytes(), 1, FIRST);
        let mut emit = |builder: &mut NodeBuilder| {
            let next = PageBuf::new(size);
            let link = next.page().as_ptr() as u64;
            let last = level.nodes.len() - 1;
            builder.emit(&mut level.node_mut(last), link);
            level.nodes.push(next);
        };
        for (key, link) in &model {
            builder.push_child(key, *link);
            while builder.is_full() {
                emit(&mut builder);
            }
        }
        while !builder.fits_last() {
            emit(&mut builder);
        }
        let last = level.nodes.len() - 1;
        builder.emit_last(&mut level.node_mut(last));
        check(&level, &model);
    }
}
