//! Pages that are torn, damaged or made up.

use polder_format::PageSize;
use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::super::{NewValue, NodeMut, NodeRef, Value};
use super::{KeyShape, key_shapes, page_sizes};

/// Calls every reader. Whatever comes back is inside of the page.
fn read_all(node: NodeRef<'_>, key: &[u8]) {
    let size = node.page().size();
    let mut out = Vec::new();
    let _ = (node.kind(), node.is_node(), node.right_link(), node.free_bytes(), node.garbage());
    let _ = (node.used_bytes(), node.usable_bytes(), node.compare_to_fences(key));
    let _ = (node.lower_fence(), node.upper_fence(), node.lower_fence_is(key));
    let _ = (node.verify_shape(), node.verify_whole(), node.can_merge(node));
    let count = node.count();
    assert!(count <= size / 8);
    for result in [node.search(key), node.search_covered(key)] {
        let (Ok(slot) | Err(slot)) = result;
        assert!(slot <= count);
    }
    for offset in [node.child_at(key), node.child_before(key)] {
        assert!(offset + 8 <= size && offset % 8 == 0);
    }
    for slot in (0..count).step_by(count / 20 + 1).chain([count]) {
        out.clear();
        node.append_key(slot, &mut out);
        let _ = (node.version(slot), node.link(slot));
        let stands_right = slot < count && node.stands_right((slot, node.slot(slot)), count, &out);
        // A page of another shape is never read: offsets lead out of it.
        if stands_right && slot + 1 < count && node.verify_shape().is_ok() {
            assert!(out < node.key(slot + 1), "{out:?} {:?}", node.key(slot + 1));
        }
        if let Value::Inline { at, len } = node.value(slot) {
            assert!(at + len <= size);
        }
    }
    let _ = node.choose_leaf_split(key, NewValue::Inline(b"value"));
    let _ = node.choose_inner_split(key);
}

/// Edits of all kinds. In tests a write outside of the page fails an assertion.
fn edit_all(page: &mut PageBuf, size: PageSize, key: &[u8]) {
    let mut right = PageBuf::new(size);
    let mut right = NodeMut::new(right.page_mut());
    let mut node = NodeMut::new(page.page_mut());
    let (Ok(slot) | Err(slot)) = node.node().search(key);
    let value = NewValue::Inline(&[7; 300]);
    let split = if node.node().is_leaf() {
        if slot < node.node().count() {
            let _ = node.replace_value(slot, 1, value);
        }
        let _ = node.insert_entry(slot, key, 1, value);
        if node.node().count() > 3 {
            node.remove_entry(2);
            node.remove_entry(0);
        }
        node.node().choose_leaf_split(key, value)
    } else {
        let _ = node.insert_child(key, 5);
        if node.node().count() > 3 {
            node.remove_child(3);
            node.remove_child(1);
        }
        node.node().choose_inner_split(key)
    };
    if let Some(split) = split {
        node.split_into(&mut right, 5, &split);
        let _ = node.merge_right(right.node());
    }
}

fn valid_node(size: PageSize, level: u8, shapes: &[KeyShape]) -> PageBuf {
    let mut page = PageBuf::new(size);
    let mut node = NodeMut::new(page.page_mut());
    let upper = vec![255; 9];
    node.init(level, Some(b""), Some(&upper), 0, u64::from(level));
    for (i, key) in shapes.iter().map(|shape| shape.key(size)).enumerate() {
        let value = match i % 3 {
            0 => NewValue::Overflow { len: 5000, run: 1, link: 9 },
            _ => NewValue::Inline(&[3; 60]),
        };
        match (level, node.node().search(&key)) {
            (0, Err(slot)) => drop(node.insert_entry(slot, &key, 1, value)),
            (0, Ok(_)) => {}
            _ if key.is_empty() => {}
            _ => drop(node.insert_child(&key, 77)),
        }
    }
    page
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn no_bytes_make_a_reader_panic(size in page_sizes(), seed: u64, level in 0u8..3, key in key_shapes()) {
        let mut page = PageBuf::new(size);
        polder_testkit::Random::new(seed).fill(page.bytes_mut());
        page.bytes_mut()[46] = level;
        read_all(NodeRef::new(page.page()), &key.key(size));
        page.bytes_mut().fill(seed as u8);
        read_all(NodeRef::new(page.page()), &key.key(size));
    }

    #[test]
    fn a_damaged_node_is_refused_or_can_be_edited(
        size in page_sizes(),
        level in 0u8..2,
        shapes in prop::collection::vec(key_shapes(), 0..60),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..4),
        key in key_shapes(),
    ) {
        let mut page = valid_node(size, level, &shapes);
        prop_assert_eq!(NodeRef::new(page.page()).verify_whole(), Ok(()));
        for (at, byte, header) in damage {
            // Half of the damage goes where it hurts: header, hints, slots.
            let at = if header { at.index(300) } else { at.index(size.bytes()) };
            page.bytes_mut()[at] = byte;
        }
        read_all(NodeRef::new(page.page()), &key.key(size));
        if NodeRef::new(page.page()).verify_shape().is_ok() {
            edit_all(&mut page, size, &key.key(size));
        }
    }
}

#[test]
fn each_fault_is_named() {
    let keys: Vec<_> = (0..40).map(|i| KeyShape::Scrambled(i << 40)).collect();
    let damage: &[(usize, u8, &str)] = &[
        (4, 16, "kind and level of the node disagree"),
        (5, 2, "the node has an unknown layout version"),
        (33, 255, "the records reach into the fences"),
        (37, 255, "the slots reach into the records"),
        (38, 1, "records and garbage do not add up to the heap"),
        (40, 1, "the prefix is not what the fences share"),
        (43, 255, "a fence is too long"),
        (47, 255, "the node has unknown flags"),
        (47, 1, "a missing fence has a length"),
        (56, 1, "a leaf has a child"),
        (64, 77, "a hint is not the head of its slot"),
        (128 + 5, 255, "a record lies outside of the heap"),
        (128 + 7, 255, "a key is too long"),
    ];
    for (at, byte, fault) in damage {
        let mut page = valid_node(PageSize::MIN, 0, &keys);
        page.bytes_mut()[*at] = *byte;
        assert_eq!(NodeRef::new(page.page()).verify_whole(), Err(*fault), "byte {at}");
    }
}
