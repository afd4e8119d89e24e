//! Finding what is broken.

use std::collections::{HashMap, HashSet};

use polder_format::{PageKind, PageNo, header_at};
use polder_pool::bytes::PageRef;
use polder_pool::{PoolError, Translation};
use polder_structure::check::Walk;
use polder_structure::levels::root;
use polder_structure::page::ensure;

use super::VamanaIndex;
use super::layout::{Kind, Layout};
use super::meta;
use super::node::List;
use super::slots::SlotPage;
use crate::Report;
use crate::error::VectorError;
use crate::node_id::{NodeId, State};
use crate::options::VamanaOptions;
use crate::room::{behind, check_chains};

/// A place as it was seen: the partner, the label and the state.
type Place = (Option<NodeId>, u64, State);

/// What was seen of an index.
#[derive(Default)]
struct Seen {
    entry: Option<NodeId>,
    newest: Option<PageNo>,
    chains: Vec<(Kind, Option<PageNo>)>,
    /// Pages of codes that the first page names, and how many it says that there are.
    seeds: Vec<PageNo>,
    code_pages: u64,
    /// Pages of each kind; those in chains, with the one behind each; and of codes the one before each.
    kinds: HashMap<PageNo, Kind>,
    chained: HashMap<PageNo, Option<PageNo>>,
    before: HashMap<PageNo, Option<PageNo>>,
    entries: HashMap<NodeId, Place>,
    nodes: HashMap<NodeId, Place>,
    /// Of each entry's node its parent and its list.
    tree: HashMap<NodeId, (Option<NodeId>, List)>,
}

impl<T: Translation> VamanaIndex<T> {
    /// Looks at all pages, while nobody writes: that they are what their kind demands, that entries and
    /// nodes lead to each other (`VAMANA-1`), that links lead to places of entries (`VAMANA-6`), that
    /// chains and the list of pages of codes have what they must (`VAMANA-3`, `VAMANA-4`), and that nodes
    /// are a tree below the entry (`VAMANA-5`, `VAMANA-7`). The report's entries are the vectors. One that is
    /// leaving, whose removal was cut off, is no fault.
    ///
    /// `progress` is told how many pages are done, and stops the check by returning false. It takes memory
    /// beside the pool's for all links.
    ///
    /// # Errors
    /// Those of the allocation maps. What is wrong with the index is in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Report, PoolError> {
        let mut walk = Walk::new(&self.space);
        let mut seen = Seen::default();
        walk.each(self.space.used_pages()?, progress, |walk, number, page| {
            let found = match number == root() {
                true => seen.see_meta(&self.core.options, page),
                false => seen.see(&self.core.layout, number, page),
            };
            walk.note(number, found);
        });
        if !walk.report.stopped {
            let mut faults = Vec::new();
            seen.compare(&self.core.layout, &mut faults);
            faults.into_iter().for_each(|(page, what)| walk.fault(page, what));
        }
        let live = seen.entries.values().filter(|(.., state)| *state == State::Live);
        walk.report.entries = live.count() as u64;
        walk.finish()
    }

    /// How many vectors are reached from the entry: of an index to which nobody writes, all.
    ///
    /// # Errors
    /// Those of loading pages.
    pub fn count_reached(&self) -> Result<u64, VectorError> {
        let layout = &self.core.layout;
        let (mut seen, mut count) = (HashSet::new(), 0);
        let mut next: Vec<NodeId> = self.entry()?.map(|entry| entry.id).into_iter().collect();
        seen.extend(next.iter().copied());
        while let Some(entry) = next.pop() {
            let read = self.read_node(entry, |slot| (slot.state(), slot.list(layout)))?;
            let Some((_, (state, list))) = read else { continue };
            count += u64::from(state == State::Live);
            next.extend(list.links.into_iter().filter(|link| seen.insert(*link)));
        }
        Ok(count)
    }
}

impl Seen {
    fn see_meta(&mut self, options: &VamanaOptions, page: PageRef<'_>) -> Result<(), &'static str> {
        let is_one = page.u8(header_at::KIND) == PageKind::VAMANA_META.0;
        ensure(is_one, "the index has no first page")?;
        let is_same = meta::options(page)? == *options;
        ensure(is_same, "the first page has changed since the index was opened")?;
        self.entry = meta::entry(page).map(|entry| entry.id);
        self.newest = meta::newest(page);
        self.chains =
            Kind::ALL.iter().map(|kind| (*kind, meta::chain(*kind).first(page))).collect();
        self.seeds = meta::seeds(page).collect();
        self.code_pages = meta::code_pages(page);
        Ok(())
    }

    fn see(
        &mut self,
        layout: &Layout,
        number: PageNo,
        page: PageRef<'_>,
    ) -> Result<(), &'static str> {
        let slots = SlotPage::new(page);
        let kind = Kind::ALL.into_iter().find(|kind| slots.is_of(layout, *kind));
        let kind = kind.ok_or("this is no page of a vector index with codes")?;
        slots.verify(kind)?;
        self.kinds.insert(number, kind);
        self.chained.extend(behind(page).map(|next| (number, next)));
        if kind == Kind::Codes {
            self.before.insert(number, slots.before());
        }
        let used = slots.taken(layout, kind).count();
        ensure(used == slots.used(), "another number of places is in use than the page says")?;
        for (at, slot) in slots.taken(layout, kind) {
            let id = NodeId::new(number, 0, at).ok_or("a place has no name")?;
            let place = (slot.partner(), slot.label(), slot.state());
            if kind == Kind::Codes {
                self.entries.insert(id, place);
                let parts = slot.parts();
                let are_numbers = parts.addend.is_finite() && parts.factor.is_finite();
                ensure(are_numbers, "an entry has no distance")?;
                continue;
            }
            self.nodes.insert(id, place);
            ensure(slot.is_whole(layout), "a list is not what its node says")?;
            let entry = slot.partner().ok_or("a node has no entry")?;
            let list = slot.list(layout);
            let links: HashSet<&NodeId> = list.links.iter().collect();
            ensure(links.len() == list.links.len(), "a list leads to an entry twice")?;
            ensure(!links.contains(&entry), "a node leads to itself")?;
            self.tree.insert(entry, (slot.parent(), list));
        }
        Ok(())
    }

    fn compare(&mut self, layout: &Layout, faults: &mut Vec<(PageNo, &'static str)>) {
        // VAMANA-1
        let sides = [(&self.entries, &self.nodes), (&self.nodes, &self.entries)];
        for (places, others) in sides {
            for (id, (partner, label, state)) in places {
                let other = partner.and_then(|partner| others.get(&partner));
                if other != Some(&(Some(*id), *label, *state)) {
                    faults.push((id.page(), "an entry and its node are not each other's"));
                }
            }
        }
        // VAMANA-6
        for (entry, (_, list)) in &self.tree {
            let is_place = |link: &NodeId| {
                self.kinds.get(&link.page()) == Some(&Kind::Codes)
                    && link.slot() < layout.slots(Kind::Codes)
            };
            if !list.links.iter().all(is_place) {
                faults.push((entry.page(), "a link leads to no place of an entry"));
            }
        }
        self.compare_tree(faults);
        // VAMANA-3
        let is_of = |page, kind| self.kinds.get(&page) == Some(&kind);
        let chained = std::mem::take(&mut self.chained);
        check_chains(&self.chains, chained, is_of, |page, what| faults.push((page, what)));
        // VAMANA-4
        let is_seed = |page: &PageNo| self.kinds.get(page) == Some(&Kind::Codes);
        if !self.seeds.iter().all(is_seed) {
            faults.push((root(), "searches begin with a page that is none of codes"));
        }
        if self.code_pages != self.before.len() as u64 {
            faults.push((root(), "there is another number of pages of codes than the index says"));
        }
        let mut next = self.newest;
        while let Some(page) = next {
            let before = self.before.remove(&page);
            if before.is_none() {
                faults.push((page, "the page is in the list of pages of codes wrongly"));
            }
            next = before.flatten();
        }
        let lost = self.before.keys().map(|page| (*page, "the page of codes is not in their list"));
        faults.extend(lost);
    }

    /// `VAMANA-5`, `VAMANA-7`
    fn compare_tree(&self, faults: &mut Vec<(PageNo, &'static str)>) {
        let mut reached = HashSet::new();
        let mut next: Vec<(Option<NodeId>, NodeId)> =
            self.entry.iter().map(|entry| (None, *entry)).collect();
        while let Some((parent, entry)) = next.pop() {
            let node = self.tree.get(&entry).filter(|(of_node, _)| *of_node == parent);
            let Some((_, list)) = node.filter(|_| reached.insert(entry)) else {
                faults.push((entry.page(), "the tree leads to an entry that is not below it"));
                continue;
            };
            next.extend(list.children().iter().map(|child| (Some(entry), *child)));
        }
        let lost = self.tree.keys().filter(|entry| !reached.contains(*entry));
        faults.extend(lost.map(|entry| (entry.page(), "a node is not in the tree")));
    }
}
