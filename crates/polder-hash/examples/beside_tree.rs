//! Lookups of resident keys: a hash index beside a tree, on one pool, in turn.
//!
//! `cargo run --release -p polder-hash --example beside_tree [KEYS [TRANSLATION]]`
//!
//! Prints how many times as fast the index is, as the median of the rounds with the least and the most
//! of them. Times by themselves say little on a machine that others use as well.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use polder_format::{ChecksumSeed, PageSize, StoreId};
use polder_hash::HashIndex;
use polder_pool::device::{FileDevice, OpenKind};
use polder_pool::{Array, Predictive, Swizzle};
use polder_pool::{Pool, PoolConfig, Translation};
use polder_testkit::Random;
use polder_testkit::random::scramble;
use polder_tree::Tree;

const ROUNDS: usize = 15;

/// Bytes of a value; a key has 8.
const VALUE_BYTES: usize = 16;

fn key(number: u64) -> [u8; 8] {
    scramble(number).to_be_bytes()
}

/// How long `lookups` lookups of random keys take.
fn timed(keys: u64, lookups: u64, seed: u64, mut look: impl FnMut(&[u8]) -> u64) -> Duration {
    let mut random = Random::new(seed);
    let begin = Instant::now();
    let sum: u64 = (0..lookups).map(|_| look(&key(random.below(keys)))).sum();
    black_box(sum);
    begin.elapsed()
}

fn compare<T: Translation>(keys: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let page_size = PageSize::MIN;
    // About twice what both need.
    let memory_budget = PoolConfig::least_budget(page_size) + keys * 400;
    let seed = ChecksumSeed::new(StoreId([1; 16]));
    let config = PoolConfig { prefault: true, ..PoolConfig::new(memory_budget, page_size, seed) };
    let device = Box::new(FileDevice::open(folder.path().join("data"), OpenKind::Create)?);
    let kinds = [polder_hash::KINDS.as_slice(), polder_tree::KINDS.as_slice()].concat();
    let pool: Pool<T> = Pool::open(device, &config, &kinds)?;
    let index = HashIndex::create(pool.create_space()?)?;
    let tree = Tree::create(pool.create_space()?)?;
    for number in 0..keys {
        let value = [number as u8; VALUE_BYTES];
        index.insert(&key(number), &value)?;
        tree.insert(&key(number), &value, 1)?;
    }
    let lookups = (keys * 2).clamp(100_000, 1_000_000);
    let first = |value: &[u8]| u64::from(value[0]);
    let in_index = |key: &[u8]| index.get_with(key, first).ok().flatten().unwrap_or(0);
    let in_tree = |key: &[u8]| tree.get_with(key, first).ok().flatten().unwrap_or(0);
    // Both are in the cache as far as they will be.
    timed(keys, lookups, 0, in_index);
    timed(keys, lookups, 0, in_tree);
    let round = |seed: usize| {
        let seed = seed as u64 + 1;
        let by_tree = timed(keys, lookups, seed, in_tree).as_secs_f64();
        by_tree / timed(keys, lookups, seed, in_index).as_secs_f64()
    };
    let mut ratios: Vec<f64> = (0..ROUNDS).map(round).collect();
    ratios.sort_by(f64::total_cmp);
    let (pages, report) = (index.space().pages_in_use()?, index.check(&mut |_| true)?);
    println!(
        "{:>15}: {:.2} times as fast ({:.2} to {:.2}); {pages} pages, {} levels of nodes, the tree {} pages",
        T::NAME,
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1],
        report.levels,
        tree.space().pages_in_use()?
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let keys = arguments.next().map_or(Ok(50_000), |keys| keys.parse())?;
    let wanted = arguments.next();
    println!("lookups of {keys} keys in a hash index, beside a tree");
    macro_rules! each {
        ($($translation:ty),+) => {
            $(if wanted.as_deref().is_none_or(|wanted| wanted == <$translation>::NAME) {
                compare::<$translation>(keys)?;
            })+
        };
    }
    each!(Array, Predictive, Swizzle);
    Ok(())
}
