//! Prewarming: pages that were in memory before, or soon will be, come into frames that nobody needs,
//! before they are asked for.
//!
//! ```text
//! Y1  some of the pages that are wanted, in the order in which they lie in the file; those that are
//!     resident, or whose space is gone, are left out
//! Y2  where each lies; pages of maps are loaded here, while no fault is open         (FLIGHT-1)
//! Y3  for each a frame that is free, and the claim (F3 to F6); the reads by one batch, sorted (F7)
//! Y4  each fault ends (F8 to F10)
//! Y5  a rest, as long as the batch took, if others have read from the device meanwhile; then Y1
//! ```
//!
//! * `PREWARM-1` No page is evicted for one that nobody has asked for: frames are taken only while
//!   more are free than the page provider would leave (the high watermark); when no more are, prewarming
//!   ends: the pool is warm. While operations wait for frames it rests.
//! * `PREWARM-2` What is wanted is a hint. A page that was freed, moved or never written since is
//!   found by its number as by any fault that comes too late: it is refused (F6, F8), or it is
//!   resident for nothing until it goes.
//! * `PREWARM-3` Prewarming holds nothing between two batches; it is stopped there.
//!
//! PostgreSQL's autoprewarm ends at the last free buffer as well. A thread that wants a page of the
//! batch waits for it (F1). At Y5 others get at least half of the time of the device: what they wait
//! for are mostly pages that are to come, one random read after the other, so that to stand back
//! altogether would serve nobody.

#![cfg(not(loom))]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use polder_format::{PageId, SpaceId, Temperature};

use crate::device::{Batch, sort_by_offset};
use crate::error::PoolError;
use crate::frame::frame_pool::{FramePool, part_of};
use crate::frame::partitions::PartitionNo;
use crate::paging::flights::Begun;
use crate::paging::open_fault::OpenFault;
use crate::paging::watermarks::Watermarks;
use crate::replacement::AccessHint;
use crate::shared::{Shared, SpaceCore};
use crate::thread::Counter;
use crate::tier::TierNo;
use crate::translation::Translation;

/// Pages that are read by one batch at most.
const BATCH: usize = 64;
/// One frame in so many may be in flight for prewarming.
const FRAMES: u32 = 32;
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_millis(20);

/// How far prewarming is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prewarmed {
    /// Pages that were loaded.
    pub loaded: u64,
    /// Pages that were in memory already, or could not be loaded: most of these were freed.
    pub skipped: u64,
    /// Those among the skipped ones that the device failed to read.
    pub failed: u64,
    /// Why it has ended; `None` while it goes on.
    pub end: Option<PrewarmEnd>,
}

/// Why prewarming has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrewarmEnd {
    /// All pages were seen to.
    All,
    /// No frame is free for the others.
    Full,
    /// It was stopped.
    Stopped,
}

/// Opens a space, if there is one.
type Open<'o, T> = &'o dyn Fn(SpaceId) -> Option<Arc<SpaceCore<T>>>;

/// A page of a batch that is not resident, and its space.
type Missing<T> = (Arc<SpaceCore<T>>, PageId, Temperature);

/// Whether the device is to blame, and the page may be there another time.
fn is_failed_read(error: &PoolError) -> bool {
    matches!(error, PoolError::Read { .. })
}

impl<T: Translation> Shared<T> {
    /// As [`Pool::prewarm`](crate::Pool::prewarm). Called with no latch held. `open` opens a space.
    pub(crate) fn prewarm(
        &self,
        open: Open<'_, T>,
        wanted: &mut dyn Iterator<Item = (PageId, Temperature)>,
        goes_on: &mut dyn FnMut(Prewarmed) -> bool,
    ) -> Prewarmed {
        let (mut done, mut wanted) = (Prewarmed::default(), wanted.peekable());
        let mut last: Option<Arc<SpaceCore<T>>> = None;
        let end = loop {
            if !goes_on(done) {
                break PrewarmEnd::Stopped;
            }
            if wanted.peek().is_none() {
                break PrewarmEnd::All;
            }
            let share = (self.core.frames.budget_frames / FRAMES) as usize;
            let most = self.prewarm_room().min(BATCH).min(share);
            if most == 0 {
                break PrewarmEnd::Full;
            }
            // PREWARM-1: they wait for a moment, as more frames are free than they need.
            if self.core.frames.admission.is_crowded() {
                thread::sleep(LONGEST_REST);
                continue;
            }
            let (began, others) = (Instant::now(), self.reads_of_others());
            // Y1
            let batch: Vec<_> = wanted.by_ref().take(most).collect();
            let asked = batch.len() as u64;
            let missing: Vec<_> = batch
                .into_iter()
                .filter_map(|(page, temperature)| {
                    // Neighbours mostly share their space.
                    if last.as_ref().is_none_or(|last| last.id != page.space()) {
                        last = open(page.space());
                    }
                    let space = last.as_ref().filter(|space| !space.is_dropped()).cloned()?;
                    // Y2
                    let is_missing = self.is_to_be_loaded(&space, page);
                    done.failed += u64::from(is_missing.as_ref().is_err_and(is_failed_read));
                    is_missing.unwrap_or(false).then_some((space, page, temperature))
                })
                .collect();
            // Y3 and Y4
            let Ok((loaded, failed)) = self.load_batch(&missing) else {
                break PrewarmEnd::Stopped;
            };
            self.core.counters.add(Counter::Prewarmed, loaded);
            done.loaded += loaded;
            done.skipped += asked - loaded;
            done.failed += failed;
            // Y5
            if loaded > 0 && self.reads_of_others() > others {
                thread::sleep(began.elapsed().min(LONGEST_REST));
            }
        };
        done.end = Some(end);
        goes_on(done);
        done
    }

    /// How many frames may be taken for pages that nobody has asked for (`PREWARM-1`).
    pub(crate) fn prewarm_room(&self) -> usize {
        let FramePool { fixed, budget_frames, .. } = &self.core.frames;
        if T::MEMORY.has_fixed_frames() {
            let reserve = Watermarks::of(*budget_frames);
            return fixed.left(*budget_frames).saturating_sub(reserve.high);
        }
        let tiers = self.core.frames.tier_count();
        (0..tiers).map(|tier| self.room_in(TierNo::new(tier))).sum()
    }

    /// The same in a tier.
    fn room_in(&self, tier: TierNo) -> usize {
        self.core.frames.free_in(tier).saturating_sub(self.reserve_of(tier).high)
    }

    /// The fastest tier that has room, or the node on which the thread runs.
    fn roomy_tier(&self) -> PartitionNo {
        let frames = &self.core.frames;
        let mut tiers = (0..frames.tier_count()).map(TierNo::new);
        match tiers.find(|tier| frames.tiers().is_some() && self.room_in(*tier) > 0) {
            Some(tier) => part_of(tier),
            None => frames.here(),
        }
    }

    /// Pages that threads but this one have read from the device.
    fn reads_of_others(&self) -> u64 {
        let counters = &self.core.counters;
        let own = counters.of_this_thread(Counter::DeviceReads);
        counters.sum(Counter::DeviceReads).saturating_sub(own)
    }

    /// Whether a page is not resident and lies somewhere; then what says where is resident.
    fn is_to_be_loaded(&self, space: &SpaceCore<T>, page: PageId) -> Result<bool, PoolError> {
        let page = page.page();
        if self.state_of(space, page).is_some_and(|cell| !cell.read().is_evicted()) {
            return Ok(false);
        }
        if (self.locate_at_once)(self, space, page).is_none() {
            (self.locate)(self, space, page)?;
        }
        Ok(true)
    }

    /// Y3 and Y4: gives how many pages were loaded, and how many the device failed to read.
    fn load_batch(&self, missing: &[Missing<T>]) -> Result<(u64, u64), PoolError> {
        let (mut open, mut requests) = (Vec::new(), Vec::new());
        for (space, page, temperature) in missing {
            let spare = |space: &_, page| self.spare_if_free(space, page, self.roomy_tier());
            let Begun::Open(mut fault) = self.begin_fault_by(space, page.page(), spare) else {
                continue;
            };
            match fault.request() {
                Ok(request) => {
                    requests.push(request);
                    open.push((fault, *temperature));
                }
                Err(PoolError::Closed) => return Err(PoolError::Closed),
                Err(_) => {}
            }
        }
        if open.is_empty() {
            return Ok((0, 0));
        }
        // The faults, which own the frames (FLIGHT-2), in the order of their requests.
        sort_by_offset(&mut requests, |request| request.offset);
        let device = &self.core.data.device;
        let batch = device.perform(Batch::Many(requests));
        let (mut loaded, mut failed) = (0, 0);
        for read in batch.into_requests() {
            let is_its = |(fault, _): &(OpenFault<'_, T>, Temperature)| fault.id() == read.page;
            let Some(at) = open.iter().position(is_its) else { continue };
            let (fault, temperature) = open.swap_remove(at);
            // What was cold goes first again.
            let hint = match temperature {
                Temperature::Cold => AccessHint::Scan,
                _ => AccessHint::Normal,
            };
            match fault.finish(read.outcome, hint) {
                Ok(_) => loaded += 1,
                Err(error) => failed += u64::from(is_failed_read(&error)),
            }
        }
        Ok((loaded, failed))
    }

    /// The pages of spaces that are in memory, and how hot each is, in the order in which they lie in
    /// the file. Nobody waits for it: each frame is looked at for a moment.
    pub(crate) fn resident_pages(&self) -> Vec<(PageId, Temperature)> {
        let mut pages = Vec::new();
        let mut last: Option<Arc<SpaceCore<T>>> = None;
        for frame in self.core.frames.memory.ids().take(self.highest_frame() as usize) {
            let meta = self.core.latches.meta(frame);
            let (page, physical) = (meta.page(), meta.physical());
            // Maps are loaded again by those who need them.
            if page.is_null() || page.space() == SpaceId::FILE {
                continue;
            }
            if last.as_ref().is_none_or(|last| last.id != page.space()) {
                last = self.space(page.space());
            }
            let Some(space) = &last else { continue };
            let word = self.state_of(space, page.page()).map(|cell| cell.read());
            let Some(word) = word.filter(|word| word.frame() == frame) else { continue };
            let temperature = match meta.awaits_scan() {
                true => Temperature::Cold,
                false => self.core.replacement.temperature(frame, word.is_marked()),
            };
            pages.push((physical, page, temperature));
        }
        pages.sort_unstable();
        pages.into_iter().map(|(_, page, temperature)| (page, temperature)).collect()
    }
}
