//! Loading a collection whose index is larger than memory: by `Collection::load`, which places vectors by runs
//! and links them at the end, and by inserts of as many threads, which have as much memory; by turns. Of the
//! vectors of a `.fvecs` file, for those of another one; without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder --example collection_load [base.fvecs queries.fvecs [rounds]]

use std::env;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use polder::vector::{ElementKind, Metric, NewIndex, VamanaOptions, VectorBuf, VectorShape};
use polder::{Collection, Durability, Options, Query, Store, StoreError};

const THREADS: usize = 2;
/// How many of the nearest are looked for, and how many are kept in sight.
const COUNT: usize = 10;
const WIDTHS: [usize; 3] = [20, 40, 80];
/// Queries, at most.
const QUERIES: usize = 200;
/// The part of the index for which there is memory.
const SHARE: usize = 10;
/// Of the budget, as much again is there for a load beside it, and added to that of inserts.
const BESIDE: u64 = 4;

type Vectors = Vec<Vec<f32>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [base, queries] = match &arguments[..] {
        [base, queries, ..] => [read(base)?, read(queries)?],
        _ => [made_up(3000, 1), made_up(20, 2)],
    };
    let rounds = arguments.get(2).map_or(Ok(1), |text| text.parse())?;
    let queries = &queries[..queries.len().min(QUERIES)];
    let shape =
        VectorShape { element: ElementKind::F32, dimensions: base[0].len(), metric: Metric::L2 };
    let of = VamanaOptions { links: 32, code_bits: 2, ..VamanaOptions::new(shape) };
    let of_one = shape.dimensions * (32 + of.code_bits) / 8 + 5 * of.links + 64;
    let budget = ((base.len() * of_one / SHARE) as u64).max(Options::least_memory_budget(4096));
    println!("with {} KiB of {}", budget >> 10, (base.len() * of_one) >> 10);
    for round in 1..=rounds {
        let mut seconds = [0.0; 2];
        for (way, seconds) in ["load", "inserts"].into_iter().zip(&mut seconds) {
            let folder = tempfile::tempdir()?;
            let more = if way == "inserts" { budget / BESIDE } else { 0 };
            let options = || Options::new(folder.path().join("store")).durability(Durability::None);
            let store = Store::open(options().memory_budget(budget + more))?;
            let sample = &base[..base.len().min(1000)];
            let docs = store.create_collection("docs", NewIndex::around(of, sample)?)?;
            let begun = Instant::now();
            match way {
                "load" => {
                    let rows = (0_u64..).zip(&base);
                    let rows = rows.map(|(key, one)| (key.to_be_bytes(), VectorBuf::from(one), ""));
                    docs.load(rows, THREADS, &mut |_| true)?;
                }
                _ => insert_all(&docs, &base)?,
            }
            store.flush()?;
            *seconds = begun.elapsed().as_secs_f64();
            let stats = store.stats();
            let of_one = |bytes: u64| bytes as f64 / 4096.0 / base.len() as f64;
            let [read, written] =
                [stats.pool.device_read_bytes, stats.pool.device_written_bytes].map(of_one);
            println!(
                "{way}: {seconds:.1} seconds, for a vector {read:.2} pages read and {written:.2} written"
            );
            search(&docs, queries)?;
            store.close()?;
        }
        println!("in round {round} the load is {:.1} times as fast", seconds[1] / seconds[0]);
    }
    Ok(())
}

fn insert_all(docs: &Collection, base: &Vectors) -> Result<(), StoreError> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), StoreError> {
        while let number = next.fetch_add(1, Relaxed)
            && let Some(vector) = base.get(number)
        {
            docs.insert((number as u64).to_be_bytes(), vector, "")?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| scope.spawn(work));
        threads.into_iter().try_for_each(|thread| thread.join().expect("it has not panicked"))
    })
}

/// Tells for some widths how many of the nearest are found.
fn search(docs: &Collection, queries: &[Vec<f32>]) -> Result<(), StoreError> {
    let keys = |query: &Vec<f32>, wanted: Query<'_>| -> Result<Vec<Vec<u8>>, StoreError> {
        let hits = docs.search(query, &wanted)?.hits;
        Ok(hits.into_iter().map(|hit| hit.key).collect())
    };
    let nearest = queries.iter().map(|query| keys(query, Query::new(COUNT).exact()));
    let nearest = nearest.collect::<Result<Vec<_>, _>>()?;
    for width in WIDTHS {
        let mut hits = 0;
        for (query, nearest) in queries.iter().zip(&nearest) {
            let found = keys(query, Query::new(COUNT).width(width))?;
            hits += found.iter().filter(|key| nearest.contains(key)).count();
        }
        println!(
            "  {width:4} in sight: recall {:.3}",
            hits as f64 / (COUNT * queries.len()) as f64
        );
    }
    Ok(())
}

/// The vectors of a `.fvecs` file: of each its length, and as many numbers.
fn read(path: &str) -> Result<Vectors, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let (words, _) = bytes.as_chunks::<4>();
    let dimensions = words.first().map_or(0, |word| u32::from_le_bytes(*word) as usize);
    let vectors = words.chunks_exact(1 + dimensions);
    Ok(vectors.map(|one| one[1..].iter().map(|word| f32::from_le_bytes(*word)).collect()).collect())
}

/// Numbers without a pattern (xorshift), around one of a hundred centres.
fn made_up(count: u64, seed: u64) -> Vectors {
    let vector = |number: u64| {
        let mut bits = (number + 1 + (seed << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            (bits >> 40) as f32 / (1 << 24) as f32
        };
        (0..64).map(|at| ((number % 100) as usize * (at + 3) % 17) as f32 / 8.0 + next()).collect()
    };
    (0..count).map(vector).collect()
}
