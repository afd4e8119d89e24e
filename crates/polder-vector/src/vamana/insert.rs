//! Inserting a vector.
//!
//! ```text
//! 1  its code is made, and the nodes are read that are nearest by theirs
//! 2  which of these it links to: by their vectors, which are here by now
//! 3  whose child it is, or whether it is the new root (VAMANA-5); and what the lists of those become to
//!    which it links, of as many as one edit writes
//! 4  one edit: if those lists are what they were, entry and node in pages that have room, and the lists of
//!    3. Else 3 again, or, where all that was found has left, 1
//! 5  the other lists
//! ```
//!
//! From step 4 on the vector is in the index, and is reached: a crash leaves all of that or nothing, and of
//! the other lists what there is time for.

use polder_pool::{PoolError, Restart, Translation};
use polder_structure::levels::root;
use polder_structure::{Edit, edit};

use super::VamanaIndex;
use super::code::Code;
use super::layout::Kind;
use super::link::{AT_ONCE, MOST_PLANS, Plan, Wish};
use super::meta::{self, Entry};
use super::node::List;
use super::prune::Candidate;
use super::slots::SlotPageMut;
use super::walk::{About, Expanded, Sought};
use crate::element::VectorRef;
use crate::error::VectorError;
use crate::near::order_of;
use crate::node_id::{NodeId, State};
use crate::room::Room;
use crate::vectors::Vector;

/// Tries in which all lists of one edit must be what they were; behind them that of the parent alone.
const PATIENCE: usize = 4;

/// A vector that is to be inserted.
struct New<'n> {
    label: u64,
    sought: &'n Sought,
    code: &'n Code,
    /// The nodes that were found, nearest first.
    found: Vec<Expanded>,
    links: Vec<NodeId>,
}

/// How it comes into the tree.
#[derive(Clone, Copy)]
enum Way {
    /// The index is empty.
    First,
    /// It is the root, above this one.
    Above(NodeId),
    /// It is a child of this one.
    Below(NodeId),
}

/// What came of trying to make it.
enum Tried {
    /// It is there; and what room is left in its pages.
    Made(NodeId, [Option<Room>; 2]),
    /// Others have filled the page of this kind.
    NoRoom(Kind),
    /// Others have changed a list that was to be written, or the root.
    Changed,
}

impl<T: Translation> VamanaIndex<T> {
    /// Inserts a vector with a label, which need not be the only one that has it. Gives where it lies,
    /// for [`VamanaIndex::remove`].
    ///
    /// # Errors
    /// Those of a vector that is not one of the index, and those of loading, making and logging pages.
    /// If one of the pool's own comes in the middle, the vector may be in the index.
    pub fn insert<'v>(
        &self,
        label: u64,
        vector: impl Into<VectorRef<'v>>,
    ) -> Result<NodeId, VectorError> {
        let sought = self.core.sought(self.core.distances.vector(vector.into())?);
        Ok(self.insert_vector(label, &sought)?)
    }

    fn insert_vector(&self, label: u64, sought: &Sought) -> Result<NodeId, PoolError> {
        // 1
        let code = &self.core.coder.code(&sought.residual);
        // Each time that it begins again, others have changed what was found.
        loop {
            let (mut found, links) = self.find_links(sought)?;
            found.retain(|one| one.state == State::Live);
            let new = New { label, sought, code, found, links };
            let mut rooms = [None; 2];
            for kind in Kind::ALL {
                let near = new.found.iter().map(|one| match kind {
                    Kind::Codes => one.entry,
                    Kind::Nodes => one.node,
                });
                rooms[kind as usize] = self.room(kind, near)?;
            }
            // 3 and 4
            let made = self.make(&new, &mut rooms);
            for kind in Kind::ALL {
                self.core.filling.put_back(meta::chain(kind), rooms[kind as usize]);
            }
            // 5
            if let Some((id, linked)) = made? {
                let left = new.links.iter().filter(|link| !linked.contains(*link) && **link != id);
                let left: Vec<NodeId> = left.copied().collect();
                self.relink(&left, Wish::Add { id, new: sought, code, is_child: false })?;
                return Ok(id);
            }
        }
    }

    /// Steps 1 and 2: the nodes that were found, nearest first, and those to link with.
    fn find_links(&self, sought: &Sought) -> Result<(Vec<Expanded>, Vec<NodeId>), PoolError> {
        let (found, vectors) = self.expand(sought, About::Vectors)?;
        let mut near = nearest_first(&found, &vectors);
        let found = near.iter().map(|(one, _)| **one).collect();
        near.retain(|(one, _)| one.state == State::Live);
        let near: Vec<_> = near
            .into_iter()
            .map(|(one, by)| Candidate { distance: one.distance, entry: one.entry, by })
            .collect();
        Ok((found, self.core.prune(&near, self.core.layout.links)))
    }

    /// Steps 3 and 4. Gives the entry, and those whose lists lead to it by now. `None` if others have
    /// changed all that was found.
    fn make(
        &self,
        new: &New<'_>,
        rooms: &mut [Option<Room>; 2],
    ) -> Result<Option<(NodeId, Vec<NodeId>)>, PoolError> {
        let Sought { residual, .. } = new.sought;
        for tries in 0..MOST_PLANS {
            let entry = self.entry()?;
            let (way, mut plans) = self.plan_links_to(new, entry)?;
            if tries >= PATIENCE {
                // Others change lists faster than they are planned: step 5 has time.
                plans.truncate(usize::from(matches!(way, Way::Below(_))));
            }
            let tried = edit(&self.space, |edit| {
                for plan in &plans {
                    if !self.is_as_planned(edit, plan)? {
                        return Ok(Tried::Changed);
                    }
                }
                let is_root = !matches!(way, Way::Below(_));
                let root_of = |entry: Option<Entry>| entry.map(|entry| entry.id);
                if is_root && root_of(meta::entry(edit.page(root())?)) != root_of(entry) {
                    return Ok(Tried::Changed);
                }
                let mut places = [NodeId::NEW; 2];
                // No page is made if another one turns out to be full.
                let mut kinds = Kind::ALL;
                if rooms[kinds[0] as usize].is_none() {
                    kinds.reverse();
                }
                for kind in kinds {
                    let room = rooms[kind as usize];
                    let Some(place) = self.place_in(edit, kind, room)? else {
                        return Ok(Tried::NoRoom(kind));
                    };
                    places[kind as usize] = place;
                }
                let [id, _] = places;
                for plan in &plans {
                    self.put(edit, plan, id)?;
                }
                self.put_new(edit, new, places, way)?;
                if is_root {
                    let entry = Some(Entry { id, distance: residual.square });
                    meta::set_entry(&mut edit.page_mut(root())?, entry);
                }
                let mut left = [None; 2];
                for kind in Kind::ALL {
                    let (place, room) = (places[kind as usize], rooms[kind as usize]);
                    left[kind as usize] = self.room_left(edit, kind, place, room)?;
                }
                Ok(Tried::Made(id, left))
            })?;
            match tried {
                Tried::Made(id, left) => {
                    *rooms = left;
                    return Ok(Some((id, plans.iter().map(|plan| plan.entry).collect())));
                }
                Tried::NoRoom(kind) => rooms[kind as usize] = self.page_to_fill(kind)?,
                Tried::Changed => {}
            }
        }
        Ok(None)
    }

    /// Step 3.
    fn plan_links_to(
        &self,
        new: &New<'_>,
        entry: Option<Entry>,
    ) -> Result<(Way, Vec<Plan>), PoolError> {
        let Some(entry) = entry else { return Ok((Way::First, Vec::new())) };
        let wish = |is_child| {
            let (id, new, code) = (NodeId::NEW, new.sought, new.code);
            Wish::Add { id, new, code, is_child }
        };
        let most = self.core.layout.most_children();
        // VAMANA-7; and where none has room for a child, there is always one above the root.
        let (mut way, mut plans) = (Way::Above(entry.id), Vec::new());
        if new.sought.residual.square >= entry.distance {
            for parent in new.found.iter().filter(|one| one.children < most) {
                if let Some(plan) = self.plan(parent.entry, wish(true))? {
                    (way, plans) = (Way::Below(parent.entry), vec![plan]);
                    break;
                }
            }
        }
        for link in &new.links {
            if plans.len() == AT_ONCE {
                break;
            }
            if !matches!(way, Way::Below(parent) if parent == *link) {
                plans.extend(self.plan(*link, wish(false))?);
            }
        }
        Ok((way, plans))
    }

    /// Puts entry and node into their places, which are free.
    fn put_new(
        &self,
        edit: &mut Edit<'_, '_, T>,
        new: &New<'_>,
        [id, node]: [NodeId; 2],
        way: Way,
    ) -> Result<(), Restart> {
        let layout = &self.core.layout;
        // VAMANA-6: one that was found may have left, and this one have its place.
        let links = new.links.iter().copied().filter(|link| *link != id).collect();
        let mut list = List { children: 0, links };
        let parent = match way {
            Way::First => None,
            Way::Above(old) => {
                list.add_child(old, layout.links);
                let old = self.node_in(edit, old)?;
                let page = edit.page_mut(old.page())?;
                SlotPageMut::new(page).set_parent(layout, old.slot(), Some(id));
                None
            }
            Way::Below(parent) => Some(parent),
        };
        let mut page = SlotPageMut::new(edit.page_mut(id.page())?);
        page.insert_entry(layout, id.slot(), (node, new.label), new.code);
        let mut page = SlotPageMut::new(edit.page_mut(node.page())?);
        let vector = &new.sought.vector;
        page.insert_node(layout, node.slot(), (id, new.label), vector, (parent, &list));
        Ok(())
    }
}

/// What was found, with its vectors.
fn nearest_first<'f>(
    found: &'f [Expanded],
    vectors: &'f [Vector],
) -> Vec<(&'f Expanded, &'f Vector)> {
    let mut near: Vec<_> = found.iter().zip(vectors).collect();
    near.sort_unstable_by_key(|(one, _)| (order_of(one.distance), one.entry));
    near
}
