//! Going through all entries, or all nodes.

use std::collections::BinaryHeap;
use std::mem;
use std::sync::Arc;

use polder_format::{PageId, PageNo};
use polder_pool::{AccessHint, PoolError, Translation, lock};
use polder_structure::page::broken;

use super::layout::Kind;
use super::look::{AtSlot, LookAtSlot};
use super::meta;
use super::slots::{Slot, SlotPage};
use super::walk::{Seen, Sought};
use super::{Core, VamanaIndex};
use crate::best::{Best, Compared};
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::near::order_of;
use crate::node_id::{NodeId, State};
use crate::pages::{for_each_of, for_each_page, read_page};
use crate::places::{Places, by_page};
use crate::reads::Reads;
use crate::search::{Answer, Search};
use crate::vectors::Vector;

/// Nodes that are read together, in the order in which they lie in the file.
const TOGETHER: usize = 1024;

impl<T: Translation> VamanaIndex<T> {
    /// The vectors nearest to `query`, nearest first, of all that the index has: each that matches is
    /// compared. Of equally near ones those with the lowest labels. With a filter, labels are looked at in
    /// the pages of codes, and only the nodes of those that match are read.
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, [`VectorError::Within`], and those of loading pages.
    pub fn search_exact<'v>(
        &self,
        query: impl Into<VectorRef<'v>>,
        search: &Search<'_>,
    ) -> Result<Answer, VectorError> {
        let vector = self.core.distances.vector(query.into())?;
        search.validate()?;
        if let Some(places) = search.filter.and_then(|filter| filter.places()) {
            return Ok(self.compare_places(&vector, search, places)?);
        }
        if search.filter.is_some() {
            let (search, sought) =
                (Search { width: usize::MAX, ..*search }, self.core.sought(vector));
            return Ok(self.search_codes(&sought, &search)?);
        }
        let (mut best, mut near) = (Best::new(search), Vec::new());
        for_each_page(&self.space, |page| {
            let bound = best.bound();
            self.live(Kind::Nodes, page, &mut near, |_, slot| {
                let order = Best::order(self.core.distance(&vector, slot));
                (order <= bound)
                    .then(|| slot.partner().map(|entry| (order, slot.label(), entry)))?
            })?;
            near.drain(..).for_each(|one| best.insert(one));
            Ok(true)
        })?;
        Ok(Answer { found: best.into_found(), is_exhaustive: true })
    }

    /// Shows the label of each vector, and where it lies, in no order, until `show` returns false.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn for_each(&self, mut show: impl FnMut(u64, NodeId) -> bool) -> Result<(), VectorError> {
        let mut there = Vec::new();
        for_each_of(&self.space, &self.code_pages()?, |page| {
            self.live(Kind::Codes, page, &mut there, |entry, slot| Some((slot.label(), entry)))?;
            Ok(there.drain(..).all(|(label, entry)| show(label, entry)))
        })?;
        Ok(())
    }

    /// Compares with the codes of all that match, and reads the nodes of as many of the nearest as the
    /// search is wide.
    pub(super) fn search_codes(
        &self,
        sought: &Sought,
        search: &Search<'_>,
    ) -> Result<Answer, PoolError> {
        let width = search.first_width().max(search.count);
        let mut shortlist: BinaryHeap<(u32, NodeId, NodeId, u64)> = BinaryHeap::new();
        let (mut is_exhaustive, mut best, mut seen) = (true, Best::new(search), Vec::new());
        let filter = search.filter;
        for_each_of(&self.space, &self.code_pages()?, |page| {
            self.live(Kind::Codes, page, &mut seen, |entry, slot| {
                Some(sought.see(&self.core, entry, slot))
            })?;
            for Seen { entry, label, estimate, node, .. } in seen.drain(..) {
                if filter.is_none_or(|filter| filter.matches(label)) {
                    shortlist.extend(node.map(|node| (order_of(estimate), node, entry, label)));
                }
                if shortlist.len() > width {
                    shortlist.pop();
                    is_exhaustive = false;
                }
            }
            if width == usize::MAX && shortlist.len() >= TOGETHER {
                self.compare_nodes(&sought.vector, shortlist.drain().collect(), &mut best)?;
            }
            Ok(true)
        })?;
        self.compare_nodes(&sought.vector, shortlist.into_vec(), &mut best)?;
        Ok(Answer { found: best.into_found(), is_exhaustive })
    }

    /// Compares with those vectors whose entries are in these places and that match.
    pub(super) fn compare_places(
        &self,
        vector: &Vector,
        search: &Search<'_>,
        places: &Places,
    ) -> Result<Answer, PoolError> {
        let matches = |label| search.filter.is_none_or(|filter| filter.matches(label));
        let (mut best, mut nodes, mut there) = (Best::new(search), Vec::new(), Vec::new());
        for places in places.as_slice().chunks(TOGETHER) {
            let of_pages = by_page(&self.space, places)?;
            let pages: Vec<PageNo> = of_pages.iter().map(|(page, _)| *page).collect();
            let mut of_pages = of_pages.into_iter();
            for_each_of(&self.space, &pages, |page| {
                let wanted = of_pages.next().map_or(&[][..], |(_, wanted)| wanted);
                self.live(Kind::Codes, page, &mut there, |entry, slot| {
                    let is_wanted = wanted.binary_search(&(entry, slot.label())).is_ok();
                    Some((0, slot.partner().filter(|_| is_wanted)?, entry, slot.label()))
                })?;
                nodes.extend(there.drain(..).filter(|(.., label)| matches(*label)));
                Ok(true)
            })?;
            self.compare_nodes(vector, mem::take(&mut nodes), &mut best)?;
        }
        Ok(Answer { found: best.into_found(), is_exhaustive: true })
    }

    /// Reads nodes, and compares with those that are still of their entries, and have their labels.
    fn compare_nodes(
        &self,
        vector: &Vector,
        mut nodes: Vec<(u32, NodeId, NodeId, u64)>,
        best: &mut Best,
    ) -> Result<(), PoolError> {
        in_order(&mut nodes);
        let core = &*self.core;
        for nodes in nodes.chunks(TOGETHER) {
            let places: Vec<NodeId> = nodes.iter().map(|(_, node, ..)| *node).collect();
            let mut look = Exact { core, vector, nodes, near: Vec::with_capacity(nodes.len()) };
            self.space.interleave(AccessHint::Scan, |way| {
                Reads::new(&self.space, way).each(&places, &mut AtSlot(&core.layout, &mut look))
            })?;
            for one in look.near {
                if one.0 <= best.bound() {
                    best.insert(one);
                }
            }
        }
        Ok(())
    }

    /// Leaves in `seen` what `see` makes of the places of a page of this kind whose vectors are found; of a
    /// page of another kind nothing.
    pub(super) fn live<R>(
        &self,
        kind: Kind,
        number: PageNo,
        seen: &mut Vec<R>,
        mut see: impl FnMut(NodeId, Slot<'_>) -> Option<R>,
    ) -> Result<(), PoolError> {
        let layout = &self.core.layout;
        self.space.run(AccessHint::Scan, |attempt| {
            seen.clear();
            let page = self.space.page(attempt, number)?;
            let slots = SlotPage::new(page.page());
            if slots.is_of(layout, kind) {
                let live = slots.taken(layout, kind);
                let live = live.filter(|(_, slot)| slot.state() == State::Live);
                seen.extend(live.filter_map(|(at, slot)| see(NodeId::new(number, 0, at)?, slot)));
            }
            page.validate()
        })
    }

    /// All pages of codes, the oldest first (`VAMANA-4`).
    pub(super) fn code_pages(&self) -> Result<Arc<Vec<PageNo>>, PoolError> {
        let known = Arc::clone(&lock(&self.core.code_pages));
        let mut next = self.read_meta(meta::newest)?;
        let (mut new, most) = (Vec::new(), self.space.pages_in_use()?);
        while let Some(number) = next.filter(|number| known.last() != Some(number)) {
            new.push(number);
            let before = read_page(&self.space, AccessHint::Normal, number, |page| {
                let slots = SlotPage::new(page);
                slots.is_of(&self.core.layout, Kind::Codes).then(|| slots.before())
            })?;
            let before = before.filter(|_| new.len() as u64 <= most);
            let what = "the list of pages of codes leads somewhere else";
            next = before.ok_or_else(|| broken(PageId::new(self.space.id(), number), what))?;
        }
        if new.is_empty() {
            return Ok(known);
        }
        let pages: Vec<PageNo> = known.iter().copied().chain(new.into_iter().rev()).collect();
        let pages = Arc::new(pages);
        let mut kept = lock(&self.core.code_pages);
        if kept.len() < pages.len() {
            *kept = Arc::clone(&pages);
        }
        Ok(pages)
    }
}

/// What is seen of nodes whose entries and labels are known.
struct Exact<'e> {
    core: &'e Core,
    vector: &'e Vector,
    nodes: &'e [(u32, NodeId, NodeId, u64)],
    near: Vec<Compared>,
}

impl LookAtSlot for Exact<'_> {
    type Sight = Compared;
    const KIND: Kind = Kind::Nodes;

    fn see(&mut self, node: NodeId, slot: Slot<'_>) -> Option<Compared> {
        // VAMANA-2
        let at = self.nodes.binary_search_by_key(&node, |(_, node, ..)| *node).ok()?;
        let (_, _, entry, label) = self.nodes[at];
        let is_it =
            slot.partner() == Some(entry) && slot.label() == label && slot.state() == State::Live;
        is_it.then(|| (Best::order(self.core.distance(self.vector, slot)), label, entry))
    }

    fn take(&mut self, _: NodeId, sight: Compared) {
        self.near.push(sight);
    }
}

/// By where they lie.
fn in_order(nodes: &mut [(u32, NodeId, NodeId, u64)]) {
    nodes.sort_unstable_by_key(|(_, node, ..)| *node);
}
