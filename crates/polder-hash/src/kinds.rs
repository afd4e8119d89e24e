//! This crate's kinds of pages, as the pool must know them.

use polder_format::PageKind;
use polder_pool::{KindOps, OwnedLinks};

use crate::bucket::{self, BucketRef};
use crate::hash::Prefix;
use crate::node::NodeRef;
use crate::page;
use crate::redo::redo;

/// To be given to [`Pool::open`](polder_pool::Pool::open) for a pool with hash indexes.
pub const KINDS: [KindOps; 2] = [
    KindOps {
        kind: PageKind::HASH_NODE,
        name: "hash node",
        max_layout: 1,
        check: |page| NodeRef::new(page).verify_shape(),
        // HASH-2: each child once, however many slots lead to it.
        links: Some(OwnedLinks {
            count: |page| NodeRef::new(page).count(),
            offset: |page, index| NodeRef::new(page).link_offset(index),
            fits: |page, child, below| {
                let node = NodeRef::new(page);
                let child = node.children().find(|(_, link)| *link == child.to_bits());
                child.map_or(Ok(()), |(prefix, _)| {
                    page::verify_below(below, node.level().wrapping_sub(1), prefix)
                })
            },
        }),
        redo: None,
    },
    KindOps {
        kind: PageKind::HASH_BUCKET,
        name: "hash bucket",
        max_layout: 1,
        check: |page| BucketRef::new(page).verify_shape(),
        links: Some(OwnedLinks {
            count: |_| 1,
            offset: |_, _| bucket::at::NEXT,
            fits: |page, _, next| {
                let hash = BucketRef::new(page).chain_hash();
                page::verify_below(next, 0, Prefix::only(hash))
            },
        }),
        redo: Some(redo),
    },
];
