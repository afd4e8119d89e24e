//! YCSB-C on a tree of four times the budget: first only records of half the budget are asked for,
//! then more and more, until all are (predictive-2026 6.2 and 6.3).
//!
//! The axis is data by the budget, not by frames: so each side is asked for the same data at each
//! step, and pays for its translation and metadata out of what is left for frames. At 1.0 the data
//! are somewhat more than the frames.
//!
//! Records whose keys are neighbours lie in one leaf, so that the first tenth of the records is a
//! tenth of the leaves. Before a step of at most the budget is measured its new leaves are loaded,
//! and each step runs unmeasured for as long as it is measured then, by other requests.

use super::lookup::chains;
use crate::ladder::prelude::*;

/// The data by the budget.
const TIMES: f64 = 4.0;
/// What is asked for, by the budget.
const STEPS: [f64; 6] = [0.5, 0.75, 1.0, 1.5, 2.0, TIMES];

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.records)?;
    let subject = stored.open::<T>(setup, (stored.bytes as f64 / TIMES) as u64)?;
    let pool = &subject.pool;
    let budget = pool.stats().memory_budget_bytes as f64;
    let most = setup.most_threads();
    let mut measured = Measured::default();
    let mut touched = 0;
    for step in STEPS {
        (setup.tell)(&format!("{step} times the budget"));
        let share = (step * budget / stored.bytes as f64).min(1.0);
        let among = ((stored.records as f64 * share) as u64).max(1);
        if step <= 1.0 {
            subject.touch(touched..among)?;
            touched = among;
        }
        let worker = |_| subject.reader(Dist::Zipfian, among);
        setup.drive(most, worker)?;
        let driven = setup.drive(most, worker)?;
        measured.push_driven("growing", step, &driven);
    }
    for &threads in setup.threads {
        (setup.tell)(&format!("out of memory, {threads} threads"));
        let before = pool.stats();
        let driven = subject.lookups(threads, Dist::Zipfian)?;
        let (ops, now) = (driven.ops.max(1) as f64, pool.stats());
        measured.push_driven("out of memory", threads as f64, &driven);
        let give_backs = now.give_backs - before.give_backs;
        measured.push("out of memory: give-backs", threads as f64, give_backs as f64 / ops);
        let faults = now.faults - before.faults;
        measured.push("out of memory: faults", threads as f64, faults as f64 / ops);
    }
    // With the pool full, as the paper has it.
    chains(pool, &mut measured);
    Ok(measured)
}
