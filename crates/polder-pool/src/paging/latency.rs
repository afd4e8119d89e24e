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
