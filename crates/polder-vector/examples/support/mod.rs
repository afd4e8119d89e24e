//! What the examples share: vectors, and an index of them.

use std::error::Error;
use std::{fs, thread};

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{Array, Pool, PoolConfig};
use polder_vector::{ElementKind, HnswIndex, HnswOptions, KINDS, Metric, VectorShape};

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

/// An index of these vectors, each with its number as its label, in a new file that goes with the folder.
pub fn build(
    base: &[Vec<f32>],
    threads: usize,
    links: usize,
    insert_width: usize,
) -> Result<(tempfile::TempDir, HnswIndex<Array>), Box<dyn Error>> {
    let dimensions = base.first().ok_or("there is no vector")?.len();
    let folder = tempfile::tempdir()?;
    let size = PageSize::new(8192)?;
    let budget = 4 * base.len() * (4 * dimensions + 400) + (64 << 20);
    let config = PoolConfig::new(budget as u64, size, ChecksumSeed::new(StoreId([1; 16])));
    let device = FileDevice::open(folder.path().join("data"), OpenKind::Create)?;
    let pool: Pool<Array> = Pool::open(Box::new(device), &config, &KINDS)?;
    let shape = VectorShape { element: ElementKind::F32, dimensions, metric: Metric::L2 };
    let options = HnswOptions { links, insert_width, ..HnswOptions::new(shape) };
    let index = HnswIndex::create(pool.create_space()?, &options)?;

    thread::scope(|scope| {
        let inserts: Vec<_> = (0..threads)
            .map(|thread| {
                let index = &index;
                scope.spawn(move || {
                    let mine = base.iter().enumerate().skip(thread).step_by(threads);
                    mine.map(|(label, vector)| index.insert(label as u64, vector))
                        .try_for_each(|inserted| inserted.map(drop))
                })
            })
            .collect();
        inserts.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok((folder, index))
}
