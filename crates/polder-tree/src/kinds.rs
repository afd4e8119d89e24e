//! This crate's kinds of pages, as the pool must know them.

use polder_format::PageKind;
use polder_pool::KindOps;

use crate::heap;
use crate::node::NodeRef;
use crate::overflow;

/// To be given to [`Pool::open`](polder_pool::Pool::open) for a pool with trees and
/// heaps.
pub const KINDS: [KindOps; 4] = [
    KindOps {
        kind: PageKind::TREE_INNER,
        name: "B+tree inner node",
        max_layout: 1,
        check: |page| NodeRef::new(page).verify_shape(),
        visit_links: |page, visit| {
            let node = NodeRef::new(page);
            (0..=node.count()).for_each(|i| visit(node.link_offset(i)));
            visit(NodeRef::RIGHT_LINK_AT);
        },
    },
    KindOps {
        kind: PageKind::TREE_LEAF,
        name: "B+tree leaf",
        max_layout: 1,
        check: |page| NodeRef::new(page).verify_shape(),
        visit_links: |_, visit| visit(NodeRef::RIGHT_LINK_AT),
    },
    KindOps {
        kind: PageKind::OVERFLOW,
        name: "overflow page",
        max_layout: 1,
        check: overflow::verify_shape,
        visit_links: |_, visit| visit(overflow::at::NEXT),
    },
    heap::KIND,
];
