//! Splitting and joining buckets and nodes: what a hash index brings to
//! [`polder_structure::reshape`], which says which pages are latched when (`RESHAPE-1` to
//! `RESHAPE-5`).
//!
//! Two children are joined only if they are *buddies*: their prefixes are the halves of one. That a key
//! and its bucket agree needs no check on the way of a lookup: the link to a bucket is read and validated
//! together with the slots, and a page that changes what it covers is changed with its parent, or is
//! the root.

use polder_format::log::Operation;
use polder_pool::bytes::PageRef;
use polder_pool::{Change, Exclusive, Translation};
use polder_structure::Reshape;
use polder_structure::page::{bytes_of, link};
use polder_structure::reshape::{Divided, JOIN_FREE_PART, Need, Needed, join_at, make_room};

use crate::bucket::{self, BucketMut, BucketRef};
use crate::descent::HashPages;
use crate::error::HashError;
use crate::handle::HashIndex;
use crate::hash::{KeyHash, Prefix, Side};
use crate::node::{Edit, NodeMut, NodeRef, max_children};
use crate::page::{self, level};

/// What must go into a bucket that is to be split.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) hash: KeyHash,
    pub(crate) value: &'a [u8],
}

impl<T: Translation> HashIndex<T> {
    /// Splits the bucket for an entry's hash, so that it has room. False if no split helps: all of its
    /// keys have one hash.
    pub(crate) fn split_bucket(&self, newcomer: Newcomer<'_>) -> Result<bool, HashError> {
        Ok(make_room::<HashPages, T>(&self.space, newcomer)?)
    }

    /// The bucket for a hash has become small: joins it with its buddy, as far as they fit in one page.
    pub(crate) fn merge_at(&self, hash: KeyHash) -> Result<(), HashError> {
        Ok(join_at::<HashPages, T>(&self.space, hash)?)
    }
}

impl Reshape for HashPages {
    type Newcomer<'n> = Newcomer<'n>;
    /// The newcomer's hash: a page is divided by the bit behind its prefix.
    type Split = KeyHash;

    fn target(newcomer: &Newcomer<'_>) -> KeyHash {
        newcomer.hash
    }

    fn need(page: PageRef<'_>, newcomer: Newcomer<'_>) -> Needed<KeyHash> {
        let Newcomer { key, hash, value } = newcomer;
        let (node, bucket) = (NodeRef::new(page), BucketRef::new(page));
        let is_bucket = node.level() == 0;
        let has_room = match is_bucket {
            false => node.has_room_to_split(hash),
            true if bucket.has_next() => bucket.chain_hash() == hash,
            true => bucket.has_room(bucket.search(key, hash), key.len(), value.len()),
        };
        if has_room {
            return Ok(Need::Nothing);
        }
        if is_bucket && !bucket.has_next() && bucket.all_have(hash) {
            return Ok(Need::More);
        }
        // There are two sides, unless the page was made up.
        match if is_bucket { bucket.prefix().bits() < 64 } else { node.depth() > 0 } {
            true => Ok(Need::Split(hash)),
            false => Err("a page of a hash index is full of what does not belong there"),
        }
    }

    fn has_room(parent: PageRef<'_>, hash: &KeyHash) -> bool {
        NodeRef::new(parent).has_room_to_split(*hash)
    }

    fn in_parent(hash: &KeyHash) -> Newcomer<'_> {
        Newcomer { key: &[], hash: *hash, value: &[] }
    }

    fn divide(change: &mut Change<'_>, hash: &KeyHash, pages: Divided<'_, '_>) {
        let [parent, page, new] = pages;
        let side = divide(change, page, new);
        let mut node = NodeMut::new(parent.page_mut());
        let edit = node.split_child(*hash, new.id().to_bits(), side);
        push_edit(change, parent, &edit);
    }

    fn divide_root(change: &mut Change<'_>, _: &KeyHash, pages: Divided<'_, '_>) {
        let [root, low, high] = pages;
        let level = level(root.page());
        let (node, bucket) = (NodeRef::new(root.page()), BucketRef::new(root.page()));
        if level > 0 {
            NodeMut::new(low.page_mut()).take_half(node, Side::Low);
            NodeMut::new(high.page_mut()).take_half(node, Side::High);
        } else if bucket.has_next() {
            // All entries are on the chain's side.
            let side = bucket.prefix().side(bucket.chain_hash());
            let (near, far) =
                if side == Side::Low { (&mut *low, &mut *high) } else { (&mut *high, &mut *low) };
            BucketMut::new(near.page_mut()).copy_content_from(bucket);
            BucketMut::new(near.page_mut()).set_prefix(bucket.prefix().half(side));
            BucketMut::new(far.page_mut()).init(bucket.prefix().half(side.other()));
        } else {
            BucketMut::new(low.page_mut()).keep(Side::Low, bucket);
            BucketMut::new(high.page_mut()).keep(Side::High, bucket);
        }
        let links = [low.id().to_bits(), high.id().to_bits()];
        NodeMut::new(root.page_mut()).init(level + 1, Prefix::ALL, links);
        [low, high, root].into_iter().for_each(|page| push_page(change, page));
    }

    fn neighbours(
        parent: PageRef<'_>,
        slot: usize,
        _: PageRef<'_>,
    ) -> impl Iterator<Item = [usize; 2]> {
        NodeRef::new(parent).buddy_slots(slot).into_iter()
    }

    fn is_worth_joining(low: PageRef<'_>, high: PageRef<'_>) -> bool {
        let whole = page::prefix(low).whole();
        let sides = [(low, Side::Low), (high, Side::High)];
        if !sides.into_iter().all(|(page, side)| page::prefix(page) == whole.half(side)) {
            return false;
        }
        match (level(low), level(high)) {
            (0, 0) => {
                let (low, high) = (BucketRef::new(low), BucketRef::new(high));
                let (both, usable) = (low.used_bytes() + high.used_bytes(), low.usable_bytes());
                !low.has_next() && !high.has_next() && both + usable / JOIN_FREE_PART <= usable
            }
            (a, b) => a == b && NodeRef::new(low).can_absorb(NodeRef::new(high)),
        }
    }

    fn join(
        change: &mut Change<'_>,
        [slot, _]: [usize; 2],
        [parent, low]: [&mut Exclusive<'_>; 2],
        high: PageRef<'_>,
    ) -> bool {
        let hash = NodeRef::new(parent.page()).prefix_in(slot).first();
        let Some(edit) = NodeMut::new(parent.page_mut()).join_children(hash) else {
            parent.set_unlogged();
            return false;
        };
        if level(low.page()) == 0 {
            let fits = BucketMut::new(low.page_mut()).absorb(BucketRef::new(high));
            debug_assert!(fits, "asked before the pages were latched");
        } else {
            NodeMut::new(low.page_mut()).absorb(NodeRef::new(high));
        }
        push_page(change, low);
        push_edit(change, parent, &edit);
        true
    }

    fn is_small(parent: PageRef<'_>) -> bool {
        4 * NodeRef::new(parent).count() <= max_children(parent.size())
    }

    fn only_child(root: PageRef<'_>) -> Option<usize> {
        let node = NodeRef::new(root);
        (node.level() > 0 && node.count() == 1).then_some(0)
    }

    fn lift(change: &mut Change<'_>, root: &mut Exclusive<'_>, child: PageRef<'_>) {
        match level(child) {
            0 => BucketMut::new(root.page_mut()).copy_content_from(BucketRef::new(child)),
            _ => NodeMut::new(root.page_mut()).copy_content_from(NodeRef::new(child)),
        }
        push_page(change, root);
    }
}

/// Pushes a full-page image of a bucket or a node.
pub(crate) fn push_page(change: &mut Change<'_>, page: &mut Exclusive<'_>) {
    let hole = match level(page.page()) {
        0 => BucketRef::new(page.page()).hole(),
        _ => NodeRef::new(page.page()).hole(),
    };
    change.push_full_page_image(page, hole);
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
    if let Some(offset) = edit.link {
        patch(offset, &link(page.page(), offset).to_le_bytes());
    }
}

/// Splits what a page holds with a new one. Gives the side that the new one has; records of both pages
/// are pushed.
fn divide(change: &mut Change<'_>, page: &mut Exclusive<'_>, new: &mut Exclusive<'_>) -> Side {
    let level = level(page.page());
    if level > 0 {
        NodeMut::new(page.page_mut()).split_into(&mut NodeMut::new(new.page_mut()));
        push_page(change, page);
        push_page(change, new);
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
    push_page(change, new);
    Side::High
}

/// All entries are on the chain's side, where its first page stays.
fn divide_chain(
    change: &mut Change<'_>,
    page: &mut Exclusive<'_>,
    new: &mut Exclusive<'_>,
) -> Side {
    let bucket = BucketRef::new(page.page());
    let (prefix, side) = (bucket.prefix(), bucket.prefix().side(bucket.chain_hash()));
    BucketMut::new(new.page_mut()).init(prefix.half(side.other()));
    BucketMut::new(page.page_mut()).set_prefix(prefix.half(side));
    let at = page::at::BITS..bucket::at::NEXT;
    let bytes = bytes_of(page, at.clone());
    let patch = Operation::Patch { offset: at.start as u32, backed: 0, bytes: &bytes };
    change.push(page.id(), &patch);
    push_page(change, new);
    side.other()
}
