//! What happened in a pool of several tiers, and what each of it costs.

#![cfg(not(loom))]

use std::time::Duration;

use crate::tier::MOST_TIERS;

/// What is supposed until something was measured.
const SUPPOSED_LOAD: Duration = Duration::from_micros(100);
const SUPPOSED_MOVE: Duration = Duration::from_micros(2);

/// No mean is taken of fewer: they may all have been disturbed.
const LEAST_MEASURED: u64 = 64;

/// What counts for a cost, since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Accesses to pages, all of them.
    pub(super) accesses: u64,
    /// Of these, those that found their page in each tier; the first is not counted.
    pub(super) slower: [u64; MOST_TIERS],
    /// Pages that an operation had read from the device.
    pub(super) loads: u64,
    /// Pages that were written to make room.
    pub(super) written: u64,
    /// Pages that went from one tier to another.
    pub(super) moves: u64,
    /// Pages that left memory.
    pub(super) evictions: u64,
}

/// What was timed, since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Timed {
    pub(super) count: u64,
    pub(super) nanos: u64,
}

/// Moves of pages, and loads for which an operation has waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) moves: Timed,
    pub(super) loads: Timed,
}

impl Counts {
    /// What happened since then.
    pub(super) fn since(&self, then: &Counts) -> Counts {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Counts {
            accesses: less(self.accesses, then.accesses),
            slower: std::array::from_fn(|tier| less(self.slower[tier], then.slower[tier])),
            loads: less(self.loads, then.loads),
            written: less(self.written, then.written),
            moves: less(self.moves, then.moves),
            evictions: less(self.evictions, then.evictions),
        }
    }
}

/// What each costs, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Costs {
    /// How much longer than one to the first tier an access to each tier takes.
    pub(super) slower: [f64; MOST_TIERS],
    /// How long an operation waits for a page from the device. What is written to make room costs the
    /// same: it takes the device as long.
    pub(super) load: f64,
    /// How long it takes to move a page, by the thread that does.
    pub(super) page_move: f64,
}

impl Costs {
    /// What is supposed, where an access to each tier takes so much longer.
    pub(super) fn supposed(slower: [f64; MOST_TIERS]) -> Costs {
        let [load, page_move] = [SUPPOSED_LOAD, SUPPOSED_MOVE].map(|time| time.as_nanos() as f64);
        Costs { slower, load, page_move }
    }

    /// Takes over a part of what was timed since the last time, if it is enough.
    pub(super) fn learn(&mut self, last: &mut Times, now: &Times) {
        learn(&mut self.page_move, &mut last.moves, now.moves);
        learn(&mut self.load, &mut last.loads, now.loads);
    }

    /// To promote a page and to demote the one that makes room for it.
    pub(super) fn exchange(&self) -> f64 {
        2.0 * self.page_move
    }

    /// How often each happened, and its cost.
    fn each(&self, counts: &Counts) -> impl Iterator<Item = (f64, f64)> {
        let slower = counts.slower.into_iter().zip(self.slower);
        let others = [(counts.loads + counts.written, self.load), (counts.moves, self.page_move)];
        slower.chain(others).map(|(count, cost)| (count as f64, cost))
    }

    /// Nanoseconds of an access, on average, beyond what it takes in the first tier.
    pub(super) fn of_an_access(&self, counts: &Counts) -> f64 {
        let sum: f64 = self.each(counts).map(|(count, cost)| count * cost).sum();
        sum / counts.accesses.max(1) as f64
    }

    /// The standard deviation of that, if whatever happens is by chance and independent.
    pub(super) fn deviation(&self, counts: &Counts) -> f64 {
        let variance: f64 = self.each(counts).map(|(count, cost)| count * cost * cost).sum();
        variance.sqrt() / counts.accesses.max(1) as f64
    }
}

fn learn(cost: &mut f64, last: &mut Timed, now: Timed) {
    let count = now.count.saturating_sub(last.count);
    if count >= LEAST_MEASURED {
        let mean = now.nanos.saturating_sub(last.nanos) as f64 / count as f64;
        *cost += (mean - *cost) / 4.0;
        *last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_sum_by_access() {
        let costs = Costs { slower: [0.0, 100.0, 500.0, 0.0], load: 10_000.0, page_move: 50.0 };
        let counts = Counts {
            accesses: 1000,
            slower: [0, 30, 2, 0],
            loads: 3,
            written: 1,
            moves: 20,
            ..Counts::default()
        };
        assert_eq!(costs.of_an_access(&counts), (3000.0 + 1000.0 + 40_000.0 + 1000.0) / 1000.0);
        assert!(costs.deviation(&counts) > 20.0);
        assert_eq!(costs.of_an_access(&Counts::default()), 0.0);
        assert_eq!(counts.since(&counts), Counts::default());
    }

    #[test]
    fn costs_come_near_to_what_is_measured() {
        let mut costs = Costs::supposed([0.0; MOST_TIERS]);
        let mut last = Times::default();
        let few = Times { moves: Timed { count: 3, nanos: 1 << 40 }, ..last };
        costs.learn(&mut last, &few);
        assert_eq!((costs, last), (Costs::supposed([0.0; MOST_TIERS]), Times::default()));
        for times in 1..40 {
            let moves = Timed { count: times * 1000, nanos: times * 7_000_000 };
            let loads = Timed { count: times * 100, nanos: times * 2_000_000 };
            let now = Times { moves, loads };
            costs.learn(&mut last, &now);
            assert_eq!(last, now);
        }
        assert!((costs.page_move - 7000.0).abs() < 10.0 && (costs.load - 20_000.0).abs() < 10.0);
    }
}
