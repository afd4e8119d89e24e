//! TPC-C by one thread and by the most, and by what LeanStore's authors do on many cores, one
//! thing after the other (leanstore-2018 V-D, table I): threads have warehouses of their own, and
//! memory is faulted in beforehand.
//!
//! Everything is read before, as in the other resident parts: what the kernel still has to give
//! while transactions run without pre-faulting are frames for rows that they insert. The last
//! thing, that memory is asked of the node of the thread that needs it, cannot be left out here:
//! it is so on every machine with several nodes. How many frames are taken, and which share of
//! them from another node (none where there is one), are figures of the run that is measured.

use crate::ladder::prelude::*;

/// One thing after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    name: &'static str,
    /// By the most threads, or by one.
    all_threads: bool,
    affinity: bool,
    prefault: bool,
}

const ONE_THREAD: Step =
    Step { name: "one thread", all_threads: false, affinity: false, prefault: false };
const ALL_THREADS: Step = Step { name: "all threads", all_threads: true, ..ONE_THREAD };
const AFFINITY: Step = Step { name: "warehouse affinity", affinity: true, ..ALL_THREADS };
const PREFAULT: Step = Step { name: "pre-faulted memory", prefault: true, ..AFFINITY };

pub(crate) fn run(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let most = setup.most_threads();
    let thread_seconds = 2.0 * most as f64 * setup.seconds;
    let (loaded, budget) = Loaded::resident(setup, thread_seconds)?;
    let mut measured = Measured::default();
    let mut of_one = None;
    for Step { name, all_threads, affinity, prefault } in
        [ONE_THREAD, ALL_THREADS, AFFINITY, PREFAULT]
    {
        (setup.tell)(name);
        let threads = if all_threads { most } else { 1 };
        let files = loaded.copy(setup)?;
        let mut store = files.open(setup, budget, prefault)?;
        store.affinity = affinity;
        store.touch()?;
        store.run(threads, setup.seconds, setup.seconds, None)?;
        let before = store.stats();
        let ran = store.run(threads, setup.seconds, setup.seconds, None)?;
        store.check_resident()?;
        let now = store.stats();
        let of_one = *of_one.get_or_insert(ran.per_s);
        measured.push(name, 0.0, ran.per_s);
        measured.push(format!("{name}: speedup"), 0.0, ran.per_s / of_one);
        measured.push(format!("{name}: conflicts"), 0.0, ran.conflicts);
        let taken = (before.pool.frames_free - now.pool.frames_free) as f64;
        measured.push(format!("{name}: frames taken"), 0.0, taken);
        let far = (now.pool.frames_taken_far - before.pool.frames_taken_far) as f64;
        measured.push(format!("{name}: from another node"), 0.0, far / taken.max(1.0));
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
    fn each_step_is_measured_and_rows_take_frames() {
        testing::run(|setup| {
            let measured = run(&Setup { seconds: 0.1, ..*setup }).unwrap();
            assert_eq!(measured.of("one thread: speedup"), [1.0]);
            for Step { name, .. } in [ONE_THREAD, ALL_THREADS, AFFINITY, PREFAULT] {
                assert!(measured.of(name)[0] > 0.0, "{name}");
                assert!(measured.of(&format!("{name}: frames taken"))[0] > 0.0, "{name}");
            }
            assert_eq!(measured.of("pre-faulted memory: conflicts").len(), 1);
        });
    }

    /// As in the table, each has all that stands above it, and one thing more.
    #[test]
    fn steps_add_one_thing_each() {
        let things = |step: Step| {
            [step.all_threads, step.affinity, step.prefault].map(usize::from).iter().sum::<usize>()
        };
        assert_eq!([ONE_THREAD, ALL_THREADS, AFFINITY, PREFAULT].map(things), [0, 1, 2, 3]);
    }
}
