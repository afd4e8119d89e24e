//! TPC-C that is all resident: what translations make of whole transactions
//! (predictive-2026 6.1, figure 5; leanstore-2018 V-B, figures 1 and 8), what each of
//! LeanStore's features does (figure 7), and mixes of writing and reading by read modes
//! (scalecache-2025 4.3, figure 8; by groups of cores and by cores: 4.6, figure 13b).
//!
//! Everything is touched before, and there is a run that is not measured. Nothing waits for the
//! log, no checkpoint comes, and it is an error if a page is evicted or written. The data grow from
//! one measurement to the next, by all sides alike.

use super::tpcc_larger::{MIXES, push};
use crate::ladder::prelude::*;

/// Threads of the run that is not measured.
const WARMING_THREADS: usize = 1;

/// The standard mix.
pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    resident(setup, &[Mix::Standard], |_| String::new())
}

/// By mixes; the one that only reads runs first, unmeasured.
pub(crate) fn run_mixes(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    resident(setup, &MIXES, |mix| format!(", {mix}"))
}

/// Each of these mixes; `of` says which one a metric is of.
fn resident(
    setup: &Setup<'_>,
    mixes: &[Mix],
    of: impl Fn(Mix) -> String,
) -> Result<Measured, BenchError> {
    let threads = WARMING_THREADS + mixes.len() * setup.threads.iter().sum::<usize>();
    let (loaded, budget) = Loaded::resident(setup, threads as f64 * setup.seconds)?;
    let mut store = loaded.copy(setup)?.open(setup, budget, true)?;
    store.touch()?;
    store.plan.mix = mixes[0];
    store.run(WARMING_THREADS)?;
    let mut measured = Measured::default();
    for &mix in mixes {
        store.plan.mix = mix;
        for &threads in setup.threads {
            let ran = store.run(threads)?;
            push(&mut measured, &of(mix), threads, &ran);
        }
    }
    store.check_resident()?;
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing::run;

    #[test]
    fn each_mix_is_measured_and_readers_lose_no_try() {
        run(|setup| {
            let measured = run_mixes(setup).unwrap();
            for mix in ["0:100", "20:80", "50:50", "standard"] {
                let found = measured.of(&format!("transactions, {mix}"));
                assert!(found.len() == 2 && found.iter().all(|per_s| *per_s > 0.0), "{mix}");
            }
            assert_eq!(measured.of("conflicts, 0:100"), [0.0, 0.0]);
        });
    }
}
