//! The tuner beside fixed probabilities: a model of a pool, with the policies and the bookkeeping of a
//! real one, in which what happens costs what it is said to cost.

use std::cell::Cell;
use std::time::Duration;

use polder_format::{PageId, PageNo, SpaceId};
use polder_testkit::effort::steps;

use crate::latch::FrameId;
use crate::machine::NodeId;
use crate::replacement::{Look, Pages, Replacement, ReplacementKind};
use crate::sync::atomic::Ordering;
use crate::thread::{Counter, Counters};
use crate::tier::costs::{Costs, Counts};
use crate::tier::{MOST_TIERS, Migration, Tier, TierConfig, TierNo, Tiered};

const FIRST: u32 = 1000;
const PAGES: u32 = 4 * FIRST;
/// What a line of the slower tier takes longer, a load, and the move of a page, in nanoseconds.
const LONGER: u64 = 300;
const LOAD: u64 = 60_000;

/// What fixed probabilities are compared with.
const FIXED: [Migration; 5] = [
    of(0.1, 0.0, 1.0),
    // As in the paper for TPC-C.
    of(1.0, 1.0, 1.0),
    // Spitfire's lazy policy.
    of(0.01, 1.0, 1.0),
    of(0.01, 0.0, 1.0),
    of(0.0, 0.0, 1.0),
];

const fn of(dr: f64, rr: f64, rw: f64) -> Migration {
    let write_promotes = 0.0;
    Migration { read_promotes: dr, write_promotes, loads_to_slower: rr, evicts_to_slower: rw }
}

/// A pool of two tiers, without pages.
struct Model {
    tiers: Tiered,
    counters: Counters,
    frames: Frames,
    /// The frame of each page; 0: it is not in memory.
    at: Vec<u32>,
    free: [Vec<u32>; 2],
    page_move: u64,
    time: u64,
}

/// What lies in each frame, and whether it bears the mark.
struct Frames(Vec<(Cell<Option<u32>>, Cell<bool>)>);

impl Pages for Frames {
    fn look(&self, frame: FrameId) -> Look {
        let (page, is_marked) = &self.0[frame.get() as usize];
        match (page.get(), is_marked.get()) {
            (None, _) => Look::Nothing,
            (_, true) => Look::Marked,
            (_, false) => Look::Plain,
        }
    }

    fn mark(&self, frame: FrameId) -> FrameId {
        let (page, is_marked) = &self.0[frame.get() as usize];
        is_marked.set(page.get().is_some());
        frame
    }
}

fn id(page: u32) -> PageId {
    PageId::new(SpaceId::CATALOGUE, PageNo::new(u64::from(page) + 2).unwrap())
}

impl Model {
    fn new(second: u32, page_move: u64, migration: Option<Migration>) -> Model {
        let ends = [FIRST, FIRST + second];
        let slower = vec![Tier::new(u64::from(second) * 4096)];
        let config = TierConfig { slower, migration, ..TierConfig::default() };
        let counters = Counters::new();
        let build = |frames| ReplacementKind::default().build(frames);
        let nodes = [None, NodeId::with_memory(0)];
        let tiers = Tiered::new((&ends, &nodes), &config, build, counters.clone());
        // As if it was measured: so accesses need not wait.
        tiers.note_latency(TierNo::FIRST, Duration::from_nanos(100));
        tiers.note_latency(TierNo::new(1), Duration::from_nanos(100 + LONGER));
        let frames = (0..=ends[1]).map(|_| (Cell::new(None), Cell::new(false)));
        Model {
            tiers,
            counters,
            frames: Frames(frames.collect()),
            at: vec![0; PAGES as usize],
            free: [(1..=FIRST).collect(), (FIRST + 1..=ends[1]).collect()],
            page_move,
            time: 1,
        }
    }

    fn put(&mut self, page: u32, frame: u32, is_marked: bool) {
        self.at[page as usize] = frame;
        let (lies, marked) = &self.frames.0[frame as usize];
        lies.set(Some(page));
        marked.set(is_marked);
    }

    fn take_out(&mut self, frame: u32) -> u32 {
        let page = self.frames.0[frame as usize].0.take().unwrap();
        self.at[page as usize] = 0;
        page
    }

    /// A free frame of a tier.
    fn take_frame(&mut self, tier: usize) -> u32 {
        loop {
            if let Some(frame) = self.free[tier].pop() {
                return frame;
            }
            let mut victims = Vec::new();
            for urgent in [false, false, true] {
                if victims.is_empty() {
                    self.tiers.propose(TierNo::new(tier), &self.frames, 4, urgent, &mut victims);
                }
            }
            for victim in victims.iter().map(|victim| victim.get()) {
                if tier == 0 && self.tiers.draw_demotion() {
                    let to = self.take_frame(1);
                    self.migrate(victim, to, Counter::TierDemotions);
                } else {
                    let page = self.take_out(victim);
                    self.tiers.leave(FrameId::new(victim), Some(id(page)));
                    self.counters.add(Counter::Evictions, 1);
                    self.free[tier].push(victim);
                }
            }
        }
    }

    fn migrate(&mut self, from: u32, to: u32, counter: Counter) {
        let is_marked = self.frames.0[from as usize].1.get();
        let page = self.take_out(from);
        let (old, new) = (FrameId::new(from), FrameId::new(to));
        let is_marked = self.tiers.moves(old, new, id(page), is_marked);
        self.put(page, to, is_marked);
        self.free[usize::from(from > FIRST)].push(from);
        self.counters.add(counter, 1);
        self.counters.add(Counter::MigrationNanos, self.page_move);
    }

    fn access(&mut self, page: u32) {
        self.time += 500;
        self.counters.add(Counter::PagesRead, 1);
        if self.at[page as usize] == 0 {
            self.time += LOAD;
            let tier = self.tiers.draw_for_load();
            let frame = self.take_frame(tier.index());
            let is_marked = self.tiers.admit(FrameId::new(frame), id(page), false);
            self.put(page, frame, is_marked);
            self.tiers.note_load(FrameId::new(frame));
            for (counter, by) in
                [(Counter::Faults, 1), (Counter::TimedLoads, 1), (Counter::LoadNanos, LOAD)]
            {
                self.counters.add(counter, by);
            }
        }
        let frame = self.at[page as usize];
        let marked = &self.frames.0[frame as usize].1;
        if marked.get() && !self.tiers.access(FrameId::new(frame)) {
            marked.set(false);
        }
        self.time += if frame > FIRST { 4 * LONGER } else { 0 };
        self.tiers.time.store(self.time, Ordering::Relaxed);
        self.tiers.tune(4096);
        if self.tiers.has_batch() {
            for frame in self.tiers.take_wanted() {
                let to = self.take_frame(0);
                // It may have made room.
                if self.frames.0[frame.get() as usize].0.get().is_some() {
                    self.migrate(frame.get(), to, Counter::TierPromotions);
                } else {
                    self.free[0].push(to);
                }
            }
        }
    }

    fn counts(&self) -> Counts {
        let sum = |counter| self.counters.sum(counter);
        let mut slower = [0; MOST_TIERS];
        slower[1] = self.tiers.accesses(TierNo::new(1)).unwrap();
        Counts {
            accesses: sum(Counter::PagesRead),
            slower,
            loads: sum(Counter::Faults),
            moves: sum(Counter::TierPromotions) + sum(Counter::TierDemotions),
            ..Counts::default()
        }
    }
}

/// Which page comes next.
#[derive(Debug, Clone, Copy)]
enum Workload {
    /// As often as by 1 / rank, nearly.
    Zipfian,
    Uniform,
    /// Most accesses are to a few pages, and these change: one after so many accesses.
    Moving(u32),
}

impl Workload {
    /// `at` is from 0 to 1, `step` the number of the access.
    fn page(self, (at, other): (f64, f64), step: u32) -> u32 {
        let of = |share: f64, pages: u32| ((share * f64::from(pages)) as u32).min(pages - 1);
        match self {
            Workload::Uniform => of(at, PAGES),
            // The inverse of the sum of 1 / rank.
            Workload::Zipfian => {
                let rank = f64::from(PAGES).powf(at) as u32 - 1;
                // Somewhere in the file.
                (rank.wrapping_mul(2_654_435_761) >> 7) % PAGES
            }
            Workload::Moving(each) => {
                let hot = FIRST + FIRST / 2;
                if at < 0.9 {
                    (step / each + of(other * other, hot)) % PAGES
                } else {
                    of(other, PAGES)
                }
            }
        }
    }
}

/// What an access costs, after a beginning, and the probabilities at the end.
fn cost(
    workload: Workload,
    (second, page_move): (u32, u64),
    fixed: Option<Migration>,
) -> (f64, Migration) {
    let steps = steps(1_000_000, 2_000_000) as u32;
    let mut random = fastrand::Rng::with_seed(7);
    let mut model = Model::new(second, page_move, fixed);
    let mut before = Counts::default();
    for step in 0..steps {
        if step == steps / 2 {
            before = model.counts();
        }
        model.access(workload.page((random.f64(), random.f64()), step));
    }
    let mut slower = [0.0; MOST_TIERS];
    slower[1] = (4 * LONGER) as f64;
    let costs = Costs { slower, load: LOAD as f64, page_move: page_move as f64 };
    (costs.of_an_access(&model.counts().since(&before)), model.tiers.migration())
}

/// In a pool whose tiers are equally large and pages are moved by a copy; and in one with a second tier of
/// four times the first, where the kernel moves them, which costs as much as what many accesses save.
#[test]
fn tuned_probabilities_are_nearly_as_good_as_the_best_for_each_workload() {
    let (mut of_tuned, mut of_fixed) = (0.0, [0.0; FIXED.len()]);
    let workloads =
        [Workload::Zipfian, Workload::Uniform, Workload::Moving(500), Workload::Moving(50)];
    for (pool, most) in [((FIRST, 3000), 1.15), ((4 * FIRST, 20_000), 1.6)] {
        for workload in workloads {
            let fixed = FIXED.map(|fixed| cost(workload, pool, Some(fixed)).0);
            let best = fixed.iter().copied().fold(f64::MAX, f64::min);
            let (tuned, found) = cost(workload, pool, None);
            println!("{pool:?} {workload:?}: {tuned:.0}, fixed {fixed:.0?}; {found:?}");
            assert!(tuned / best < most, "{pool:?} {workload:?}: {tuned}, {fixed:?}; {found:?}");
            of_tuned += (tuned / best).ln();
            of_fixed.iter_mut().zip(fixed).for_each(|(sum, cost)| *sum += (cost / best).ln());
        }
    }
    // None of the others is nearly as good for all.
    println!("sums of logarithms: {of_tuned:.2}, fixed {of_fixed:.2?}");
    assert!(of_fixed.iter().all(|sum| of_tuned * 1.2 < *sum), "{of_tuned} {of_fixed:?}");
}

/// What is loaded and never read again leaves no trace that grows.
#[test]
fn what_is_known_of_pages_is_bounded() {
    let mut model = Model::new(FIRST, 3000, None);
    (0..400_000).for_each(|step| model.access(step % PAGES));
    let observed = &model.tiers.tuner.as_ref().unwrap().observed;
    assert!(observed.tracked_pages() <= 2 * FIRST as usize, "{}", observed.tracked_pages());
}

/// `TUNE-3`: the first tier's policy wants to hear of no access twice.
#[test]
fn the_mark_of_a_page_stays_while_its_accesses_are_counted() {
    let mut model = Model::new(FIRST, 3000, None);
    // By the latencies.
    model.tiers.tune(4096);
    let (behind, frame) = (FrameId::new(FIRST + 1), FrameId::new(1));
    // As many accesses as have paid, twice over.
    let accesses = |model: &Model| (0..200).take_while(|_| model.tiers.access(frame)).count();
    let is_marked = model.tiers.admit(behind, id(7), false);
    model.put(7, behind.get(), is_marked);
    model.migrate(behind.get(), frame.get(), Counter::TierPromotions);
    assert!(model.frames.0[1].1.get(), "it is counted");
    let counted = accesses(&model);
    assert!((16..200).contains(&counted), "{counted}");
    assert_eq!(accesses(&model), 0, "as the policy wants it");
    // A page of the tier that was never in another one.
    let is_marked = model.tiers.admit(FrameId::new(2), id(8), false);
    model.put(8, 2, is_marked);
    assert!(!model.tiers.access(FrameId::new(2)));
}

/// Lookups of keys of which some are asked for far more often than others (zipfian, 0.99), in pages of 27
/// of them that lie next to each other by chance, as keys do that are hashed; twice as many pages as the
/// first tier has frames, all in memory. The best that can be is that those that are used most lie in the
/// first tier.
#[test]
fn pages_lie_nearly_as_well_as_they_can() {
    const RECORDS: u32 = 2_000_000;
    const KEYS: usize = 27;
    const ALL: usize = 2 * FIRST as usize;
    const STEPS: u32 = 4_000_000;
    let mut random = fastrand::Rng::with_seed(3);
    let mut of_a_key = || f64::from(random.u32(1..=RECORDS)).powf(-0.99);
    let temperatures: Vec<f64> = (0..ALL).map(|_| (0..KEYS).map(|_| of_a_key()).sum()).collect();
    let sum: f64 = temperatures.iter().sum();
    let mut most: Vec<f64> = temperatures.iter().map(|temperature| temperature / sum).collect();
    most.sort_by(|one, other| other.total_cmp(one));
    let best: f64 = most[FIRST as usize..].iter().sum();
    let until = |below: &mut f64, temperature: &f64| {
        *below += temperature / sum;
        Some(*below)
    };
    let below: Vec<f64> = temperatures.iter().scan(0.0, until).collect();

    let mut model = Model::new(FIRST + FIRST / 10, 3000, None);
    let mut before = Counts::default();
    for step in 0..STEPS {
        if step == STEPS / 2 {
            before = model.counts();
        }
        let at = random.f64();
        model.access(below.partition_point(|below| *below < at).min(ALL - 1) as u32);
    }
    let counts = model.counts().since(&before);
    let slow = counts.slower[1] as f64 / counts.accesses as f64;
    let moved = counts.moves as f64 / counts.accesses as f64;
    println!(
        "{slow:.3} of all accesses are to the second tier, {best:.3} at best; {moved:.4} moves"
    );
    assert!(slow < best * 1.15 && moved < 0.005, "{slow} of {best}, {moved}");
}
