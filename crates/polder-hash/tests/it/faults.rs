//! A device that fails, fills up or is slow: errors say what is the matter, what was acknowledged stays,
//! and what was refused has not happened.

use std::time::Duration;

use polder_format::PageSize;
use polder_hash::{Effect, HashError, HashIndex};
use polder_pool::{Array, FileState, PoolError, Swizzle, Translation};
use polder_testkit::random::scramble;
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};

use crate::support::*;

fn key(number: u64) -> Vec<u8> {
    match number % 8 {
        0 => key_with_hash(number % 3, number),
        _ => scramble(number).to_le_bytes().to_vec(),
    }
}

/// An index several times as large as the pool, and what is in it.
fn prepared() -> (Vec<u8>, FileState, Model) {
    let disk = disk();
    let (pool, index) = new_index::<Array>(&disk, PageSize::MIN);
    let (mut model, mut random) = (Model::new(), Random::new(5));
    for number in 0..5000 {
        let value = vec![number as u8; random.index(500)];
        if index.insert(&key(number), &value).is_ok() {
            model.insert(key(number), value);
        }
    }
    pool.flush().unwrap();
    (disk.image(), pool.file_state(), model)
}

/// Runs operations under a plan. What fails must have had no effect; then the device is well again, and
/// all must be there. Gives how many failed.
fn survive<T: Translation>(
    (image, file, model): &(Vec<u8>, FileState, Model),
    plan: FaultPlan,
    ops: usize,
    seed: u64,
) -> u64 {
    let mut model = model.clone();
    let disk = SimDisk::from_image(image, FaultPlan::new(1));
    let pool = open_pool::<T>(&disk, &config::<T>(PageSize::MIN, *file));
    let index = HashIndex::open(pool.open_space(SPACE).unwrap());
    disk.set_plan(plan.clone());
    let (mut random, mut failed) = (Random::new(seed), 0);
    for _ in 0..ops {
        let key = key(random.below(6000));
        let error = match random.below(10) {
            0..3 => index
                .get(&key)
                .map(|found| assert_eq!(found.as_ref(), model.get(&key), "{plan:?}"))
                .err(),
            3..7 => index
                .remove(&key)
                .map(|applied| {
                    let was_there = model.remove(&key).is_some();
                    assert_eq!(applied.effect == Effect::Removed, was_there, "{plan:?}");
                })
                .err(),
            _ => {
                let value = vec![seed as u8; random.index(900)];
                index
                    .insert(&key, &value)
                    .map(|applied| {
                        let new = model.insert(key, value).is_none();
                        assert_eq!(applied.effect == Effect::Added, new, "{plan:?}");
                    })
                    .err()
            }
        };
        if let Some(error) = error.filter(|error| !matches!(error, HashError::Crowded)) {
            failed += 1;
            assert!(is_of_device(&error), "{plan:?}: {error:?}");
        }
    }
    disk.set_plan(FaultPlan::new(1));
    let report = index.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, [], "{plan:?}");
    let (_pool, index) = reopen::<T, Array>(&disk, pool, index);
    assert_sound(&index, model.len());
    assert_content(&index, &model);
    failed
}

fn is_of_device(error: &HashError) -> bool {
    matches!(error, HashError::Pool(error) if polder_testkit::pools::is_of_device(error))
}

#[test]
fn each_read_may_fail_once() {
    let prepared = prepared();
    let mut failed = 0;
    for n in 0..60 * scale() {
        let plan = FaultPlan::new(n).fail(Operation::Read, When::Nth(n), Errno::IO);
        failed += survive::<Swizzle>(&prepared, plan, 60, n % 9);
    }
    assert!(failed > 40, "{failed} operations met a failing read");
}

#[test]
fn each_write_may_fail_once() {
    let prepared = prepared();
    for n in 0..30 * scale() {
        let plan = FaultPlan::new(n).fail(Operation::Write, When::Nth(n * 2), Errno::IO);
        survive::<Swizzle>(&prepared, plan, 200, n % 9);
    }
}

#[test]
fn a_share_of_all_requests_fails() {
    let prepared = prepared();
    for seed in 0..10 * scale() {
        let plan = FaultPlan::new(seed).fail(Operation::Read, When::Share(0.15), Errno::IO).fail(
            Operation::Write,
            When::Share(0.15),
            Errno::IO,
        );
        assert!(survive::<Array>(&prepared, plan.clone(), 300, seed) > 0);
        assert!(survive::<Swizzle>(&prepared, plan, 300, seed) > 0);
    }
}

#[test]
fn no_read_works_any_more() {
    let prepared = prepared();
    for n in [0, 1, 7, 40] {
        let plan = FaultPlan::new(n).fail(Operation::Read, When::From(n), Errno::IO);
        assert!(survive::<Array>(&prepared, plan, 150, n) > 10);
    }
}

#[test]
fn a_slow_device_changes_nothing() {
    let prepared = prepared();
    let plan = FaultPlan::new(3).delay(0.3, Duration::from_micros(200));
    assert_eq!(survive::<Swizzle>(&prepared, plan, 400, 3), 0);
}

/// Inserts fail on a full disk, and nothing else does; what is removed makes room, and so does a larger
/// disk.
#[test]
fn a_full_disk_refuses_inserts_and_nothing_else() {
    for kilobytes in [500, 900, 1501] {
        let disk = SimDisk::new(FaultPlan::new(3).capacity(kilobytes << 10));
        let (pool, index) = new_index::<Swizzle>(&disk, PageSize::MIN);
        let (mut model, mut random, mut refused) = (Model::new(), Random::new(1), 0);
        for _ in 0..9000 {
            let key = key(random.below(30_000));
            let value = vec![4; random.index(500)];
            match index.insert(&key, &value) {
                Ok(_) => drop(model.insert(key, value)),
                Err(HashError::Crowded) => {}
                Err(HashError::Pool(PoolError::Full { .. })) => {
                    assert_eq!(index.get(&key).unwrap().as_ref(), model.get(&key));
                    refused += 1;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!(refused > 100, "{refused}");
        assert_sound(&index, model.len());
        let (pool, index) = reopen::<_, Swizzle>(&disk, pool, index);
        assert_content(&index, &model);
        let gone: Vec<_> = model.keys().step_by(2).cloned().collect();
        for key in gone {
            assert_eq!(index.remove(&key).unwrap().effect, Effect::Removed);
            model.remove(&key);
        }
        disk.set_plan(FaultPlan::new(4));
        for number in 50_000..53_000u64 {
            let key = number.to_le_bytes().to_vec();
            index.insert(&key, &[6; 300]).unwrap();
            model.insert(key, vec![6; 300]);
        }
        let (_pool, index) = reopen::<_, Array>(&disk, pool, index);
        assert_sound(&index, model.len());
        assert_content(&index, &model);
    }
}
