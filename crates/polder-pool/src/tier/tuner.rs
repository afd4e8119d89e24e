//! The probabilities of migration, tuned while the pool runs: by what an access to a slower tier costs, a
//! load, and the move of a page.
//!
//! Dr is raised and lowered by what promotions of observed pages were worth (`observed`). What a promotion
//! costs shows at once, and what it is worth much later, by and by: so trials of Dr would mostly end with
//! pages that are left where they are. Rr and Rw say which pages are in memory at all, which shows in what
//! is loaded: other values are tried (`trial`). A change of a page is an access before it is a change: so
//! Dw is 0.
//!
//! (Spitfire, SIGMOD 2021, 4, tries values of all four at random and goes on by their throughput, by
//! simulated annealing. Here costs are counted, not throughput: they are the same on a machine that is
//! busy with something else.)

#![cfg(not(loom))]

use super::costs::{Costs, Counts, Times};
use super::observed::Observed;
use super::trial::Trials;
use super::{MOST_TIERS, Migration};
use crate::sync::{Mutex, try_lock};

/// Finds out with which probabilities pages should migrate.
pub(super) struct Tuner {
    pub(super) observed: Observed,
    state: Mutex<State>,
}

struct State {
    costs: Costs,
    /// What had been timed when costs were learnt last.
    learnt: Times,
    trials: Trials,
}

impl Tuner {
    /// For a pool with so many frames in each tier, where an access to each takes so much longer; from
    /// these probabilities on.
    pub(super) fn new(frames: &[u32], slower: [f64; MOST_TIERS], begin: &Migration) -> Tuner {
        let (costs, all) = (Costs::supposed(slower), frames.iter().sum());
        let in_slower = frames.iter().skip(1).sum();
        Tuner {
            observed: Observed::new(all, in_slower, costs, begin.read_promotes),
            state: Mutex::new(State {
                costs,
                learnt: Times::default(),
                trials: Trials::new(all.into()),
            }),
        }
    }

    /// Bytes for each frame.
    pub(super) const BYTES_PER_FRAME: u64 = Observed::BYTES_PER_FRAME;

    /// The probabilities from now on. This is what happened since the pool was opened, until `now`, and how
    /// much longer an access to each tier takes. `None` if another thread is about to find out.
    pub(super) fn tune(
        &self,
        (counts, times): (&Counts, &Times),
        slower: [f64; MOST_TIERS],
        now: u64,
    ) -> Option<Migration> {
        let mut state = try_lock(&self.state)?;
        let State { costs, learnt, trials } = &mut *state;
        costs.learn(learnt, times);
        costs.slower = slower;
        let read_promotes = self.observed.tune(costs, now);
        Some(trials.next(counts, costs).migration(read_promotes))
    }
}

#[cfg(all(test, feature = "tiers"))]
#[allow(clippy::unwrap_used)]
mod tests;
