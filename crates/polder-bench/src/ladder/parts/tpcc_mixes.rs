//! TPC-C by mixes of writing and reading and by ways of holding pages: resident (scalecache.txt
//! 4.3, figure 8; by groups of cores and by cores: 4.6, figure 13b), and on data of many times
//! the budget (4.7, figure 12).
//!
//! A mix such as 20:80 is of new-order, which writes, and stock-level, which only reads. In the
//! standard mix 92 transactions of 100 write. The mix that only reads comes first and the others
//! follow in the order in which they write more, so that the data begin to grow late.
//!
//! Resident, all is as in the part `tpcc`. On larger data checkpoints come as they do in any store,
//! and before each mix is measured it runs for as long as one measurement takes.

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::stores::{Checkpoints, Loaded, Ran, growth_bytes};
use crate::tpcc::Mix;

/// Those of the paper.
const MIXES: [Mix; 4] = [Mix::NewOrders(0), Mix::NewOrders(20), Mix::NewOrders(50), Mix::Standard];
/// Budget by data where all is resident.
const AMPLE: f64 = 2.0;
/// Threads of the run that is not measured there.
const WARMING_THREADS: usize = 1;
/// Budget by data where these are larger: 8 by 232 GB in the paper. Stock-level alone goes to the
/// last orders of each district and to the stock of their items, about a fifteenth of the data,
/// which a larger budget would keep.
const LITTLE: f64 = 1.0 / 29.0;
/// Threads that are measured there besides: enough to keep a device busy.
const MOST: usize = 8;

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let threads = WARMING_THREADS + MIXES.len() * setup.threads.iter().sum::<usize>();
    let thread_seconds = threads as f64 * setup.seconds;
    let checkpoints = Checkpoints::not_for(thread_seconds);
    let loaded = Loaded::find(setup, setup.scale.warehouses, checkpoints)?;
    let budget = loaded.budget(AMPLE) + growth_bytes(thread_seconds);
    let mut store = loaded.copy(setup)?.open(setup, budget, true)?;
    store.touch()?;
    store.mix = MIXES[0];
    store.run(WARMING_THREADS, setup.seconds, setup.seconds, None)?;
    let mut measured = Measured::default();
    for mix in MIXES {
        store.mix = mix;
        for &threads in setup.threads {
            let ran = store.run(threads, setup.seconds, setup.seconds, None)?;
            push(&mut measured, mix, threads, &ran);
        }
    }
    store.check_resident()?;
    Ok(measured)
}

/// On data of many times the budget.
pub(crate) fn run_larger(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let loaded = Loaded::find(setup, setup.scale.larger_warehouses, Checkpoints::AsUsual)?;
    let mut store = loaded.copy(setup)?.open(setup, loaded.budget(LITTLE), false)?;
    let mut measured = Measured::default();
    for mix in MIXES {
        store.mix = mix;
        store.run(MOST, setup.seconds, setup.seconds, None)?;
        for threads in setup.threads_and(&[MOST]) {
            let ran = store.run(threads, setup.seconds, setup.seconds, None)?;
            push(&mut measured, mix, threads, &ran);
            measured.push(format!("pages read, {mix}"), threads as f64, ran.pages_read);
        }
    }
    Ok(measured)
}

fn push(measured: &mut Measured, mix: Mix, threads: usize, ran: &Ran) {
    measured.push(format!("transactions, {mix}"), threads as f64, ran.per_s);
    measured.push(format!("conflicts, {mix}"), threads as f64, ran.conflicts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing::run;
    use crate::ladder::side;

    #[test]
    fn each_mix_is_measured_and_readers_lose_no_try() {
        run(|setup| {
            let measured = super::run(setup).unwrap();
            for mix in ["0:100", "20:80", "50:50", "standard"] {
                let found = measured.of(&format!("transactions, {mix}"));
                assert!(found.len() == 2 && found.iter().all(|per_s| *per_s > 0.0), "{mix}");
            }
            assert_eq!(measured.of("conflicts, 0:100"), [0.0, 0.0]);
        });
    }

    /// Also when there was time for all pages of the pool to be read.
    #[test]
    fn pages_go_and_come_where_data_are_larger() {
        run(|setup| {
            for side in [0, 3].map(|at| side::list("tpcc_holds_larger")[at]) {
                let dir = setup.dir.join(side.name);
                let setup = Setup { dir: &dir, seconds: 0.2, ..setup.on(side) };
                let measured = run_larger(&setup).unwrap();
                for mix in MIXES {
                    let pages = measured.of(&format!("pages read, {mix}"));
                    assert_eq!(pages.len(), 3);
                    assert!(pages.iter().all(|pages| *pages > 1.0), "{mix}: {pages:?}");
                }
            }
        });
    }
}
