//! TPC-C by one thread and by the most, and by what LeanStore's authors do on many cores, one thing
//! after the other (leanstore.txt V-D, table I): threads have warehouses of their own, and memory is
//! faulted in beforehand.
//!
//! The last thing, that memory is asked of the node of whoever needs it, cannot be left out here: it is
//! so on every machine with several nodes. A figure says which share of the frames was taken from
//! another node; none where there is one.

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::stores::{Checkpoints, Loaded, growth_bytes};

/// Budget by data: the pool is half full.
const AMPLE: f64 = 2.0;

/// One thing after the other.
struct Step {
    name: &'static str,
    /// By the most threads, or by one.
    all_threads: bool,
    affinity: bool,
    prefault: bool,
}

const STEPS: [Step; 4] = [
    Step { name: "one thread", all_threads: false, affinity: false, prefault: false },
    Step { name: "all threads", all_threads: true, affinity: false, prefault: false },
    Step { name: "warehouse affinity", all_threads: true, affinity: true, prefault: false },
    Step { name: "pre-faulted memory", all_threads: true, affinity: true, prefault: true },
];

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let most = setup.threads.iter().copied().max().unwrap_or(1);
    let thread_seconds = 2.0 * most as f64 * setup.seconds;
    let checkpoints = Checkpoints::not_for(thread_seconds);
    let loaded = Loaded::find(setup, setup.scale.warehouses, checkpoints)?;
    let budget = loaded.budget(AMPLE) + growth_bytes(thread_seconds);
    let mut measured = Measured::default();
    let mut of_one = None;
    for Step { name, all_threads, affinity, prefault } in STEPS {
        (setup.tell)(name);
        let threads = if all_threads { most } else { 1 };
        let files = loaded.copy(setup)?;
        let mut store = files.open(setup, budget, prefault)?;
        store.affinity = affinity;
        store.touch()?;
        store.run(threads, setup.seconds, setup.seconds, None)?;
        let ran = store.run(threads, setup.seconds, setup.seconds, None)?;
        store.check_resident()?;
        let of_one = *of_one.get_or_insert(ran.per_s);
        measured.push(name, 0.0, ran.per_s);
        measured.push(format!("{name}: speedup"), 0.0, ran.per_s / of_one);
        measured.push(format!("{name}: conflicts"), 0.0, ran.conflicts);
        let stats = store.stats();
        let taken = stats.frames_taken_near + stats.frames_taken_far;
        if taken > 0 {
            let far = stats.frames_taken_far as f64 / taken as f64;
            measured.push(format!("{name}: far frames"), 0.0, far);
        }
        drop(store);
        files.remove()?;
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::setup::testing;

    #[test]
    fn each_step_is_compared_with_one_thread() {
        testing::run(|setup| {
            let measured = run(setup).unwrap();
            assert_eq!(measured.of("one thread: speedup"), [1.0]);
            for Step { name, .. } in &STEPS[1..] {
                let speedup = measured.of(name)[0] / measured.of("one thread")[0];
                assert!((measured.of(&format!("{name}: speedup"))[0] / speedup - 1.0).abs() < 1e-9);
            }
        });
    }
}
