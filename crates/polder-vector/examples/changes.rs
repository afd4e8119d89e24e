//! What becomes of a graph, without codes (HNSW) or with them (Vamana), whose vectors come and go: half of them
//! is removed and inserted again, several times; and what inserts cost searches that are made beside them. Of
//! the vectors of a `.fvecs` file, the second half of which is inserted beside searches, for those of another
//! one; without files, of some thousands that are made up.
//!
//!     cargo run --release -p polder-vector --example changes [base.fvecs queries.fvecs [threads [vamana]]]

use std::env;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use polder_vector::{
    HnswIndex, HnswOptions, Probe, Search, VamanaIndex, VamanaOptions, VectorError, VectorIndex,
    VectorRef,
};
use support::{insert_all, pool, shape, vectors};

mod support;

const COUNT: usize = 10;
const WIDTH: usize = 40;
/// How often half of the vectors are replaced, and for how long searches are counted.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let is_small = arguments.is_empty();
    let [base, queries] = vectors(&arguments, [3000, 50])?;
    let threads = arguments.get(2).map_or(Ok(1), |text| text.parse())?;
    let (_folder, pool) = pool(&base)?;
    let (base, new) = base.split_at(base.len() / 2);
    let (space, shape) = (pool.create_space()?, shape(base));
    let index: &dyn VectorIndex = match arguments.get(3).map(String::as_str) {
        None => &HnswIndex::create(space, &HnswOptions::new(shape))?,
        Some("vamana") => {
            let sample = &base[..base.len().min(1000)];
            &VamanaIndex::create(space, &VamanaOptions::new(shape), sample)?
        }
        Some(other) => return Err(format!("there is no index {other}").into()),
    };
    let mut nodes = insert_all(index, base, threads)?;
    let queries: Vec<VectorRef<'_>> = queries.iter().map(VectorRef::from).collect();

    let mut random = fastrand::Rng::with_seed(3);
    let mut labels: Vec<usize> = (0..base.len()).collect();
    for round in 0..=ROUNDS {
        let probe = Probe::new(index, &queries, &Search::new(COUNT, 0), &mut |_| true)?;
        let recall = probe.ok_or("stopped")?.measure(WIDTH)?.recall;
        let bytes = index.size_bytes()?;
        println!("half replaced {round} times: recall {recall:.4}, {bytes} bytes");
        if round == ROUNDS {
            break;
        }
        random.shuffle(&mut labels);
        let half = &labels[..base.len() / 2];
        for label in half {
            index.remove(*label as u64, nodes[*label])?;
        }
        for label in half {
            nodes[*label] = index.insert(*label as u64, (&base[*label]).into())?;
        }
    }

    let time = Duration::from_millis(if is_small { 50 } else { 1500 });
    let mut ratios = Vec::new();
    let mut new = (base.len() as u64..).zip(new);
    for _ in 0..ROUNDS {
        let alone = searches(index, &queries, time)?;
        ratios.push(beside_inserts(index, &mut new, &queries, time)? / alone);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "searches beside inserts, {} of which were left: {:.2} of those alone ({:.2} to {:.2})",
        new.count(),
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1],
    );
    Ok(())
}

/// How many searches a second there are by this thread.
fn searches(
    index: &dyn VectorIndex,
    queries: &[VectorRef<'_>],
    time: Duration,
) -> Result<f64, VectorError> {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < time {
        index.search(queries[count % queries.len()], &Search::new(COUNT, WIDTH))?;
        count += 1;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// The same while another thread inserts vectors, each with its label.
fn beside_inserts<'v>(
    index: &dyn VectorIndex,
    new: &mut (impl Iterator<Item = (u64, &'v Vec<f32>)> + Send),
    queries: &[VectorRef<'_>],
    time: Duration,
) -> Result<f64, VectorError> {
    let is_over = AtomicBool::new(false);
    let (searched, failed) = thread::scope(|scope| {
        let inserting = scope.spawn(|| -> Result<(), VectorError> {
            while !is_over.load(Ordering::Relaxed)
                && let Some((label, vector)) = new.next()
            {
                index.insert(label, vector.into())?;
            }
            Ok(())
        });
        let searched = searches(index, queries, time);
        is_over.store(true, Ordering::Relaxed);
        (searched, inserting.join().unwrap_or(Ok(())))
    });
    failed?;
    searched
}
