//! Memory beside the frames, for data of 1, 10 and 100 times the budget (predictive-2026 6.9,
//! figure 12; calico-2026 6.5, figure 10).
//!
//! Nothing is timed: several threads, so that the device has something to do, ask for records, and
//! then the pool is asked. By YCSB-C and YCSB-D they ask until three times as many pages were evicted
//! as the pool has frames. On data of 1 times the budget, of which most pages stay, and of hot keys,
//! which all stay once they are there, they do a number of operations. It is an error if hot keys
//! still fault in the second half of those.
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
/// Operations for each frame of the pool, in either half, where they stay.
const OPS_A_FRAME: u64 = 5;
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
    Zipfian,
    /// YCSB-D: the latest records, and new ones behind them.
    Latest,
    /// Few keys, as far from each other as can be: each in a leaf of its own where the data are many
    /// times the budget, not at 1 time.
    Scattered,
}

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, &[setup.scale.memory_records])?;
    let mut measured = Measured::default();
    for times in TIMES {
        for (name, load) in [
            ("YCSB-C", Load::Zipfian),
            ("YCSB-D", Load::Latest),
            ("scattered hot keys", Load::Scattered),
        ] {
            (setup.tell)(&format!("{name}, {times} times the budget"));
            let budget = stored.bytes / times;
            let subject = match load {
                Load::Latest => stored.open_copy::<T>(setup, budget)?,
                _ => stored.open::<T>(setup, budget)?,
            };
            Asking::new(&subject, &stored, load).all(times)?;
            push_bytes(&subject.pool.stats(), name, times as f64, &mut measured);
        }
    }
    Ok(measured)
}

fn push_bytes(stats: &PoolStats, name: &str, times: f64, measured: &mut Measured) {
    let of_frames = stats.frame_page_table_bytes;
    let all = stats.translation_bytes + stats.page_table_bytes + stats.metadata_bytes;
    for (what, by_frames) in [
        ("translation", translation_by_frames(stats)),
        ("page tables of frames", by_frames(stats, of_frames)),
        ("all", by_frames(stats, all)),
    ] {
        measured.push(format!("{name}: {what}"), times, by_frames);
    }
}

/// The map with the kernel's page tables of it, by the bytes of the frames.
pub(super) fn translation_by_frames(stats: &PoolStats) -> f64 {
    let of_map = stats.page_table_bytes - stats.frame_page_table_bytes;
    by_frames(stats, stats.translation_bytes + of_map)
}

fn by_frames(stats: &PoolStats, bytes: u64) -> f64 {
    bytes as f64 / (stats.frames * stats.page_size_bytes).max(1) as f64
}

/// Operations on one pool.
struct Asking<'a, T: Translation> {
    subject: &'a Subject<'a, T>,
    load: Load,
    frames: u64,
    /// Keys that are asked for by [`Load::Scattered`]: as many as stay in the pool.
    hot: u64,
    /// Records that there are by now.
    records: AtomicU64,
}

impl<'a, T: Translation> Asking<'a, T> {
    fn new(subject: &'a Subject<'a, T>, stored: &Stored, load: Load) -> Asking<'a, T> {
        let frames = subject.pool.stats().frames;
        let of_leaves = bytes_of(stored.records);
        let inner_nodes = stored.bytes.saturating_sub(of_leaves) / PAGE.bytes() as u64;
        let hot = (frames.saturating_sub(inner_nodes) as f64 * HOT_A_FRAME) as u64;
        let (hot, records) = (hot.clamp(1, stored.records), AtomicU64::new(stored.records));
        Asking { subject, load, frames, hot, records }
    }

    /// All operations of the load on data of so many times the budget.
    fn all(&self, times: u64) -> Result<(), BenchError> {
        let (half, pool) = (self.frames * OPS_A_FRAME, &self.subject.pool);
        if self.load == Load::Scattered || times == 1 {
            self.ask(half)?;
            let before = pool.stats().faults;
            self.ask(half)?;
            let faults = pool.stats().faults - before;
            let is_too_much = faults as f64 > half as f64 * MOST_FAULTS_AN_OP;
            if self.load != Load::Scattered || !is_too_much {
                return Ok(());
            }
            let (hot, frames) = (self.hot, self.frames);
            return Err(BenchError::Options(format!(
                "{hot} hot keys do not stay in {frames} frames: {faults} faults of {half} operations"
            )));
        }
        for _ in 0..MOST_OPS_A_FRAME {
            self.ask(self.frames)?;
            if pool.stats().evictions >= self.frames * TURNOVERS {
                return Ok(());
            }
        }
        Err(BenchError::Options(format!(
            "{MOST_OPS_A_FRAME} operations a frame evict fewer than {TURNOVERS} pages a frame"
        )))
    }

    /// At least so many operations, by all threads together.
    fn ask(&self, ops: u64) -> Result<(), BenchError> {
        let Subject { setup, keys, .. } = self.subject;
        drive_turns(THREADS, ops.div_ceil(TURN), setup.interrupt, |_| {
            let mut random = setup.streams.next();
            let dist = if self.load == Load::Latest { Dist::Latest } else { Dist::Zipfian };
            let mut chooser = Chooser::new(dist, YCSB_THETA, keys.records);
            move || (0..TURN).try_for_each(|_| self.once(&mut chooser, &mut random))
        })
    }

    fn once(&self, chooser: &mut Chooser, random: &mut Random) -> Result<(), BenchError> {
        let Subject { tree, keys, .. } = self.subject;
        if self.load == Load::Latest && random.random_range(..INSERT_ONE_IN) == 0 {
            return self.subject.insert(self.records.fetch_add(1, Relaxed));
        }
        let record = match self.load {
            Load::Scattered => scattered(random.random_range(..self.hot), self.hot, keys.records),
            _ => chooser.record(random, self.records.load(Relaxed)),
        };
        // The latest may be one that another thread is about to insert.
        let is_there = tree.contains_key(&keys.key(record))?;
        if is_there || self.load == Load::Latest {
            Ok(())
        } else {
            Err(BenchError::Missing { record })
        }
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
        let stored = Stored::find(setup, &[setup.scale.memory_records])?;
        let budget = stored.bytes / times;
        let subject = match load {
            Load::Latest => stored.open_copy::<T>(setup, budget)?,
            _ => stored.open::<T>(setup, budget)?,
        };
        let mut asking = Asking::new(&subject, &stored, load);
        asking.hot *= hot_by;
        asking.all(times)?;
        let is_longer = asking.records.load(Relaxed) > stored.records;
        assert_eq!(is_longer, load == Load::Latest, "{load:?}");
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
            for load in [Load::Zipfian, Load::Latest] {
                let found = turnovers::<Array>(setup, load, 10, 1).unwrap();
                assert!(found >= TURNOVERS as f64, "{load:?}: {found}");
            }
        });
    }
}
