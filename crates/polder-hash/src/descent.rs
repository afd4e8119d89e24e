//! What a descent follows, and what it compares: a hash leads through the nodes to its bucket.

use polder_pool::bytes::PageRef;
use polder_pool::{Attempt, Optimistic, Restart, Space, Translation};
use polder_structure::Levels;
use polder_structure::levels::{Seen, lowest};
use polder_structure::page::ensure;

use crate::bucket::BucketRef;
use crate::hash::{KeyHash, Prefix};
use crate::node::NodeRef;
use crate::page;

/// The pages of an index, as its descents see them. A child is named by a slot that leads to it.
pub(crate) enum HashPages {}

impl Levels for HashPages {
    type Target<'t> = KeyHash;

    #[inline(always)]
    fn level(page: PageRef<'_>) -> u8 {
        page::level(page)
    }

    #[inline(always)]
    fn prefetch(page: PageRef<'_>) {
        BucketRef::new(page).prefetch();
    }

    fn child(page: PageRef<'_>, hash: KeyHash) -> usize {
        NodeRef::new(page).slot_of(hash)
    }

    fn link_offset(page: PageRef<'_>, slot: usize) -> usize {
        NodeRef::new(page).link_in(slot)
    }

    fn verify_root(page: PageRef<'_>) -> Seen {
        ensure(page::prefix(page) == Prefix::ALL, "the root of a hash index has a prefix")
    }

    /// `HASH-1` and `HASH-3`.
    fn verify_child(page: PageRef<'_>, slot: usize, below: PageRef<'_>) -> Seen {
        let node = NodeRef::new(page);
        page::verify_below(below, node.level().wrapping_sub(1), node.prefix_in(slot))
    }

    fn covers(page: PageRef<'_>, hash: KeyHash) -> Seen {
        ensure(page::prefix(page).covers(hash), "a bucket is not where its hashes are")
    }

    fn verify_whole(page: PageRef<'_>) -> Seen {
        match page::level(page) {
            0 => BucketRef::new(page).verify_whole(),
            _ => NodeRef::new(page).verify_shape(),
        }
    }
}

/// Descends to the bucket for a hash.
#[inline(always)]
pub(crate) fn bucket<'p, T: Translation>(
    space: &'p Space<T>,
    attempt: &mut Attempt<'p>,
    hash: KeyHash,
) -> Result<Optimistic<'p>, Restart> {
    lowest::<HashPages, T>(space, attempt, |page| NodeRef::new(page).link_for(hash))
}
