//! Observed pages: what it is worth to promote a page that an access finds in a slower tier.
//!
//! A page that is promoted is exchanged for one that is demoted. That is worth the accesses which the
//! first one gets in the faster tier and the second one would have got there, by how much longer they
//! take in the slower tier, less the two moves:
//!
//! ```text
//! worth = longer * (accesses - rate of demoted pages * stay) - exchange
//! ```
//!
//! If Dr is raised a little, pages that are seldom used are promoted that much more often; those that
//! are used all the time hardly are, since they are in the faster tier anyway. A page that is accessed w
//! times until it is promoted, which is 1 / Dr on average, and n times while it stays, is promoted once
//! in w + n accesses: so that changes with Dr by the part w / (w + n). The sum of what promotions were
//! worth, by these weights, has the sign of what a higher Dr would bring. By it Dr is raised, or lowered.
//!
//! Promotions that were worth something are known at once, by their accesses, and others when the page
//! leaves. So Dr is raised or lowered by a *cohort*: the first promotions after the last decision, all of
//! which are waited for, or for as long as promoted pages stay several times over.
//!
//! * `TUNE-1` Whether a page is observed follows from its id. It is tracked from when it comes into a
//!   slower tier until it leaves memory, or the faster tier into which it was promoted.
//! * `TUNE-2` Accesses to a tracked page are counted until there are so many that a promotion has paid in
//!   any case: a page that is used all the time is not heard of for ever. What is counted for a demoted
//!   page is taken when it leaves, or as soon as it has been there for as long as promoted pages stay: a
//!   page that is never used and never leaves has its part in the rate of demoted pages.
//! * `TUNE-3` While accesses to a page in the first tier are counted its word bears the mark. Counting
//!   ends by an access, which has the mark as the policy wants it, or when the page leaves.
//! * `TUNE-4` An access counts by one addition, and waits for nobody; what ends the counting tries the
//!   ledger, and leaves it to the next access if another thread has it.
//!
//! A page that goes up by two tiers is two promotions, each for itself.

#![cfg(not(loom))]

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use polder_format::PageId;

use super::costs::Costs;
use crate::latch::FrameId;
use crate::miss_ratio::Sampled;
use crate::replacement::Bits;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, lock, try_lock};
use crate::tier::{MOST_TIERS, TierNo};

/// Pages that are observed in slower tiers that are full, where these are large.
const WANTED: u32 = 1024;
/// Of so many pages one is observed at least.
const MOST_INTERVAL: u32 = 64;

/// Promotions of a cohort, and by how much Dr is raised or lowered by it.
const PROMOTIONS: usize = 16;
const STEP: f64 = 2.0;
/// So many times as long as promoted pages stay a cohort is waited for.
const STAYS: f64 = 8.0;
/// Dr is never so low that moves would cost less than this part of what accesses to slower tiers cost: so
/// it is found out when promotions are worth something again, and policies hear of what happens.
const LEAST_PART: f64 = 0.03;

/// So many times the exchange a promotion is worth when it has paid in any case, by accesses between
/// these numbers.
const PAID: f64 = 4.0;
const ACCESSES: (f64, f64) = (16.0, 65_536.0);

/// A mean of late is that of about so many.
const OF_LATE: f64 = 64.0;
/// For how long promoted pages stay, until it is known.
const SUPPOSED_STAY: Duration = Duration::from_millis(100);
/// Demoted pages that wait for that time to be over at most; further ones are counted when they leave.
const MOST_DEMOTED: usize = 4096;
/// Of these, so many are looked at together.
const BATCH: usize = 64;

/// Which pages are observed, and what is known of them. Times are in nanoseconds.
pub(super) struct Observed {
    sampled: Sampled,
    /// The frames of pages that are tracked.
    tracked: Bits,
    /// Of these, those whose accesses are counted.
    counted: Bits,
    /// Their accesses since they came into the tier.
    accesses: Box<[AtomicU32]>,
    /// The accesses by which a promotion to each tier, or from it, has paid.
    enough: [AtomicU32; MOST_TIERS],
    ledger: Mutex<Ledger>,
}

struct Ledger {
    costs: Costs,
    stays: HashMap<FrameId, Stay>,
    /// The number of the last stay.
    last: u64,
    /// Demoted pages by their stays, and since when, from the first on.
    demoted: VecDeque<(u64, FrameId, u64)>,
    /// For how long promoted pages stay.
    stay: Option<f64>,
    /// How often demoted pages are accessed, by the tier into which they came.
    demoted_rates: [Rate; MOST_TIERS],
    cohort: Cohort,
    /// Dr.
    read_promotes: f64,
}

/// A page in its tier.
#[derive(Debug, Clone, Copy)]
struct Stay {
    number: u64,
    tier: TierNo,
    since: u64,
    came: Came,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// From the device.
    Loaded,
    Demoted,
    /// After so many accesses in the slower tier.
    Promoted {
        waited: u32,
    },
    /// It is known what was to be known.
    Counted,
}

/// The promotions by which Dr is raised or lowered next.
#[derive(Debug, Default)]
struct Cohort {
    begun: usize,
    /// The frames of those that have not ended.
    open: Vec<FrameId>,
    /// What the others were worth, by their weights.
    worth: f64,
    /// When the last one began.
    full_at: u64,
}

/// Accesses by time, of late.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    accesses: f64,
    time: f64,
}

impl Rate {
    fn add(&mut self, accesses: u32, time: u64) {
        // What is old counts less and less.
        let kept = 1.0 - 1.0 / OF_LATE;
        self.accesses = self.accesses * kept + f64::from(accesses);
        self.time = self.time * kept + time as f64;
    }

    /// How many accesses in so long a time.
    fn in_time(self, time: u64) -> f64 {
        if self.time > 0.0 { self.accesses / self.time * time as f64 } else { 0.0 }
    }
}

impl Observed {
    /// Bytes for each frame; for a few pages, which are tracked, somewhat more.
    pub(super) const BYTES_PER_FRAME: u64 = 8;

    /// In a pool of so many frames, so many of them in slower tiers.
    pub(super) fn new(frames: u32, slower: u32, costs: Costs, read_promotes: f64) -> Observed {
        let interval = (slower / WANTED).clamp(1, MOST_INTERVAL);
        let ledger = Ledger {
            costs,
            stays: HashMap::new(),
            last: 0,
            demoted: VecDeque::new(),
            stay: None,
            demoted_rates: [Rate::default(); MOST_TIERS],
            cohort: Cohort::default(),
            read_promotes,
        };
        let enough = std::array::from_fn(|tier| AtomicU32::new(ledger.enough(tier)));
        Observed {
            sampled: Sampled::one_in(interval.into()),
            tracked: Bits::new(frames),
            counted: Bits::new(frames),
            accesses: (0..=frames).map(|_| AtomicU32::new(0)).collect(),
            enough,
            ledger: Mutex::new(ledger),
        }
    }

    /// A page comes from the device into a slower tier.
    pub(super) fn loaded(
        &self,
        frame: FrameId,
        page: PageId,
        tier: TierNo,
        now: impl FnOnce() -> u64,
    ) {
        // TUNE-1
        if self.sampled.has(page) {
            self.begin(&mut lock(&self.ledger), frame, (tier, Came::Loaded), now());
        }
    }

    /// A page goes to another tier.
    pub(super) fn moved(
        &self,
        (from, to): (FrameId, FrameId),
        page: PageId,
        (old, new): (TierNo, TierNo),
        now: impl FnOnce() -> u64,
    ) {
        if !self.sampled.has(page) {
            return;
        }
        let mut ledger = lock(&self.ledger);
        let (waited, now) = (self.accesses_to(from), now());
        let was_tracked = self.end(&mut ledger, from, now);
        if new.index() > old.index() {
            self.begin(&mut ledger, to, (new, Came::Demoted), now);
        } else if was_tracked {
            ledger.cohort.begin(to, now);
            // The one by which it was promoted at least.
            let came = Came::Promoted { waited: waited.max(1) };
            self.begin(&mut ledger, to, (new, came), now);
        }
    }

    /// The page goes on in another frame of its tier.
    pub(super) fn relocated(&self, from: FrameId, to: FrameId) {
        if !self.tracked.is_set(from) {
            return;
        }
        let mut ledger = lock(&self.ledger);
        self.tracked.clear(from);
        if let Some(stay) = ledger.stays.remove(&from) {
            ledger.stays.insert(to, stay);
            ledger.cohort.open.iter_mut().filter(|at| **at == from).for_each(|at| *at = to);
            self.accesses[to.get() as usize].store(self.accesses_to(from), Ordering::Relaxed);
            self.tracked.set(to);
            self.counted.put(to, self.counted.clear(from));
        }
    }

    /// The page leaves memory.
    pub(super) fn left(&self, frame: FrameId, now: impl FnOnce() -> u64) {
        if self.tracked.is_set(frame) {
            self.end(&mut lock(&self.ledger), frame, now());
        }
    }

    /// Whether accesses to the page in this frame are counted.
    #[inline]
    pub(super) fn counts(&self, frame: FrameId) -> bool {
        self.counted.is_set(frame)
    }

    /// An access to a page whose accesses are counted, in this tier. False if no more are.
    pub(super) fn accessed(&self, frame: FrameId, tier: TierNo, now: impl FnOnce() -> u64) -> bool {
        let accesses = &self.accesses[frame.get() as usize];
        if accesses.fetch_add(1, Ordering::Relaxed)
            < self.enough[tier.index()].load(Ordering::Relaxed)
        {
            return true;
        }
        // TUNE-4
        let Some(mut ledger) = try_lock(&self.ledger) else { return true };
        if self.counted.clear(frame) {
            self.count(&mut ledger, frame, now());
        }
        false
    }

    /// From now on it costs this. Gives Dr.
    pub(super) fn tune(&self, costs: &Costs, now: u64) -> f64 {
        let mut ledger = lock(&self.ledger);
        ledger.costs = *costs;
        for (tier, enough) in self.enough.iter().enumerate() {
            enough.store(ledger.enough(tier), Ordering::Relaxed);
        }
        // TUNE-2
        let time = ledger.stay.unwrap_or(SUPPOSED_STAY.as_nanos() as f64);
        for _ in 0..BATCH {
            let Some((number, frame, since)) = ledger.demoted.front().copied() else { break };
            if (now.saturating_sub(since) as f64) < time {
                break;
            }
            ledger.demoted.pop_front();
            if ledger.stays.get(&frame).is_some_and(|stay| stay.number == number) {
                self.count(&mut ledger, frame, now);
            }
        }
        if ledger.cohort.is_over(time, now) {
            self.decide(&mut ledger, now);
        }
        ledger.read_promotes = ledger.read_promotes.max(ledger.least());
        ledger.read_promotes
    }

    /// Raises Dr, or lowers it; those that have not ended count by what they have been worth by now.
    fn decide(&self, ledger: &mut Ledger, now: u64) {
        for frame in ledger.cohort.open.clone() {
            self.count(ledger, frame, now);
        }
        let factor = if ledger.cohort.worth > 0.0 { STEP } else { 1.0 / STEP };
        ledger.read_promotes = (ledger.read_promotes * factor).min(1.0);
        ledger.cohort = Cohort::default();
    }

    /// For tests: pages that something is known of.
    #[cfg(test)]
    pub(super) fn tracked_pages(&self) -> usize {
        let ledger = lock(&self.ledger);
        assert!(ledger.demoted.len() <= MOST_DEMOTED);
        ledger.stays.len()
    }

    fn accesses_to(&self, frame: FrameId) -> u32 {
        self.accesses[frame.get() as usize].load(Ordering::Relaxed)
    }

    fn begin(&self, ledger: &mut Ledger, frame: FrameId, (tier, came): (TierNo, Came), now: u64) {
        ledger.last += 1;
        let number = ledger.last;
        if came == Came::Demoted && ledger.demoted.len() < MOST_DEMOTED {
            ledger.demoted.push_back((number, frame, now));
        }
        ledger.stays.insert(frame, Stay { number, tier, since: now, came });
        self.accesses[frame.get() as usize].store(0, Ordering::Relaxed);
        self.tracked.set(frame);
        self.counted.set(frame);
    }

    /// The page leaves its tier. Whether it was tracked.
    fn end(&self, ledger: &mut Ledger, frame: FrameId, now: u64) -> bool {
        self.tracked.clear(frame);
        self.counted.clear(frame);
        self.count(ledger, frame, now);
        ledger.stays.remove(&frame).is_some()
    }

    /// What was to be known of a page is, unless it was.
    fn count(&self, ledger: &mut Ledger, frame: FrameId, now: u64) {
        let Some(stay) = ledger.stays.get_mut(&frame) else { return };
        let (stay, accesses) = (
            std::mem::replace(stay, Stay { came: Came::Counted, ..*stay }),
            self.accesses_to(frame),
        );
        ledger.count(frame, stay, (accesses, now.saturating_sub(stay.since).max(1)));
    }
}

impl Ledger {
    /// How much longer an access takes in the tier behind this one.
    fn longer(&self, tier: usize) -> f64 {
        let behind = self.costs.slower.get(tier + 1).copied().unwrap_or(0.0);
        (behind - self.costs.slower[tier]).max(0.0)
    }

    /// The accesses by which a promotion to this tier, or from it, has paid in any case.
    fn enough(&self, tier: usize) -> u32 {
        let from = tier.checked_sub(1).map_or(0.0, |faster| self.longer(faster));
        let longer = self.longer(tier).max(from);
        (PAID * self.costs.exchange() / longer).clamp(ACCESSES.0, ACCESSES.1) as u32
    }

    /// The lowest Dr.
    fn least(&self) -> f64 {
        let longest = (0..MOST_TIERS).map(|tier| self.longer(tier)).fold(0.0, f64::max);
        (LEAST_PART * longest / self.costs.exchange().max(1.0)).min(1.0)
    }

    fn count(&mut self, frame: FrameId, stay: Stay, (accesses, time): (u32, u64)) {
        match stay.came {
            Came::Loaded | Came::Counted => {}
            Came::Demoted => self.demoted_rates[stay.tier.index()].add(accesses, time),
            Came::Promoted { waited } => {
                let mean = self.stay.get_or_insert(time as f64);
                *mean += (time as f64 - *mean) / OF_LATE;
                if self.cohort.end(frame) {
                    let tier = stay.tier.index();
                    let demoted = self.demoted_rates.get(tier + 1).copied().unwrap_or_default();
                    // After a pause the rate is that of another time.
                    let lost = demoted.in_time(time).min(self.enough(tier).into());
                    let (waited, accesses) = (f64::from(waited), f64::from(accesses));
                    let worth = self.longer(tier) * (accesses - lost) - self.costs.exchange();
                    self.cohort.worth += worth * waited / (waited + accesses);
                }
            }
        }
    }
}

impl Cohort {
    /// The first promotions are of this cohort.
    fn begin(&mut self, to: FrameId, now: u64) {
        if self.begun < PROMOTIONS {
            self.open.push(to);
            (self.begun, self.full_at) = (self.begun + 1, now);
        }
    }

    /// It is known what the promotion to this frame was worth. Whether it is of this cohort.
    fn end(&mut self, frame: FrameId) -> bool {
        let open = self.open.len();
        self.open.retain(|at| *at != frame);
        self.open.len() < open
    }

    /// Whether nothing more is waited for, where promoted pages stay so long.
    fn is_over(&self, stay: f64, now: u64) -> bool {
        let waited = now.saturating_sub(self.full_at) as f64;
        self.begun == PROMOTIONS && (self.open.is_empty() || waited >= STAYS * stay)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
