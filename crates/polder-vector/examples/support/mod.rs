//! What the examples share: vectors, and an index of them.
#![allow(dead_code, reason = "no example needs all of it")]

use std::error::Error;
use std::{fs, thread};

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::device::{Device, FileDevice, OpenKind};
use polder_pool::{Array, FileState, Pool, PoolConfig, ReadMode, Translation};
use polder_vector::{
    ElementKind, HnswIndex, HnswOptions, KINDS, Metric, NodeId, VectorError, VectorIndex,
    VectorShape,
};

/// Rows of a count of 4 bytes and as many f32.
pub fn rows(path: &str) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let (mut rows, mut rest) = (Vec::new(), bytes.as_slice());
    while let Some((count, behind)) = rest.split_first_chunk::<4>() {
        let bytes = 4 * u32::from_le_bytes(*count) as usize;
        let (row, behind) = behind.split_at_checked(bytes).ok_or("a row is cut off")?;
        let (numbers, _) = row.as_chunks::<4>();
        rows.push(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect());
        rest = behind;
    }
    Ok(rows)
}

/// The vectors of the files that the first two arguments name, those to be looked for in the second; without
/// arguments so many that are made up.
pub fn vectors(
    arguments: &[String],
    counts: [usize; 2],
) -> Result<[Vec<Vec<f32>>; 2], Box<dyn Error>> {
    match arguments {
        [base, queries, ..] => Ok([rows(base)?, rows(queries)?]),
        [] => Ok([made_up(counts[0], 1), made_up(counts[1], 2)]),
        _ => Err("what is to be looked for? give a second .fvecs file".into()),
    }
}

/// Vectors around a hundred centres.
pub fn made_up(count: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let number = |centre: usize, at: usize| ((centre * 31 + at * 17) % 97) as f32 / 97.0;
    let mut vector = || {
        let centre = random.usize(..100);
        (0..32).map(|at| number(centre, at) + random.f32()).collect()
    };
    (0..count).map(|_| vector()).collect()
}

/// A pool for twice as many vectors as these with what an index adds, in a new file that goes with the
/// folder.
pub fn pool(base: &[Vec<f32>]) -> Result<(tempfile::TempDir, Pool<Array>), Box<dyn Error>> {
    let dimensions = base.first().ok_or("there is no vector")?.len();
    let folder = tempfile::tempdir()?;
    let budget = 4 * base.len() * (4 * dimensions + 400) + (64 << 20);
    let seed = ChecksumSeed::new(StoreId([1; 16]));
    let config = PoolConfig::new(budget as u64, PageSize::new(8192)?, seed);
    let device = FileDevice::open(folder.path().join("data"), OpenKind::Create)?;
    Ok((folder, Pool::open(Box::new(device), &config, &KINDS)?))
}

/// A folder with the file of a pool, that goes with it.
pub struct Folder {
    folder: tempfile::TempDir,
    file: Option<FileState>,
}

impl Folder {
    pub fn new() -> Result<Folder, Box<dyn Error>> {
        Ok(Folder { folder: tempfile::tempdir()?, file: None })
    }

    /// A pool on the file, as it was flushed last, or on a new one; with so much memory, or as little as
    /// there can be.
    pub fn open(&self, budget: u64) -> Result<Pool<Array>, Box<dyn Error>> {
        self.open_on(budget, |file| Box::new(file))
    }

    /// The same, on what `device` makes of the file.
    pub fn open_on(
        &self,
        budget: u64,
        device: impl FnOnce(FileDevice) -> Box<dyn Device>,
    ) -> Result<Pool<Array>, Box<dyn Error>> {
        self.open_with(budget, ReadMode::default(), device)
    }

    /// The same with any translation, whose pages are read in this mode.
    pub fn open_with<T: Translation>(
        &self,
        budget: u64,
        read_mode: ReadMode,
        device: impl FnOnce(FileDevice) -> Box<dyn Device>,
    ) -> Result<Pool<T>, Box<dyn Error>> {
        let (size, seed) = (PageSize::MIN, ChecksumSeed::new(StoreId([1; 16])));
        let budget = budget.max(PoolConfig::least_budget(size));
        let file = self.file.unwrap_or(FileState::NEW);
        let config = PoolConfig { file, read_mode, ..PoolConfig::new(budget, size, seed) };
        let kind = if self.file.is_some() { OpenKind::Existing } else { OpenKind::Create };
        let file = FileDevice::open(self.folder.path().join("data"), kind)?;
        Ok(Pool::open(device(file), &config, &KINDS)?)
    }

    /// What the pool has comes into the file.
    pub fn flush(&mut self, pool: &Pool<Array>) -> Result<(), Box<dyn Error>> {
        pool.flush()?;
        self.file = Some(pool.file_state());
        Ok(())
    }
}

/// What the vectors are.
pub fn shape(base: &[Vec<f32>]) -> VectorShape {
    let dimensions = base.first().map_or(1, Vec::len);
    VectorShape { element: ElementKind::F32, dimensions, metric: Metric::L2 }
}

/// How far the farthest of so many of the nearest is; a little more, since sums are rounded.
pub fn farthest(base: &[Vec<f32>], query: &[f32], count: usize) -> f32 {
    let distance =
        |vector: &Vec<f32>| vector.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let mut distances: Vec<f32> = base.iter().map(distance).collect();
    distances.sort_unstable_by(f32::total_cmp);
    distances[count.min(distances.len()) - 1] * 1.000_01
}

/// Inserts all, each with its number as its label. Gives where they lie.
pub fn insert_all(
    index: &dyn VectorIndex,
    base: &[Vec<f32>],
    threads: usize,
) -> Result<Vec<NodeId>, VectorError> {
    let inserted: Vec<_> = thread::scope(|scope| {
        let insert = |thread| {
            let mine = base.iter().enumerate().skip(thread).step_by(threads);
            let nodes = mine.map(|(label, vector)| index.insert(label as u64, vector.into()));
            nodes.collect::<Result<Vec<_>, VectorError>>()
        };
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || insert(thread))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let inserted = inserted.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((0..base.len()).map(|label| inserted[label % threads][label / threads]).collect())
}

/// What comes of as many parts of all queries, each in a thread of its own.
pub fn in_parts<Q: Sync, R: Send>(
    queries: &[Q],
    threads: usize,
    search: impl Fn(&[Q]) -> Result<R, VectorError> + Sync,
) -> Result<Vec<R>, VectorError> {
    let (part, search) = (queries.len().div_ceil(threads).max(1), &search);
    thread::scope(|scope| {
        let threads: Vec<_> =
            queries.chunks(part).map(|part| scope.spawn(move || search(part))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// A graph of these vectors.
pub fn build(
    base: &[Vec<f32>],
    threads: usize,
    links: usize,
    insert_width: usize,
) -> Result<(tempfile::TempDir, HnswIndex<Array>), Box<dyn Error>> {
    let (folder, pool) = pool(base)?;
    let options = HnswOptions { links, insert_width, ..HnswOptions::new(shape(base)) };
    let index = HnswIndex::create(pool.create_space()?, &options)?;
    insert_all(&index, base, threads)?;
    Ok((folder, index))
}
