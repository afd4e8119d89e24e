//! Inserting a vector (algorithm 1 of the paper).
//!
//! ```text
//! 1  the level of the node is drawn
//! 2  from the entry down: the nearest nodes of each level that the node has, and which of them it
//!     links to
//! 3  what the lists of those on the lowest level become (`relink.rs`)
//! 4  one edit: if those lists are what they were, the node with its links, in a page that has room, and
//!     the links back of 3; the node becomes the entry, if there is none. Else 3 again, or,
//!     where all that was found has left, 2
//! 5  level by level, highest first: other links back
//! 6  if its level is the highest: it becomes the entry
//! ```
//!
//! From step 4 on the node is in the index, and is reached (`HNSW-5`): a crash leaves all of that or
//! nothing, and of the higher levels what there is time for.

use std::sync::atomic::Ordering::Relaxed;

use polder_format::{PageKind, PageNo};
use polder_pool::bytes::PageRef;
use polder_pool::{PoolError, Restart, Translation};
use polder_structure::levels::root;
use polder_structure::{Edit, edit};

use super::meta::{self, Entry};
use super::node::{Layout, NodePage, NodePageMut};
use super::relink::{AT_ONCE, MOST_PLANS, Plan, Wish};
use super::{Core, HnswIndex};
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::node_id::{MOST_PAGES, NodeId};
use crate::random::mix;
use crate::room::Room;
use crate::vectors::Vector;

/// Pages of neighbours in which a new node looks for room.
const NEIGHBOURS: usize = 4;

/// A node that is to be made: its links on each of its levels, the lowest first.
struct New<'n> {
    label: u64,
    vector: &'n Vector,
    links: Vec<Vec<NodeId>>,
}

impl New<'_> {
    fn level(&self) -> u8 {
        (self.links.len() - 1) as u8
    }
}

/// What came of trying to make a node.
enum Tried {
    /// It is there; and whether its page has room for more.
    Made(NodeId, bool),
    /// Others have filled the page.
    NoRoom,
    /// Others have changed a list that was to be written.
    Changed,
    /// The index was empty, and is no more.
    Lost,
}

/// Where an insert begins.
struct Start {
    /// What the node links to on each of its levels, the lowest first.
    links: Vec<Vec<NodeId>>,
    entry: Option<Entry>,
}

impl<T: Translation> HnswIndex<T> {
    /// Inserts a vector with a label, which need not be the only one that has it. Gives where it lies,
    /// for [`HnswIndex::remove`].
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of loading, making and logging pages.
    /// If one of the pool's own comes in the middle, the vector may be in the index.
    pub fn insert<'v>(
        &self,
        label: u64,
        vector: impl Into<VectorRef<'v>>,
    ) -> Result<NodeId, VectorError> {
        let vector = self.core.distances.vector(vector.into())?;
        Ok(self.insert_vector(label, &vector)?)
    }

    fn insert_vector(&self, label: u64, vector: &Vector) -> Result<NodeId, PoolError> {
        // 1
        let level = self.core.draw_level(label, vector);
        // Each time that it begins again, others have changed what was found.
        loop {
            // 2
            self.live_entry()?;
            let start = self.search_for(vector, level)?;
            let is_alone = start.entry.is_none();
            if start.links[0].is_empty() && !is_alone {
                continue;
            }
            let mut new = New { label, vector, links: start.links };
            // 3 and 4
            let mut room = self.neighbour_with_room(&new)?;
            let made = self.make_linked(&mut new, is_alone, &mut room);
            self.core.filling.put_back(meta::chain(level), room);
            let Some((node, linked)) = made? else { continue };
            // 5
            self.link_back(node, &new, &linked)?;
            // 6
            if let Some(old) = start.entry.filter(|old| level > old.level) {
                self.enter(label, Entry { node, level })?;
                // Searches began there until now.
                self.reconnect(old.node)?;
            }
            self.core.changes.fetch_add(1, Relaxed);
            return Ok(node);
        }
    }

    /// Step 2: what a node with this vector links to, for each level up to `highest`.
    fn search_for(&self, vector: &Vector, highest: u8) -> Result<Start, PoolError> {
        let mut near = vec![Vec::new(); usize::from(highest) + 1];
        let entry = self.walk(vector, |walk| {
            let Some(entry) = walk.entry()? else { return Ok(None) };
            let mut from = walk.descend(entry, highest)?;
            for level in (0..=entry.level.min(highest)).rev() {
                walk.level(from, self.core.options.insert_width, level)?;
                let near = &mut near[usize::from(level)];
                near.reserve(self.core.options.insert_width);
                near.extend(walk.found());
                from = near.first().map_or(from, |nearest| nearest.node);
            }
            Ok(Some(entry))
        })?;
        let links = near.iter().map(|near| self.select(near, self.core.options.links, None));
        let links = links.collect::<Result<Vec<_>, PoolError>>()?;
        Ok(Start { links, entry })
    }

    /// Steps 3 and 4. Gives the node, and which of its neighbours on the lowest level that was tried with.
    /// `None` if others have changed what was found. `room` is left where there is more of it.
    fn make_linked(
        &self,
        new: &mut New<'_>,
        is_alone: bool,
        room: &mut Option<Room>,
    ) -> Result<Option<(NodeId, Vec<NodeId>)>, PoolError> {
        let level = new.level();
        let searched = new.links[0].clone();
        for _ in 0..MOST_PLANS {
            new.links[0].clone_from(&searched);
            let plans = self.plan_links_to(new)?;
            // HNSW-5
            if !is_alone && !plans.iter().any(|plan| plan.leads_to(NodeId::NEW)) {
                return Ok(None);
            }
            let tried = edit(&self.space, |edit| {
                if !self.are_as_planned(edit, &plans, 0)? {
                    return Ok(Tried::Changed);
                }
                if is_alone && meta::entry(edit.page(root())?).is_some() {
                    return Ok(Tried::Lost);
                }
                let place = match room {
                    Some(room) => self.room_in(edit, room.page(), level)?,
                    None => Some(self.room_in_new(edit, level)?),
                };
                let Some(node) = place else { return Ok(Tried::NoRoom) };
                if is_alone {
                    let entry = Some(Entry { node, level });
                    meta::set_entry(&mut edit.page_mut(root())?, entry);
                }
                // Before the lists: a page that is read after it was written to is copied.
                let has_room = self.put_new(edit, node, new)?;
                for plan in &plans {
                    self.put(edit, plan, 0, node)?;
                }
                Ok(Tried::Made(node, has_room))
            })?;
            match tried {
                Tried::Made(node, has_room) => {
                    *room = has_room.then(|| Room::left(*room, node.page()));
                    return Ok(Some((node, plans.iter().map(Plan::node).collect())));
                }
                Tried::NoRoom => *room = self.page_to_fill(level)?,
                Tried::Changed => {}
                Tried::Lost => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Step 3, of as many neighbours as one edit links back from.
    fn plan_links_to(&self, new: &mut New<'_>) -> Result<Vec<Plan>, PoolError> {
        let mut plans = Vec::new();
        for neighbour in new.links[0].iter().take(AT_ONCE) {
            let wish = Wish::Add(NodeId::NEW, new.vector);
            let plan = self.plan(*neighbour, 0, wish, &plans)?;
            plans.extend(plan);
        }
        // What it must lead to, because others no longer do.
        let mut must: Vec<_> = plans.iter().flat_map(|plan| plan.lost.iter().copied()).collect();
        // HNSW-5
        let is_reached = plans.iter().any(|plan| plan.leads_to(NodeId::NEW));
        if !is_reached
            && let Some(other) = plans.first_mut().and_then(|plan| plan.replace_last(NodeId::NEW))
        {
            must.push(other);
        }
        let capacity = self.core.layout.capacity(0);
        let links = &mut new.links[0];
        links.retain(|link| !must.contains(link));
        links.truncate(capacity.saturating_sub(must.len()));
        for link in must {
            if links.len() < capacity && !links.contains(&link) {
                links.push(link);
            }
        }
        Ok(plans)
    }

    /// The page of a neighbour on the highest level of the node that has room.
    fn neighbour_with_room(&self, new: &New<'_>) -> Result<Option<Room>, PoolError> {
        let level = new.level();
        for neighbour in new.links[usize::from(level)].iter().take(NEIGHBOURS) {
            let has_room = self.read_node(*neighbour, |nodes, _| {
                nodes.level() == level && nodes.used() < nodes.slots()
            })?;
            if has_room == Some(true) {
                return Ok(Some(Room::found(neighbour.page())));
            }
        }
        self.page_to_fill(level)
    }

    /// A page that is being filled, or one of the chain (`HNSW-6`). `None` if there must be a new one.
    fn page_to_fill(&self, level: u8) -> Result<Option<Room>, PoolError> {
        let has_room = |page: PageRef<'_>| {
            let nodes = NodePage::new(page);
            nodes.is_of(&self.core.layout).then(|| nodes.used() < nodes.slots())
        };
        self.core.filling.take(&self.space, meta::chain(level), has_room)
    }

    /// A free place of a page, if it has one.
    fn room_in(
        &self,
        edit: &mut Edit<'_, '_, T>,
        page: PageNo,
        level: u8,
    ) -> Result<Option<NodeId>, Restart> {
        let layout = &self.core.layout;
        let slot = edit.read(page, |page| {
            let nodes = NodePage::new(page);
            let has_some = nodes.is_of(layout) && nodes.level() == level;
            has_some.then(|| nodes.free_slot(layout)).flatten()
        })?;
        Ok(slot.and_then(|slot| NodeId::new(page, level, slot)))
    }

    /// The first place of a new page.
    fn room_in_new(&self, edit: &mut Edit<'_, '_, T>, level: u8) -> Result<NodeId, Restart> {
        let page = edit.create(PageKind::HNSW_NODES)?;
        let Core { options, layout, .. } = &*self.core;
        NodePageMut::new(edit.page_mut(page)?).init(layout, options.insert_width, level);
        NodeId::new(page, level, 0).ok_or_else(|| {
            let (what, limit) = ("the number of pages of a vector index", MOST_PAGES);
            edit.fail(PoolError::Limit { what, limit })
        })
    }

    /// Writes a node in its place, which is free. Gives whether its page has room for more.
    fn put_new(
        &self,
        edit: &mut Edit<'_, '_, T>,
        node: NodeId,
        new: &New<'_>,
    ) -> Result<bool, Restart> {
        let layout = &self.core.layout;
        // HNSW-2: a node that was found may have left, and this one have its place.
        let others = |links: &Vec<NodeId>| -> Vec<NodeId> {
            links.iter().copied().filter(|link| *link != node).collect()
        };
        let links: Vec<_> = new.links.iter().map(others).collect();
        let (at, used, slots) = edit.read(node.page(), |page| {
            let nodes = NodePage::new(page);
            (nodes.node(layout, node.slot()).at(), nodes.used(), nodes.slots())
        })?;
        edit.write(node.page(), at, layout.node_of(new.label, new.vector, &links))?;
        let (at, bytes) = Layout::used_of(used + 1);
        edit.write(node.page(), at, bytes)?;
        Ok(used + 1 < slots)
    }

    /// Links back to a node, but from those neighbours on the lowest level that link already.
    fn link_back(&self, node: NodeId, new: &New<'_>, linked: &[NodeId]) -> Result<(), PoolError> {
        for (level, links) in new.links.iter().enumerate().rev() {
            let is_left = |link: &&NodeId| level > 0 || !linked.contains(*link);
            let left: Vec<NodeId> = links.iter().filter(is_left).copied().collect();
            self.relink(&left, level as u8, Wish::Add(node, new.vector))?;
        }
        Ok(())
    }
}

impl Core {
    /// The level of a node: each is `links` times less likely than the one below. It follows from label
    /// and vector, so that the same inserts in the same order make the same graph.
    fn draw_level(&self, label: u64, vector: &Vector) -> u8 {
        let highest = self.layout.highest();
        let run = vector.run();
        let mut bits = (0..run.len()).step_by(8).fold(label, |bits, at| mix(bits ^ run.u64(at)));
        let links = self.options.links as u64;
        let mut level = 0;
        while level < highest && bits.is_multiple_of(links) {
            bits = mix(bits / links);
            level += 1;
        }
        level
    }
}
