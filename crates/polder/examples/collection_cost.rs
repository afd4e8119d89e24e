//! What keys and payloads cost: inserts into a collection and searches of it, beside those of a vector index
//! that is a structure of the same store, in turns.
//!
//!     cargo run --release -p polder --example collection_cost [vectors [rounds]]

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use polder::vector::{
    ElementKind, HnswOptions, Metric, Search, VectorIndex, VectorShape, VectorStructure,
};
use polder::{Durability, Options, Query, Store};

const DIMENSIONS: usize = 128;
/// How many of the nearest are looked for, and how many are kept in sight.
const COUNT: usize = 10;
const WIDTH: usize = 40;
const QUERIES: u64 = 500;

/// Numbers without a pattern (xorshift), around one of a hundred centres.
fn vector(seed: u64) -> Vec<f32> {
    let mut bits = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut number = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        (bits >> 40) as f32 / (1 << 24) as f32
    };
    (0..DIMENSIONS)
        .map(|at| ((seed % 100) as usize * (at + 3) % 17) as f32 / 8.0 + number())
        .collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = env::args().skip(1).map(|text| text.parse::<u64>());
    let vectors = numbers.next().transpose()?.unwrap_or(500);
    let rounds = numbers.next().transpose()?.unwrap_or(3);
    let folder = tempfile::tempdir()?;
    let options = Options::new(folder.path().join("store")).durability(Durability::None);
    let store = Store::open(options.memory_budget((64 << 20) + vectors * 4096))?;
    let shape =
        VectorShape { element: ElementKind::F32, dimensions: DIMENSIONS, metric: Metric::L2 };
    let of = HnswOptions::new(shape);
    let index = store.create_structure_with::<VectorStructure>("index", &of.into())?;
    let collection = store.create_collection("collection", of)?;

    let (mut inserts, mut searches) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let numbers = || round * vectors / rounds..(round + 1) * vectors / rounds;
        let plain = timed(|| {
            numbers().try_for_each(|number| {
                index.write(|index| index.insert(number, (&vector(number)).into())).map(drop)
            })
        })?;
        let keyed = timed(|| {
            numbers().try_for_each(|number| {
                let (key, payload) = (format!("document {number}"), [number as u8; 100]);
                collection.insert(key, &vector(number), payload).map(drop)
            })
        })?;
        inserts.push(ratio(plain, keyed));
        let query = |number: u64| vector(1_000_000 + number);
        let plain = timed(|| {
            let search = Search::new(COUNT, WIDTH);
            (0..QUERIES).try_for_each(|number| {
                let look = |index: &dyn VectorIndex| index.search((&query(number)).into(), &search);
                index.read(|index| look(index)).map(drop)
            })
        })?;
        let keyed = timed(|| {
            let wanted = Query::new(COUNT).width(WIDTH);
            (0..QUERIES).try_for_each(|number| collection.search(&query(number), &wanted).map(drop))
        })?;
        searches.push(ratio(plain, keyed));
    }
    for (what, mut ratios) in [("inserts", inserts), ("searches", searches)] {
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let median = ratios[ratios.len() / 2];
        println!("{what}: a collection by an index {median:.2} ({least:.2} to {most:.2})");
    }
    store.close()?;
    Ok(())
}

fn timed<E>(work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let begun = Instant::now();
    work().map(|()| begun.elapsed())
}

/// How fast the second is by the first.
fn ratio(first: Duration, second: Duration) -> f64 {
    first.as_secs_f64() / second.as_secs_f64()
}
