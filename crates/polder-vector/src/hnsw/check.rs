//! Finding what is broken.

use std::collections::{HashMap, HashSet};

use polder_format::{PageKind, header_at};
use polder_pool::{PoolError, Translation};
use polder_structure::check::Walk;
use polder_structure::levels::root;

use super::HnswIndex;
use super::meta;
use super::node::{HIGHEST, NodePage};
use crate::Report;
use crate::error::VectorError;
use crate::node_id::{NodeId, State};
use crate::room::{behind, check_chains};

impl<T: Translation> HnswIndex<T> {
    /// Looks at all pages, while nobody writes: that they are what their kind demands, that nodes and
    /// lists are (`HNSW-1` to `HNSW-3`), that links lead to places of nodes of their level, that chains
    /// have the pages that say so (`HNSW-6`), and that the entry is a node of its level (`HNSW-4`). The
    /// report's entries are the vectors; its levels those above the lowest. A node that is leaving, whose
    /// removal was cut off, is no fault.
    ///
    /// `progress` is told how many pages are done, and stops the check by returning false.
    ///
    /// # Errors
    /// Those of the allocation maps. What is wrong with the index is in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Report, PoolError> {
        let layout = &self.core.layout;
        let mut walk = Walk::new(&self.space);
        let (mut entry, mut links) = (None, Vec::new());
        // Pages of nodes with the level of each; where links lead, and from which page first.
        let (mut levels, mut led_to) = (HashMap::new(), HashMap::new());
        let mut there = HashSet::new();
        // Pages in chains, and the one behind each; where the chains begin.
        let (mut chained, mut chains) = (HashMap::new(), Vec::new());
        walk.each(self.space.used_pages()?, progress, |walk, number, page| {
            if number == root() {
                let is_one = page.u8(header_at::KIND) == PageKind::HNSW_META.0;
                walk.note(number, if is_one { Ok(()) } else { Err("the index has no first page") });
                walk.note(number, meta::options(page).map(drop));
                entry = meta::entry(page);
                chains.extend((0..=HIGHEST).map(|level| (level, meta::chain(level).first(page))));
                return;
            }
            let nodes = NodePage::new(page);
            if !nodes.is_of(&self.core.layout) {
                walk.fault(number, "this is no page of a vector index");
                return;
            }
            let seen = nodes.verify_whole();
            walk.note(number, seen);
            if seen.is_err() {
                return;
            }
            levels.insert(number, nodes.level());
            chained.extend(behind(page).map(|next| (number, next)));
            walk.report.levels = walk.report.levels.max(nodes.level());
            for slot in 0..nodes.slots() {
                let node = nodes.node(layout, slot);
                walk.report.entries += u64::from(node.state() == State::Live);
                if node.state() != State::Free {
                    there.extend(NodeId::new(number, nodes.level(), slot));
                }
                for level in (0..=nodes.level()).filter(|_| node.state() != State::Free) {
                    node.links(layout, level, &mut links);
                    for link in links.drain(..) {
                        // The highest slot and list that are asked for of a page.
                        let wanted = led_to.entry(link.page()).or_insert((number, 0, 0));
                        wanted.1 = wanted.1.max(link.slot());
                        wanted.2 = wanted.2.max(level);
                    }
                }
            }
        });
        if !walk.report.stopped {
            for (page, (from, slot, level)) in led_to {
                let found = levels.get(&page);
                if found.is_none_or(|of_page| *of_page < level || slot >= layout.slots(*of_page)) {
                    walk.fault(from, format!("a link leads to {page:?}, which has no such node"));
                }
            }
            // HNSW-6
            let is_of = |page, level| levels.get(&page) == Some(&level);
            check_chains(&chains, chained, is_of, |page, what| walk.fault(page, what));
            if let Some(entry) = entry {
                let level = levels.get(&entry.node.page());
                if level != Some(&entry.level) {
                    walk.fault(root(), "the entry is no node of its level");
                }
                if !there.contains(&entry.node) {
                    walk.fault(root(), "the entry is a place that no node has");
                }
            } else if walk.report.entries > 0 {
                walk.fault(root(), "there are vectors, and no entry");
            }
        }
        walk.finish()
    }

    /// How many vectors are reached from the entry along the lowest level: of an index to which nobody
    /// writes, all, or nearly all where many threads have inserted and removed at the same places.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn count_reached(&self) -> Result<u64, VectorError> {
        let layout = &self.core.layout;
        let (mut seen, mut count) = (HashSet::new(), 0);
        let mut next: Vec<NodeId> = self.entry()?.map(|entry| entry.node).into_iter().collect();
        seen.extend(next.iter().copied());
        let mut links = Vec::new();
        while let Some(node) = next.pop() {
            let state = self.read_node(node, |_, found| {
                links.clear();
                found.links(layout, 0, &mut links);
                found.state()
            })?;
            if state.is_none_or(|state| state == State::Free) {
                continue;
            }
            count += u64::from(state == Some(State::Live));
            next.extend(links.iter().copied().filter(|link| seen.insert(*link)));
        }
        Ok(count)
    }
}
