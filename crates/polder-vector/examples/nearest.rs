//! Builds an index of the vectors of a `.fvecs` file, and looks for those of another one: how long that
//! takes, and how many of the nearest are found. Without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example nearest [base.fvecs queries.fvecs [threads [links [width]]]]
//!
//! With `turns` as the last argument it searches whenever a line is read, and prints numbers alone:
//! `scripts/vector-peers` has it take turns with other indexes.

use std::error::Error;
use std::time::Instant;
use std::{env, fs, io, thread};

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{Array, Pool, PoolConfig};
use polder_vector::{ElementKind, HnswIndex, HnswOptions, KINDS, Metric, VectorError, VectorShape};

/// How many of the nearest are looked for.
const COUNT: usize = 10;
/// Of how many nodes that are kept in sight.
const WIDTHS: [usize; 8] = [10, 15, 20, 30, 40, 60, 80, 120];

/// Rows of a count of 4 bytes and as many f32.
fn rows(path: &str) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
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
fn made_up(count: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let number = |centre: usize, at: usize| ((centre * 31 + at * 17) % 97) as f32 / 97.0;
    let mut vector = || {
        let centre = random.usize(..100);
        (0..32).map(|at| number(centre, at) + random.f32()).collect()
    };
    (0..count).map(|_| vector()).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (threads, links, width) = (number(2, 1)?, number(3, 16)?, number(4, 128)?);
    let (base, queries) = match arguments.as_slice() {
        [base, queries, ..] => (rows(base)?, rows(queries)?),
        [] => (made_up(5000, 1), made_up(100, 2)),
        _ => return Err("what is to be looked for? give a second .fvecs file".into()),
    };
    let dimensions = base.first().ok_or("there is no vector")?.len();

    let folder = tempfile::tempdir()?;
    let size = PageSize::new(8192)?;
    let budget = 4 * base.len() * (4 * dimensions + 400) + (64 << 20);
    let config = PoolConfig::new(budget as u64, size, ChecksumSeed::new(StoreId([1; 16])));
    let device = FileDevice::open(folder.path().join("data"), OpenKind::Create)?;
    let pool: Pool<Array> = Pool::open(Box::new(device), &config, &KINDS)?;
    let shape = VectorShape { element: ElementKind::F32, dimensions, metric: Metric::L2 };
    let options = HnswOptions { links, insert_width: width, ..HnswOptions::new(shape) };
    let index = HnswIndex::create(pool.create_space()?, &options)?;

    let begun = Instant::now();
    thread::scope(|scope| {
        let inserts: Vec<_> = (0..threads)
            .map(|thread| {
                let (base, index) = (&base, &index);
                scope.spawn(move || {
                    let mine = base.iter().enumerate().skip(thread).step_by(threads);
                    mine.map(|(label, vector)| index.insert(label as u64, vector))
                        .try_for_each(|inserted| inserted.map(drop))
                })
            })
            .collect();
        inserts.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let rate = base.len() as f64 / begun.elapsed().as_secs_f64();
    let bytes = index.space().pages_in_use()? * 8192 / base.len() as u64;
    let exact = queries.iter().map(|query| index.search_exact(query, COUNT));
    let exact = exact.collect::<Result<Vec<_>, _>>()?;
    let search = |width| -> Result<(f64, f64), VectorError> {
        let (mut hits, begun) = (0, Instant::now());
        let found = queries.iter().map(|query| index.search(query, COUNT, width));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let seconds = begun.elapsed().as_secs_f64();
        for (found, exact) in found.iter().zip(&exact) {
            hits += found.iter().filter(|one| exact.contains(one)).count();
        }
        Ok((hits as f64 / (COUNT * queries.len()) as f64, queries.len() as f64 / seconds))
    };
    if arguments.last().is_some_and(|last| last == "turns") {
        println!("build {rate} {bytes}");
        for line in io::stdin().lines() {
            line?;
            let results = WIDTHS.iter().map(|width| {
                search(*width).map(|(recall, rate)| format!("{width} {recall} {rate}"))
            });
            println!("{}", results.collect::<Result<Vec<_>, _>>()?.join(" "));
        }
        return Ok(());
    }
    println!("{} vectors, {rate:.0} a second, {bytes} bytes each", base.len());
    for width in WIDTHS {
        let (recall, rate) = search(width)?;
        println!("width {width}: recall {recall:.4}, {rate:.0} a second");
    }
    Ok(())
}
