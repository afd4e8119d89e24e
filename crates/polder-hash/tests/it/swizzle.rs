//! Indexes whose links hold frames.

use polder_format::PageSize;
use polder_hash::{Effect, HashIndex};
use polder_pool::replacement::ReplacementKind;
use polder_pool::{Array, ArraySwizzled, FileState, PoolConfig, Swizzle, Translation};
use polder_testkit::Random;
use polder_testkit::effort::EVERY_TRANSLATION;
use polder_testkit::random::scramble;

use crate::support::*;

fn key(number: u64) -> [u8; 8] {
    scramble(number).to_le_bytes()
}

/// All of it in memory: after one look at each bucket no lookup asks a table, whichever of its slots leads
/// there, and however often the directory has been split and joined.
#[test]
fn a_resident_index_is_followed_by_its_links() {
    fn run<T: Translation>() {
        let disk = disk();
        let config =
            PoolConfig { memory_budget: 64 << 20, ..config::<T>(PageSize::MIN, FileState::NEW) };
        let pool = open_pool::<T>(&disk, &config);
        let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
        let look = |keys: std::ops::Range<u64>| {
            for number in keys {
                assert!(index.contains_key(&key(number)).unwrap());
            }
        };
        for number in 0..30_000 {
            index.insert(&key(number), &[7; 40]).unwrap();
        }
        assert_eq!(index.check(&mut |_| true).unwrap().levels, 2);
        look(0..30_000);
        let warm = pool.stats().pages_by_table;
        look(0..30_000);
        assert_eq!(pool.stats().pages_by_table, warm);
        // Pages split and join: a link that moved to another page is unswizzled, once.
        for number in 30_000..60_000 {
            index.insert(&key(number), &[7; 40]).unwrap();
        }
        for number in 0..50_000 {
            assert_eq!(index.remove(&key(number)).unwrap().effect, Effect::Removed);
        }
        look(50_000..60_000);
        let warm = pool.stats().pages_by_table;
        look(50_000..60_000);
        assert_eq!(pool.stats().pages_by_table, warm);
        assert_sound(&index, 10_000);
    }
    run::<Swizzle>();
    if EVERY_TRANSLATION {
        run::<ArraySwizzled>();
    }
}

/// So is a chain, whose links own as well.
#[test]
fn a_chain_is_followed_by_its_links() {
    let disk = disk();
    let (pool, index) = new_index::<Swizzle>(&disk, PageSize::MIN);
    for number in 0..500 {
        index.insert(&key_with_hash(9, number), &[1; 8]).unwrap();
    }
    assert!(assert_sound(&index, 500) > 3);
    let look = || {
        for number in 0..500 {
            assert!(index.contains_key(&key_with_hash(9, number)).unwrap());
        }
    };
    look();
    let warm = pool.stats().pages_by_table;
    look();
    assert_eq!(pool.stats().pages_by_table, warm);
}

/// A chain's link is unswizzled where its bucket's content moves to another page: from a root that
/// is split, and to one that takes its only child in.
#[test]
fn a_chain_moves_with_plain_links() {
    let disk = disk();
    let config =
        PoolConfig { memory_budget: 64 << 20, ..config::<Swizzle>(PageSize::MIN, FileState::NEW) };
    let pool = open_pool::<Swizzle>(&disk, &config);
    let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
    let look = |hash: u64| {
        for number in 0..500 {
            assert!(index.contains_key(&key_with_hash(hash, number)).unwrap());
        }
    };
    for hash in [9, u64::MAX] {
        for number in 0..500 {
            index.insert(&key_with_hash(hash, number), &[1; 8]).unwrap();
        }
        look(hash);
        let levels = |index: &HashIndex<Swizzle>| index.check(&mut |_| true).unwrap().levels;
        let pages = assert_sound(&index, 500);
        assert_eq!(levels(&index), 0);
        index.insert(&key_with_hash(!hash, 0), b"").unwrap();
        assert_eq!((levels(&index), assert_sound(&index, 501)), (1, pages + 2));
        look(hash);
        assert_sound(&index, 501);
        // The chain goes all but one page, which is no chain: then the root has a single child.
        index.remove(&key_with_hash(!hash, 0)).unwrap();
        for number in 0..500 {
            index.remove(&key_with_hash(hash, number)).unwrap();
        }
        assert_eq!(assert_sound(&index, 0), 1);
    }
}

/// On the least memory, where pages go before those above them whatever the policy names, the file is
/// as if no link had ever held a frame.
#[test]
fn each_policy_takes_pages_that_no_link_holds() {
    fn run<T: Translation>(replacement: ReplacementKind) {
        let disk = disk();
        let config = PoolConfig { replacement, ..config::<T>(PageSize::MIN, FileState::NEW) };
        let pool = open_pool::<T>(&disk, &config);
        let index = HashIndex::create(pool.create_space().unwrap()).unwrap();
        let (mut random, mut model) = (Random::new(5), Model::new());
        for write in 0..30_000 * scale() {
            let key = key(random.below(12_000)).to_vec();
            match random.below(8) {
                0 => {
                    let removed = index.remove(&key).unwrap().effect == Effect::Removed;
                    assert_eq!(removed, model.remove(&key).is_some());
                }
                1 | 2 => assert_eq!(index.get(&key).unwrap().as_ref(), model.get(&key)),
                _ => {
                    let value = vec![write as u8; random.index(300)];
                    index.insert(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        let stats = pool.stats();
        assert!(stats.evictions > 1000, "{replacement}: {} evictions", stats.evictions);
        assert_sound(&index, model.len());
        let (_pool, index) = reopen::<T, Array>(&disk, pool, index);
        assert_sound(&index, model.len());
        assert_content(&index, &model);
    }
    for kind in ReplacementKind::ALL.iter().copied() {
        run::<Swizzle>(kind);
    }
    if EVERY_TRANSLATION {
        run::<ArraySwizzled>(ReplacementKind::default());
    }
}
