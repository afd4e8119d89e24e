//! Memory beside the frames, for data of 1, 10 and 100 times the budget
//! (predictive-2026 6.9, figure 12; calico-2026 6.5, figure 10).
//!
//! Nothing is timed: several threads, so that the device has something to do, ask for records, and
//! then the pool is asked. YCSB-C and YCSB-D go on until as many pages are evicted as turn the pool
//! over some times; how many operations that took is a figure too. On data of 1 times the budget
//! most pages stay, and scattered hot keys all stay once they are there: so those get a number of
//! operations, and it is an error if hot keys still fault in the second half of them.
//!
//! All is given by the frames that the budget pays for, in bytes by bytes. *Translation* is the map
//! with the kernel's page tables of it (by `vm` these are what translates). The page tables of
//! frames, which are fewer the more of them huge pages back, are a figure of their own. *All* are
//! both and the metadata of frames.

use crate::ladder::prelude::*;
use crate::random::Random;

/// Data by budget.
const TIMES: [u64; 3] = [1, 10, 100];
const THREADS: usize = 8;
/// Evictions for each frame of the pool, where pages go.
const TURNOVERS: u64 = 3;
/// Operations for each frame of the pool, where they stay.
const OPS_A_FRAME: u64 = 10;
/// No load asks for more than so many times the frames.
const MOST_OPS_A_FRAME: u64 = 1000;
/// Hot keys by the frames that inner nodes leave to leaves: some stay free between the
/// page provider's watermarks, and some hold maps.
const HOT_A_FRAME: f64 = 0.8;
/// Hot keys that fault more often have no room.
const MOST_FAULTS_AN_OP: f64 = 0.01;
/// One operation in so many of YCSB-D inserts.
const INSERT_ONE_IN: u64 = 20;
/// Operations between two looks at what is left.
const TURN: u64 = 32;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// YCSB-C: zipfian, scattered over all keys.
    Skewed,
    /// YCSB-D: the latest records, and new ones behind them.
    Latest,
    /// Few keys, as far from each other as can be: each in a leaf of its own where the data is many
    /// times the budget, not at 1 time.
    Scattered,
}

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, setup.scale.memory_records)?;
    let mut measured = Measured::default();
    for times in TIMES {
        for (name, load) in [
            ("YCSB-C", Load::Skewed),
            ("YCSB-D", Load::Latest),
            ("scattered hot keys", Load::Scattered),
        ] {
            (setup.tell)(&format!("{name}, {times} times the budget"));
            let budget = stored.bytes / times;
            let subject = match load {
                Load::Latest => stored.open_copy::<T>(setup, budget)?,
                _ => stored.open::<T>(setup, budget)?,
            };
            let ops = Asking::new(&subject, &stored, load).all(times)?;
            measured.push(format!("{name}: operations"), times as f64, ops as f64);
            footprint(&subject.pool, name, times as f64, &mut measured);
        }
    }
    Ok(measured)
}

fn footprint<T: Translation>(pool: &Pool<T>, name: &str, at: f64, measured: &mut Measured) {
    let stats = pool.stats();
    let all = stats.translation_bytes + stats.page_table_bytes + stats.metadata_bytes;
    let of_frames = stats.frame_page_table_bytes;
    for (what, by_frames) in [
        ("translation", translation_by_frames(&stats)),
        ("page tables of frames", by_frames(&stats, of_frames)),
        ("all", by_frames(&stats, all)),
    ] {
        measured.push(format!("{name}: {what}"), at, by_frames);
    }
}

/// The map with the kernel's page tables of it, by the bytes of the frames.
pub(super) fn translation_by_frames(stats: &PoolStats) -> f64 {
    by_frames(
        stats,
        stats.translation_bytes + stats.page_table_bytes - stats.frame_page_table_bytes,
    )
}

fn by_frames(stats: &PoolStats, bytes: u64) -> f64 {
    bytes as f64 / (stats.frames * stats.page_size_bytes).max(1) as f64
}

/// Operations on one pool.
struct Asking<'a, T: Translation> {
    subject: &'a Subject<'a, T>,
    load: Load,
    frames: u64,
    /// Keys that are asked for by [`Load::Scattered`].
    hot: u64,
    /// Records that there are by now.
    records: AtomicU64,
}

impl<'a, T: Translation> Asking<'a, T> {
    fn new(subject: &'a Subject<'a, T>, stored: &Stored, load: Load) -> Asking<'a, T> {
        let frames = subject.pool.stats().frames;
        let for_leaves = frames.saturating_sub(stored.inner_nodes);
        Asking {
            subject,
            load,
            frames,
            hot: ((for_leaves as f64 * HOT_A_FRAME) as u64).clamp(1, stored.records),
            records: AtomicU64::new(stored.records),
        }
    }

    /// All operations of the load on data of so many times the budget, and how many they were.
    fn all(&self, times: u64) -> Result<u64, BenchError> {
        let half = self.frames * OPS_A_FRAME / 2;
        if self.load == Load::Scattered {
            let first = self.ask(half)?;
            let before = self.subject.pool.stats().faults;
            let second = self.ask(half)?;
            let faults = self.subject.pool.stats().faults - before;
            if faults as f64 > second as f64 * MOST_FAULTS_AN_OP {
                let (hot, frames) = (self.hot, self.frames);
                return Err(BenchError::Options(format!(
                    "{hot} hot keys do not stay in {frames} frames: {faults} faults of {second} \
                     operations"
                )));
            }
            return Ok(first + second);
        }
        if times == 1 {
            return self.ask(2 * half);
        }
        let (mut ops, goal) = (0, self.frames * TURNOVERS);
        for _ in 0..MOST_OPS_A_FRAME {
            ops += self.ask(self.frames)?;
            if self.subject.pool.stats().evictions >= goal {
                return Ok(ops);
            }
        }
        Err(BenchError::Options(format!(
            "{MOST_OPS_A_FRAME} operations a frame evict fewer than {goal} pages"
        )))
    }

    /// At least so many operations, by all threads together, and how many they were.
    fn ask(&self, ops: u64) -> Result<u64, BenchError> {
        let (turns, Subject { setup, keys, .. }) = (ops.div_ceil(TURN), self.subject);
        drive_turns(THREADS, turns, TURN, setup.interrupt, |_| {
            let mut random = setup.streams.next();
            let dist = if self.load == Load::Latest { Dist::Latest } else { Dist::Zipfian };
            let mut chooser = Chooser::new(dist, YCSB_THETA, keys.records);
            move || (0..TURN).try_for_each(|_| self.once(&mut chooser, &mut random))
        })?;
        Ok(turns * TURN)
    }

    fn once(&self, chooser: &mut Chooser, random: &mut Random) -> Result<(), BenchError> {
        if self.load == Load::Latest && random.random_range(..INSERT_ONE_IN) == 0 {
            return self.subject.insert(self.records.fetch_add(1, Relaxed));
        }
        let Subject { tree, keys, .. } = self.subject;
        let record = match self.load {
            Load::Scattered => scattered(random.random_range(..self.hot), self.hot, keys.records),
            _ => chooser.record(random, self.records.load(Relaxed)),
        };
        // The latest may be one that another thread is about to insert.
        tree.contains_key(&keys.key(record))?;
        Ok(())
    }
}

/// The record of a hot key: each in its own share of the records, at a random place there.
fn scattered(number: u64, hot: u64, records: u64) -> u64 {
    let share = (records / hot).max(1);
    (number * share + scramble(number) % share).min(records - 1)
}

#[cfg(test)]
mod tests {
    use polder_pool::{Array, Hash};

    use super::*;
    use crate::ladder::setup::testing::run;

    /// Evictions by frames.
    fn turnovers<T: Translation>(
        setup: &Setup<'_>,
        load: Load,
        times: u64,
        hot_by: u64,
    ) -> Result<f64, BenchError> {
        let stored = Stored::find(setup, setup.scale.memory_records)?;
        let subject = stored.open::<T>(setup, stored.bytes / times)?;
        let mut asking = Asking::new(&subject, &stored, load);
        asking.hot *= hot_by;
        let ops = asking.all(times)?;
        assert!(ops >= asking.frames);
        Ok(subject.pool.stats().evictions as f64 / asking.frames as f64)
    }

    #[test]
    fn hot_keys_stay_unless_they_are_too_many() {
        run(|setup| {
            for times in TIMES {
                assert!(turnovers::<Array>(setup, Load::Scattered, times, 1).unwrap() < 0.1);
                assert!(turnovers::<Hash>(setup, Load::Scattered, times, 1).unwrap() < 0.1);
            }
            let why = turnovers::<Hash>(setup, Load::Scattered, 10, 2).unwrap_err();
            assert!(why.to_string().contains("hot keys"), "{why}");
        });
    }

    #[test]
    fn data_larger_than_the_pool_turn_it_over() {
        run(|setup| {
            let found = turnovers::<Array>(setup, Load::Skewed, 10, 1).unwrap();
            assert!(found >= TURNOVERS as f64, "{found}");
        });
    }
}
