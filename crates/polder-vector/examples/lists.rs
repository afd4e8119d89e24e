//! A graph (HNSW) and lists (IVF-Flat) of the same vectors, in turns: how long they take to be built, and
//! how many queries a second find 95 of 100 of the nearest. Of the vectors of a `.fvecs` file, for those of
//! another one; without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example lists [base.fvecs queries.fvecs [threads [lists]]]

use std::env;
use std::error::Error;
use std::time::Instant;

use polder_vector::{
    HnswIndex, HnswOptions, IvfIndex, IvfOptions, Probe, Search, VectorIndex, VectorRef,
};
use support::{insert_all, pool, shape, vectors};

mod support;

/// How many of the nearest are looked for, and which part of them is to be found.
const COUNT: usize = 10;
const RECALL: f64 = 0.95;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [base, queries] = vectors(&arguments, [4000, 50])?;
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (threads, lists) = (number(2, 1)?, number(3, base.len().isqrt())?);
    let (_folder, pool) = pool(&base)?;

    let begun = Instant::now();
    let options = IvfOptions { shape: shape(&base), lists };
    let lists = IvfIndex::create(pool.create_space()?, &options, &base)?;
    let trained = begun.elapsed();
    insert_all(&lists, &base, threads)?;
    let lists_built = begun.elapsed();
    let begun = Instant::now();
    let graph = HnswIndex::create(pool.create_space()?, &HnswOptions::new(shape(&base)))?;
    insert_all(&graph, &base, threads)?;
    let times = begun.elapsed().as_secs_f64() / lists_built.as_secs_f64();
    let training = trained.as_secs_f64() / lists_built.as_secs_f64();
    println!(
        "lists are built {times:.1} times as fast; {:.0}% of it is training",
        100.0 * training
    );

    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();
    let search = Search::new(COUNT, 0);
    let probe = |index| -> Result<_, Box<dyn Error>> {
        let probe = Probe::new(index, &queries, &search, &mut |_| true)?.ok_or("stopped")?;
        let enough = probe.width_for(RECALL)?.ok_or("no width finds so many")?;
        Ok((probe, enough.width))
    };
    let sides: [&dyn VectorIndex; 2] = [&graph, &lists];
    let [(graph, nodes), (lists, width)] = [probe(sides[0])?, probe(sides[1])?];
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let (graph, lists) = (graph.measure(nodes)?, lists.measure(width)?);
        ratios.push(graph.mean.as_secs_f64() / lists.mean.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "searches of {width} lists are {:.2} times as fast ({:.2} to {:.2}) as of the graph with {nodes} \
         nodes in sight",
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1],
    );
    Ok(())
}
