//! How many pages a second go from tier to tier, and what lookups lose meanwhile: copied by the pool,
//! against moved by the kernel in batches (vmcache-n-2026 3 and figure 3).
//!
//! All data are in memory, half of them in each tier, and are looked up uniformly. Each access that finds
//! its page in the second tier has it promoted, so that as many go down: pages go to and fro as fast as
//! one thread, the page provider, can do it. A page a second is one of the time that it spends at that.
//! Lookups are given by those in a pool in which nothing moves, by the clock and by the processor time of
//! the threads that look up: where there are fewer processors than threads, the page provider takes some
//! of the former whatever it does with it.
//!
//! Where the machine has two nodes of memory the tiers are those. Else both are ranges of one node:
//! copies are as they would be, and the kernel, which has nothing to move, is measured by its call alone.

use std::cell::Cell;
use std::fs;

use polder_pool::{Migration, PageMoves, Tier, TierConfig};
use rustix::time::{ClockId, clock_gettime};

use crate::ladder::prelude::*;

/// Each tier by the data.
const SHARE: f64 = 0.58;
/// Pages of a call of the kernel.
const BATCHES: [u32; 5] = [1, 8, 64, 512, 4096];
/// Threads that look up.
const THREADS: usize = 2;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, &[setup.scale.growing_records])?;
    let mut measured = Measured::default();
    // Where the pool copies pages one is as good as another.
    let batches = if T::MEMORY.has_addresses() { &BATCHES[..] } else { &BATCHES[..1] };
    let mut best: f64 = 0.0;
    for &batch in batches {
        // In turn, so that what changes with time changes both.
        let still = moving::<T>(setup, &stored, batch, 0.0)?;
        let moved = moving::<T>(setup, &stored, batch, 1.0)?;
        let at = f64::from(batch);
        measured.push("pages moved", at, moved.pages_per_s);
        measured.push("lookups by still ones", at, moved.lookups_per_s / still.lookups_per_s);
        measured.push(CPU, at, moved.lookups_per_cpu_s / still.lookups_per_cpu_s);
        best = best.max(moved.pages_per_s);
    }
    measured.push("pages moved, best batch", 0.0, best);
    Ok(measured)
}

const CPU: &str = "lookups by still ones, by processor time";

/// What was done in one pool.
struct Moved {
    pages_per_s: f64,
    lookups_per_s: f64,
    lookups_per_cpu_s: f64,
}

/// `promotes`: with which probability an access has its page promoted.
fn moving<T: Translation>(
    setup: &Setup<'_>,
    stored: &Stored,
    batch: u32,
    promotes: f64,
) -> Result<Moved, BenchError> {
    (setup.tell)(&format!("batches of {batch}, Dr = {promotes}"));
    let bytes = (stored.bytes as f64 * SHARE) as u64;
    let far = second_node();
    let by_node = T::MEMORY.has_addresses() || far.is_some();
    let second = Tier::new(bytes);
    let tiers = TierConfig {
        first_node: by_node.then_some(0),
        slower: vec![if by_node { second.on_node(far.unwrap_or(0)) } else { second }],
        migration: Some(Migration { read_promotes: promotes, ..Migration::default() }),
        page_moves: PageMoves { batch, ..PageMoves::default() },
    };
    let subject = stored.open_in::<T>(setup, bytes, tiers)?;
    subject.touch(stored.records)?;
    let cpu_nanos = AtomicU64::new(0);
    let worker = |_| {
        let mut turn = subject.reader(Dist::Uniform);
        let (cpu_nanos, last) = (&cpu_nanos, Cell::new(None));
        move || {
            let done = turn()?;
            let now = thread_nanos();
            let before = last.replace(Some(now)).unwrap_or(now);
            cpu_nanos.fetch_add(now - before, Relaxed);
            Ok(done)
        }
    };
    setup.drive(THREADS, worker)?;
    let (before, _) = (subject.pool.stats(), cpu_nanos.swap(0, Relaxed));
    let driven = setup.drive(THREADS, worker)?;
    let now = subject.pool.stats();
    let moves = |stats: &PoolStats| stats.tier_promotions + stats.tier_demotions;
    let pages = (moves(&now) - moves(&before)) as f64;
    let seconds = (now.migration_nanos - before.migration_nanos) as f64 / 1e9;
    Ok(Moved {
        pages_per_s: pages / seconds.max(1e-9),
        lookups_per_s: driven.per_s(),
        lookups_per_cpu_s: driven.ops as f64 / (cpu_nanos.into_inner() as f64 / 1e9).max(1e-9),
    })
}

/// The second node that has memory, where the first one is 0 and there are several.
pub(super) fn second_node() -> Option<u16> {
    let nodes = fs::read_to_string("/sys/devices/system/node/has_memory").ok()?;
    second_of(nodes.trim())
}

/// The second number of a list as `0-1` or `0,2-3`.
fn second_of(list: &str) -> Option<u16> {
    let (_, rest) = list.split_once(['-', ',']).filter(|(first, _)| *first == "0")?;
    match list.strip_prefix("0-") {
        Some(_) => Some(1),
        None => rest.split(['-', ',']).next()?.parse().ok(),
    }
}

/// The processor time of the calling thread.
fn thread_nanos() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use polder_pool::{Array, Vm};

    use super::*;
    use crate::ladder::setup::testing::run;

    #[test]
    fn the_second_node_is_found_where_there_is_one() {
        let lists = ["0", "0-1", "0,2-3", "0,4", "1-2", ""].map(second_of);
        assert_eq!(lists, [None, Some(1), Some(2), Some(4), None, None]);
    }

    /// A run in which pages have moved. The page provider of a busy machine may have no turn in the
    /// time of one, so there are a few tries.
    fn moved<T: Translation>(setup: &Setup<'_>) -> Measured {
        let mut tries = (0..5).map(|_| super::run::<T>(setup).unwrap());
        let has_moved = |run: &Measured| run.of("pages moved").iter().all(|pages| *pages > 0.0);
        tries.find(has_moved).expect("pages have moved in one of the runs")
    }

    #[test]
    fn pages_go_to_and_fro_by_copies_and_by_the_kernel() {
        run(|setup| {
            let setup = Setup { seconds: 0.1, ..*setup };
            let [copied, moved] = [moved::<Array>(&setup), moved::<Vm>(&setup)];
            assert_eq!(copied.of("pages moved").len(), 1);
            assert_eq!(moved.of("pages moved").len(), BATCHES.len());
            for measured in [copied, moved] {
                assert!(measured.of(CPU).iter().all(|share| *share > 0.0));
            }
        });
    }
}
