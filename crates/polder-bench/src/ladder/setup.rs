//! What a run is told, and the pools that it works on.

use std::path::{Path, PathBuf};

use polder_format::{ChecksumSeed, PageSize, Place, SpaceId, StoreId};
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{FileState, KindOps, Pool, PoolConfig, PoolError, Translation};

use super::clock::{Driven, drive};
use super::plan::Scale;
use super::side::Side;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::random::Random;

/// Frames of a pool in which everything stays, for each page that it will have: at half fill, as
/// predictive-translation.txt 6.8.
const AMPLE: u64 = 2;
/// Frames beside those of the data: maps, inner nodes.
const SPARE_FRAMES: u64 = 512;

/// What a run is told.
pub(crate) struct Setup<'a> {
    pub(crate) side: Side,
    pub(crate) scale: Scale,
    /// Of each measurement.
    pub(crate) seconds: f64,
    /// How many threads at once, one measurement for each.
    pub(crate) threads: &'a [usize],
    /// Makes this round's choices different from those of others.
    pub(crate) round: u64,
    /// A directory of this run alone.
    pub(crate) dir: &'a Path,
    /// A directory of all runs of this part.
    pub(crate) shared: &'a Path,
    /// Files with graphs.
    pub(crate) graphs: &'a [PathBuf],
    pub(crate) interrupt: &'a Interrupt,
    /// Shows people what goes on.
    pub(crate) tell: &'a (dyn Fn(&str) + Sync),
}

impl Setup<'_> {
    /// Random numbers of one thread of this round.
    pub(crate) fn random(&self, thread: usize) -> Random {
        Random::new(self.round, thread as u64)
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
        drive(threads, self.seconds, self.interrupt, worker)
    }

    /// An empty pool that has twice as many frames as `pages`, as many on each side; nothing is ever
    /// evicted or written.
    pub(crate) fn resident_pool<T: Translation>(
        &self,
        size: PageSize,
        pages: u64,
        kinds: &[KindOps],
    ) -> Result<Pool<T>, BenchError> {
        let frames = AMPLE * pages + SPARE_FRAMES;
        let config = self.config(size, self.budget_for::<T>(size, frames)?, NEW_FILE);
        let path = self.dir.join("data");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(BenchError::file(&path)(error));
            }
            _ => {}
        }
        open(&path, OpenKind::Create, &config, kinds)
    }

    /// The budget that pays for so many frames.
    fn budget_for<T: Translation>(&self, size: PageSize, frames: u64) -> Result<u64, PoolError> {
        let (mut low, mut high) =
            (PoolConfig::least_budget(size), frames * 2 * size.bytes() as u64);
        high = high.max(low);
        while high - low > size.bytes() as u64 {
            let middle = low + (high - low) / 2;
            let paid = self.config(size, middle, NEW_FILE).frames::<T>()?;
            if u64::from(paid) < frames { low = middle } else { high = middle }
        }
        Ok(high)
    }

    /// A pool's configuration without a log: what is measured lies below the store.
    pub(crate) fn config(&self, page_size: PageSize, budget: u64, file: FileState) -> PoolConfig {
        PoolConfig {
            memory_budget: budget.max(PoolConfig::least_budget(page_size)),
            page_size,
            prefault: false,
            seed: ChecksumSeed::new(StoreId([1; 16])),
            file,
            journal: None,
            replacement: Default::default(),
            hold: self.side.hold,
        }
    }
}

/// A file that holds nothing yet.
pub(crate) const NEW_FILE: FileState =
    FileState { space_directory: Place::NONE, next_space: SpaceId::CATALOGUE, file_pages: 0 };

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
