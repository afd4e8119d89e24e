//! What each way of the pool is worth to searches in a graph that is in memory: the translation, huge pages,
//! reads that hold nothing, and group prefetch (`calico-2026` 6.6). `scripts/vector-ablation` has this take
//! turns with itself, built so that each node is read by itself; as it is built here, searches hold nothing in
//! either mode.
//!
//!     cargo run --release -p polder-vector --example ablation [base.fvecs queries.fvecs mode...]
//!
//! With arguments it searches whenever a line is read, in an index for each mode of reading (`shared`,
//! `optimistic`) and each translation, and prints numbers alone: queries a second. Without them it searches
//! once, in some thousands of vectors that are made up.

use std::error::Error;
use std::time::Instant;
use std::{env, io};

use polder_format::SpaceId;
use polder_pool::{Array, Hash, Pool, Predictive, ReadMode, Simd, Translation, Vm};
use polder_vector::{HnswIndex, HnswOptions, Search, VectorError, VectorIndex};
use support::{Folder, insert_all, shape, vectors};

mod support;

/// How many of the nearest are looked for, and how many are kept in sight.
const COUNT: usize = 10;
const WIDTH: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [base, queries] = vectors(&arguments, [2000, 50])?;
    let modes = match arguments.get(2..) {
        Some(modes) => modes.iter().map(|mode| mode.parse()).collect::<Result<_, _>>()?,
        None => vec![ReadMode::Shared, ReadMode::Optimistic],
    };
    let mut folder = Folder::new()?;
    let budget = (base.len() * (4 * shape(&base).dimensions + 600)) as u64 + (64 << 20);
    {
        let pool = folder.open(2 * budget)?;
        let index = HnswIndex::create(pool.create_space()?, &HnswOptions::new(shape(&base)))?;
        insert_all(&index, &base, 1)?;
        folder.flush(&pool)?;
    }
    let mut indexes = Vec::new();
    for mode in modes {
        indexes.push(open::<Hash>(&folder, budget, mode)?);
        indexes.push(open::<Predictive>(&folder, budget, mode)?);
        indexes.push(open::<Array>(&folder, budget, mode)?);
        indexes.push(open::<Vm>(&folder, budget, mode)?);
        indexes.push(open::<Simd>(&folder, budget, mode)?);
    }
    let search = |index: &dyn VectorIndex| -> Result<f64, VectorError> {
        let begun = Instant::now();
        for query in &queries {
            index.search(query.into(), &Search::new(COUNT, WIDTH))?;
        }
        Ok(queries.len() as f64 / begun.elapsed().as_secs_f64())
    };
    let search_all = || -> Result<String, VectorError> {
        let rates = indexes.iter().map(|index| Ok(format!("{:.0}", search(&**index)?)));
        Ok(rates.collect::<Result<Vec<_>, VectorError>>()?.join(" "))
    };
    // What is read for the first time comes from the file.
    let first = search_all()?;
    if arguments.is_empty() {
        println!("{first}\n{}", search_all()?);
        return Ok(());
    }
    println!("ready");
    for line in io::stdin().lines() {
        line?;
        println!("{}", search_all()?);
    }
    Ok(())
}

/// The index in the file, in a pool of its own, all of it in memory.
fn open<T: Translation>(
    folder: &Folder,
    budget: u64,
    mode: ReadMode,
) -> Result<Box<dyn VectorIndex>, Box<dyn Error>> {
    let pool: Pool<T> = folder.open_with(budget, mode, |file| Box::new(file))?;
    let space = pool.open_space(SpaceId::CATALOGUE)?;
    let index = HnswIndex::open(space)?;
    index.for_each(|_, _| true)?;
    Ok(Box::new(index))
}
