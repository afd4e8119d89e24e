//! TPC-C by one thread and by the most, and by what LeanStore's authors do on many cores, one
//! thing after the other (leanstore-2018 V-D, table I): threads have warehouses of their own, and
//! memory is faulted in beforehand.
//!
//! Everything is read before, as in the other resident parts: what the kernel still has to give
//! while transactions run without pre-faulting are frames for rows that they insert. The last
//! thing, that memory is asked of the node of the thread that needs it, cannot be left out here:
//! it is so on every machine with several nodes.

use strum::VariantArray as _;

use crate::ladder::prelude::*;

/// One thing after the other: each step has what those before it have, and one thing more.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, strum::Display, strum::VariantArray)]
enum Step {
    #[strum(serialize = "one thread")]
    OneThread,
    /// The most threads.
    #[strum(serialize = "all threads")]
    AllThreads,
    #[strum(serialize = "warehouse affinity")]
    Affinity,
    #[strum(serialize = "pre-faulted memory")]
    Prefault,
}

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let most = setup.most_threads();
    let thread_seconds = 2.0 * most as f64 * setup.seconds;
    let (loaded, budget) = Loaded::resident(setup, thread_seconds)?;
    let mut measured = Measured::default();
    let mut of_one = None;
    for &step in Step::VARIANTS {
        (setup.tell)(&step.to_string());
        let threads = if step >= Step::AllThreads { most } else { 1 };
        let mut store = loaded.copy(setup)?.open(setup, budget, step >= Step::Prefault)?;
        store.plan.affinity = step >= Step::Affinity;
        store.touch()?;
        store.run(threads)?;
        let ran = store.run(threads)?;
        store.check_resident()?;
        let of_one = *of_one.get_or_insert(ran.per_s);
        measured.push(step.to_string(), 0.0, ran.per_s);
        measured.push(format!("{step}: speedup"), 0.0, ran.per_s / of_one);
        measured.push(format!("{step}: conflicts"), 0.0, ran.conflicts);
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing;

    #[test]
    fn each_step_is_measured() {
        testing::run(|setup| {
            let measured = run(&Setup { seconds: 0.1, ..*setup }).unwrap();
            assert_eq!(measured.of("one thread: speedup"), [1.0]);
            for step in Step::VARIANTS {
                assert!(measured.of(&step.to_string())[0] > 0.0, "{step}");
            }
            assert_eq!(measured.of("pre-faulted memory: conflicts").len(), 1);
        });
    }
}
