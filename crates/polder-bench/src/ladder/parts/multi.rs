//! Queries of ten random keys each, by ways of holding pages (scalecache.txt 4.2, figure 7).
//!
//! Timed are ten lookups one after the other, which count as one query. Drives that are not measured
//! go before, until pages lie where they prefer.

use polder_pool::Translation;

use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::{Setup, settle};
use crate::ladder::trees::{Keys, read, resident};

/// Keys of a query.
const KEYS: u64 = 10;
/// Queries between two looks at the clock.
const TURN: u64 = 8;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let keys = Keys::new(setup.scale.records);
    let (pool, tree) = resident::<T>(setup, keys)?;
    let streams = setup.streams();
    let worker = |_| {
        let (tree, mut random) = (tree.clone(), streams.next());
        move || {
            let mut sum = 0u64;
            for _ in 0..TURN * KEYS {
                sum = sum.wrapping_add(read(&tree, keys, random.below(keys.records))?);
            }
            std::hint::black_box(sum);
            Ok(TURN)
        }
    };
    let mut measured = Measured::default();
    settle(&pool, || setup.drive(1, worker).map(|_| ()))?;
    for &threads in setup.threads {
        (setup.tell)(&format!("{threads} threads"));
        let driven = setup.drive(threads, worker)?;
        measured.push_driven("queries", threads as f64, &driven);
    }
    Ok(measured)
}
