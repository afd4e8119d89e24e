//! Checking a node whose bytes nobody vouches for: `HNODE-1` to `HNODE-3`.

use polder_structure::levels::MAX_HEIGHT;
use polder_structure::page::ensure;

use super::{NodeRef, at, max_children, max_depth};
use crate::page;

impl NodeRef<'_> {
    /// Checks, in time proportional to the count of slots, all that can be told from the node alone.
    pub fn verify_shape(self) -> Result<(), &'static str> {
        let size = self.page.size();
        let possible = (1..=MAX_HEIGHT).contains(&self.level());
        ensure(self.is_node() && possible, "this is no node of a directory")?;
        page::verify(self.page)?;
        let (depth, count) = (self.page.u8(at::DEPTH), usize::from(self.page.u16(at::COUNT)));
        let fits = depth <= max_depth(size) && self.prefix().bits() + depth <= 64;
        ensure(fits, "a node is too deep")?;
        ensure((1..=max_children(size)).contains(&count), "a node has too many children, or none")?;

        let mut seen = vec![false; count];
        let (mut slot, mut shortest) = (0, usize::MAX);
        while slot < self.slots() {
            let (run, child) = (self.run(slot), self.child(slot));
            let whole = run.first == slot && run.slots().all(|slot| self.child(slot) == child);
            ensure(whole, "the slots of a child are no run")?;
            let first = seen.get_mut(child).is_some_and(|seen| !std::mem::replace(seen, true));
            ensure(first, "a slot leads to no child, or to that of another run")?;
            ensure(self.page.u64(self.link_offset(child)) != 0, "the link of a child is null")?;
            shortest = shortest.min(run.len);
            slot += run.len;
        }
        ensure(seen.iter().all(|seen| *seen), "no slot leads to a child")?;
        ensure(depth == 0 || shortest == 1, "a node is deeper than its children need")
    }
}
