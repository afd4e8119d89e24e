//! A graph of the vectors of a `.fvecs` file in a pool with memory for a part of it, and searches for those of
//! another one: how many of the nearest are found, and how many queries are answered a second. Without
//! files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example beyond [base.fvecs queries.fvecs share threads width together]
//!
//! The pool has memory for one part in `share`. It asks for the pages of all neighbours of a node together;
//! with `one-by-one` as the last argument the device reads one after the other, as without group prefetch; with
//! `steered` the graph is one that is steered by codes (Vamana), in as much memory. With any of the three it
//! searches whenever a line is read, and prints numbers alone: `scripts/vector-beyond` has it take turns with
//! others.

use std::error::Error;
use std::time::Instant;
use std::{env, io, thread};

use polder_format::SpaceId;
use polder_pool::device::{Batch, Device, FileDevice};
use polder_pool::{Array, Space};
use polder_vector::{
    HnswIndex, HnswOptions, Search, VamanaIndex, VamanaOptions, VectorError, VectorIndex,
    VectorRef, search_many,
};
use support::{Folder, insert_all, shape, vectors};

mod support;

/// How many of the nearest are looked for.
const COUNT: usize = 10;
/// How many are kept in sight.
const WIDTHS: [usize; 4] = [10, 20, 40, 80];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [base, queries] = vectors(&arguments, [2000, 20])?;
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (share, threads, insert_width) = (number(2, 3)?, number(3, 1)?, number(4, 100)?);
    let way = arguments.get(5).map(String::as_str);

    let shape = shape(&base);
    let create = |space: Space<Array>| -> Result<Box<dyn VectorIndex>, VectorError> {
        if way == Some("steered") {
            let options = VamanaOptions { insert_width, code_bits: 2, ..VamanaOptions::new(shape) };
            let sample = &base[..base.len().min(1000)];
            return Ok(Box::new(VamanaIndex::create(space, &options, sample)?));
        }
        let options = HnswOptions { insert_width, ..HnswOptions::new(shape) };
        Ok(Box::new(HnswIndex::create(space, &options)?))
    };
    let open = |space: Space<Array>| -> Result<Box<dyn VectorIndex>, VectorError> {
        match way {
            Some("steered") => Ok(Box::new(VamanaIndex::open(space)?)),
            _ => Ok(Box::new(HnswIndex::open(space)?)),
        }
    };
    let mut folder = Folder::new()?;
    let begun = Instant::now();
    let (bytes, truth) = {
        let bytes = base.len() * (4 * shape.dimensions + 600);
        let pool = folder.open(2 * bytes as u64 + (64 << 20))?;
        let index = create(pool.create_space()?)?;
        insert_all(&*index, &base, thread::available_parallelism()?.get())?;
        folder.flush(&pool)?;
        let exact = |query| index.search_exact(VectorRef::from(query), &Search::new(COUNT, 0));
        let farthest = queries.iter().map(|query: &Vec<f32>| {
            Ok(exact(query)?.found.last().map_or(0.0, |last| last.distance))
        });
        (index.size_bytes()?, farthest.collect::<Result<Vec<f32>, VectorError>>()?)
    };
    let rate = base.len() as f64 / begun.elapsed().as_secs_f64();

    // As much as the graph without codes has.
    let budget = (base.len() * (4 * shape.dimensions + 308)) as u64 / share as u64;
    let pool = folder.open_on(budget, |device| match way {
        Some("one-by-one") => Box::new(OneByOne(device)),
        _ => Box::new(device),
    })?;
    let index = open(pool.open_space(SpaceId::CATALOGUE)?)?;
    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();
    // Recall, queries a second, and pages read for a query.
    let search = |width| -> Result<(f64, f64, f64), VectorError> {
        let (begun, before) = (Instant::now(), pool.stats().device_reads);
        let answers = search_many(&*index, &queries, &Search::new(COUNT, width), threads)?;
        let seconds = begun.elapsed().as_secs_f64();
        let hits = answers.iter().zip(&truth).map(|(answer, farthest)| {
            answer.found.iter().filter(|one| one.distance <= *farthest).count()
        });
        let (hits, count): (usize, f64) = (hits.sum(), queries.len() as f64);
        let reads = (pool.stats().device_reads - before) as f64;
        Ok((hits as f64 / (COUNT as f64 * count), count / seconds, reads / count))
    };
    if let Some(way) = way {
        let mut all = Vec::new();
        println!("build {rate} {}", bytes / base.len() as u64);
        for line in io::stdin().lines() {
            line?;
            all = WIDTHS.into_iter().map(search).collect::<Result<Vec<_>, _>>()?;
            let results = WIDTHS
                .iter()
                .zip(&all)
                .map(|(width, (recall, rate, _))| format!("{width} {recall} {rate}"));
            println!("{}", results.collect::<Vec<_>>().join(" "));
        }
        for (width, (recall, _, reads)) in WIDTHS.iter().zip(all) {
            let what = format!("recall {recall:.4}, {reads:.1} pages of 4 KiB read for a query");
            eprintln!("{way}, one in {share}, {width} in sight: {what}");
        }
        return Ok(());
    }
    println!("{} vectors, memory for one part in {share}", base.len());
    for width in WIDTHS {
        let (recall, rate, reads) = search(width)?;
        println!("width {width}: recall {recall:.4}, {reads:.1} pages read, {rate:.0} a second");
    }
    Ok(())
}

/// A file of which one run of bytes is read or written at a time.
#[derive(Debug)]
struct OneByOne(FileDevice);

impl Device for OneByOne {
    fn perform(&self, batch: Batch) -> Batch {
        let one = |request| self.0.perform(Batch::One(request)).into_requests();
        Batch::Many(batch.into_requests().into_iter().flat_map(one).collect())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.allocate(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}
