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

use polder::Stats;

use crate::ladder::prelude::*;

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
/// A name, and how many bytes it stands for.
type Bytes = (&'static str, fn(&Stats) -> u64);
/// What the device has done since the store was opened, of the data file.
const IO: [Bytes; 2] = [
    ("bytes read", |stats| stats.pool.device_read_bytes),
    ("bytes written", |stats| stats.pool.device_written_bytes),
];

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.warehouses, None)?;
    let store = loaded.copy(setup)?.open(setup, loaded.budget(BUDGET), false)?;
    store.run_for(MOST, WARM_UP * setup.seconds, STEP_S, None)?;
    let mut measured = Measured::default();
    for threads in setup.threads_and(&THREADS) {
        let before = store.stats();
        let (ran, seen) = store.run_watched(threads, LENGTH * setup.seconds, STEP_S, |_| false)?;
        push(&mut measured, "", threads, &ran);
        push_io(&mut measured, threads, &ran, &before, &seen);
        if threads == MOST {
            ran.push_over_time("transactions over time", &mut measured);
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
        store.plan.mix = mix;
        store.run(MOST)?;
        for threads in setup.threads_and(&[MOST]) {
            let ran = store.run(threads)?;
            push(&mut measured, &format!(", {mix}"), threads, &ran);
        }
    }
    Ok(measured)
}

/// Adds what each number of threads has done; `of` says by what.
pub(super) fn push(measured: &mut Measured, of: &str, threads: usize, ran: &Ran) {
    measured.push(format!("transactions{of}"), threads as f64, ran.per_s);
    measured.push(format!("conflicts{of}"), threads as f64, ran.conflicts);
    measured.push(format!("pages read{of}"), threads as f64, ran.pages_read);
}

/// Adds what the device did in a second: on the whole, and in each interval by the most threads.
fn push_io(measured: &mut Measured, threads: usize, ran: &Ran, before: &Stats, seen: &[Stats]) {
    for (metric, bytes) in IO {
        let mut last = bytes(before);
        let rates = seen.iter().map(|stats| {
            let now = bytes(stats);
            (now - std::mem::replace(&mut last, now)) as f64 / ran.interval_s
        });
        let rates: Vec<f64> = rates.collect();
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        measured.push(metric, threads as f64, mean);
        for (rate, number) in rates.iter().zip(1..).filter(|_| threads == MOST) {
            measured.push(format!("{metric} over time"), ran.ended_at(number), *rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing;
    use crate::ladder::side;

    #[test]
    fn data_larger_than_the_budget_are_read_and_stalls_are_told() {
        testing::run(|setup| {
            let measured = run(&Setup { threads: &[2], seconds: 0.1, ..*setup }).unwrap();
            assert!(measured.of("pages read").iter().all(|pages| *pages > 0.0));
            assert!(measured.of("bytes read").iter().all(|rate| *rate > 0.0));
            assert!(measured.of("bytes written").iter().any(|rate| *rate > 0.0));
            assert!(measured.of("bytes read over time").len() > 1);
            assert!(measured.of("transactions over time").len() > 1);
            let [lowest, median] =
                ["lowest interval", "median interval"].map(|metric| measured.of(metric)[0]);
            assert!(lowest <= median);
        });
    }

    /// Also when there was time for all pages of the pool to be read.
    #[test]
    fn pages_go_and_come_where_data_are_larger() {
        testing::run(|setup| {
            for side in [0, 3].map(|at| side::list("tpcc_holds_larger")[at]) {
                let dir = setup.dir.join(side.name);
                let setup = Setup { side, dir: &dir, seconds: 0.2, ..*setup };
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
