//! Keys whose hashes agree, in all bits or in all but the last ones.

use polder_format::PageSize;
use polder_hash::{Effect, HashError, HashIndex};
use polder_pool::{Array, Swizzle, Translation};
use polder_testkit::random::scramble;

use crate::support::*;

const HASH: u64 = 0x1234_5678_9ABC_DEF0;

/// Inserts keys with one hash until they are refused. Gives what went in.
fn fill_chain<T: Translation>(index: &HashIndex<T>, hash: u64, len: usize) -> Model {
    let mut model = Model::new();
    for number in 0.. {
        let (key, value) = (key_with_hash(hash, number), vec![number as u8; len]);
        match index.insert(&key, &value) {
            Ok(applied) => assert_eq!(applied.effect, Effect::Added),
            Err(HashError::Crowded) => return model,
            Err(error) => panic!("{error:?}"),
        }
        model.insert(key, value);
    }
    model
}

/// As many as six pages hold go in, one more is refused, and the room of one that goes is used again.
#[test]
fn keys_with_one_hash_fill_a_chain_and_no_more() {
    fn run<T: Translation>() {
        for (len, least) in [(984, 24), (0, 1000), (100, 190)] {
            let disk = disk();
            let (pool, index) = new_index::<T>(&disk, PageSize::MIN);
            let mut model = fill_chain(&index, HASH, len);
            assert!(model.len() >= least, "{} entries of {len} bytes", model.len());
            // The root is the first of six: no page was split in vain.
            assert_eq!(assert_sound(&index, model.len()), 6);
            assert_content(&index, &model);
            let refused = key_with_hash(HASH, 1 << 32);
            let file_pages = pool.file_state().file_pages;
            for _ in 0..500 {
                assert!(matches!(index.insert(&refused, &[1; 900]), Err(HashError::Crowded)));
            }
            assert_eq!(pool.file_state().file_pages, file_pages, "pages for what is refused");
            assert_eq!(index.get(&refused).unwrap(), None);
            assert_eq!(index.remove(&refused).unwrap().effect, Effect::Same);
            assert_content(&index, &model);

            let some: Vec<_> = model.keys().step_by(3).cloned().collect();
            for key in some {
                assert_eq!(index.remove(&key).unwrap().effect, Effect::Removed);
                model.remove(&key);
            }
            assert_sound(&index, model.len());
            model.insert(refused.clone(), vec![1; len]);
            assert_eq!(index.insert(&refused, &vec![1; len]).unwrap().effect, Effect::Added);
            let (pool, index) = reopen::<T, T>(&disk, pool, index);
            assert_content(&index, &model);
            for key in model.keys() {
                assert_eq!(index.remove(key).unwrap().effect, Effect::Removed);
            }
            assert_eq!(assert_sound(&index, 0), 1);
            drop(pool);
        }
    }
    run::<Array>();
    run::<Swizzle>();
}

/// A value that outgrows its page of the chain moves to another one, and is there once.
#[test]
fn a_value_in_a_chain_takes_every_length() {
    let disk = disk();
    let (_pool, index) = new_index::<Array>(&disk, PageSize::MIN);
    let mut model = Model::new();
    for number in 0..40 {
        let key = key_with_hash(HASH, number);
        index.insert(&key, &[0; 300]).unwrap();
        model.insert(key, vec![0; 300]);
    }
    for round in 0..200u64 {
        let key = key_with_hash(HASH, round * 7 % 40);
        let value = vec![round as u8; scramble(round) as usize % 600];
        assert_eq!(index.insert(&key, &value).unwrap().effect, Effect::Same);
        model.insert(key, value);
        assert_sound(&index, 40);
    }
    assert_content(&index, &model);
}

/// An index that began as a chain is no worse for all others: the chain's bucket is split as they
/// come, and its pages stay as they are.
#[test]
fn an_index_grows_around_its_chains() {
    let disk = disk();
    let (pool, index) = new_index::<Swizzle>(&disk, PageSize::MIN);
    let mut model = fill_chain(&index, HASH, 500);
    let mut chained = model.len();
    for hash in [0, u64::MAX, HASH ^ 1, HASH ^ 1 << 63] {
        let more = fill_chain(&index, hash, 500);
        chained += more.len();
        model.extend(more);
    }
    let before = assert_sound(&index, chained);
    // Five chains of six pages. HASH and HASH ^ 1 part in their last bit alone: that takes a bucket
    // for each bit, and on each level of nodes one for each bit that the levels above do not tell.
    assert!(before < 5 * 6 + 64 + (55 + 46 + 37 + 28 + 19 + 10 + 1) + 20, "{before} pages");
    for number in 0..20_000u64 {
        let key = scramble(number).to_le_bytes().to_vec();
        index.insert(&key, &[7; 30]).unwrap();
        model.insert(key, vec![7; 30]);
    }
    let pages = assert_sound(&index, model.len());
    assert!(pages < before + 2 * 20_000 * 46 / 4032, "{pages} pages");
    assert_content(&index, &model);
    let (_pool, index) = reopen::<_, Array>(&disk, pool, index);
    assert_content(&index, &model);
    for key in model.keys() {
        index.remove(key).unwrap();
    }
    assert_eq!(assert_sound(&index, 0), 1);
}

/// Hashes that differ in few of their bits: splits go as deep as it takes, and all of it goes again.
#[test]
fn hashes_that_differ_in_few_bits() {
    for shift in [0, 1, 8, 9, 10, 30, 48, 53] {
        let disk = disk();
        let (_pool, index) = new_index::<Array>(&disk, PageSize::MIN);
        let mut model = Model::new();
        for number in 0..2000u64 {
            let key = key_with_hash(HASH ^ number << shift, number);
            index.insert(&key, &[number as u8; 60]).unwrap();
            model.insert(key, vec![number as u8; 60]);
        }
        let pages = assert_sound(&index, 2000);
        assert!(pages < 300, "{pages} pages, shift {shift}");
        assert_content(&index, &model);
        for key in model.keys() {
            assert_eq!(index.remove(key).unwrap().effect, Effect::Removed);
        }
        assert_eq!(assert_sound(&index, 0), 1, "shift {shift}");
    }
}

/// A full bucket gets a new page for a split, and then it turns out that no split helps.
#[test]
fn pages_that_were_made_in_vain_are_free_again() {
    let disk = disk();
    let (pool, index) = new_index::<Array>(&disk, PageSize::MIN);
    let round = || {
        for number in 0..5 {
            index.insert(&key_with_hash(HASH, number), &[1; 984]).unwrap();
        }
        assert_eq!(assert_sound(&index, 5), 2);
        for number in 0..5 {
            index.remove(&key_with_hash(HASH, number)).unwrap();
        }
    };
    round();
    let file_pages = pool.file_state().file_pages;
    (0..200).for_each(|_| round());
    assert_eq!(pool.file_state().file_pages, file_pages);
}
