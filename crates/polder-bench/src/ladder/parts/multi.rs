//! Queries of ten random keys each, by read modes: in a tree that is all resident
//! (scalecache-2025 4.2, figure 7; by groups of cores and by cores: 4.6, figure 13a), and on data
//! of many times the budget (4.7, figure 11).
//!
//! Timed are ten lookups one after the other, which count as one query. Where all is resident,
//! drives that are not measured go before, until pages lie where they prefer. Where it is not, as
//! many leaves are loaded as there is room for, and one drive that is not measured comes then.
//!
//! Counts by groups of cores cost memory for each frame. They are in the pool's metadata, whose
//! bytes for each frame are a figure, too.

use crate::ladder::prelude::*;

/// Keys of a query.
const KEYS: u64 = 10;
/// The data by the budget where they are larger: 280 GB by 8 in the paper.
const TIMES: u64 = 35;
/// Threads that are measured there besides: enough to keep a device busy.
const MOST: usize = 8;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let subject = Subject::<T>::resident(setup, setup.scale.records)?;
    let (pool, worker) = (&subject.pool, |_| asker(&subject));
    let mut measured = Measured::default();
    // The word of each value that is read has a line for itself.
    measured.push_touched(setup.scale.records);
    let stats = pool.stats();
    measured.push("metadata", 0.0, stats.metadata_bytes as f64 / stats.frames as f64);
    subject.settle(Dist::Uniform)?;
    for &threads in setup.threads {
        (setup.tell)(&format!("{threads} threads"));
        let driven = setup.drive(threads, worker)?;
        measured.push_driven("queries", threads as f64, &driven);
    }
    Ok(measured)
}

/// On data of [`TIMES`] times the budget.
pub(crate) fn run_larger<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, &[setup.scale.records])?;
    let subject = stored.open::<T>(setup, stored.bytes / TIMES)?;
    let worker = |_| asker(&subject);
    (setup.tell)("filling the pool");
    subject.touch(stored.records / TIMES)?;
    setup.drive(MOST, worker)?;
    let mut measured = Measured::default();
    for threads in setup.threads_and(&[MOST]) {
        (setup.tell)(&format!("{threads} threads"));
        let (driven, pages_read) = subject.drive(threads, worker)?;
        measured.push_driven("queries", threads as f64, &driven);
        measured.push("queries: pages read", threads as f64, pages_read);
    }
    Ok(measured)
}

/// Turns of queries of one thread: [`drive`](crate::ladder::clock::drive)'s worker.
fn asker<T: Translation>(
    subject: &Subject<'_, T>,
) -> impl FnMut() -> Result<u64, BenchError> + use<T> {
    let mut lookups = subject.reader(Dist::Uniform);
    move || lookups().map(|keys| keys / KEYS)
}

#[cfg(test)]
mod tests {
    use polder_pool::{GroupSize, Hash, ReadMode};

    use super::*;
    use crate::ladder::setup::testing::run;
    use crate::ladder::side::Side;

    #[test]
    fn most_keys_are_not_in_memory_where_data_are_larger() {
        run(|setup| {
            for hold in [ReadMode::Optimistic, ReadMode::Shared, ReadMode::Group, ReadMode::Copy] {
                let setup = Setup { side: Side { hold, ..setup.side }, ..*setup };
                let measured = run_larger::<Hash>(&setup).unwrap();
                let pages = measured.of("queries: pages read");
                assert_eq!(pages.len(), 3);
                let most = KEYS as f64 / 2.0;
                assert!(pages.iter().all(|pages| *pages > most), "{hold}: {pages:?}");
                assert!(measured.of("queries").iter().all(|queries| *queries > 0.0));
            }
        });
    }

    #[test]
    fn counts_for_more_groups_take_more_memory() {
        run(|setup| {
            let metadata = |hold| {
                let setup = Setup { side: Side { hold, ..setup.side }, ..*setup };
                super::run::<Hash>(&setup).unwrap().of("metadata")[0]
            };
            let four = ReadMode::GroupOf(GroupSize::new(4).unwrap());
            let [none, word, four, core] =
                [ReadMode::Optimistic, ReadMode::Shared, four, ReadMode::Core].map(metadata);
            // The map of free frames is not quite the same for each.
            assert!((word - none).abs() < 0.5, "{word} {none}");
            assert!(four - none > 1.5, "{four} {none}");
            assert!(core - four > -0.5, "{core} {four}");
        });
    }
}
