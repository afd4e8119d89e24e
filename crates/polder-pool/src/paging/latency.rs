//! How long it takes to have a cache line of each tier, where tiers are memory of different nodes.

#![cfg(not(loom))]

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::latch::FrameId;
use crate::page::PageRef;
use crate::paging::pages_of::PagesOf;
use crate::shared::Shared;
use crate::thread::draw;
use crate::tier::{TierNo, Tiered};
use crate::translation::Translation;

/// Pages of a tier that are looked at: the figure is the median.
const PAGES: usize = 33;
/// Of fewer nothing is told.
const LEAST_PAGES: usize = 8;
/// Lines of each, one after the other.
const LINES: u32 = 8;
const LINE_BYTES: usize = 64;

impl<T: Translation> Shared<T> {
    /// Reads a few lines of pages that lie in each tier. They are not held: what is read does not matter.
    pub(crate) fn measure_latencies(&self, tiers: &Tiered) {
        let pages = PagesOf::new(self);
        let size = self.core.page_size().bytes();
        let mut before = 0;
        for tier in (0..tiers.count()).map(TierNo::new) {
            let frames = tiers.frames(tier);
            let drawn = (0..PAGES).map(|_| FrameId::new(before + 1 + draw() % frames));
            let mut times: Vec<Duration> = drawn
                .filter_map(|frame| {
                    pages.with(frame, |space, page, _, _| self.page_in(space, page.page(), frame))
                })
                .map(|page| time_lines(page, size))
                .collect();
            times.sort_unstable();
            if times.len() >= LEAST_PAGES
                && let Some(median) = times.get(times.len() / 2)
            {
                tiers.note_latency(tier, *median / LINES);
            }
            before += frames;
        }
    }
}

/// Each line's place follows from the one before, so that the processor cannot read ahead.
fn time_lines(page: PageRef, size: usize) -> Duration {
    let begun = Instant::now();
    let mut at = draw() as usize;
    for _ in 0..LINES {
        let word = page.u64(at % size / LINE_BYTES * LINE_BYTES);
        at = at.wrapping_mul(5).wrapping_add(7 * LINE_BYTES + (black_box(word) >> 63) as usize);
    }
    black_box(at);
    begun.elapsed()
}

#[cfg(all(test, feature = "tiers"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Array;
    use crate::machine::node_here;
    use crate::testing::{create, pool_in};
    use crate::tier::{Tier, TierConfig};

    /// Of each tier in which pages lie, and of no other.
    #[test]
    fn tiers_with_pages_have_latencies() {
        let tiers = TierConfig { slower: vec![Tier::new(1 << 20)], ..TierConfig::default() };
        let (_dir, pool) = pool_in::<Array>(8 << 20, tiers);
        let (shared, space) = (pool.shared(), pool.create_space().unwrap());
        let tiers = shared.core.frames.tiers().unwrap();
        let known = || {
            shared.measure_latencies(tiers);
            [0, 1].map(|tier| tiers.measured(TierNo::new(tier)).is_some())
        };
        assert_eq!(known(), [false, false]);
        let frames = tiers.frames(TierNo::FIRST);
        (0..frames / 2).for_each(|_| _ = create(&space));
        assert_eq!(known(), [true, false]);
        (0..frames).for_each(|_| _ = create(&space));
        assert_eq!(known(), [true, true]);
    }

    #[test]
    fn a_thread_is_on_a_node() {
        let node = node_here().unwrap();
        let path = format!("/sys/devices/system/node/node{}", node.get());
        assert!(
            !std::fs::exists("/sys/devices/system/node").unwrap() || std::fs::exists(path).unwrap()
        );
    }
}
