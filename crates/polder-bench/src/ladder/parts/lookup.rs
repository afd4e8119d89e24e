//! Point lookups in a tree that is all resident: uniform (predictive-2026 6.1, 6.4) and
//! zipfian (YCSB-C). calico-2026 3.2, table 3, has YCSB-C and does not say with which distribution.
//!
//! Timed is [`Tree::get_with`](polder_tree::Tree::get_with), from key to one word of the value. What the
//! processor counts of one thread's (predictive-2026 6.5) is there where the kernel lets us ask.

use std::time::Duration;

use crate::counters::Counters;
use crate::ladder::prelude::*;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let records = setup.scale.records;
    let subject = Subject::<T>::resident(setup, records)?;
    let mut measured = Measured::default();
    // The word of each value that is read has a line for itself.
    measured.push_touched(records);
    for (metric, dist) in [("uniform", Dist::Uniform), ("zipfian", Dist::Zipfian)] {
        (setup.tell)(metric);
        subject.settle(dist)?;
        for &threads in setup.threads {
            let driven = subject.lookups(threads, dist)?;
            measured.push_driven(metric, threads as f64, &driven);
        }
        counted(setup, metric, subject.reader(dist), &mut measured)?;
    }
    Ok(measured)
}

/// What the processor counts while one thread does turns of lookups, for each of them.
fn counted(
    setup: &Setup<'_>,
    metric: &str,
    mut turn: impl FnMut() -> Result<u64, BenchError>,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    let Ok(counters) = Counters::start() else { return Ok(()) };
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(setup.seconds));
    let mut lookups = 0;
    while began.elapsed() < limit {
        setup.interrupt.check()?;
        lookups += turn()?;
    }
    for (name, count) in counters.stop().unwrap_or_default() {
        measured.push(format!("{metric}: {name}"), 1.0, count / lookups.max(1) as f64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing::run;

    #[test]
    fn what_is_counted_is_counted_for_each_lookup() {
        run(|setup| {
            let mut measured = Measured::default();
            let turn = || {
                std::hint::black_box((0..64_000u64).map(std::hint::black_box).sum::<u64>());
                Ok(64)
            };
            counted(setup, "uniform", turn, &mut measured).unwrap();
            match measured.of("uniform: instructions").first() {
                Some(instructions) => assert!((1000.0..100_000.0).contains(instructions)),
                None => eprintln!("skipped, no counters here"),
            }
        });
    }
}
