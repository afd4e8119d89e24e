//! A graph that is steered by codes, of more vectors than there is memory for: inserted one after the other,
//! and loaded by parts, by turns, with memory for a tenth of it: how long that takes, how many pages are read
//! and written for a vector, and how many of the nearest are found with how many pages read. A load has half
//! of the memory beside the pool. Of the vectors of a `.fvecs` file, for those of another one; without files,
//! of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example bulk \
//!         [base.fvecs queries.fvecs [threads [links [bits [rounds]]]]]

use std::env;
use std::error::Error;
use std::time::Instant;

use polder_format::SpaceId;
use polder_pool::{Array, Pool};
use polder_vector::{Search, VamanaIndex, VamanaOptions, VectorIndex, VectorRef};
use support::{Folder, farthest, insert_all, shape, vectors};

mod support;

/// How many of the nearest are looked for, and how many are kept in sight.
const COUNT: usize = 10;
const WIDTHS: [usize; 4] = [10, 20, 40, 80];
/// Queries, at most.
const QUERIES: usize = 200;
/// The part of the index for which there is memory.
const SHARE: u64 = 10;

#[derive(Clone, Copy)]
enum Way {
    Inserts,
    Parts,
}

/// What it took to make an index.
struct Built {
    folder: Folder,
    seconds: f64,
    bytes: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [base, queries] = vectors(&arguments, [3000, 20])?;
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (threads, links, code_bits) = (number(2, 2)?, number(3, 32)?, number(4, 2)?);
    let queries = &queries[..queries.len().min(QUERIES)];
    let farthest: Vec<f32> = queries.iter().map(|query| farthest(&base, query, COUNT)).collect();

    let options = VamanaOptions { links, code_bits, ..VamanaOptions::new(shape(&base)) };
    let of_one = options.shape.dimensions * (32 + code_bits) / 8 + 5 * links + 64;
    let budget = (base.len() * of_one) as u64 / SHARE;
    println!("with {} KiB of {}", budget >> 10, (budget * SHARE) >> 10);
    for round in 1..=number(5, 1)? {
        let mut seconds = Vec::new();
        for way in [Way::Parts, Way::Inserts] {
            let built = build(&base, &options, way, threads, budget)?;
            let pool = built.folder.open(budget)?;
            let index = VamanaIndex::open(pool.open_space(SpaceId::CATALOGUE)?)?;
            println!("  {} bytes a vector", built.bytes / base.len() as u64);
            search(&pool, &index, queries, &farthest)?;
            seconds.push(built.seconds);
        }
        println!("in round {round} by parts {:.1} times as fast", seconds[1] / seconds[0]);
    }
    Ok(())
}

fn build(
    base: &[Vec<f32>],
    options: &VamanaOptions,
    way: Way,
    threads: usize,
    budget: u64,
) -> Result<Built, Box<dyn Error>> {
    let mut folder = Folder::new()?;
    let memory = match way {
        Way::Inserts => 0,
        Way::Parts => budget / 2,
    };
    let pool = folder.open(budget - memory)?;
    let sample = &base[..base.len().min(1000)];
    let index = VamanaIndex::create(pool.create_space()?, options, sample)?;
    let begun = Instant::now();
    let name = match way {
        Way::Inserts => {
            insert_all(&index, base, threads)?;
            "inserts"
        }
        Way::Parts => {
            let vectors = (0..).zip(base);
            index.bulk_load(vectors, threads, memory as usize, &mut |_| true)?;
            "by parts"
        }
    };
    folder.flush(&pool)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (stats, page) = (pool.stats(), pool.page_size().bytes() as f64);
    let of = |bytes: u64| bytes as f64 / page / base.len() as f64;
    println!(
        "{name}: {seconds:.1} seconds, for a vector {:.2} pages read and {:.2} written",
        of(stats.device_read_bytes),
        of(stats.device_written_bytes),
    );
    Ok(Built { folder, seconds, bytes: index.size_bytes()? })
}

/// Tells for some widths how many of the nearest are found, and how many pages are read for a query.
fn search(
    pool: &Pool<Array>,
    index: &VamanaIndex<Array>,
    queries: &[Vec<f32>],
    farthest: &[f32],
) -> Result<(), Box<dyn Error>> {
    for width in WIDTHS {
        let (mut hits, mut reads) = (0, 0);
        // The first time warms up.
        for _ in 0..2 {
            let before = pool.stats().device_reads;
            hits = 0;
            for (query, farthest) in queries.iter().zip(farthest) {
                let found = index.search(VectorRef::from(query), &Search::new(COUNT, width))?.found;
                hits += found.iter().filter(|one| one.distance <= *farthest).count();
            }
            reads = pool.stats().device_reads - before;
        }
        let of = |number: usize| number as f64 / queries.len() as f64;
        let (recall, reads) = (of(hits) / COUNT as f64, of(reads as usize));
        println!("  {width:4} in sight: recall {recall:.3}, {reads:.1} pages read");
    }
    Ok(())
}
