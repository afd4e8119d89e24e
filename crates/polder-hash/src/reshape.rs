//! Splitting and joining buckets and nodes: how the directory grows and shrinks.
//!
//! * `RESHAPE-1` Who changes more than one page latches the parent first, then its children from the
//!   low to the high side, all by upgrades that never wait, and restarts if one fails. That are three
//!   pages and a map at most, whatever the size of the directory.
//! * `RESHAPE-2` New pages are made before the first latch, freed pages are given back after the last.
//! * `RESHAPE-3` A page is split only while its parent, latched, has room for one child more; else
//!   the parent is split first, as an operation of its own.
//! * `RESHAPE-4` The root stays page 1: when it is full its content goes into two new pages, when it
//!   has a single child that child's content comes up. So all buckets are on one level.
//! * `RESHAPE-5` Only buddies are joined: two children whose prefixes are the halves of one. The high
//!   one goes; whatever still leads to it fails to validate.
//!
//! That a key and its bucket agree needs no check on the way: the link to a bucket is read and
//! validated together with the slots, and a page that changes what it covers is changed with its
//! parent, or is the root.

use polder_format::PageId;
use polder_format::log::Operation;
use polder_pool::Translation;
use polder_pool::bytes::PageRef;
use polder_pool::journal::{group_bytes, image_bytes};
use polder_pool::{AccessHint, Attempt, Change, Exclusive, LinkRef, NewPage, Optimistic, Restart};

use crate::bucket::{self, BucketMut, BucketRef};
use crate::descent::{Place, check, descend};
use crate::error::HashError;
use crate::hash::{KeyHash, Prefix, Side};
use crate::index::HashIndex;
use crate::node::{Edit, MAX_LEVELS, NodeMut, NodeRef, max_children};
use crate::page::{self, broken, bytes_of, level};

/// Two buckets are joined if what they hold together leaves this part of the result free: one eighth,
/// so that the next insert does not split it again.
const MERGE_FREE_PART: usize = 8;

/// What must go into a bucket that is to be split.
#[derive(Clone, Copy)]
struct Newcomer<'a> {
    key: &'a [u8],
    hash: KeyHash,
    value: &'a [u8],
}

/// What a full page needs.
enum Need {
    /// Nothing: somebody else has made room.
    Nothing,
    /// To be split.
    Split,
    /// A chain: all keys have one hash, which no split divides.
    Chain,
}

impl Newcomer<'_> {
    /// What it needs of the page that it belongs to on this level, and of which it was found full.
    fn need(&self, page: PageRef<'_>, wanted: u8) -> Need {
        if level(page) != wanted {
            return Need::Nothing;
        }
        if wanted > 0 {
            let has_room = NodeRef::new(page).has_room_to_split(self.hash);
            return if has_room { Need::Nothing } else { Need::Split };
        }
        let bucket = BucketRef::new(page);
        if bucket.has_next() {
            return if bucket.chain_hash() == self.hash { Need::Nothing } else { Need::Split };
        }
        let entry = bucket.search(self.key, self.hash);
        match bucket.has_room(entry, self.key.len(), self.value.len()) {
            true => Need::Nothing,
            false if bucket.all_have(self.hash) => Need::Chain,
            false => Need::Split,
        }
    }
}

/// How an attempt to split ended.
enum Outcome {
    /// With this many of the new pages; none if somebody else has split the page.
    Done { pages: usize },
    /// A root's content goes into two new pages (`RESHAPE-4`).
    RootNeedsTwo,
    /// The parent has no room for a child more (`RESHAPE-3`).
    ParentFull,
    /// No split helps.
    NeedsChain,
}

impl<T: Translation> HashIndex<T> {
    /// Makes room for an entry in the bucket for its hash.
    pub(crate) fn split_bucket(
        &self,
        key: &[u8],
        hash: KeyHash,
        value: &[u8],
    ) -> Result<(), HashError> {
        let mut spares = Vec::new();
        let split = self.split(0, Newcomer { key, hash, value }, &mut spares);
        let unused: Vec<_> = spares.drain(..).map(|spare| spare.id().page()).collect();
        unused.into_iter().for_each(|page| self.space.free(page));
        split
    }

    /// Takes the pages that it needs from `spares`, and makes some if there are none.
    fn split<'p>(
        &'p self,
        level: u8,
        newcomer: Newcomer<'_>,
        spares: &mut Vec<NewPage<'p>>,
    ) -> Result<(), HashError> {
        let mut wanted = 1;
        loop {
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
                Outcome::ParentFull => self.split(level + 1, newcomer, spares)?,
                Outcome::NeedsChain => {
                    let len = newcomer.key.len() + newcomer.value.len();
                    return self.lengthen_chain(newcomer.hash, len);
                }
            }
        }
    }

    /// Most bytes of log that one split or join takes: three images, and the words between.
    fn reshape_bytes(&self) -> usize {
        let size = self.space.page_size();
        image_bytes(3, size) + group_bytes(6, size.bytes())
    }

    fn try_split<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        level: u8,
        newcomer: Newcomer<'_>,
        spares: &[NewPage<'p>],
    ) -> Result<Outcome, Restart> {
        let hash = newcomer.hash;
        let place = descend(&self.space, attempt, hash, level)?;
        let Place { page, parent } = place;
        let mut parent = parent.map(|parent| attempt.upgrade(parent)).transpose()?;
        let mut held = attempt.upgrade(page)?;
        match newcomer.need(held.page(), level) {
            Need::Nothing => return Ok(Outcome::Done { pages: 0 }),
            Need::Chain => return Ok(Outcome::NeedsChain),
            Need::Split if !can_split(held.page()) => {
                let what = "a page of a hash index is full of what does not belong there";
                return Err(attempt.fail(broken(held.id(), what)));
            }
            Need::Split => {}
        }
        let Some(parent) = &mut parent else {
            let [low, high, ..] = spares else { return Ok(Outcome::RootNeedsTwo) };
            let pages = [low.id().page(), high.id().page()];
            let mut new = [low.latch()?, high.latch()?];
            change.mark(&self.space, attempt, &pages, true)?;
            split_root(change, &mut held, &mut new);
            return Ok(Outcome::Done { pages: 2 });
        };
        if !NodeRef::new(parent.page()).has_room_to_split(hash) {
            return Ok(Outcome::ParentFull);
        }
        let mut new = spares[0].latch()?;
        change.mark(&self.space, attempt, &[spares[0].id().page()], true)?;
        let side = divide(change, &mut held, &mut new);
        let edit = NodeMut::new(parent.page_mut()).split_child(hash, new.id().to_bits(), side);
        push_edit(change, parent, &edit);
        change.commit(&mut [parent, &mut held, &mut new]);
        Ok(Outcome::Done { pages: 1 })
    }

    /// The bucket for a hash has become small: joins it with its buddy as far as they fit in one page,
    /// and does the same on each level above that becomes small by it.
    pub(crate) fn merge_at(&self, hash: KeyHash) -> Result<(), HashError> {
        let mut level = 0;
        while level < MAX_LEVELS {
            let mut change = self.space.change(self.reshape_bytes())?;
            let merged = self.space.run(AccessHint::Normal, |attempt| {
                change.clear();
                self.try_merge(attempt, &mut change, hash, level)
            })?;
            drop(change);
            match merged {
                // What is joined may have brought buddies of the level below together.
                Merged::Joined(freed) => {
                    self.space.give_back(freed);
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
        hash: KeyHash,
        wanted: u8,
    ) -> Result<Merged, Restart> {
        let place = descend(&self.space, attempt, hash, wanted)?;
        let Some(parent) = place.parent else {
            return self.try_lower_root(attempt, change, place.page);
        };
        let above = NodeRef::new(parent.page());
        if let Some(links) = above.buddies(hash) {
            let mut child = |link: usize| {
                let link = LinkRef::InPage(parent.page(), link);
                self.space.follow(attempt, link, Some(&parent))
            };
            let (low, high) = (child(links[0])?, child(links[1])?);
            if can_join(low.page(), high.page()) {
                return self.join(attempt, change, hash, [parent, low, high]);
            }
            low.validate()?;
            high.validate()?;
        }
        let parent_small = 4 * above.count() <= max_children(parent.page().size());
        parent.validate()?;
        place.page.validate()?;
        Ok(Merged::Apart { parent_small })
    }

    /// `RESHAPE-5`.
    fn join<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        hash: KeyHash,
        [parent, low, high]: [Optimistic<'p>; 3],
    ) -> Result<Merged, Restart> {
        let mut parent = attempt.upgrade(parent)?;
        let mut low = attempt.upgrade(low)?;
        let high = attempt.upgrade(high)?;
        change.mark(&self.space, attempt, &[high.id().page()], false)?;
        let Some(edit) = NodeMut::new(parent.page_mut()).join_children(hash) else {
            parent.excuse();
            change.clear();
            return Ok(Merged::Apart { parent_small: false });
        };
        if level(low.page()) == 0 {
            BucketMut::new(low.page_mut()).absorb(BucketRef::new(high.page()));
            push_bucket(change, &mut low);
        } else {
            NodeMut::new(low.page_mut()).absorb(NodeRef::new(high.page()));
            push_node(change, &mut low);
        }
        push_edit(change, &parent, &edit);
        change.commit(&mut [&mut parent, &mut low]);
        // Discarding may wait for the device: by now nobody needs the page but those who will find
        // that it is gone.
        drop((parent, low));
        Ok(Merged::Joined(self.space.discard(high)))
    }

    /// `RESHAPE-4`: the only child's content comes up into the root.
    fn try_lower_root<'p>(
        &'p self,
        attempt: &mut Attempt<'p>,
        change: &mut Change<'p>,
        root: Optimistic<'p>,
    ) -> Result<Merged, Restart> {
        let node = NodeRef::new(root.page());
        if node.level() == 0 || node.count() > 1 {
            root.validate()?;
            return Ok(Merged::Apart { parent_small: false });
        }
        let link = LinkRef::InPage(root.page(), node.link_offset(0));
        let child = self.space.follow(attempt, link, Some(&root))?;
        check(attempt, &child, node.level() - 1, Prefix::ALL)?;
        let mut root = attempt.upgrade(root)?;
        let child = attempt.upgrade(child)?;
        change.mark(&self.space, attempt, &[child.id().page()], false)?;
        if level(child.page()) == 0 {
            BucketMut::new(root.page_mut()).copy_content_from(BucketRef::new(child.page()));
            push_bucket(change, &mut root);
        } else {
            NodeMut::new(root.page_mut()).copy_content_from(NodeRef::new(child.page()));
            push_node(change, &mut root);
        }
        change.commit(&mut [&mut root]);
        drop(root);
        Ok(Merged::Joined(self.space.discard(child)))
    }
}

/// How an attempt to merge ended.
enum Merged {
    /// Two pages are one; this page is free.
    Joined(PageId),
    /// There was nothing to join.
    Apart {
        /// The parent is worth a look.
        parent_small: bool,
    },
}

/// Whether there are two sides, as there are unless a page was made up.
fn can_split(page: PageRef<'_>) -> bool {
    match level(page) {
        0 => page::prefix(page).bits() < 64,
        _ => NodeRef::new(page).depth() > 0,
    }
}

fn can_join(low: PageRef<'_>, high: PageRef<'_>) -> bool {
    let whole = page::prefix(low).whole();
    let sides = [(low, Side::Low), (high, Side::High)];
    if !sides.into_iter().all(|(page, side)| page::prefix(page) == whole.half(side)) {
        return false;
    }
    match (level(low), level(high)) {
        (0, 0) => {
            let (low, high) = (BucketRef::new(low), BucketRef::new(high));
            let (both, usable) = (low.used_bytes() + high.used_bytes(), low.usable_bytes());
            !low.has_next() && !high.has_next() && both + usable / MERGE_FREE_PART <= usable
        }
        (a, b) => a == b && NodeRef::new(low).can_absorb(NodeRef::new(high)),
    }
}

/// Pushes an image of a bucket.
pub(crate) fn push_bucket(change: &mut Change<'_>, page: &mut Exclusive<'_>) {
    let hole = BucketRef::new(page.page()).hole();
    change.push_image(page, hole);
}

fn push_node(change: &mut Change<'_>, page: &mut Exclusive<'_>) {
    let hole = NodeRef::new(page.page()).hole();
    change.push_image(page, hole);
}

/// Pushes what has changed of a node's children.
fn push_edit(change: &mut Change<'_>, page: &Exclusive<'_>, edit: &Edit) {
    if !change.is_logged() {
        return;
    }
    let mut patch = |offset: usize, bytes: &[u8]| {
        change.push(page.id(), &Operation::Patch { offset: offset as u32, backed: 0, bytes });
    };
    patch(Edit::HEADER.start, &bytes_of(page, Edit::HEADER));
    patch(edit.slots.start, &bytes_of(page, edit.slots.clone()));
    if let Some(link) = edit.link {
        patch(link, &page::link(page.page(), link).to_le_bytes());
    }
}

/// Splits what a page holds with a new one. Gives the side that the new one has; records of both pages
/// are pushed.
fn divide<'p>(change: &mut Change<'p>, page: &mut Exclusive<'p>, new: &mut Exclusive<'p>) -> Side {
    let level = level(page.page());
    if level > 0 {
        NodeMut::new(page.page_mut()).split_into(&mut NodeMut::new(new.page_mut()));
        push_node(change, page);
        push_node(change, new);
        return Side::High;
    }
    let bucket = BucketRef::new(page.page());
    if bucket.has_next() {
        return divide_chain(change, page, new);
    }
    let (low, mut high) = (bucket.count(), BucketMut::new(new.page_mut()));
    BucketMut::new(page.page_mut()).split_into(&mut high);
    let (moved, right) = (high.bucket().count(), new.id().to_bits());
    let left_count = (low - moved) as u32;
    change.push(page.id(), &Operation::Split { left_count, right, separator: &[] });
    push_bucket(change, new);
    Side::High
}

/// All entries are on the chain's side, where its first page stays.
fn divide_chain<'p>(
    change: &mut Change<'p>,
    page: &mut Exclusive<'p>,
    new: &mut Exclusive<'p>,
) -> Side {
    let bucket = BucketRef::new(page.page());
    let (prefix, side) = (bucket.prefix(), bucket.prefix().side(bucket.chain_hash()));
    BucketMut::new(new.page_mut()).init(prefix.half(side.other()));
    BucketMut::new(page.page_mut()).set_prefix(prefix.half(side));
    let at = page::at::BITS..bucket::at::NEXT;
    let bytes = bytes_of(page, at.clone());
    let patch = Operation::Patch { offset: at.start as u32, backed: 0, bytes: &bytes };
    change.push(page.id(), &patch);
    push_bucket(change, new);
    side.other()
}

/// `RESHAPE-4`: the root's content goes into two new pages.
fn split_root<'p>(
    change: &mut Change<'p>,
    root: &mut Exclusive<'p>,
    [low, high]: &mut [Exclusive<'p>; 2],
) {
    let level = level(root.page());
    if level > 0 {
        let whole = NodeRef::new(root.page());
        NodeMut::new(low.page_mut()).take_half(whole, Side::Low);
        NodeMut::new(high.page_mut()).take_half(whole, Side::High);
    } else if BucketRef::new(root.page()).has_next() {
        let whole = BucketRef::new(root.page());
        let side = whole.prefix().side(whole.chain_hash());
        let (near, far) =
            if side == Side::Low { (&mut *low, &mut *high) } else { (&mut *high, &mut *low) };
        BucketMut::new(near.page_mut()).copy_content_from(whole);
        BucketMut::new(near.page_mut()).set_prefix(whole.prefix().half(side));
        BucketMut::new(far.page_mut()).init(whole.prefix().half(side.other()));
    } else {
        let whole = BucketRef::new(root.page());
        BucketMut::new(low.page_mut()).keep(Side::Low, whole);
        BucketMut::new(high.page_mut()).keep(Side::High, whole);
    }
    let links = [low.id().to_bits(), high.id().to_bits()];
    NodeMut::new(root.page_mut()).init(level + 1, Prefix::ALL, links);
    for page in [&mut *low, high, root] {
        match crate::page::level(page.page()) {
            0 => push_bucket(change, page),
            _ => push_node(change, page),
        }
    }
    change.commit(&mut [low, high, root]);
}
