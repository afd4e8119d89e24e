//! A replacement policy for each tier, and which pages are wanted in a faster one.

#![cfg(not(loom))]

use std::fmt;
use std::hint::spin_loop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polder_format::{PageId, Temperature};

use super::config::{Chances, Migration, Tier, TierConfig};
use super::costs::{Counts, Timed, Times};
use super::tuner::Tuner;
use super::{MOST_TIERS, TierNo};
use crate::latch::FrameId;
use crate::machine::{NodeId, PageMoves, node_here};
use crate::replacement::{Bits, Look, Pages, Replacement};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::thread::{Counter, Counters};

/// Pages that are promoted together: as many must be wanted before the page provider is called.
const BATCH: usize = 16;
/// Pages that are noted at most; further ones will be wanted again.
const MOST_WANTED: usize = 1024;

/// Pages of another node that are noted at most.
const MOST_ELSEWHERE: usize = 2 * PageMoves::MOST as usize;

/// How long a tier whose node has refused pages is left alone.
const REFUSED_FOR: Duration = Duration::from_millis(100);

/// Which counter counts the accesses to each slower tier.
const ACCESSES: [Counter; 3] =
    [Counter::SecondTierAccesses, Counter::ThirdTierAccesses, Counter::FourthTierAccesses];

/// Which counts the pages that were loaded there for one.
const LOADS: [Counter; 3] =
    [Counter::SecondTierLoads, Counter::ThirdTierLoads, Counter::FourthTierLoads];

/// How often probabilities are tuned, and latencies measured, at most.
const TUNED_EACH: Duration = Duration::from_millis(1);
const LATENCY_EACH: Duration = Duration::from_secs(1);

/// How much longer a line of the next slower tier takes, until it is measured.
const SUPPOSED_LATENCY: Duration = Duration::from_nanos(100);

/// The tiers of a pool that has several.
pub(crate) struct Tiered {
    tiers: Box<[OneTier]>,
    chances: Chances,
    /// What tunes the chances, if they are not given.
    pub(super) tuner: Option<Arc<Tuner>>,
    /// As nanoseconds behind `begun`.
    tuned_at: AtomicU64,
    latency_at: AtomicU64,
    /// How long it takes to have a cache line of each tier, as far as was measured.
    latencies: [AtomicU64; MOST_TIERS],
    simulated: [Duration; MOST_TIERS],
    page_moves: PageMoves,
    begun: Instant,
    /// What stands for the time since then, in tests.
    #[cfg(test)]
    pub(super) time: AtomicU64,
    /// Pages that have memory of another node than their tier, by their frames.
    elsewhere: Mutex<Vec<FrameId>>,
    /// Frames of slower tiers whose pages are wanted in a faster one, each once (`Slower::wanted`).
    wanted: Mutex<Vec<FrameId>>,
    /// How many they are, a moment ago.
    wanted_count: AtomicUsize,
    /// One of them was wanted again: a few that are used on and on need not wait for others.
    is_urgent: AtomicBool,
    counters: Counters,
}

/// The frames of one tier, and which of them go.
struct OneTier {
    /// How many frames are in the tiers in front of it.
    before: u32,
    frames: u32,
    /// In which the first frame of the tier is number 1.
    policy: Box<dyn Replacement>,
    /// Of which its memory is, if one was named.
    node: Option<NodeId>,
    /// Until then, as nanoseconds behind `Tiered::begun`, no page is moved there (`KERNEL-2`).
    refused_until: AtomicU64,
    /// The marks that the policy wants of pages that bear it anyway (`TIER-1`, `TUNE-3`).
    marks: Bits,
    tuner: Option<Arc<Tuner>>,
    slower: Option<Slower>,
}

/// What only a slower tier has.
struct Slower {
    /// The pages that are in `Tiered::wanted`.
    wanted: Bits,
    accesses: Counter,
    loads: Counter,
    /// How long each access waits, where slow memory is simulated.
    simulated: Duration,
}

impl fmt::Debug for Tiered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tiers.iter().map(|tier| (tier.frames, &tier.policy))).finish()
    }
}

impl Tiered {
    /// Bytes for each frame where the probabilities are tuned; for a few pages somewhat more.
    pub(crate) const TUNED_BYTES_PER_FRAME: u64 = Tuner::BYTES_PER_FRAME;

    /// Tiers whose last frames are `ends`, on these nodes, with a policy for each.
    pub(crate) fn new(
        (ends, nodes): (&[u32], &[Option<NodeId>]),
        config: &TierConfig,
        build: impl Fn(u32) -> Box<dyn Replacement>,
        counters: Counters,
    ) -> Tiered {
        let first = Tier::new(0);
        let configs = || [&first].into_iter().chain(&config.slower);
        let starts = [0].iter().chain(ends);
        let in_tiers: Vec<u32> = starts.clone().zip(ends).map(|(start, end)| end - start).collect();
        let mut simulated = [Duration::ZERO; MOST_TIERS];
        simulated.iter_mut().zip(configs()).for_each(|(to, tier)| *to = tier.simulated_latency);
        // A change is an access before it is a change.
        let begin = Migration { write_promotes: 0.0, ..Migration::default() };
        let tuner = match config.migration {
            Some(_) => None,
            None => Some(Arc::new(Tuner::new(&in_tiers, longer(simulated), &begin))),
        };
        let tiers = starts.zip(&in_tiers).zip(configs()).enumerate().map(
            |(number, ((before, frames), tier))| {
                let slower = number.checked_sub(1).map(|slower| Slower {
                    wanted: Bits::new(*frames),
                    accesses: ACCESSES[slower.min(ACCESSES.len() - 1)],
                    loads: LOADS[slower.min(LOADS.len() - 1)],
                    simulated: tier.simulated_latency * Tier::SIMULATED_LINES,
                });
                OneTier {
                    before: *before,
                    frames: *frames,
                    policy: build(*frames),
                    node: nodes.get(number).copied().flatten(),
                    refused_until: AtomicU64::new(0),
                    marks: Bits::new(if slower.is_some() || tuner.is_some() { *frames } else { 0 }),
                    tuner: tuner.clone(),
                    slower,
                }
            },
        );
        Tiered {
            tiers: tiers.collect(),
            chances: Chances::of(config.migration.unwrap_or(begin)),
            tuner,
            simulated,
            tuned_at: AtomicU64::new(0),
            latency_at: AtomicU64::new(0),
            latencies: Default::default(),
            page_moves: config.page_moves,
            begun: Instant::now(),
            #[cfg(test)]
            time: AtomicU64::new(0),
            elsewhere: Mutex::default(),
            wanted: Mutex::default(),
            wanted_count: AtomicUsize::new(0),
            is_urgent: AtomicBool::new(false),
            counters,
        }
    }

    /// Nanoseconds since the pool was opened.
    fn now(&self) -> u64 {
        #[cfg(test)]
        if self.time.load(Ordering::Relaxed) > 0 {
            return self.time.load(Ordering::Relaxed);
        }
        self.begun.elapsed().as_nanos() as u64
    }

    /// Whether the calling thread is to measure the latencies of the tiers: they tell what promotions are
    /// worth, where memory is of different nodes. At most once in a while, and from the first tier's node:
    /// to others that is far.
    pub(crate) fn wants_latencies(&self) -> bool {
        let is_near = || self.tiers[0].node.is_none_or(|node| node_here() == Some(node));
        self.tuner.is_some()
            && self.are_nodes()
            && self.is_time(&self.latency_at, LATENCY_EACH)
            && is_near()
    }

    /// How long it took of late to have a cache line of this tier.
    pub(crate) fn note_latency(&self, tier: TierNo, latency: Duration) {
        let (known, of_late) = (&self.latencies[tier.index()], latency.as_nanos() as u64);
        let before = known.load(Ordering::Relaxed);
        let mean = if before == 0 { of_late } else { (before * 3 + of_late) / 4 };
        known.store(mean, Ordering::Relaxed);
    }

    /// How long it takes to have a cache line of a tier, if it was measured.
    pub(crate) fn measured(&self, tier: TierNo) -> Option<Duration> {
        let nanos = self.latencies[tier.index()].load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// How long it takes to have a cache line of each tier, beyond what it takes in memory of the node on
    /// which threads run if all of it is.
    fn latencies(&self) -> [Duration; MOST_TIERS] {
        let mut all = (0..self.tiers.len()).map(TierNo::new);
        let is_measured = all.all(|tier| self.measured(tier).is_some());
        std::array::from_fn(|tier| {
            let of_nodes = match self.are_nodes() {
                true if is_measured => self.measured(TierNo::new(tier)).unwrap_or_default(),
                true => SUPPOSED_LATENCY * tier as u32,
                false => Duration::ZERO,
            };
            self.simulated[tier] + of_nodes
        })
    }

    /// Whether tiers are memory of different nodes.
    fn are_nodes(&self) -> bool {
        self.tiers.iter().any(|tier| tier.node != self.tiers[0].node)
    }

    /// Whether so much time has gone by since the last time.
    fn is_time(&self, last: &AtomicU64, each: Duration) -> bool {
        let (now, before) = (self.now(), last.load(Ordering::Relaxed));
        let is_time = before == 0 || now.saturating_sub(before) >= each.as_nanos() as u64;
        if is_time {
            last.store(now.max(1), Ordering::Relaxed);
        }
        is_time
    }

    /// Tunes the probabilities, unless they are given. Pages have so many bytes.
    pub(crate) fn tune(&self, page_bytes: u64) {
        let Some(tuner) = &self.tuner else { return };
        if !self.is_time(&self.tuned_at, TUNED_EACH) {
            return;
        }
        let sum = |counter| self.counters.sum(counter);
        let slower = std::array::from_fn(|tier| {
            let tier = self.tiers.get(tier).map(|_| TierNo::new(tier));
            tier.and_then(|tier| self.accesses(tier)).unwrap_or(0)
        });
        let counts = Counts {
            accesses: sum(Counter::PagesRead),
            slower,
            loads: sum(Counter::Faults).saturating_sub(sum(Counter::Prewarmed)),
            written: sum(Counter::EvictedPageBytes) / page_bytes,
            moves: sum(Counter::TierPromotions) + sum(Counter::TierDemotions),
            evictions: sum(Counter::Evictions),
        };
        let times = Times {
            moves: Timed { count: counts.moves, nanos: sum(Counter::MigrationNanos) },
            loads: Timed { count: sum(Counter::TimedLoads), nanos: sum(Counter::LoadNanos) },
        };
        if let Some(migration) = tuner.tune((&counts, &times), longer(self.latencies()), self.now())
        {
            self.chances.set(migration);
        }
    }

    /// Whether the probabilities are tuned.
    pub(crate) fn is_tuned(&self) -> bool {
        self.tuner.is_some()
    }

    /// With which probabilities pages go from tier to tier now.
    pub(crate) fn migration(&self) -> Migration {
        self.chances.get()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.tiers.len()
    }

    /// The tier of a frame, which has the number of its partition.
    pub(crate) fn of(&self, frame: FrameId) -> TierNo {
        let behind = self.tiers.iter().skip(1).take_while(|tier| frame.get() > tier.before);
        TierNo::new(behind.count())
    }

    /// How many frames are in a tier.
    pub(crate) fn frames(&self, tier: TierNo) -> u32 {
        self.tiers[tier.index()].frames
    }

    /// The node of which a tier's memory is, if one was named.
    pub(crate) fn node(&self, tier: TierNo) -> Option<NodeId> {
        self.tiers[tier.index()].node
    }

    /// How many pages the kernel is asked to move by one call, where it is the kernel that moves them.
    pub(crate) fn pages_a_call(&self) -> usize {
        self.page_moves.batch as usize
    }

    /// The kernel does not move pages to a tier's node (`KERNEL-2`).
    pub(crate) fn note_refusal(&self, tier: TierNo) {
        let until = self.now() + REFUSED_FOR.as_nanos() as u64;
        self.tiers[tier.index()].refused_until.store(until, Ordering::Relaxed);
    }

    /// Whether the kernel has not moved pages to a tier's node of late (`KERNEL-2`).
    pub(crate) fn is_refused(&self, tier: TierNo) -> bool {
        let until = self.tiers[tier.index()].refused_until.load(Ordering::Relaxed);
        until > 0 && self.now() < until
    }

    /// The page that comes into this frame has memory of another node than its tier. Whether they are
    /// so many that the kernel should move them.
    pub(crate) fn note_elsewhere(&self, frame: FrameId) -> bool {
        let mut elsewhere = lock(&self.elsewhere);
        // Without a thread that takes them they stay where they are.
        if elsewhere.len() < MOST_ELSEWHERE {
            elsewhere.push(frame);
        }
        elsewhere.len() >= self.pages_a_call()
    }

    /// The pages that have memory of another node than their tier, by their frames.
    pub(crate) fn take_elsewhere(&self) -> Vec<FrameId> {
        std::mem::take(&mut *lock(&self.elsewhere))
    }

    /// The tier behind this one.
    pub(crate) fn behind(&self, tier: TierNo) -> Option<TierNo> {
        let behind = tier.index() + 1;
        (behind < self.tiers.len()).then(|| TierNo::new(behind))
    }

    /// Where a page that comes from the device goes (Rr).
    pub(crate) fn draw_for_load(&self) -> TierNo {
        self.chances.draw_for_load(self.tiers.len())
    }

    /// Whether a page that makes room goes to a slower tier (Rw).
    pub(crate) fn draw_demotion(&self) -> bool {
        self.chances.evicts_to_slower.draw()
    }

    /// How many accesses found their page in a tier; none of the first, where nobody hears of them.
    pub(crate) fn accesses(&self, tier: TierNo) -> Option<u64> {
        let slower = self.tiers[tier.index()].slower.as_ref()?;
        // The one that had the page loaded comes once more, and finds it.
        let [accesses, loads] =
            [slower.accesses, slower.loads].map(|count| self.counters.sum(count));
        Some(accesses.saturating_sub(loads))
    }

    /// A page was loaded into this frame for an access.
    pub(crate) fn note_load(&self, frame: FrameId) {
        let slower = self.tier(frame).slower.as_ref();
        slower.into_iter().for_each(|slower| self.counters.add(slower.loads, 1));
    }

    /// What the policy of one tier names ([`Replacement::propose`]).
    pub(crate) fn propose(
        &self,
        tier: TierNo,
        pages: &dyn Pages,
        count: usize,
        urgent: bool,
        victims: &mut Vec<FrameId>,
    ) {
        let tier = &self.tiers[tier.index()];
        let mut named = Vec::with_capacity(count);
        let pages = PagesOfTier { pages, tier, all: self };
        tier.policy.propose(&pages, count, urgent, &mut named);
        victims.extend(named.into_iter().map(|frame| tier.outside(frame)));
    }

    /// Whether so many pages are wanted that they should be promoted, or one was wanted twice.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        self.wanted_count.load(Ordering::Relaxed) >= BATCH || self.is_urgent.load(Ordering::Relaxed)
    }

    /// The pages that are wanted in a faster tier (`TIER-2`), by their frames.
    pub(crate) fn take_wanted(&self) -> Vec<FrameId> {
        let mut taken = {
            let mut wanted = lock(&self.wanted);
            self.wanted_count.store(0, Ordering::Relaxed);
            self.is_urgent.store(false, Ordering::Relaxed);
            std::mem::take(&mut *wanted)
        };
        taken.retain(|frame| {
            let tier = self.tier(*frame);
            tier.slower.as_ref().is_some_and(|slower| slower.wanted.clear(tier.inside(*frame)))
        });
        taken
    }

    /// What was taken and could not come up yet is wanted still.
    pub(crate) fn want_again(&self, frames: Vec<FrameId>) {
        for frame in frames {
            let tier = self.tier(frame);
            tier.slower.iter().for_each(|slower| self.want(slower, frame, tier.inside(frame)));
        }
    }

    fn want(&self, slower: &Slower, frame: FrameId, inside: FrameId) {
        if slower.wanted.is_set(inside) {
            self.is_urgent.store(true, Ordering::Relaxed);
            return;
        }
        if self.wanted_count.load(Ordering::Relaxed) < MOST_WANTED && !slower.wanted.set(inside) {
            let mut wanted = lock(&self.wanted);
            wanted.push(frame);
            self.wanted_count.store(wanted.len(), Ordering::Relaxed);
        }
    }

    fn tier(&self, frame: FrameId) -> &OneTier {
        &self.tiers[self.of(frame).index()]
    }
}

impl OneTier {
    fn inside(&self, frame: FrameId) -> FrameId {
        FrameId::new(frame.get().saturating_sub(self.before))
    }

    fn outside(&self, frame: FrameId) -> FrameId {
        FrameId::new(frame.get() + self.before)
    }

    /// A page comes into the tier. Gives whether its word bears the mark.
    fn admit(&self, frame: FrameId, page: PageId, once: bool) -> bool {
        let marked = self.policy.admit(frame, page, once);
        self.set_mark(frame, marked)
    }

    /// The page leaves the tier, and is wanted no more in a faster one.
    fn leave(&self, frame: FrameId, returns_as: Option<PageId>) {
        self.policy.leave(frame, returns_as);
        self.slower.iter().for_each(|slower| _ = slower.wanted.clear(frame));
    }

    /// Whether the page bears the mark whatever the policy wants (`TIER-1`, `TUNE-3`).
    fn keeps_mark(&self, frame: FrameId) -> bool {
        let is_counted =
            || self.tuner.as_ref().is_some_and(|by| by.observed.counts(self.outside(frame)));
        self.slower.is_some() || is_counted()
    }

    /// The mark that the policy wanted, of a page whose word was seen with this one.
    fn mark_of(&self, frame: FrameId, in_word: bool) -> bool {
        if self.keeps_mark(frame) { self.marks.is_set(frame) } else { in_word }
    }

    /// What the policy wants; gives what the word has.
    fn set_mark(&self, frame: FrameId, marked: bool) -> bool {
        if !self.keeps_mark(frame) {
            return marked;
        }
        self.marks.put(frame, marked);
        true
    }

    /// The policy hears of an access to a page that bears the mark anyway. Gives whether it wants it.
    fn access(&self, frame: FrameId) -> bool {
        let stays = self.marks.is_set(frame) && self.policy.access(frame);
        if !stays {
            self.marks.clear(frame);
        }
        stays
    }
}

impl Replacement for Tiered {
    fn admit(&self, frame: FrameId, page: PageId, once: bool) -> bool {
        let number = self.of(frame);
        let tier = &self.tiers[number.index()];
        if let Some(tuner) = self.tuner.as_ref().filter(|_| tier.slower.is_some()) {
            tuner.observed.loaded(frame, page, number, || self.now());
        }
        tier.admit(tier.inside(frame), page, once)
    }

    fn access(&self, frame: FrameId) -> bool {
        let number = self.of(frame);
        let tier = &self.tiers[number.index()];
        let inside = tier.inside(frame);
        if !tier.keeps_mark(inside) {
            return tier.policy.access(inside);
        }
        let is_wanted = tier.access(inside);
        let observed = self.tuner.as_ref().map(|tuner| &tuner.observed);
        let counts = observed.filter(|observed| observed.counts(frame));
        let is_counted = counts.is_some_and(|by| by.accessed(frame, number, || self.now()));
        let Some(slower) = &tier.slower else { return is_wanted || is_counted };
        self.counters.add(slower.accesses, 1);
        if self.chances.read_promotes.draw() {
            self.want(slower, frame, inside);
        }
        wait_as_if(slower.simulated);
        true
    }

    fn wants_writes(&self) -> bool {
        let mut policies = self.tiers.iter().map(|tier| &tier.policy);
        self.chances.write_promotes.get() > 0.0 || policies.any(|policy| policy.wants_writes())
    }

    fn write(&self, frame: FrameId) {
        let tier = self.tier(frame);
        let inside = tier.inside(frame);
        if tier.policy.wants_writes() {
            tier.policy.write(inside);
        }
        if let Some(slower) = &tier.slower
            && self.chances.write_promotes.draw()
        {
            self.want(slower, frame, inside);
        }
    }

    fn leave(&self, frame: FrameId, returns_as: Option<PageId>) {
        let tier = self.tier(frame);
        self.tuner.iter().for_each(|tuner| tuner.observed.left(frame, || self.now()));
        tier.leave(tier.inside(frame), returns_as);
    }

    fn relocate(&self, from: FrameId, to: FrameId) {
        debug_assert_eq!(self.of(from), self.of(to), "`moves` is for other tiers");
        let tier = self.tier(from);
        tier.policy.relocate(tier.inside(from), tier.inside(to));
    }

    fn moves(&self, from: FrameId, to: FrameId, page: PageId, is_marked: bool) -> bool {
        let [old_tier, new_tier] = [from, to].map(|frame| self.of(frame));
        let [old, new] = [old_tier, new_tier].map(|tier| &self.tiers[tier.index()]);
        let observed = self.tuner.as_ref().map(|tuner| &tuner.observed);
        if old_tier == new_tier {
            let (inside, to_inside) = (old.inside(from), new.inside(to));
            let is_marked = old.mark_of(inside, is_marked);
            let is_marked = old.policy.moves(inside, to_inside, page, is_marked);
            if let Some(slower) = old.slower.as_ref().filter(|from| from.wanted.clear(inside)) {
                self.want(slower, to, to_inside);
            }
            observed.iter().for_each(|observed| observed.relocated(from, to));
            return new.set_mark(to_inside, is_marked);
        }
        let goes_down = new_tier.index() > old_tier.index();
        // A page that goes down may come back; for the tier that it leaves it was evicted.
        old.leave(old.inside(from), goes_down.then_some(page));
        let tiers = (old_tier, new_tier);
        observed.iter().for_each(|observed| observed.moved((from, to), page, tiers, || self.now()));
        new.admit(new.inside(to), page, false)
    }

    fn propose(&self, pages: &dyn Pages, count: usize, urgent: bool, victims: &mut Vec<FrameId>) {
        let last = TierNo::new(self.tiers.len() - 1);
        self.propose(last, pages, count, urgent, victims);
    }

    fn temperature(&self, frame: FrameId, is_marked: bool) -> Temperature {
        let tier = self.tier(frame);
        let frame = tier.inside(frame);
        tier.policy.temperature(frame, tier.mark_of(frame, is_marked))
    }

    fn still_names(&self, frame: FrameId) -> bool {
        let tier = self.tier(frame);
        tier.policy.still_names(tier.inside(frame))
    }

    fn is_marked(&self, frame: FrameId, in_word: bool) -> bool {
        let tier = self.tier(frame);
        let frame = tier.inside(frame);
        tier.policy.is_marked(frame, tier.mark_of(frame, in_word))
    }
}

/// The pages of one tier, as its policy sees them.
struct PagesOfTier<'a> {
    pages: &'a dyn Pages,
    tier: &'a OneTier,
    all: &'a Tiered,
}

impl Pages for PagesOfTier<'_> {
    fn look(&self, frame: FrameId) -> Look {
        let outside = self.tier.outside(frame);
        match self.pages.look(outside) {
            Look::Nothing => Look::Nothing,
            look if !self.tier.keeps_mark(frame) => look,
            _ if self.tier.marks.is_set(frame) => Look::Marked,
            _ => Look::Plain,
        }
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        let marked = self.pages.mark(self.tier.outside(frame));
        let tier = self.all.tier(marked);
        // A page that is held gets no mark.
        if self.pages.look(marked) != Look::Nothing {
            tier.set_mark(tier.inside(marked), true);
        }
        // The page below it may be another tier's.
        if tier.before == self.tier.before {
            return tier.inside(marked);
        }
        tier.policy.was_marked(tier.inside(marked));
        frame
    }
}

/// How much longer an access to each tier takes than to the first, in nanoseconds, by how long it takes to
/// have a line.
fn longer(latencies: [Duration; MOST_TIERS]) -> [f64; MOST_TIERS] {
    let nanos = latencies.map(|latency| (latency * Tier::SIMULATED_LINES).as_nanos() as f64);
    nanos.map(|nanos_of| (nanos_of - nanos[0]).max(0.0))
}

/// Keeps the processor busy for so long, as slow memory does.
fn wait_as_if(simulated: Duration) {
    if !simulated.is_zero() {
        let until = Instant::now() + simulated;
        while Instant::now() < until {
            spin_loop();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use polder_format::{PageNo, SpaceId};

    use super::*;
    use crate::replacement::ReplacementKind;

    #[test]
    fn a_wanted_page_stays_wanted_in_another_frame_of_its_tier() {
        let always = Migration { read_promotes: 1.0, ..Migration::default() };
        let slower = vec![Tier::new(8 * 4096)];
        let config = TierConfig { slower, migration: Some(always), ..TierConfig::default() };
        let build = |frames| ReplacementKind::default().build(frames);
        let tiers = Tiered::new((&[8, 16], &[None, None]), &config, build, Counters::new());
        let id = |page| PageId::new(SpaceId::CATALOGUE, PageNo::new(page).unwrap());
        let [from, to] = [9, 12].map(FrameId::new);
        let is_marked = tiers.admit(from, id(2), false);
        assert!(tiers.access(from));
        let is_marked = tiers.moves(from, to, id(2), is_marked);
        // Another page has come to where it was.
        tiers.admit(from, id(3), false);
        assert_eq!(tiers.take_wanted(), [to]);
        // What is not wanted does not become so.
        tiers.moves(to, FrameId::new(13), id(2), is_marked);
        assert_eq!(tiers.take_wanted(), []);
    }
}
