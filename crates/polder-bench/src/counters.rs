//! The processor's own counters of one thread, where the kernel permits them (`perf_event_open`).
//!
//! They count in user mode only: threads of an engine itself are not in them, nor is the kernel's work.

use std::collections::BTreeMap;
use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware};
use perf_event::{Builder, Counter};

/// What is counted, as far as the processor does.
pub(crate) const NAMES: [&str; 6] =
    ["instructions", "cache misses", "dTLB misses", "cycles", "branch misses", "frontend stalls"];

/// What was counted, each by the name that people know it by.
pub(crate) type Counts = BTreeMap<&'static str, f64>;

/// Counters that count, each with the name that people know it by: those that the processor has.
#[derive(Debug)]
pub(crate) struct Counters(Vec<(&'static str, Counter)>);

impl Counters {
    /// Begins to count.
    ///
    /// # Errors
    /// Those of the first, instructions, which every processor counts.
    pub(crate) fn start() -> io::Result<Counters> {
        const DTLB_MISSES: Cache =
            Cache { which: CacheId::DTLB, operation: CacheOp::READ, result: CacheResult::MISS };
        let instructions = Builder::new(Hardware::INSTRUCTIONS).build()?;
        let others = [
            Builder::new(Hardware::CACHE_MISSES).build(),
            Builder::new(DTLB_MISSES).build(),
            Builder::new(Hardware::CPU_CYCLES).build(),
            Builder::new(Hardware::BRANCH_MISSES).build(),
            Builder::new(Hardware::STALLED_CYCLES_FRONTEND).build(),
        ];
        let named = NAMES.into_iter().zip([Ok(instructions)].into_iter().chain(others));
        let mut counters: Vec<_> =
            named.filter_map(|(name, counter)| Some((name, counter.ok()?))).collect();
        counters.iter_mut().try_for_each(|(_, counter)| counter.enable())?;
        Ok(Counters(counters))
    }

    /// Ends counting, and says what came together.
    pub(crate) fn stop(mut self) -> io::Result<Counts> {
        self.0.iter_mut().try_for_each(|(_, counter)| counter.disable())?;
        self.0.iter_mut().map(|(name, counter)| Ok((*name, read(counter)?))).collect()
    }
}

/// The value, scaled up for the time in which the counter had to share its place.
fn read(counter: &mut Counter) -> io::Result<f64> {
    let read = counter.read_count_and_time()?;
    let [value, enabled, running] =
        [read.count, read.time_enabled, read.time_running].map(|number| number as f64);
    Ok(if running > 0.0 { value * enabled / running } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_count_or_say_why_not() {
        let counters = match Counters::start() {
            Ok(counters) => counters,
            Err(error) => {
                eprintln!("skipped, no counters here: {error}");
                return;
            }
        };
        let sum: u64 = (0..100_000u64).map(std::hint::black_box).sum();
        let counts = counters.stop().unwrap();
        assert!(sum > 0 && counts["instructions"] > 100_000.0);
    }
}
