//! What the translation takes while data grow to many times the budget, by YCSB-D: the latest
//! records are asked for, new ones go behind them, and what lies before is never gone to again
//! (calico-2026 6.5, figure 10).
//!
//! Nothing is timed. Data are counted by records, in full leaves; how many pages they took is a
//! figure, too, since leaves that several threads fill are not full. *Translation* is as in
//! `memory`, by the bytes of the frames. *Reclaimed* is which share is gone of what a word for
//! each page of the data would take, where what the map takes beside its words counts against it:
//! it says something of maps alone.

use polder_pool::FileState;
use polder_pool::device::OpenKind;

use super::memory::translation_by_frames;
use crate::ladder::prelude::*;

/// Data by budget, at the end of each step; those that the records are enough for.
const STEPS: [u64; 6] = [1, 2, 5, 10, 20, LAST];
const LAST: u64 = 50;
/// One operation in so many inserts: a twentieth in YCSB-D, by which data would take long to grow.
const INSERT_ONE_IN: u64 = 2;
const THREADS: usize = 8;
/// Operations between two looks at what is left.
const TURN: u64 = 32;
/// Bytes of a page's word in a map.
const WORD_BYTES: u64 = 8;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let keys = Keys::new(setup.scale.growing_records);
    let all = bytes_of(keys.records);
    let config = setup.config(PAGE, all / LAST, FileState::NEW);
    let pool: Pool<T> = open(&setup.dir.join("data"), OpenKind::Create, &config, &KINDS)?;
    let tree = Tree::create(pool.create_space()?)?;
    let subject = Subject { setup, tree, pool, keys };
    // One that can be read.
    subject.insert(0)?;
    let there = AtomicU64::new(1);
    let mut measured = Measured::default();
    let budget = config.memory_budget;
    for times in STEPS.into_iter().filter(|times| times * budget <= all) {
        (setup.tell)(&format!("growing to {times} times the budget"));
        grow(&subject, &there, records_of(times * budget).min(keys.records))?;
        let (stats, pages) = (subject.pool.stats(), subject.tree.space().pages_in_use()?);
        let at = times as f64;
        measured.push("translation", at, translation_by_frames(&stats));
        let of_all = (pages * WORD_BYTES) as f64;
        measured.push("reclaimed", at, (1.0 - stats.translation_bytes as f64 / of_all).max(0.0));
        measured.push("groups given back", at, stats.hole_punches as f64);
        measured.push("data", at, (pages * PAGE.bytes() as u64) as f64 / budget as f64);
    }
    Ok(measured)
}

/// Adds records in the order of their keys until there are so many; `there` are begun.
fn grow<T: Translation>(
    subject: &Subject<'_, T>,
    there: &AtomicU64,
    records: u64,
) -> Result<(), BenchError> {
    let Subject { setup, tree, keys, .. } = subject;
    let turns = records.saturating_sub(there.load(Relaxed)).div_ceil(TURN);
    drive_turns(THREADS, turns, setup.interrupt, |_| {
        let mut random = setup.streams.next();
        let mut chooser = Chooser::new(Dist::Latest, YCSB_THETA, keys.records);
        move || {
            for operation in 0..TURN * INSERT_ONE_IN {
                if operation % INSERT_ONE_IN == 0 {
                    subject.insert(there.fetch_add(1, Relaxed))?;
                    continue;
                }
                let record = chooser.record(&mut random, there.load(Relaxed));
                // The latest may be one that another thread is about to insert.
                tree.contains_key(&keys.key(record))?;
            }
            Ok(())
        }
    })
}

#[cfg(test)]
mod tests {
    use polder_pool::{Array, Hash};

    use super::*;
    use crate::ladder::plan::Scale;
    use crate::ladder::setup::testing;

    #[test]
    fn maps_of_what_is_cold_are_given_back() {
        testing::run(|setup| {
            let scale = Scale { growing_records: 500_000, ..setup.scale };
            let setup = Setup { scale, ..*setup };
            let array = run::<Array>(&setup).unwrap();
            let reclaimed = array.of("reclaimed");
            assert_eq!(reclaimed.len(), STEPS.len());
            assert!(reclaimed[STEPS.len() - 1] > 0.5, "{reclaimed:?}");
            let data = array.of("data");
            assert!(
                data.iter().zip(STEPS).all(|(data, step)| *data > 0.9 * step as f64),
                "{data:?}"
            );
            assert!(array.of("groups given back")[STEPS.len() - 1] > 0.0);
            std::fs::remove_file(setup.dir.join("data")).unwrap();
            let hash = run::<Hash>(&setup).unwrap().of("translation");
            let (first, last) = (hash[0], hash[STEPS.len() - 1]);
            assert!(last < 1.2 * first, "a table does not grow with the data: {hash:?}");
        });
    }
}
