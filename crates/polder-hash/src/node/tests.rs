use std::collections::BTreeMap;

use polder_format::PageSize;
use polder_pool::bytes::PageBuf;
use proptest::prelude::*;

use super::{NodeMut, NodeRef, max_children, max_depth};
use crate::hash::{KeyHash, Prefix, Side};

fn new_node(size: PageSize) -> PageBuf {
    let mut page = PageBuf::new(size);
    NodeMut::new(page.page_mut()).init(1, Prefix::ALL, [1, 2]);
    page
}

/// What the children cover, by the lowest hash, and their links.
type Children = BTreeMap<u64, (Prefix, u64)>;

fn children(page: &PageBuf) -> Children {
    let node = NodeRef::new(page.page());
    assert_eq!(node.verify_shape(), Ok(()));
    let children: Children =
        node.children().map(|(prefix, link)| (prefix.first().bits(), (prefix, link))).collect();
    // They cover all that the node does, and nothing twice.
    let mut next = Some(node.prefix().first());
    for (prefix, link) in children.values() {
        assert_eq!(Some(prefix.first()), next);
        for hash in
            [prefix.first(), KeyHash::new(prefix.end().map_or(0, |end| end.bits()).wrapping_sub(1))]
        {
            assert_eq!(node.page().u64(node.link_for(hash)), *link);
            assert_eq!(node.prefix_for(hash), *prefix);
        }
        next = prefix.end();
    }
    assert_eq!(next, node.prefix().end());
    children
}

/// Splits or joins the child for a hash, as the model does.
fn step(page: &mut PageBuf, model: &mut Children, hash: u64, split: bool, side: Side, link: u64) {
    let key = KeyHash::new(hash);
    let (_, (prefix, old)) = model.range(..=hash).next_back().map(|(k, v)| (*k, *v)).unwrap();
    let mut node = NodeMut::new(page.page_mut());
    if split {
        if !node.node().has_room_to_split(key) {
            return;
        }
        let edit = node.split_child(key, link, side);
        assert!(edit.link.is_some() && edit.slots.end <= 4096);
        for half in [Side::Low, Side::High] {
            let prefix = prefix.half(half);
            let link = if half == side { link } else { old };
            model.insert(prefix.first().bits(), (prefix, link));
        }
        return;
    }
    let whole = prefix.whole();
    let half = |side| model.get(&whole.half(side).first().bits()).copied();
    let (low, high) = (half(Side::Low), half(Side::High));
    let buddies = prefix != Prefix::ALL
        && low.is_some_and(|(prefix, _)| prefix == whole.half(Side::Low))
        && high.is_some_and(|(prefix, _)| prefix == whole.half(Side::High));
    assert_eq!(node.node().buddies(key).is_some(), buddies);
    assert_eq!(node.join_children(key).is_some(), buddies);
    if let Some((_, link)) = low.filter(|_| buddies) {
        model.remove(&whole.half(Side::High).first().bits());
        model.insert(whole.first().bits(), (whole, link));
    }
}

fn hashes() -> impl Strategy<Value = u64> {
    // Some close together, so that the node gets deep.
    prop_oneof![any::<u64>(), (0..8u64).prop_map(|i| i << 55), Just(u64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn children_are_where_splits_and_joins_put_them(
        ops in prop::collection::vec((hashes(), 0..4u8, any::<bool>()), 1..900),
    ) {
        let mut page = new_node(PageSize::MIN);
        let mut model = children(&page);
        for (i, (hash, what, low)) in ops.into_iter().enumerate() {
            let side = if low { Side::Low } else { Side::High };
            step(&mut page, &mut model, hash, what > 0, side, i as u64 + 3);
        }
        prop_assert_eq!(children(&page), model.clone());
        // Halves of it, and the whole again.
        if NodeRef::new(page.page()).depth() == 0 {
            return Ok(());
        }
        let mut high = PageBuf::new(PageSize::MIN);
        NodeMut::new(page.page_mut()).split_into(&mut NodeMut::new(high.page_mut()));
        let mut halves = children(&page);
        halves.extend(children(&high));
        prop_assert_eq!(&halves, &model);
        NodeMut::new(page.page_mut()).absorb(NodeRef::new(high.page()));
        prop_assert_eq!(children(&page), model);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(seed: u64, hash: u64) {
        let mut page = PageBuf::new(PageSize::MIN);
        polder_testkit::Random::new(seed).fill(page.bytes_mut());
        read_all(&page, hash);
        page.bytes_mut().fill(seed as u8);
        read_all(&page, hash);
    }

    #[test]
    fn a_damaged_node_is_refused_or_can_be_edited(
        ops in prop::collection::vec(hashes(), 1..300),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
        hash: u64,
    ) {
        let mut page = new_node(PageSize::MIN);
        let mut model = children(&page);
        for (i, hash) in ops.into_iter().enumerate() {
            step(&mut page, &mut model, hash, true, Side::High, i as u64 + 3);
        }
        for (at, byte, where_to) in damage {
            // Most of the damage goes where it hurts: header and slots.
            let from = [0, 4096 - 300, 0][usize::from(where_to)];
            let most = [64, 300, 4096][usize::from(where_to)];
            page.bytes_mut()[from + at.index(most)] = byte;
        }
        read_all(&page, hash);
        if NodeRef::new(page.page()).verify_shape().is_ok() {
            let mut node = NodeMut::new(page.page_mut());
            if node.node().has_room_to_split(KeyHash::new(hash)) {
                node.split_child(KeyHash::new(hash), 9, Side::Low);
            }
            node.join_children(KeyHash::new(hash));
            if node.node().depth() > 0 {
                let mut high = PageBuf::new(PageSize::MIN);
                node.split_into(&mut NodeMut::new(high.page_mut()));
                node.absorb(NodeRef::new(high.page()));
            }
            prop_assert_eq!(NodeRef::new(page.page()).verify_shape(), Ok(()));
        }
    }
}

/// Calls every reader. Whatever comes back is inside of the page.
fn read_all(page: &PageBuf, hash: u64) {
    let (node, hash) = (NodeRef::new(page.page()), KeyHash::new(hash));
    let _ = (node.verify_shape(), node.hole(), node.prefix(), node.prefix_for(hash), node.level());
    let _ = (node.has_room_to_split(hash), node.can_absorb(node));
    assert!(node.count() <= max_children(4096) && node.depth() <= max_depth(4096));
    let links = node.buddies(hash).into_iter().flatten().chain([node.link_for(hash)]);
    for at in links.chain((0..node.count()).map(|index| node.link_offset(index))) {
        assert!(at % 8 == 0 && at + 8 <= 4096);
    }
    assert!(node.children().count() <= 512);
}

#[test]
fn nodes_of_all_sizes_fill() {
    for bytes in [4096, 8192, 16384, 32768, 65536] {
        let mut page = new_node(PageSize::new(bytes).unwrap());
        let (most, mut link) = (max_children(bytes as usize), 3);
        assert_eq!(
            (bytes, most, max_depth(bytes as usize)),
            match bytes {
                4096 => (4096, 376, 9),
                8192 => (8192, 760, 10),
                16384 => (16384, 1528, 11),
                32768 => (32768, 3064, 12),
                _ => (65536, 6136, 13),
            }
        );
        // Level by level, as evenly spread hashes do it.
        'full: for bits in 1u32.. {
            for first in 0..1u64 << bits {
                let hash = KeyHash::new(first << (64 - bits));
                if !NodeRef::new(page.page()).has_room_to_split(hash) {
                    break 'full;
                }
                NodeMut::new(page.page_mut()).split_child(hash, link, Side::High);
                link += 1;
            }
        }
        assert_eq!(NodeRef::new(page.page()).count(), most);
        assert_eq!(children(&page).len(), most);
    }
}

#[test]
fn each_fault_is_named() {
    let slots = 4096 - 2 * 4;
    let damage: &[(usize, u8, &str)] = &[
        (4, 33, "this is no node of a directory"),
        (5, 2, "the page has an unknown layout version"),
        (32, 0, "this is no node of a directory"),
        (32, 41, "this is no node of a directory"),
        (33, 65, "a prefix has more bits than a hash"),
        (33, 63, "a node is too deep"),
        (34, 0, "a node has too many children, or none"),
        (35, 2, "a node has too many children, or none"),
        (34, 4, "no slot leads to a child"),
        (36, 10, "a node is too deep"),
        (36, 1, "no slot leads to a child"),
        (47, 1, "a prefix has bits behind its end"),
        (64, 0, "the link of a child is null"),
        (slots, 2, "a slot leads to no child, or to that of another run"),
        (slots + 4, 0, "the slots of a child are no run"),
        (slots + 6, 9, "a slot leads to no child, or to that of another run"),
    ];
    for (at, byte, fault) in damage {
        let mut page = new_node(PageSize::MIN);
        // The low half, and two quarters.
        NodeMut::new(page.page_mut()).split_child(KeyHash::new(u64::MAX), 3, Side::High);
        assert_eq!(children(&page).len(), 3);
        page.bytes_mut()[*at] = *byte;
        assert_eq!(NodeRef::new(page.page()).verify_shape(), Err(*fault), "byte {at} := {byte}");
    }
    let mut deep = new_node(PageSize::MIN);
    NodeMut::new(deep.page_mut()).join_children(KeyHash::new(0));
    assert_eq!((NodeRef::new(deep.page()).depth(), children(&deep).len()), (0, 1));
    deep.bytes_mut()[36] = 1;
    deep.bytes_mut()[4092..].fill(0);
    assert_eq!(
        NodeRef::new(deep.page()).verify_shape(),
        Err("a node is deeper than its children need")
    );
}
