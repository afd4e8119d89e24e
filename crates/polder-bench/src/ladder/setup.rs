//! What a run is told, the pools that it works on, and where its random numbers come from.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{FileState, KindOps, Pool, PoolConfig, PoolError, Translation};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::clock::{Driven, drive};
use super::plan::Scale;
use super::side::Side;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::random::{Random, stream};
use crate::team::Team;
use crate::usage::return_free_memory;

/// Frames of a pool in which everything stays, for each page that it will have: at half fill, as
/// predictive-2026 6.8.
const AMPLE: u64 = 2;
/// Pages have settled when fewer than one access in so many moves one.
const SETTLED: u64 = 10_000;
/// Passes after which pages count as settled, however many still move: by a hash some never come
/// to rest, because two prefer the same frame.
const MOST_PASSES: usize = 10;

/// What a run is told.
pub(crate) struct Setup<'a> {
    pub(crate) side: Side,
    pub(crate) scale: Scale,
    /// Of each measurement.
    pub(crate) seconds: f64,
    /// How many threads at once, one measurement for each.
    pub(crate) threads: &'a [usize],
    /// Files with graphs.
    pub(crate) graphs: &'a [PathBuf],
    /// Makes this round's choices different from those of others.
    pub(crate) round: u64,
    /// A directory of this run alone.
    pub(crate) dir: &'a Path,
    /// A directory of all runs of this part.
    pub(crate) shared: &'a Path,
    /// The control group of a side that is swapped.
    pub(crate) group: Option<&'a Path>,
    /// The random numbers of this run, for all that it does.
    pub(crate) streams: &'a Streams,
    pub(crate) interrupt: &'a Interrupt,
    /// Shows people what goes on.
    pub(crate) tell: &'a (dyn Fn(&str) + Sync),
}

impl Setup<'_> {
    /// The most threads that were asked for.
    pub(crate) fn most_threads(&self) -> usize {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    /// The numbers of threads that were asked for and these, ascending.
    pub(crate) fn threads_and(&self, more: &[usize]) -> Vec<usize> {
        let mut counts = [self.threads, more].concat();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// So many threads, for as long as a measurement takes.
    pub(crate) fn team(&self, threads: usize) -> Team<'_> {
        let limit = Some(Duration::from_secs_f64(self.seconds));
        Team { threads, counts: false, limit, interrupt: self.interrupt }
    }

    /// [`drive`] for as long as a measurement takes.
    pub(crate) fn drive<W>(
        &self,
        threads: usize,
        worker: impl Fn(usize) -> W + Sync,
    ) -> Result<Driven, BenchError>
    where
        W: FnMut() -> Result<u64, BenchError>,
    {
        drive(self.team(threads), worker)
    }

    /// An empty pool that has twice as many frames as `pages`, as many on each side, or the fewest
    /// that a pool can have; nothing is ever evicted or written.
    pub(crate) fn resident_pool<T: Translation>(
        &self,
        size: PageSize,
        pages: u64,
        kinds: &[KindOps],
    ) -> Result<Pool<T>, BenchError> {
        let path = self.dir.join("data");
        // That of a pool that this run had before.
        let _ = fs::remove_file(&path);
        let budget = self.budget_for::<T>(size, AMPLE * pages)?;
        open(&path, OpenKind::Create, &self.config(size, budget, FileState::NEW), kinds)
    }

    /// The budget that pays for so many frames.
    pub(crate) fn budget_for<T: Translation>(
        &self,
        size: PageSize,
        frames: u64,
    ) -> Result<u64, PoolError> {
        let page_bytes = size.bytes() as u64;
        let mut low = PoolConfig::least_budget(size);
        let mut high = (2 * frames * page_bytes).max(low);
        while high - low > page_bytes {
            let middle = low + (high - low) / 2;
            let paid = self.config(size, middle, FileState::NEW).frames::<T>()?;
            if u64::from(paid) < frames { low = middle } else { high = middle }
        }
        Ok(high)
    }

    /// A pool's configuration without a log: what is measured lies below the store.
    pub(crate) fn config(&self, page_size: PageSize, budget: u64, file: FileState) -> PoolConfig {
        PoolConfig {
            file,
            replacement: self.side.replacement,
            read_mode: self.side.hold,
            ..PoolConfig::new(
                budget.max(PoolConfig::least_budget(page_size)),
                page_size,
                ChecksumSeed::new(StoreId([1; 16])),
            )
        }
    }
}

/// What some run of the part has made for all of them, noted in this file: made now if no run
/// before has done it. What making it took of memory is given back.
pub(crate) fn made_once<V: Serialize + DeserializeOwned>(
    note: &Path,
    make: impl FnOnce() -> Result<V, BenchError>,
) -> Result<V, BenchError> {
    if let Ok(text) = fs::read_to_string(note)
        && let Ok(made) = serde_json::from_str(&text)
    {
        return Ok(made);
    }
    let made = make()?;
    return_free_memory();
    let text = serde_json::to_string(&made).map_err(|e| BenchError::Options(e.to_string()))?;
    fs::write(note, text).map_err(BenchError::file(note))?;
    Ok(made)
}

/// Random numbers of one run. Each caller gets others, so that nothing that is measured asks again
/// for what was asked for to warm up.
#[derive(Debug)]
pub(crate) struct Streams {
    round: u64,
    next: AtomicU64,
}

impl Streams {
    pub(crate) fn new(round: u64) -> Streams {
        Streams { round, next: AtomicU64::new(0) }
    }

    /// The next stream.
    pub(crate) fn next(&self) -> Random {
        stream(self.round, self.next.fetch_add(1, Relaxed))
    }
}

/// Has passes made until hardly any access moves a page to the frame that it prefers: one where
/// pages prefer none, and at most [`MOST_PASSES`].
pub(crate) fn settle<T: Translation>(
    pool: &Pool<T>,
    mut pass: impl FnMut() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut before = pool.stats();
    for _ in 0..MOST_PASSES {
        pass()?;
        let now = pool.stats();
        let accesses = (now.hits + now.faults).saturating_sub(before.hits + before.faults);
        if (now.promotions - before.promotions) * SETTLED <= accesses {
            break;
        }
        before = now;
    }
    Ok(())
}

/// Opens a pool on a file.
pub(crate) fn open<T: Translation>(
    path: &Path,
    kind: OpenKind,
    config: &PoolConfig,
    kinds: &[KindOps],
) -> Result<Pool<T>, BenchError> {
    let device = FileDevice::open(path, kind).map_err(BenchError::file(path))?;
    Ok(Pool::open(Box::new(device), config, kinds)?)
}

/// Runs for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::super::plan::Size;
    use super::super::side;
    use super::*;

    /// Work of the first side at the small size, in a directory that is removed at the end.
    pub(crate) fn run<R>(work: impl FnOnce(&Setup<'_>) -> R) -> R {
        let dir = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::silent();
        work(&Setup {
            side: side::list("peers")[0],
            scale: Size::Small.scale(),
            seconds: 0.02,
            threads: &[1, 2],
            graphs: &[],
            round: 0,
            dir: dir.path(),
            shared: dir.path(),
            group: None,
            streams: &Streams::new(0),
            interrupt: &interrupt,
            tell: &|_| {},
        })
    }

    /// Fails unless a pool is half full, within two points.
    pub(crate) fn assert_half_full<T: Translation>(pool: &Pool<T>, what: &str) {
        let stats = pool.stats();
        let fill = stats.resident_pages as f64 / stats.frames as f64;
        assert!((0.48..=0.52).contains(&fill), "{what}: {fill:.3} of {} frames", stats.frames);
    }
}

#[cfg(test)]
mod tests {
    use polder_format::PageNo;
    use polder_pool::{AccessHint, Array, Hash, PredictiveHashed, Space};

    use super::testing::run;
    use super::*;
    use crate::ladder::pages;

    /// Which share of the resident pages of a space lie in the frame that they prefer; `None` where
    /// none prefers any.
    fn in_place<T: Translation>(space: &Space<T>) -> Result<Option<f64>, BenchError> {
        let (mut there, mut all) = (0u64, 0u64);
        for page in space.used_pages()? {
            if let Some(is_there) = space.is_in_preferred_frame(page) {
                there += u64::from(is_there);
                all += 1;
            }
        }
        Ok((all > 0).then(|| there as f64 / all as f64))
    }

    fn passes<T: Translation>(setup: &Setup<'_>) -> (usize, Option<f64>) {
        let pool = setup.resident_pool::<T>(PageSize::MIN, 2000, &[pages::KIND]).unwrap();
        let space = pool.create_space().unwrap();
        let made = pages::make(&space, 2000, |_, _| {}).unwrap();
        let visit = |page: &PageNo| {
            space.run(AccessHint::Normal, |attempt| space.page(attempt, *page)?.validate())
        };
        let mut passes = 0;
        settle(&pool, || {
            passes += 1;
            (0..50).try_for_each(|_| made.iter().try_for_each(visit))?;
            Ok(())
        })
        .unwrap();
        (passes, in_place(&space).unwrap())
    }

    #[test]
    fn pages_that_prefer_frames_are_gone_to_until_they_lie_there() {
        run(|setup| {
            assert_eq!(passes::<Hash>(setup), (1, None));
            let (once, in_place) = passes::<Array>(setup);
            assert!(once == 1 && in_place.unwrap() > 0.99, "{once} {in_place:?}");
            let (often, in_place) = passes::<PredictiveHashed>(setup);
            assert!(often > 1 && in_place.unwrap() > 0.75, "{often} {in_place:?}");
        });
    }
}
