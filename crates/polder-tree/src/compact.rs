//! Making a tree that has become sparse small again while others use it: nodes are merged, then
//! pages are moved to lower numbers of the space, so that the extents behind them are free.
//!
//! ```text
//! for each leaf, from left to right:
//!     with the neighbours on its right below the same parent it becomes fewer leaves (pack)
//!     it is its parent's last child: the parent is joined with its own right neighbour, or, where
//!     that has another parent, the one above (join_next); then the leaf has neighbours again
//! the root is lowered while it has a single child
//! as often as that moves anything, and not more than a few times:
//!     the end of the space as it would be if all its pages lay in front (dense_end)
//!     each node behind it: to the lowest free page (moving.rs)
//!     if long values lie behind it: each chain that has a page there is written anew in front
//! ```
//!
//! Each step is an operation of its own, logged as one group (a chain: its pages, then one group
//! that links them), so that it can be stopped between any two, by a crash as well, and the tree is
//! sound. A step latches the parent and at most [`PACKED_AT_ONCE`] of its children (`RESHAPE-1`), or
//! parent, left neighbour and node; it makes new pages before and gives freed ones back behind
//! (`RESHAPE-2`). Readers, cursors and writers do as beside splits and merges: a page that is gone
//! fails to validate. Merged and moved leaves are new pages, but for the first of a run, which only
//! takes more at its upper end: no node gets another lower fence, which readers of snapshots rely on
//! (`snapshot.rs`).
//!
//! Merging several leaves into one less is that of XMerge (Alhomssi and Leis, 2021), which spends it
//! on eviction.

mod moving;

use polder_format::log::Operation;
use polder_format::{PageId, PageNo};
use polder_pool::bytes::PageRef;
use polder_pool::journal::{full_page_image_bytes, group_bytes};
use polder_pool::{AccessHint, Attempt, Change, NewPage, Restart, Translation};
use polder_structure::Reshape;
use polder_structure::levels::{MAX_HEIGHT, descend, follow};
use polder_structure::page::{copy_of, page_of};
use polder_structure::reshape::{JOIN_FREE_PART, JoinedNext, join_next, lower_root};

use crate::descent::{Target, TreePages};
use crate::error::TreeError;
use crate::node::{NodeMut, NodeRef, PACKED_AT_ONCE, Packing};
use crate::reshape::push_node;
use crate::tree::Tree;

/// Records that one packing logs beside full-page images, at most.
const MOST_RECORDS: usize = 4 * PACKED_AT_ONCE;

/// What [`Tree::compact`] is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactStep {
    /// Merging sparse nodes; pages that were looked at, of those in use.
    Merging,
    /// Moving pages to lower numbers; pages that were looked at, of those that must move.
    Moving,
}

/// Told between two steps what is being done, how many pages are done, and how many there are; no
/// page is held meanwhile. False stops it.
pub type Between<'b> = dyn FnMut(CompactStep, u64, u64) -> bool + 'b;

/// How a look at one leaf ended.
enum Packed {
    /// So many leaves became fewer, for which so many pages were made, and these were freed. The
    /// last of what they became begins with this key; none: it is the first.
    Fewer { takes: usize, made: usize, freed: Vec<PageId>, last: Option<Vec<u8>> },
    /// So many new pages are needed.
    NeedsPages(usize),
    /// There is nothing to be had; the next leaf begins with this key.
    Nothing { is_last_child: bool, next: Option<Vec<u8>> },
}

impl<T: Translation> Tree<T> {
    /// Merges sparse nodes and moves pages to the lowest numbers, so that the space needs as little
    /// of the file as it can. Others go on using the tree. To be called by one thread at a time.
    ///
    /// False: `between` has stopped it.
    ///
    /// # Errors
    /// Those of loading and making pages, and of the log; the tree is sound then, and as it was for
    /// its readers. What can be moved is moved all the same.
    pub fn compact(&self, between: &mut Between<'_>) -> Result<bool, TreeError> {
        match self.merge_all(between) {
            Ok(true) => self.move_all(between),
            Ok(false) => Ok(false),
            // The first error is told.
            Err(error) => {
                let _ = self.move_all(between);
                Err(error)
            }
        }
    }

    /// Goes through all leaves and merges what can be.
    fn merge_all(&self, between: &mut Between<'_>) -> Result<bool, TreeError> {
        let (mut done, all) = (0, self.space.pages_in_use()?);
        let mut key: Option<Vec<u8>> = None;
        loop {
            let next = match self.pack_at(key.as_deref())? {
                Packed::Fewer { takes, made, last, .. } => {
                    done += (takes - 1 - made) as u64;
                    last.or(key)
                }
                Packed::Nothing { is_last_child: true, .. }
                    if self.join_above(key.as_deref())? =>
                {
                    done += 1;
                    key
                }
                // Fences in a wrong order must not make it go on for ever.
                Packed::Nothing { next: Some(next), .. } if Some(&next) > key.as_ref() => {
                    done += 1;
                    Some(next)
                }
                Packed::Nothing { .. } => break,
                Packed::NeedsPages(_) => key,
            };
            key = next;
            if !between(CompactStep::Merging, done.min(all), all) {
                return Ok(false);
            }
        }
        lower_root::<TreePages, T>(&self.space)?;
        Ok(true)
    }

    /// Joins the lowest node above the leaf for a key that has a right neighbour below the same
    /// parent with that neighbour. False if the two have no room in one, or there is none.
    fn join_above(&self, key: Option<&[u8]>) -> Result<bool, TreeError> {
        let children = |page: PageRef<'_>| NodeRef::new(page).count() + 1;
        for level in 1..MAX_HEIGHT {
            let joined = self.space.when_admitted(|| {
                join_next::<TreePages, T>(&self.space, target(key), level, children)
            })?;
            match joined {
                JoinedNext::Joined => return Ok(true),
                JoinedNext::IsLastChild => {}
                JoinedNext::DoesNotFit | JoinedNext::IsRoot => return Ok(false),
            }
        }
        Ok(false)
    }

    /// The leaf for a key and those on its right become fewer, if that is possible.
    fn pack_at(&self, key: Option<&[u8]>) -> Result<Packed, TreeError> {
        self.space.when_admitted_with(PACKED_AT_ONCE, || {
            let mut spares: Vec<NewPage<'_>> = Vec::new();
            let packed = self.pack(key, &mut spares);
            let unused: Vec<_> = spares.drain(..).map(|spare| spare.id().page()).collect();
            unused.into_iter().for_each(|page| self.space.free(page));
            packed
        })
    }

    fn pack<'p>(
        &'p self,
        key: Option<&[u8]>,
        spares: &mut Vec<NewPage<'p>>,
    ) -> Result<Packed, TreeError> {
        let mut ahead = Vec::new();
        loop {
            // RESHAPE-2: nothing is latched.
            let size = self.space.page_size();
            let most = full_page_image_bytes(spares.len() + 1, size)
                + group_bytes(MOST_RECORDS, size.bytes());
            let mut change = self.space.change(most)?;
            let packed = self.space.run(AccessHint::Scan, |attempt| {
                change.clear();
                ahead.clear();
                self.try_pack(attempt, &mut change, key, spares, &mut ahead)
            })?;
            drop(change);
            self.space.load_ahead(ahead.drain(..));
            match &packed {
                Packed::NeedsPages(pages) => {
                    while spares.len() < *pages {
                        spares.push(self.space.create()?);
                    }
                    continue;
                }
                Packed::Fewer { made, freed, .. } => {
                    drop(spares.drain(..made));
                    freed.iter().for_each(|page| self.space.give_back(*page));
                }
                Packed::Nothing { .. } => {}
            }
            return Ok(packed);
        }
    }

    fn try_pack<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        key: Option<&[u8]>,
        spares: &[NewPage<'p>],
        ahead: &mut Vec<PageNo>,
    ) -> Result<Packed, Restart> {
        let space = &self.space;
        // 1. To the leaf, its parent, and its neighbours below that.
        let place = descend::<TreePages, T>(space, attempt, target(key), 0)?;
        let Some((parent, child)) = place.parent else {
            place.page.validate()?;
            return Ok(Packed::Nothing { is_last_child: false, next: None });
        };
        let above = NodeRef::new(parent.page());
        let children = above.count() + 1;
        let mut leaves = vec![place.page];
        for index in (child + 1..children).take(PACKED_AT_ONCE - 1) {
            leaves.push(follow::<TreePages, T>(space, attempt, parent, index)?);
        }
        if child.is_multiple_of(PACKED_AT_ONCE) {
            let next = child + PACKED_AT_ONCE..children.min(child + 3 * PACKED_AT_ONCE);
            ahead.extend(next.map(|index| page_of(above.link(index))));
        }
        let nodes: Vec<_> = leaves.iter().map(|leaf| NodeRef::new(leaf.page())).collect();
        let reserve = nodes[0].usable_bytes() / JOIN_FREE_PART;
        let Some(packing) = Packing::choose(&nodes, reserve) else {
            let nothing = nothing(nodes[0], child + 1 == children);
            parent.validate()?;
            leaves[0].validate()?;
            return Ok(nothing);
        };
        if packing.makes() > spares.len() {
            return Ok(Packed::NeedsPages(packing.makes()));
        }
        // 2. The parent is latched first, then the leaves from left to right (RESHAPE-1), as they
        // were seen.
        let mut parent = TreePages::latch(space, attempt, parent)?;
        let latched = leaves.into_iter().take(packing.takes).map(|leaf| attempt.upgrade(leaf));
        let mut latched = latched.collect::<Result<Vec<_>, _>>()?;
        let copy = copy_of(latched[0].page());
        let Some((first, others)) = latched.split_first_mut() else { return Err(Restart) };
        let mut nodes = vec![NodeRef::new(copy.page())];
        nodes.extend(others.iter().map(|leaf| NodeRef::new(leaf.page())));
        let separators = packing.separators(&nodes);
        let gone = child + 1..child + packing.takes;
        if !NodeRef::new(parent.page()).has_room_instead(gone.clone(), &separators) {
            return Ok(nothing(nodes[0], child + 1 == children));
        }
        // 3. New pages are marked as in use, those that go as free.
        let spares = &spares[..packing.makes()];
        let mut made = spares.iter().map(NewPage::latch).collect::<Result<Vec<_>, _>>()?;
        let new_pages: Vec<_> = spares.iter().map(|spare| spare.id().page()).collect();
        let old_pages: Vec<_> = others.iter().map(|leaf| leaf.id().page()).collect();
        let marked = change.mark(space, attempt, &old_pages, false).and_then(|()| {
            let none = new_pages.is_empty();
            if none { Ok(()) } else { change.mark(space, attempt, &new_pages, true) }
        });
        // No latch is held while the next try is waited for.
        marked.inspect_err(|_| change.clear())?;
        // 4. The leaves are written, and become children of the parent. Nothing fails any more.
        let links: Vec<_> = spares.iter().map(|spare| spare.id().to_bits()).collect();
        let pages = std::iter::once(&mut *first).chain(&mut made);
        for (number, page) in pages.enumerate() {
            let right = links.get(number).copied();
            let right = right.unwrap_or(nodes[packing.takes - 1].right_link());
            let mut node = NodeMut::new(page.page_mut());
            packing.write(&nodes, &separators, (number, right), &mut node);
            push_node(change, page);
        }
        for _ in gone {
            NodeMut::new(parent.page_mut()).remove_child(child + 1);
            change.push(parent.id(), &Operation::RemoveChild { index: child as u32 + 1 });
        }
        for (separator, link) in separators.iter().zip(links) {
            let inserted = NodeMut::new(parent.page_mut()).insert_child(separator, link);
            debug_assert!(inserted.is_ok(), "there was room");
            change.push(parent.id(), &Operation::InsertChild { link, separator });
        }
        let mut changed = vec![&mut *parent, first];
        changed.extend(&mut made);
        change.commit(&mut changed);
        // 5. Discarding may wait for the device: no operation needs these pages any more.
        let last = separators.into_iter().next_back();
        drop((parent, made));
        let mut latched = latched.into_iter();
        drop(latched.next());
        let freed = latched.map(|leaf| space.discard(leaf)).collect();
        Ok(Packed::Fewer { takes: packing.takes, made: packing.makes(), freed, last })
    }
}

fn nothing(leaf: NodeRef<'_>, is_last_child: bool) -> Packed {
    Packed::Nothing { is_last_child, next: leaf.upper_fence() }
}

fn target(key: Option<&[u8]>) -> Target<'_> {
    key.map_or(Target::First, Target::Key)
}
