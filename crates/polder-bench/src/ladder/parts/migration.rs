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

use polder_pool::{Migration, PageMoves, Tier, TierConfig};
use rustix::time::{ClockId, clock_gettime};

use super::tiers::second_node;
use crate::ladder::prelude::*;

/// Each tier by the data.
const SHARE: f64 = 0.58;
/// Pages of a call of the kernel.
const BATCHES: [u32; 5] = [1, 8, 64, 512, 4096];
/// Threads that look up.
const THREADS: usize = 2;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.growing_records)?;
    let mut measured = Measured::default();
    // Where the pool copies pages one is as good as another.
    let batches = if T::MEMORY.has_addresses() { &BATCHES[..] } else { &BATCHES[..1] };
    let mut best = Moved::default();
    for &batch in batches {
        // In turn, so that what changes with time changes both.
        let still = moving::<T>(setup, &stored, batch, 0.0)?;
        let moved = moving::<T>(setup, &stored, batch, 1.0)?;
        let at = f64::from(batch);
        measured.push("pages moved", at, moved.pages_per_s);
        measured.push("lookups by still ones", at, moved.lookups_per_s / still.lookups_per_s);
        measured.push(CPU, at, moved.lookups_per_cpu_s / still.lookups_per_cpu_s);
        if moved.pages_per_s > best.pages_per_s {
            best = moved;
        }
    }
    measured.push("pages moved, best batch", 0.0, best.pages_per_s);
    measured.push("pages moved for a lookup", 0.0, best.pages_a_lookup);
    Ok(measured)
}

const CPU: &str = "lookups by still ones, by processor time";

/// What was done in one pool.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    pages_per_s: f64,
    pages_a_lookup: f64,
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
    let second = match by_node {
        true => Tier::new(bytes).on_node(far.unwrap_or(0)),
        false => Tier::new(bytes),
    };
    let tiers = TierConfig {
        first_node: by_node.then_some(0),
        slower: vec![second],
        migration: Some(Migration { read_promotes: promotes, ..Migration::default() }),
        page_moves: PageMoves { batch, ..PageMoves::default() },
    };
    let subject = stored.open_in::<T>(setup, bytes, tiers)?;
    subject.touch(0..stored.records)?;
    let cpu_nanos = AtomicU64::new(0);
    let worker = |_| {
        let mut turn = subject.reader(Dist::Uniform, stored.records);
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
    let pages = now.tier_promotions + now.tier_demotions;
    let pages = (pages - before.tier_promotions - before.tier_demotions) as f64;
    let seconds = (now.migration_nanos - before.migration_nanos) as f64 / 1e9;
    let ops = driven.ops.max(1) as f64;
    Ok(Moved {
        pages_per_s: pages / seconds.max(1e-9),
        pages_a_lookup: pages / ops,
        lookups_per_s: ops / driven.seconds.max(1e-9),
        lookups_per_cpu_s: ops / (cpu_nanos.into_inner() as f64 / 1e9).max(1e-9),
    })
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
    fn pages_go_to_and_fro_by_copies_and_by_the_kernel() {
        run(|setup| {
            let setup = Setup { seconds: 0.1, ..*setup };
            let copied = super::run::<Array>(&setup).unwrap();
            assert_eq!(copied.of("pages moved").len(), 1);
            let moved = super::run::<Vm>(&setup).unwrap();
            assert_eq!(moved.of("pages moved").len(), BATCHES.len());
            for measured in [copied, moved] {
                assert!(measured.of("pages moved").iter().all(|pages| *pages > 0.0));
                assert!(measured.of(CPU).iter().all(|share| *share > 0.0));
            }
        });
    }
}
