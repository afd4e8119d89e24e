//! Point lookups in a tree that is all resident: uniform (predictive-translation.txt 6.1, 6.4) and
//! zipfian (YCSB-C), and how long chains are (predictive-translation.txt 6.6). calico.txt 3.2,
//! table 3, has YCSB-C and does not say with which distribution.
//!
//! Timed is [`Tree::get_with`](polder_tree::Tree::get_with), from key to one word of the value.

use polder_pool::{Pool, Translation};

use crate::dist::Dist;
use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::{Setup, in_place, settle};
use crate::ladder::trees::{Keys, reader, resident};

/// Chains this long and longer are counted together.
const LONGEST: usize = 4;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let keys = Keys::new(setup.scale.records);
    let (pool, tree) = resident::<T>(setup, keys)?;
    let streams = setup.streams();
    let mut measured = Measured::default();
    // The word of each value that is read has a line for itself.
    measured.push_touched(keys.records);
    for (metric, dist) in [("uniform", Dist::Uniform), ("zipfian", Dist::Zipfian)] {
        (setup.tell)(metric);
        let worker = |_| reader(&streams, &tree, keys, dist, keys.records);
        settle(&pool, || setup.drive(1, worker).map(|_| ()))?;
        if let Some(share) = in_place(tree.space())? {
            measured.push(format!("{metric}: in place"), 0.0, share);
        }
        for &threads in setup.threads {
            let driven = setup.drive(threads, worker)?;
            measured.push_driven(metric, threads as f64, &driven);
        }
    }
    chains(&pool, &mut measured);
    Ok(measured)
}

/// Which share of the chains that are not empty has which length.
pub(super) fn chains<T: Translation>(pool: &Pool<T>, measured: &mut Measured) {
    let Some(lengths) = pool.chain_lengths() else { return };
    let all: u64 = lengths.iter().skip(1).sum();
    let mut shares = [0; LONGEST];
    for (length, count) in lengths.iter().enumerate().skip(1) {
        shares[length.min(LONGEST) - 1] += count;
    }
    for (i, count) in shares.into_iter().enumerate() {
        measured.push("chains", i as f64 + 1.0, count as f64 / all.max(1) as f64);
    }
}
