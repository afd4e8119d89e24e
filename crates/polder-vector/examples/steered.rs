//! A graph whose nodes are read to be compared (HNSW), and one that is steered by codes (Vamana), of the same
//! vectors, by turns, each with a pool for a tenth of what it takes: how many of the nearest are found,
//! how many pages are read for a query, and how many queries are answered a second; of the second also where
//! the searches of a thread go on together, of one thread and of two. Of the vectors of a `.fvecs` file, for
//! those of another one; without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example steered [base.fvecs queries.fvecs [threads [links [bits]]]]

use std::env;
use std::error::Error;
use std::time::Instant;

use polder_format::SpaceId;
use polder_pool::{Array, Pool, Space};
use polder_vector::{
    Found, HnswIndex, HnswOptions, Search, VamanaIndex, VamanaOptions, VectorIndex, VectorRef,
    search_many,
};
use support::{Folder, farthest, insert_all, shape, vectors};

mod support;

/// How many of the nearest are looked for.
const COUNT: usize = 10;
/// How many are kept in sight.
const WIDTHS: [usize; 5] = [10, 20, 40, 80, 160];
const ROUNDS: usize = 3;
const SIDES: usize = 4;
/// Queries, at most: each reads hundreds of pages of the graph without codes.
const QUERIES: usize = 200;
/// The part of a graph's pages for which there is memory.
const SHARE: u64 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [base, queries] = vectors(&arguments, [1500, 20])?;
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (threads, links, code_bits) = (number(2, 2)?, number(3, 64)?, number(4, 4)?);

    let shape = shape(&base);
    let plain = built(&base, threads, "HNSW", |space| {
        Ok(HnswIndex::create(space, &HnswOptions::new(shape))?)
    })?;
    let options = VamanaOptions { links, code_bits, ..VamanaOptions::new(shape) };
    let steered = built(&base, threads, "Vamana", |space| {
        Ok(VamanaIndex::create(space, &options, &base[..base.len().min(1000)])?)
    })?;
    let budgets = [plain.bytes / SHARE, steered.bytes / SHARE];
    let plain_pool = plain.folder.open(budgets[0])?;
    let steered_pool = steered.folder.open(budgets[1])?;
    let plain = HnswIndex::open(plain_pool.open_space(SpaceId::CATALOGUE)?)?;
    let steered = VamanaIndex::open(steered_pool.open_space(SpaceId::CATALOGUE)?)?;
    println!("searched in {} and {} KiB", budgets[0] >> 10, budgets[1] >> 10);

    let queries = &queries[..queries.len().min(QUERIES)];
    let farthest: Vec<f32> = queries.iter().map(|query| farthest(&base, query, COUNT)).collect();
    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();
    let sides: [Side<'_>; SIDES] = [
        ("HNSW", &plain, &plain_pool, 1, 1),
        ("Vamana", &steered, &steered_pool, 1, 1),
        ("together", &steered, &steered_pool, queries.len(), 1),
        ("2 threads", &steered, &steered_pool, queries.len(), 2),
    ];
    println!("{:9} {:>6} {:>8} {:>12} {:>10}", "", "width", "recall", "pages read", "queries/s");
    for width in WIDTHS {
        let mut rates = [const { Vec::new() }; SIDES];
        let mut seen = [(0, 0); SIDES];
        for _ in 0..=ROUNDS {
            for (side, (_, index, pool, together, threads)) in sides.iter().enumerate() {
                let (begun, reads) = (Instant::now(), pool.stats().device_reads);
                let search = Search::new(COUNT, width);
                let mut found = Vec::new();
                for queries in queries.chunks(*together) {
                    found.extend(search_many(*index, queries, &search, *threads)?);
                }
                let is_hit = |one: &Found, farthest: &f32| one.distance <= *farthest;
                let hits = found.iter().zip(&farthest).map(|(answer, farthest)| {
                    answer.found.iter().filter(|one| is_hit(one, farthest)).count()
                });
                let hits: usize = hits.sum();
                rates[side].push(queries.len() as f64 / begun.elapsed().as_secs_f64());
                seen[side] = (hits, pool.stats().device_reads - reads);
            }
        }
        for ((name, ..), (rates, (hits, reads))) in sides.iter().zip(rates.iter_mut().zip(seen)) {
            // The first round has warmed up.
            rates.remove(0);
            rates.sort_by(f64::total_cmp);
            let of = |number: u64| number as f64 / queries.len() as f64;
            let (recall, rate) = (of(hits as u64) / COUNT as f64, rates[ROUNDS / 2]);
            println!("{name:9} {width:6} {recall:8.3} {:12.1} {rate:10.0}", of(reads));
        }
    }
    Ok(())
}

/// Its name, what is searched, how many queries are given at once, and to how many threads.
type Side<'s> = (&'s str, &'s dyn VectorIndex, &'s Pool<Array>, usize, usize);

/// An index in a file.
struct Built {
    folder: Folder,
    bytes: u64,
}

/// Builds an index, with memory for all of it.
fn built<I: VectorIndex>(
    base: &[Vec<f32>],
    threads: usize,
    name: &str,
    create: impl FnOnce(Space<Array>) -> Result<I, Box<dyn Error>>,
) -> Result<Built, Box<dyn Error>> {
    let mut folder = Folder::new()?;
    let dimensions = base.first().ok_or("there is no vector")?.len();
    let pool = folder.open((2 * base.len() * (4 * dimensions + 600)) as u64 + (64 << 20))?;
    let begun = Instant::now();
    let index = create(pool.create_space()?)?;
    insert_all(&index, base, threads)?;
    let rate = base.len() as f64 / begun.elapsed().as_secs_f64();
    let bytes = index.size_bytes()?;
    println!("{name}: {rate:.0} inserts a second, {} bytes a vector", bytes / base.len() as u64);
    folder.flush(&pool)?;
    Ok(Built { folder, bytes })
}
