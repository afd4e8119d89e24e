//! What a check of an index looks at, beyond what [`polder_structure::check`] does for all structures:
//! each node and bucket by itself (`HNODE-1` to `HNODE-3`, `BUCKET-1` to `BUCKET-5`), prefixes and
//! levels against the parent (`HASH-1`, `HASH-3`), and chains. That no page is linked twice is
//! `HASH-2`.

use std::collections::BTreeSet;

use polder_pool::Translation;
use polder_structure::Report;
use polder_structure::check::{Next, Walk};
use polder_structure::levels::root;
use polder_structure::page::page_of;

use crate::bucket::BucketRef;
use crate::error::HashError;
use crate::handle::HashIndex;
use crate::hash::Prefix;
use crate::node::NodeRef;
use crate::page::{self, MAX_CHAIN};

/// What the page above says of a page.
struct Expected {
    level: Option<u8>,
    prefix: Prefix,
    /// Pages of the chain before it, and the keys in them; none for the first one.
    chain: Option<(usize, BTreeSet<Vec<u8>>)>,
}

impl<T: Translation> HashIndex<T> {
    /// Checks the whole index. Writers at work meanwhile can make it report faults that are none.
    ///
    /// `progress` is told how many pages are done, and stops the check by returning false.
    ///
    /// # Errors
    /// Those of the allocation maps; a page that cannot be loaded is a fault in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Report, HashError> {
        let mut walk = Walk::new(&self.space);
        let expected = Expected { level: None, prefix: Prefix::ALL, chain: None };
        let first = Next { page: root(), expected };
        walk.run(first, progress, |walk, next, page, todo| {
            let (level, expected) = (page::level(page), &next.expected);
            if page::prefix(page) != expected.prefix {
                walk.fault(next.page, "the prefix is not what the page above says");
            }
            if expected.level.is_some_and(|expected| expected != level) {
                walk.fault(next.page, "the page is not one level below the one above");
            }
            match level {
                0 => see_bucket(walk, next, BucketRef::new(page), todo),
                _ => see_node(walk, &next, NodeRef::new(page), todo),
            }
        });
        Ok(walk.finish()?)
    }
}

fn see_node<T: Translation>(
    walk: &mut Walk<'_, T>,
    next: &Next<Expected>,
    node: NodeRef<'_>,
    todo: &mut Vec<Next<Expected>>,
) {
    if let Err(what) = node.verify_shape() {
        return walk.fault(next.page, what);
    }
    walk.report.nodes += 1;
    walk.report.levels = walk.report.levels.max(node.level());
    let level = node.level().checked_sub(1);
    todo.extend(node.children().map(|(prefix, link)| Next {
        page: page_of(link),
        expected: Expected { level, prefix, chain: None },
    }));
}

fn see_bucket<T: Translation>(
    walk: &mut Walk<'_, T>,
    next: Next<Expected>,
    bucket: BucketRef<'_>,
    todo: &mut Vec<Next<Expected>>,
) {
    if let Err(what) = bucket.verify_whole() {
        return walk.fault(next.page, what);
    }
    walk.report.entries += bucket.count() as u64;
    if next.expected.chain.is_none() && !bucket.has_next() {
        return;
    }
    let (pages, mut keys) = next.expected.chain.unwrap_or_default();
    for entry in 0..bucket.count() {
        let (run, mut key) = (bucket.key(entry), Vec::new());
        bucket.page().append_to(run.at, run.len, &mut key);
        if !keys.insert(key) {
            walk.fault(next.page, "a key is twice in a chain");
        }
    }
    if pages + 1 > MAX_CHAIN {
        walk.fault(next.page, "a chain is too long");
    }
    if bucket.has_next() {
        let prefix = Prefix::only(bucket.chain_hash());
        let expected = Expected { level: Some(0), prefix, chain: Some((pages + 1, keys)) };
        todo.push(Next { page: page_of(bucket.next()), expected });
    }
}
