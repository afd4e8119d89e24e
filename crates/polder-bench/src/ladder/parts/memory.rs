//! Memory beside the frames, for data of 1, 10 and 100 times the budget (predictive-2026 6.9,
//! figure 12; calico-2026 6.5, figure 10).
//!
//! Nothing is timed: several threads, so that the device has something to do, ask for few keys, as
//! far from each other as can be: each in a leaf of its own where the data are many times the budget,
//! not at 1 time. Then the pool is asked. It is an error if these hot keys still fault in the second
//! half of the operations.
//!
//! All is given by the frames that the budget pays for, in bytes by bytes. *Translation* is the map
//! with the kernel's page tables of it (by `vm` these are what translates). The page tables of
//! frames, which are fewer the more of them huge pages back, are a figure of their own. *All* are
//! both and the metadata of frames.

use crate::ladder::prelude::*;

/// Data by budget.
const TIMES: [u64; 3] = [1, 10, 100];
const THREADS: usize = 8;
/// Operations for each frame of the pool, in either half.
const OPS_A_FRAME: u64 = 5;
/// Hot keys by the frames that inner nodes leave to leaves: some stay free between the
/// page provider's watermarks, and some hold maps.
const HOT_A_FRAME: f64 = 0.8;
/// Hot keys that fault more often have no room.
const MOST_FAULTS_AN_OP: f64 = 0.01;
/// Operations between two looks at what is left.
const TURN: u64 = 32;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let stored = Stored::find(setup, &[setup.scale.memory_records])?;
    let mut measured = Measured::default();
    for times in TIMES {
        (setup.tell)(&format!("{times} times the budget"));
        let subject = stored.open::<T>(setup, stored.bytes / times)?;
        ask_hot(&subject, hot_keys(&subject, &stored))?;
        let stats = subject.pool.stats();
        let of_frames = stats.frame_page_table_bytes;
        let all = stats.translation_bytes + stats.page_table_bytes + stats.metadata_bytes;
        for (what, by_frames) in [
            ("translation", translation_by_frames(&stats)),
            ("page tables of frames", by_frames(&stats, of_frames)),
            ("all", by_frames(&stats, all)),
        ] {
            measured.push(format!("scattered hot keys: {what}"), times as f64, by_frames);
        }
    }
    Ok(measured)
}

/// The map with the kernel's page tables of it, by the bytes of the frames.
pub(super) fn translation_by_frames(stats: &PoolStats) -> f64 {
    let of_map = stats.page_table_bytes - stats.frame_page_table_bytes;
    by_frames(stats, stats.translation_bytes + of_map)
}

fn by_frames(stats: &PoolStats, bytes: u64) -> f64 {
    bytes as f64 / (stats.frames * stats.page_size_bytes).max(1) as f64
}

/// How many hot keys stay in the pool.
fn hot_keys<T: Translation>(subject: &Subject<'_, T>, stored: &Stored) -> u64 {
    let inner_nodes = stored.bytes.saturating_sub(bytes_of(stored.records)) / PAGE.bytes() as u64;
    let for_leaves = subject.pool.stats().frames.saturating_sub(inner_nodes);
    ((for_leaves as f64 * HOT_A_FRAME) as u64).clamp(1, stored.records)
}

/// Asks for so many hot keys until they are in memory, and as often again, to see that they stay.
fn ask_hot<T: Translation>(subject: &Subject<'_, T>, hot: u64) -> Result<(), BenchError> {
    let Subject { setup, tree, pool, keys } = subject;
    let frames = pool.stats().frames;
    let turns = (frames * OPS_A_FRAME).div_ceil(TURN);
    let ask = || {
        drive_turns(THREADS, turns, setup.interrupt, |_| {
            let mut random = setup.streams.next();
            move || {
                for _ in 0..TURN {
                    read(tree, *keys, scattered(random.random_range(..hot), hot, keys.records))?;
                }
                Ok(())
            }
        })
    };
    ask()?;
    let before = pool.stats().faults;
    ask()?;
    let (faults, ops) = (pool.stats().faults - before, turns * TURN);
    if faults as f64 > ops as f64 * MOST_FAULTS_AN_OP {
        return Err(BenchError::Options(format!(
            "{hot} hot keys do not stay in {frames} frames: {faults} faults of {ops} operations"
        )));
    }
    Ok(())
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
        times: u64,
        hot_by: u64,
    ) -> Result<f64, BenchError> {
        let stored = Stored::find(setup, &[setup.scale.memory_records])?;
        let subject = stored.open::<T>(setup, stored.bytes / times)?;
        ask_hot(&subject, hot_by * hot_keys(&subject, &stored))?;
        let stats = subject.pool.stats();
        Ok(stats.evictions as f64 / stats.frames as f64)
    }

    #[test]
    fn hot_keys_stay_unless_they_are_too_many() {
        run(|setup| {
            for times in TIMES {
                assert!(turnovers::<Array>(setup, times, 1).unwrap() < 0.1);
                assert!(turnovers::<Hash>(setup, times, 1).unwrap() < 0.1);
            }
            let why = turnovers::<Hash>(setup, 10, 2).unwrap_err();
            assert!(why.to_string().contains("hot keys"), "{why}");
        });
    }
}
