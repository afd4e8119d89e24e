//! TPC-C on data of four times the budget (predictive-2026 6.2, figure 6; leanstore-2018
//! VI-A): by threads, and over time by the most of them, so that stalls show; and what the device
//! has to do for it (predictive-2026, figure 7).
//!
//! And by mixes of writing and reading and by read modes, on data of many times the budget
//! (scalecache-2025 4.7, figure 12). A mix such as 20:80 is of new-order, which writes, and
//! stock-level, which only reads; in the standard mix 92 transactions of 100 write. The mix that
//! only reads comes first and the others follow in the order in which they write more, so that the
//! data begin to grow late. Before each mix is measured it runs for as long as one measurement
//! takes.
//!
//! The log is as long as by default, and checkpoints come as they do in any store.

use crate::ladder::prelude::*;
use crate::ladder::watched::{self, Sample};

/// Budget by data.
const BUDGET: f64 = 0.25;
/// Budget by data where mixes run: 8 by 232 GB in the paper. Stock-level alone goes to the last
/// orders of each district and to the stock of their items, about a fifteenth of the data, which a
/// larger budget would keep.
const LITTLE: f64 = 1.0 / 29.0;
/// The mixes of scalecache-2025.
pub(super) const MIXES: [Mix; 4] =
    [Mix::NewOrders(0), Mix::NewOrders(20), Mix::NewOrders(50), Mix::Standard];
/// Measured whatever the threads of the other parts are.
const THREADS: [usize; 3] = [1, 2, MOST];
/// Threads whose throughput is shown over time: enough to keep a device busy.
const MOST: usize = 8;
/// How long one measurement is, in those of other parts: a checkpoint may come every few seconds.
const LENGTH: f64 = 5.0;
/// How long the run before is that fills the pool.
const WARM_UP: f64 = 2.0;
/// Seconds of an interval: short enough for stalls that people notice.
const STEP_S: f64 = 0.5;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.warehouses, None)?;
    let store = loaded.copy(setup)?.open(setup, loaded.budget(BUDGET), false)?;
    store.run(MOST, WARM_UP * setup.seconds, STEP_S, None)?;
    let mut measured = Measured::default();
    for threads in setup.threads_and(&THREADS) {
        let (before, look) = (io(&store), || Ok(io(&store)));
        let times = (LENGTH * setup.seconds, STEP_S);
        let (ran, samples) = watched::run(&store, threads, times, look, |_| false)?;
        push(&mut measured, "", threads, &ran);
        let rates = rates(before, &samples);
        for (i, metric) in IO.into_iter().enumerate() {
            if let Some(last) = samples.last() {
                measured.push(metric, threads as f64, (last.seen[i] - before[i]) / last.at_s);
            }
        }
        if threads == MOST {
            ran.push_over_time("transactions over time", &mut measured);
            for (rates, number) in rates.iter().zip(1..) {
                for (metric, rate) in IO.into_iter().zip(rates) {
                    measured.push(format!("{metric} over time"), ran.ended_at(number), *rate);
                }
            }
            if let Some((lowest, median)) = ran.lowest_and_median() {
                measured.push("lowest interval", 0.0, lowest);
                measured.push("median interval", 0.0, median);
            }
        }
    }
    Ok(measured)
}

/// By mixes, on data of many times the budget.
pub(crate) fn run_mixes(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.larger_warehouses, None)?;
    let mut store = loaded.copy(setup)?.open(setup, loaded.budget(LITTLE), false)?;
    let mut measured = Measured::default();
    for mix in MIXES {
        store.mix = mix;
        store.run(MOST, setup.seconds, setup.seconds, None)?;
        for threads in setup.threads_and(&[MOST]) {
            let ran = store.run(threads, setup.seconds, setup.seconds, None)?;
            push(&mut measured, &format!(", {mix}"), threads, &ran);
            measured.push(format!("pages read, {mix}"), threads as f64, ran.pages_read);
        }
    }
    Ok(measured)
}

/// Adds what each number of threads has done; `of` says by what.
pub(super) fn push(measured: &mut Measured, of: &str, threads: usize, ran: &Ran) {
    measured.push(format!("transactions{of}"), threads as f64, ran.per_s);
    measured.push(format!("conflicts{of}"), threads as f64, ran.conflicts);
}

/// What the device did, or does in a second.
const IO: [&str; 2] = ["bytes read", "bytes written"];

/// Since the store was opened, of the data file.
fn io(store: &TpccStore<'_>) -> [f64; 2] {
    let PoolStats { device_read_bytes, device_written_bytes, .. } = store.stats().pool;
    [device_read_bytes, device_written_bytes].map(|bytes| bytes as f64)
}

/// A second, from each sample to the next.
fn rates(before: [f64; 2], samples: &[Sample<[f64; 2]>]) -> Vec<[f64; 2]> {
    let mut last = Sample { at_s: 0.0, seen: before };
    let rate = |now: &Sample<[f64; 2]>| {
        let seconds = (now.at_s - last.at_s).max(1e-9);
        let rate = [0, 1].map(|i| (now.seen[i] - last.seen[i]) / seconds);
        last = *now;
        rate
    };
    samples.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing;
    use crate::ladder::side;

    #[test]
    fn rates_are_by_the_time_that_was_between_two_looks() {
        let sample = |at_s, seen| Sample { at_s, seen };
        let samples = [sample(0.5, [100.0, 20.0]), sample(1.5, [150.0, 20.0])];
        assert_eq!(rates([100.0, 10.0], &samples), [[0.0, 20.0], [50.0, 0.0]]);
    }

    #[test]
    fn data_larger_than_the_budget_are_read_and_written() {
        testing::run(|setup| {
            let measured = run(&Setup { threads: &[2], seconds: 0.1, ..*setup }).unwrap();
            assert!(measured.of("bytes read").iter().all(|rate| *rate > 0.0));
            assert!(measured.of("bytes written").iter().any(|rate| *rate > 0.0));
            assert!(measured.of("bytes read over time").len() > 1);
        });
    }

    /// Also when there was time for all pages of the pool to be read.
    #[test]
    fn pages_go_and_come_where_data_are_larger() {
        testing::run(|setup| {
            for side in [0, 3].map(|at| side::list("tpcc_holds_larger")[at]) {
                let dir = setup.dir.join(side.name);
                let setup = Setup { dir: &dir, seconds: 0.2, ..setup.on(side) };
                let measured = run_mixes(&setup).unwrap();
                for mix in MIXES {
                    let pages = measured.of(&format!("pages read, {mix}"));
                    assert_eq!(pages.len(), 3);
                    assert!(pages.iter().all(|pages| *pages > 1.0), "{mix}: {pages:?}");
                }
            }
        });
    }
}
