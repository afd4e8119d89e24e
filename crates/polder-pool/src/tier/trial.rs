//! Trials: whether pages that are loaded, and pages that make room, should go elsewhere than they do.
//!
//! ```text
//! before --> during --> after --> during --> after ...
//!    ^          another arm   | better: the arm is taken, and all begins again
//!    +------------------------+
//! ```
//!
//! An arm (a term of the multi-armed bandit) is held until half as many pages have left memory as there
//! is room for, so that much of what is in memory came in under it; and then for as many as tell enough,
//! by which it is judged. That of the trial is compared with those before and after it, so that a cost
//! that rises or falls by itself favours none.

#![cfg(not(loom))]

use super::costs::{Costs, Counts};
use crate::tier::Migration;

/// Pages that have left memory when an arm is judged, where there is room for as many: what each is
/// loaded for is by chance, which then matters less than 1%.
const JUDGED: u64 = 16_384;

/// A better arm is cheaper by this part at least.
const LEAST_GAIN: f64 = 0.01;
/// And by so many standard deviations.
const DEVIATIONS: f64 = 2.0;
/// A trial ends early if its arm is worse by this part, and so many deviations.
const TOO_BAD: f64 = 0.1;
const TOO_BAD_DEVIATIONS: f64 = 3.0;
/// The most spans in which no arm is tried, when none was better.
const MOST_REST: u32 = 64;
/// A cost that differs by this part from that of the last trial is another workload's.
const CHANGE: f64 = 0.2;

/// Where pages go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arm {
    /// What comes from the device, to the slower tier (Rr); of several, to the last.
    loads_to_slower: bool,
    /// What makes room, mostly out of memory, and not to the slower tier (Rw).
    leaves: bool,
    /// Pages are promoted more often than it is worth by itself (Dr): where slower tiers are small, what
    /// is promoted stays in memory for longer, and need not be loaded again.
    promotes_more: bool,
}

/// How many other arms differ by one from an arm.
const NEIGHBOURS: u32 = 3;
/// How much more often.
const MORE: f64 = 10.0;

impl Arm {
    /// The probabilities, where it is worth by itself to promote pages with this one.
    pub(super) fn migration(self, read_promotes: f64) -> Migration {
        let more = if self.promotes_more { MORE } else { 1.0 };
        let read_promotes = (read_promotes * more).min(1.0);
        let loads_to_slower = if self.loads_to_slower { 1.0 } else { 0.0 };
        // Some go there all the same: else what is there would stay for ever.
        let evicts_to_slower = if self.leaves { 0.1 } else { 1.0 };
        Migration { read_promotes, write_promotes: 0.0, loads_to_slower, evicts_to_slower }
    }

    /// One of those that differ by one, in turn.
    fn neighbour(self, turn: u32) -> Arm {
        let mut other = self;
        let differs = match turn % NEIGHBOURS {
            0 => &mut other.loads_to_slower,
            1 => &mut other.leaves,
            _ => &mut other.promotes_more,
        };
        *differs = !*differs;
        other
    }
}

/// Where a trial stands, and what happened in the spans behind it.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Before,
    During { before: Counts },
    After { before: Counts, during: Counts },
}

/// Trials, one after the other.
#[derive(Debug)]
pub(super) struct Trials {
    /// Pages for which there is room in all tiers.
    frames: u64,
    arm: Arm,
    tried: Arm,
    phase: Phase,
    /// When the present span began; or, once enough pages have left, when what counts began.
    from: Counts,
    is_settled: bool,
    /// Arms that were not better, since one was.
    failed: u32,
    /// Spans until the next trial, and how many there were at the last time.
    rest: u32,
    rested: u32,
    /// What an access cost at the last trial.
    known_cost: f64,
}

impl Trials {
    pub(super) fn new(frames: u64) -> Trials {
        let arm = Arm::default();
        Trials {
            frames,
            arm,
            tried: arm,
            phase: Phase::Before,
            from: Counts::default(),
            is_settled: false,
            failed: 0,
            rest: 0,
            rested: 0,
            known_cost: 0.0,
        }
    }

    /// Where pages should go from now on; this is what happened since the pool was opened.
    pub(super) fn next(&mut self, now: &Counts, costs: &Costs) -> Arm {
        let span = now.since(&self.from);
        let enough = if self.is_settled { self.frames.min(JUDGED) } else { self.frames / 2 };
        if span.evictions >= enough {
            if self.is_settled {
                self.end_span(span, costs);
            }
            (self.from, self.is_settled) = (*now, !self.is_settled);
        } else if self.is_too_bad(&span, costs) {
            self.end_span(span, costs);
            (self.from, self.is_settled) = (*now, false);
        }
        match self.phase {
            Phase::During { .. } => self.tried,
            _ => self.arm,
        }
    }

    fn is_too_bad(&self, span: &Counts, costs: &Costs) -> bool {
        let Phase::During { before } = self.phase else { return false };
        let most = costs.of_an_access(&before) * (1.0 + TOO_BAD);
        let deviation = costs.deviation(span);
        span.evictions >= self.frames / 8
            && costs.of_an_access(span) - TOO_BAD_DEVIATIONS * deviation > most
    }

    fn end_span(&mut self, span: Counts, costs: &Costs) {
        match self.phase {
            Phase::Before => self.begin_trial(span, costs),
            Phase::During { before } => self.phase = Phase::After { before, during: span },
            Phase::After { before, during } => {
                if is_better(&during, [&before, &span], costs) {
                    crate::event!(
                        debug,
                        loads_to_slower = self.tried.loads_to_slower,
                        leaves = self.tried.leaves,
                        promotes_more = self.tried.promotes_more,
                        "pages go elsewhere from now on"
                    );
                    (self.arm, self.phase) = (self.tried, Phase::Before);
                    (self.failed, self.rest, self.rested) = (0, 0, 0);
                    return;
                }
                self.failed += 1;
                if self.failed.is_multiple_of(NEIGHBOURS) {
                    self.rested = (self.rested * 2).clamp(1, MOST_REST);
                    self.rest = self.rested;
                    self.known_cost = costs.of_an_access(&span);
                }
                self.begin_trial(span, costs);
            }
        }
    }

    fn begin_trial(&mut self, before: Counts, costs: &Costs) {
        self.phase = Phase::Before;
        if self.rest > 0 {
            let is_known = (costs.of_an_access(&before) / self.known_cost - 1.0).abs() < CHANGE;
            if is_known {
                self.rest -= 1;
                return;
            }
            (self.rest, self.rested) = (0, 0);
        }
        self.tried = self.arm.neighbour(self.failed);
        self.phase = Phase::During { before };
    }
}

/// Whether an access was cheaper than around it.
fn is_better(during: &Counts, around: [&Counts; 2], costs: &Costs) -> bool {
    let [before, after] = around.map(|span| costs.of_an_access(span));
    let [d0, d1, d2] = [during, around[0], around[1]].map(|span| costs.deviation(span).powi(2));
    let (other, deviation) = ((before + after) / 2.0, (d0 + (d1 + d2) / 4.0).sqrt());
    let gain = other - costs.of_an_access(during);
    gain > (other * LEAST_GAIN).max(DEVIATIONS * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::MOST_TIERS;

    const FRAMES: u64 = 10_000;

    /// Spans in a pool where an arm makes so many of a thousand accesses load a page; the arms that were
    /// held.
    fn arms(spans: usize, loads: impl Fn(usize, Arm) -> u64) -> Vec<Arm> {
        let costs = Costs::supposed([0.0; MOST_TIERS]);
        let (mut trials, mut counts) = (Trials::new(FRAMES), Counts::default());
        let arms = (0..spans).map(|span| {
            let arm = trials.next(&counts, &costs);
            counts.accesses += FRAMES * 1000;
            counts.loads += FRAMES * loads(span, arm);
            counts.evictions += FRAMES;
            arm
        });
        arms.collect()
    }

    #[test]
    fn the_best_arm_is_found_and_mostly_held() {
        for number in 0..8 {
            let best = Arm {
                loads_to_slower: number & 1 > 0,
                leaves: number & 2 > 0,
                promotes_more: number & 4 > 0,
            };
            let loads = |_, arm| 100 + 5 * distance(arm, best) as u64;
            let late = &arms(600, loads)[200..];
            let held = late.iter().filter(|arm| **arm == best).count();
            assert!(held > late.len() * 8 / 10, "{best:?}: {held} of {}", late.len());
        }
    }

    fn distance(one: Arm, other: Arm) -> usize {
        let differs = [
            one.loads_to_slower != other.loads_to_slower,
            one.leaves != other.leaves,
            one.promotes_more != other.promotes_more,
        ];
        differs.into_iter().filter(|differs| *differs).count()
    }

    /// Loads become fewer all the time, as where a pool is filled: no arm is better for that.
    #[test]
    fn a_cost_that_falls_by_itself_favours_no_arm() {
        let falls = arms(200, |span, _| 1000 - 4 * span as u64);
        let held = falls.iter().filter(|arm| **arm == falls[0]).count();
        assert!(held > falls.len() * 6 / 10, "{held}");
        // Each is tried, and for two spans: it is settled before it is judged.
        for turn in 0..NEIGHBOURS {
            let other = falls[0].neighbour(turn);
            let tried = falls.iter().filter(|arm| **arm == other).count();
            assert!(tried >= 2 && tried.is_multiple_of(2), "{other:?}: {tried}");
        }
    }

    #[test]
    fn what_is_very_bad_is_not_held_for_long() {
        let costs = Costs::supposed([0.0; MOST_TIERS]);
        let (mut trials, mut counts) = (Trials::new(FRAMES), Counts::default());
        let mut bad = 0;
        for _ in 0..3200 {
            let arm = trials.next(&counts, &costs);
            let is_bad = arm.loads_to_slower;
            bad += u64::from(is_bad);
            counts.accesses += 10_000;
            counts.loads += if is_bad { 5000 } else { 100 };
            counts.evictions += if is_bad { 5000 } else { 100 };
        }
        assert!((1..100).contains(&bad), "{bad}");
    }
}
