//! Which pages lie in the frame that they prefer, how many accesses find theirs there, and what
//! moving pages costs (predictive-translation.txt 6.7 and 6.8, figure 11), under uniform lookups.
//!
//! If pages choose frames by chance, `(1 - e^-x) / x` of them can have their own, `x` being pages
//! by frames: a frame that nobody chose stays free or goes to a page that wanted another one.

use polder_pool::{Pool, Translation};
use polder_tree::Tree;

use crate::dist::Dist;
use crate::error::BenchError;
use crate::ladder::measured::Measured;
use crate::ladder::setup::Setup;
use crate::ladder::trees::{Keys, Stored, reader, resident, way};

/// Data by pool: resident, and out of memory.
const HALF: f64 = 0.5;
const THREE: f64 = 3.0;
/// Lookups of which each access is looked at.
const SAMPLES: u64 = 20_000;
/// Times that a measurement runs before places are counted: a page moves at one access in 32.
const WARM: usize = 3;

pub(crate) fn run<T: Translation>(setup: &Setup<'_>) -> Result<Measured, BenchError> {
    let mut measured = Measured::default();
    // A tenth is enough to see places, and little enough that each page is gone to often.
    let keys = Keys::new((setup.scale.records / 10).max(20_000));
    let (pool, tree) = resident::<T>(setup, keys)?;
    places(setup, &pool, &tree, keys, HALF, &mut measured)?;
    drop((pool, tree));
    let stored = Stored::find(setup, (setup.scale.records / 10).max(100_000))?;
    let (pool, tree) = stored.open::<T>(setup, (stored.bytes as f64 / THREE) as u64)?;
    places(setup, &pool, &tree, Keys::new(stored.records), THREE, &mut measured)?;
    Ok(measured)
}

fn places<T: Translation>(
    setup: &Setup<'_>,
    pool: &Pool<T>,
    tree: &Tree<T>,
    keys: Keys,
    at: f64,
    measured: &mut Measured,
) -> Result<(), BenchError> {
    (setup.tell)(&format!("{at} times the pool"));
    let worker = |thread| reader(setup, tree, keys, Dist::Uniform, keys.records, thread);
    for _ in 0..WARM {
        setup.drive(1, worker)?;
    }
    let before = pool.stats();
    setup.drive(1, worker)?;
    let now = pool.stats();
    let accesses = (now.hits + now.faults).saturating_sub(before.hits + before.faults).max(1);
    let moved = now.moved_bytes - before.moved_bytes;
    measured.push("moved bytes", at, moved as f64 / accesses as f64);

    let space = tree.space();
    let pages = space.used_pages()?;
    let places: Vec<bool> =
        pages.iter().filter_map(|page| space.is_in_preferred_frame(*page)).collect();
    measured.push("pages", at, share(&places));
    let load = now.resident_pages as f64 / now.frames.max(1) as f64;
    measured.push("allowed", at, allowed(load));

    let mut random = setup.random(usize::MAX);
    let mut found = Vec::new();
    for _ in 0..SAMPLES {
        setup.interrupt.check()?;
        let key = keys.key(random.below(keys.records));
        let ways = way(tree, &key, |page| space.is_in_preferred_frame(page))?;
        // Accesses that fault are not asked about, as in the paper.
        found.extend(ways.into_iter().flatten());
    }
    measured.push("accesses", at, share(&found));
    Ok(())
}

fn share(places: &[bool]) -> f64 {
    places.iter().filter(|is_preferred| **is_preferred).count() as f64 / places.len().max(1) as f64
}

/// The share of pages that hashing lets lie where they prefer.
fn allowed(load: f64) -> f64 {
    if load > 0.0 { -(-load).exp_m1() / load } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_full_pools_allow_four_fifths() {
        assert!((allowed(0.5) - 0.787).abs() < 0.001);
        assert!((allowed(1.0) - 0.632).abs() < 0.001);
        assert_eq!(allowed(0.0), 1.0);
        assert_eq!(share(&[true, false, true, true]), 0.75);
        assert_eq!(share(&[]), 0.0);
    }
}
