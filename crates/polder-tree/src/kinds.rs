//! This crate's kinds of pages, as the pool must know them.

use polder_format::PageKind;
use polder_pool::{KindOps, OwnedLinks};

use crate::heap;
use crate::node::NodeRef;
use crate::overflow;
use crate::redo::redo;

/// To be given to [`Pool::open`](polder_pool::Pool::open) for a pool with trees and
/// heaps.
pub const KINDS: [KindOps; 4] = {
    let [inner, leaf, overflow] = TREE_KINDS;
    [inner, leaf, overflow, heap::KIND]
};

/// The same for one with trees alone.
pub const TREE_KINDS: [KindOps; 3] = [
    KindOps {
        kind: PageKind::TREE_INNER,
        name: "B+tree inner node",
        max_layout: 1,
        check: |page| NodeRef::new(page).verify_shape(),
        links: Some(OwnedLinks {
            count: |page| NodeRef::new(page).count() + 1,
            offset: |page, index| NodeRef::new(page).link_offset(index),
            fits: |page, child, below| {
                let node = NodeRef::new(page);
                let index = (0..=node.count()).find(|index| node.link(*index) == child.to_bits());
                index.map_or(Ok(()), |index| node.verify_child(index, NodeRef::new(below)))
            },
        }),
        redo: Some(redo),
    },
    KindOps {
        kind: PageKind::TREE_LEAF,
        name: "B+tree leaf",
        max_layout: 1,
        check: |page| NodeRef::new(page).verify_shape(),
        links: None,
        redo: Some(redo),
    },
    KindOps::plain(PageKind::OVERFLOW, "overflow page", overflow::verify_shape),
];
