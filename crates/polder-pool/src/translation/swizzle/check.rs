//! Whether each swizzled link leads to a page that is there and whose owner is the page in which the
//! link stands (`SWIP-2`).

#![cfg(not(loom))]

use super::links::swizzled_links;
use super::owner::Owner;
use super::swip::Swip;
use super::swizzle::Swizzle;
use crate::latch::FrameId;
use crate::sync::Backoff;
use crate::translation::seam::PoolContext;

/// How often a link is looked at that another thread may be changing.
const LOOKS: usize = 1000;

impl Swizzle {
    /// Each link that does not, as a sentence. Means something while nobody but the pool's own
    /// threads uses the pool.
    pub(super) fn check_links(&self, pool: &PoolContext<'_, Swizzle>) -> Vec<String> {
        let mut faults = Vec::new();
        for parent in pool.frames.ids() {
            pool.with_page_in(self, parent, |page, id| {
                let links = || swizzled_links(pool.kinds, page, 0);
                let is_sound = |at, swip: Swip, child: FrameId| {
                    let mut backoff = Backoff::new();
                    for _ in 0..LOOKS {
                        let owner = self.owners.of(child).get();
                        let is_right = owner == Owner::Parent(parent)
                            && pool.latches.meta(child).page() == swip.page(id.space());
                        let is_there = links().any(|(_, now_at, now)| (now_at, now) == (at, swip));
                        if is_right || !is_there {
                            return true;
                        }
                        if owner != Owner::Busy {
                            return false;
                        }
                        // A pool's thread unswizzles it (U3), or it leads to an empty frame.
                        backoff.wait();
                    }
                    false
                };
                for (_, at, swip) in links() {
                    let child = swip.frame(pool.frames.count());
                    if !child.is_some_and(|child| is_sound(at, swip, child)) {
                        let target = swip.page(id.space());
                        faults.push(format!(
                            "{id}: the link at byte {at} to {target} is swizzled and not its owner's"
                        ));
                    }
                }
            });
        }
        faults
    }
}
