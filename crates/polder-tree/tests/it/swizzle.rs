//! Trees whose links hold frames.

use polder_format::PageSize;
use polder_pool::replacement::ReplacementKind;
use polder_pool::{Array, ArraySwizzled, Pool, PoolConfig, Swizzle, Translation};
use polder_testkit::Random;
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::random::scramble;
use polder_tree::{Effect, KINDS, Tree};

use crate::support::*;

/// All of it in memory: after one look at each leaf no lookup asks a table, splits and merges or not.
#[test]
fn a_resident_tree_is_followed_by_its_links() {
    fn run<T: Translation>() {
        let disk = disk();
        let config = PoolConfig { memory_budget: 64 << 20, ..least(PageSize::MIN) };
        let pool = Pool::<T>::open(Box::new(disk), &config, &KINDS).unwrap();
        let tree = Tree::create(pool.create_space().unwrap()).unwrap();
        let key = |i: u64| scramble(i).to_be_bytes();
        let look = |keys: std::ops::Range<u64>| {
            for i in keys {
                assert!(tree.contains_key(&key(i)).unwrap());
            }
        };
        for i in 0..20_000 {
            tree.insert(&key(i), &[7; 40], 1).unwrap();
        }
        look(0..20_000);
        let warm = pool.stats();
        look(0..20_000);
        assert_eq!(pool.stats().pages_by_table, warm.pages_by_table);
        // Nodes split and merge: a link that moved to another page is unswizzled, once.
        for i in 20_000..40_000 {
            tree.insert(&key(i), &[7; 40], 1).unwrap();
        }
        for i in 0..30_000 {
            assert_eq!(tree.remove(&key(i)).unwrap().effect, Effect::Removed);
        }
        look(30_000..40_000);
        let by_table = pool.stats().pages_by_table;
        look(30_000..40_000);
        assert_eq!(pool.stats().pages_by_table, by_table);
        assert_sound(&tree, 10_000);
    }
    run::<Swizzle>();
    if EVERY_TRANSLATION {
        run::<ArraySwizzled>();
    }
}

fn least(size: PageSize) -> PoolConfig {
    PoolConfig::new(
        PoolConfig::least_budget(size),
        size,
        polder_format::ChecksumSeed::new(polder_format::StoreId([1; 16])),
    )
}

/// On the least memory, where pages go before those above them whatever the policy names, the file
/// is as if no link had ever held a frame.
#[test]
fn each_policy_takes_pages_that_no_link_holds() {
    fn run<T: Translation>(replacement: ReplacementKind, size: PageSize) {
        let disk = disk();
        let config = PoolConfig { replacement, ..least(size) };
        let pool = Pool::<T>::open(Box::new(disk.clone()), &config, &KINDS).unwrap();
        let tree = Tree::create(pool.create_space().unwrap()).unwrap();
        let mut random = Random::new(5);
        let mut there = std::collections::BTreeMap::new();
        for write in 0..30_000 * scale() {
            let key = random.below(20_000).to_be_bytes();
            match random.below(8) {
                0 => {
                    let removed = tree.remove(&key).unwrap().effect == Effect::Removed;
                    assert_eq!(removed, there.remove(&key).is_some());
                }
                1 | 2 => assert_eq!(
                    tree.get(&key).unwrap(),
                    there.get(&key).map(|(write, len)| value(*write, *len)),
                    "{replacement}"
                ),
                _ => {
                    let len = random.index(size.bytes() / 12);
                    tree.insert(&key, &value(write, len), write).unwrap();
                    there.insert(key, (write, len));
                }
            }
        }
        let stats = pool.stats();
        assert!(stats.evictions > 1000, "{replacement}: {} evictions", stats.evictions);
        assert_sound(&tree, there.len() as u64);
        let (_pool, tree) = reopen_with::<T, Array>(&disk, pool, tree);
        assert_sound(&tree, there.len() as u64);
        for (key, (write, len)) in &there {
            assert_eq!(tree.get(key).unwrap(), Some(value(*write, *len)));
        }
    }
    for kind in ReplacementKind::ALL.iter().copied() {
        run::<Swizzle>(kind, PageSize::MIN);
    }
    run::<Swizzle>(ReplacementKind::default(), pages_of(16384));
    if EVERY_TRANSLATION {
        run::<ArraySwizzled>(ReplacementKind::default(), PageSize::MIN);
    }
}

fn value(write: u64, len: usize) -> Vec<u8> {
    let mut value = vec![0; len];
    Random::new(write).fill(&mut value);
    value
}

/// Flushes, and opens the file with a pool of another translation.
fn reopen_with<T: Translation, U: Translation>(
    disk: &polder_testkit::SimDisk,
    old: Pool<T>,
    tree: Tree<T>,
) -> (Pool<U>, Tree<U>) {
    old.flush().unwrap();
    let config = PoolConfig { file: old.file_state(), ..least(old.page_size()) };
    drop((old, tree));
    let pool = Pool::<U>::open(Box::new(disk.clone()), &config, &KINDS).unwrap();
    let tree = Tree::open(pool.open_space(SPACE).unwrap());
    (pool, tree)
}
