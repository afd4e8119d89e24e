//! Splitting and merging nodes: how the tree grows and shrinks.
//!
//! * `TREE-1` Who changes more than one node latches the parent first, then its children from left
//!   to right, all by upgrades that wait for nobody, or for a moment until readers that hold the
//!   page let go, and restarts if one fails.
//! * `TREE-2` New pages are made before the first latch, freed pages are given back after the last.
//! * `TREE-3` A node is split only while its parent, latched, has room for the separator; else the
//!   parent is split first, as an operation of its own.
//! * `TREE-4` The root stays page 1: when it is full its content goes into a new child, when it has
//!   a single child that child's content comes up.
//! * `TREE-5` Only children of one parent are merged. The right one goes; whatever still leads to
//!   it fails to validate, or is stopped by the fences.

use polder_format::PageId;
use polder_format::log::Operation;
use polder_pool::Translation;
use polder_pool::journal::{group_bytes, image_bytes};
use polder_pool::{
    AccessHint, Attempt, Change, Exclusive, LinkRef, NewPage, Optimistic, Restart, Shadow,
};

use crate::descent::{MAX_HEIGHT, Rounds, Target, descend, ensure, fail};
use crate::error::TreeError;
use crate::node::{NewValue, NodeMut, NodeRef, Split};
use crate::tree::{Tree, is_underfull};

/// Two nodes are merged if what they hold together leaves this part of the result free: one eighth,
/// so that the next insert does not split it again.
const MERGE_FREE_PART: usize = 8;

/// What must go into a node that is to be split.
#[derive(Clone, Copy)]
enum Newcomer<'a> {
    Entry(&'a [u8], NewValue<'a>),
    /// Several entries of one leaf: keys, and the bytes that they take at most.
    Entries(&'a [(&'a [u8], usize)]),
    Separator(&'a [u8]),
}

impl Newcomer<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Newcomer::Entry(key, _) | Newcomer::Separator(key) => key,
            Newcomer::Entries(entries) => entries.first().map_or(&[], |(key, _)| key),
        }
    }

    /// Bytes that it takes at most, slot included.
    fn bytes_at_most(&self) -> usize {
        if let Newcomer::Entries(entries) = self {
            return entries.iter().map(|(_, bytes)| bytes).sum();
        }
        let stored = match self {
            Newcomer::Entry(_, NewValue::Inline(bytes)) => bytes.len(),
            _ => 16,
        };
        self.key().len() + stored + 32
    }

    /// What of it belongs to this node, which the first key led to: others may have split it since
    /// the entries were found to have no room.
    fn within(self, node: NodeRef<'_>) -> Self {
        let Newcomer::Entries(entries) = self else { return self };
        let covered = |(key, _): &&(&[u8], usize)| node.compare_to_fences(key).is_eq();
        Newcomer::Entries(&entries[..entries.iter().take_while(covered).count()])
    }

    fn choose(&self, node: NodeRef<'_>) -> Option<Split> {
        match *self {
            Newcomer::Entry(key, value) => node.choose_leaf_split(key, value),
            Newcomer::Entries(entries) => node.choose_leaf_split_for(entries),
            Newcomer::Separator(key) => node.choose_inner_split(key),
        }
    }
}

/// How an attempt to split ended.
enum Outcome {
    /// With this many of the new pages; none if somebody else has split the node.
    Done { pages: usize },
    /// A root's content goes into two new pages (`TREE-4`).
    RootNeedsTwo,
    /// The parent has no room for this separator (`TREE-3`).
    ParentFull(Vec<u8>),
}

impl<T: Translation> Tree<T> {
    /// Splits the leaf that covers `key`, so that it has room for this entry.
    pub(crate) fn split_leaf(&self, key: &[u8], value: NewValue<'_>) -> Result<(), TreeError> {
        let mut spares = Vec::new();
        let split = self.split(0, Newcomer::Entry(key, value), &mut spares);
        spares.iter().for_each(|spare| self.give_up(spare));
        split
    }

    /// Splits the leaf that covers these keys, in order, which take so many bytes each at most, if it
    /// has no room for all of them.
    pub(crate) fn split_leaf_for(&self, entries: &[(&[u8], usize)]) -> Result<(), TreeError> {
        let mut spares = Vec::new();
        let split = self.split(0, Newcomer::Entries(entries), &mut spares);
        spares.iter().for_each(|spare| self.give_up(spare));
        split
    }

    /// Takes the pages that it needs from `spares`, and makes some if there are none.
    fn split<'p>(
        &'p self,
        level: u8,
        newcomer: Newcomer<'_>,
        spares: &mut Vec<NewPage<'p>>,
    ) -> Result<(), TreeError> {
        let (mut wanted, mut rounds) = (1, Rounds::default());
        loop {
            // TREE-2: nothing is latched yet.
            while spares.len() < wanted {
                spares.push(self.space.create()?);
            }
            let mut change = self.space.change(self.reshape_bytes())?;
            let outcome = self.space.run(AccessHint::Normal, |attempt| {
                change.clear();
                self.try_split(attempt, &mut change, level, newcomer, spares)
            })?;
            drop(change);
            match outcome {
                Outcome::Done { pages } => {
                    spares.drain(..pages);
                    return Ok(());
                }
                Outcome::RootNeedsTwo => wanted = 2,
                Outcome::ParentFull(separator) => {
                    self.split(level + 1, Newcomer::Separator(&separator), spares)?;
                }
            }
            rounds.next(self, newcomer.key())?;
        }
    }

    /// Latches a node that will be changed. An inner one by a copy, where the pool's readers take
    /// snapshots; a leaf in its place: who reads it wants what it is now.
    fn latch<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        page: Optimistic<'p>,
    ) -> Result<Shadow<'p, T>, Restart> {
        if NodeRef::new(page.page()).is_leaf() {
            attempt.upgrade(page).map(Shadow::from)
        } else {
            self.space.shadow(attempt, page)
        }
    }

    /// Most bytes of log that one split or merge takes: three images, and the words between.
    fn reshape_bytes(&self) -> usize {
        image_bytes(3, self.space.page_size()) + group_bytes(4, self.page_bytes())
    }

    /// Frees a page that was made and not used.
    fn give_up(&self, spare: &NewPage<'_>) {
        self.free_pages(&[spare.id().page()]);
    }

    fn try_split<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        level: u8,
        newcomer: Newcomer<'_>,
        spares: &[NewPage<'p>],
    ) -> Result<Outcome, Restart> {
        let place = descend(&self.space, attempt, Target::Key(newcomer.key()), level)?;
        let Some((parent, _)) = place.parent else {
            let mut root = self.latch(attempt, place.page)?;
            if !split_is_needed(&root, level, newcomer) {
                return Ok(Outcome::Done { pages: 0 });
            }
            let [left, right, ..] = spares else { return Ok(Outcome::RootNeedsTwo) };
            let pages = [left.id().page(), right.id().page()];
            let Some(split) = choose(attempt, &root, newcomer)? else {
                return Ok(Outcome::Done { pages: 0 });
            };
            change.mark(&self.space, attempt, &pages, true)?;
            return split_root(change, &mut root, &split, left, right);
        };
        // TREE-1: the parent before its child.
        let mut parent = self.latch(attempt, parent)?;
        let mut node = self.latch(attempt, place.page)?;
        let newcomer = newcomer.within(NodeRef::new(node.page()));
        if !split_is_needed(&node, level, newcomer) {
            return Ok(Outcome::Done { pages: 0 });
        }
        let Some(split) = choose(attempt, &node, newcomer)? else {
            return Ok(Outcome::Done { pages: 0 });
        };
        let right_link = spares[0].id().to_bits();
        let mut right = spares[0].latch()?;
        change.mark(&self.space, attempt, &[spares[0].id().page()], true)?;
        // Asked first: a page that is not changed must not become dirty, with an LSN that recovery
        // takes for older than all that the log tells.
        if !NodeRef::new(parent.page()).has_room_for_child(&split.separator) {
            return Ok(Outcome::ParentFull(split.separator));
        }
        let inserted = NodeMut::new(parent.page_mut()).insert_child(&split.separator, right_link);
        debug_assert!(inserted.is_ok(), "there was room");
        let mut right_node = NodeMut::new(right.page_mut());
        NodeMut::new(node.page_mut()).split_into(&mut right_node, right_link, &split);
        let separator = split.separator.as_slice();
        change.push(parent.id(), &Operation::InsertChild { link: right_link, separator });
        let left_count = split.left_count() as u32;
        change.push(node.id(), &Operation::Split { left_count, right: right_link, separator });
        push_node(change, &mut right);
        change.commit(&mut [&mut parent, &mut node, &mut right]);
        Ok(Outcome::Done { pages: 1 })
    }

    /// The leaf that covers `key` has become small: joins it with its neighbours as far as they
    /// have room, and does the same on each level above that becomes small by it.
    pub(crate) fn merge_at(&self, key: &[u8]) -> Result<(), TreeError> {
        let mut level = 0;
        while usize::from(level) < MAX_HEIGHT {
            let mut change = self.space.change(self.reshape_bytes())?;
            let merged = self.space.run(AccessHint::Normal, |attempt| {
                change.clear();
                self.try_merge(attempt, &mut change, key, level)
            })?;
            drop(change);
            match merged {
                // What is joined may have brought nodes of the level below together.
                Merged::Joined(freed) => {
                    self.space.give_back(freed); // TREE-2: nothing is latched any more
                    level = level.saturating_sub(1);
                }
                Merged::Apart { parent_small: true } => level += 1,
                Merged::Apart { parent_small: false } => return Ok(()),
            }
        }
        Ok(())
    }

    fn try_merge<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        key: &[u8],
        level: u8,
    ) -> Result<Merged, Restart> {
        let place = descend(&self.space, attempt, Target::Key(key), level)?;
        let Some((parent, index)) = place.parent else {
            return self.try_lower_root(attempt, change, place.page);
        };
        let above = NodeRef::new(parent.page());
        if is_underfull(NodeRef::new(place.page.page())) {
            // With the neighbour on the right, else with that on the left, below the same parent
            // (TREE-5).
            for left in [Some(index), index.checked_sub(1)].into_iter().flatten() {
                if left < above.count()
                    && let Some(freed) = self.try_join(attempt, change, parent, left)?
                {
                    return Ok(Merged::Joined(freed));
                }
            }
        }
        let parent_small = is_underfull(above) || above.count() == 0;
        parent.validate()?;
        place.page.validate()?;
        Ok(Merged::Apart { parent_small })
    }

    /// Joins the children `left` and `left + 1` of `parent` if that is worth it. The page that was
    /// freed.
    fn try_join<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        parent: Optimistic<'p>,
        left: usize,
    ) -> Result<Option<PageId>, Restart> {
        let right_index = left + 1;
        let above = NodeRef::new(parent.page());
        let child = |attempt: &mut Attempt<'p>, index: usize| {
            let link = LinkRef::InPage(parent.page(), above.link_offset(index));
            let child = self.space.follow(attempt, link, Some(&parent))?;
            let seen = above.verify_child(index, NodeRef::new(child.page()));
            ensure(attempt, &[child, parent], seen)?;
            Ok(child)
        };
        let (left, right) = (child(attempt, left)?, child(attempt, right_index)?);
        if !worth_merging(NodeRef::new(left.page()), NodeRef::new(right.page())) {
            left.validate()?;
            right.validate()?;
            return Ok(None);
        }
        // TREE-1: the parent first, then its children from left to right.
        let mut parent = self.latch(attempt, parent)?;
        let mut left = self.latch(attempt, left)?;
        let right = attempt.upgrade(right)?;
        let freed = [right.id().page()];
        change.mark(&self.space, attempt, &freed, false)?;
        let joined = NodeMut::new(left.page_mut()).merge_right(NodeRef::new(right.page()));
        if joined.is_err() {
            left.excuse();
            change.clear();
            return Ok(None);
        }
        NodeMut::new(parent.page_mut()).remove_child(right_index);
        change.push(parent.id(), &Operation::RemoveChild { index: right_index as u32 });
        push_node(change, &mut left);
        change.commit(&mut [&mut parent, &mut left]);
        // Discarding may wait for the device: by now nobody needs the page but those who will
        // find that it is gone.
        drop((parent, left));
        Ok(Some(self.space.discard(right)))
    }

    /// `TREE-4`: the only child's content comes up into the root.
    fn try_lower_root<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        root: Optimistic<'p>,
    ) -> Result<Merged, Restart> {
        let node = NodeRef::new(root.page());
        if node.level() == 0 || node.count() > 0 {
            root.validate()?;
            return Ok(Merged::Apart { parent_small: false });
        }
        let link = LinkRef::InPage(root.page(), node.link_offset(0));
        let child = self.space.follow(attempt, link, Some(&root))?;
        ensure(attempt, &[child, root], node.verify_child(0, NodeRef::new(child.page())))?;
        let mut root = self.latch(attempt, root)?;
        let child = attempt.upgrade(child)?;
        let freed = [child.id().page()];
        change.mark(&self.space, attempt, &freed, false)?;
        NodeMut::new(root.page_mut()).copy_content_from(NodeRef::new(child.page()));
        push_node(change, &mut root);
        change.commit(&mut [&mut root]);
        drop(root);
        Ok(Merged::Joined(self.space.discard(child)))
    }
}

/// How an attempt to merge ended.
enum Merged {
    /// Two nodes are one; this page is free.
    Joined(PageId),
    /// There was nothing to join.
    Apart {
        /// The parent is worth a look.
        parent_small: bool,
    },
}

/// Whether the node is the one meant, and still has no room: somebody else may have split it.
fn split_is_needed(page: &Exclusive<'_>, level: u8, newcomer: Newcomer<'_>) -> bool {
    let node = NodeRef::new(page.page());
    let free = node.usable_bytes().saturating_sub(node.used_bytes());
    node.level() == level && free < newcomer.bytes_at_most()
}

/// Where to split a node that is latched; `None` if it need not be. A split that its redo would
/// refuse is none: it divides the keys where they are not in order.
fn choose(
    attempt: &mut Attempt<'_>,
    page: &Exclusive<'_>,
    newcomer: Newcomer<'_>,
) -> Result<Option<Split>, Restart> {
    let node = NodeRef::new(page.page());
    let split = newcomer.choose(node);
    match &split {
        Some(split) if !node.admits(split) => {
            Err(fail(attempt, page.id(), "keys are not in order, or not within the fences"))
        }
        _ => Ok(split),
    }
}

/// Pushes an image of a node.
fn push_node(change: &mut Change<'_>, page: &mut Exclusive<'_>) {
    let hole = NodeRef::new(page.page()).hole();
    change.push_image(page, hole);
}

fn split_root<'p>(
    change: &mut Change<'p>,
    root: &mut Exclusive<'p>,
    split: &Split,
    left: &NewPage<'p>,
    right: &NewPage<'p>,
) -> Result<Outcome, Restart> {
    let level = NodeRef::new(root.page()).level();
    let (left_link, right_link) = (left.id().to_bits(), right.id().to_bits());
    let (mut left, mut right) = (left.latch()?, right.latch()?);
    let mut left_node = NodeMut::new(left.page_mut());
    left_node.copy_content_from(NodeRef::new(root.page()));
    left_node.split_into(&mut NodeMut::new(right.page_mut()), right_link, split);
    let mut above = NodeMut::new(root.page_mut());
    above.init(level + 1, None, None, 0, left_link);
    // An empty node has room for any key.
    let _ = above.insert_child(&split.separator, right_link);
    [&mut left, &mut right].into_iter().for_each(|page| push_node(change, page));
    push_node(change, root);
    change.commit(&mut [&mut left, &mut right, root]);
    Ok(Outcome::Done { pages: 2 })
}

fn worth_merging(left: NodeRef<'_>, right: NodeRef<'_>) -> bool {
    let usable = left.usable_bytes().min(right.usable_bytes());
    let both = left.used_bytes() + right.used_bytes();
    // An empty node goes wherever it can.
    let reserve =
        if left.count() == 0 || right.count() == 0 { 0 } else { usable / MERGE_FREE_PART };
    both + reserve <= usable && left.can_merge(right)
}
