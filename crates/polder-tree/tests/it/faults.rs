//! A device that fails, fills up or is slow: errors say what is the matter, what was acknowledged
//! stays, and what was refused has not happened.

use polder_format::PageSize;
use polder_pool::{Array, FileState, PoolError};
use polder_testkit::{
    Answer, Errno, FaultPlan, KeyShape, Mix, Model, Op, Operation, SimDisk, ValueShape, When,
    Workload,
};
use polder_tree::TreeError;

use crate::support::*;

/// A tree several times as large as the pool, and what is in it.
fn prepared() -> (Vec<u8>, FileState, Model) {
    let disk = disk();
    let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    let mut model = Model::default();
    let keys = KeyShape::Mixed { key_bytes_max: 100 };
    let values = ValueShape::Pages { page_bytes: 4096 };
    let workload = Workload::new(5).keys(keys, 3000).values(values).mix(Mix::GROWING);
    let mut subject = Subject { tree: &tree, version: 0 };
    for op in workload.filter(|op| matches!(op, Op::Insert { .. })).take(2500) {
        model.apply(&op);
        op.apply(&mut subject).unwrap();
    }
    pool.flush().unwrap();
    (disk.image(), pool.file_state(), model)
}

fn workload(seed: u64) -> impl Iterator<Item = Op> {
    let keys = KeyShape::Mixed { key_bytes_max: 100 };
    let mix = Mix { insert: 30, remove: 35, get: 20, update: 15, range: 6, ends: 2, count: 0 };
    Workload::new(seed).keys(keys, 3000).values(ValueShape::Pages { page_bytes: 4096 }).mix(mix)
}

/// Runs operations under a plan. What fails must have had no effect; then the device is well again,
/// and all must be there. Gives how many failed.
fn survive(prepared: &(Vec<u8>, FileState, Model), plan: FaultPlan, ops: usize, seed: u64) -> u64 {
    let (image, file, mut model) = prepared.clone();
    let disk = SimDisk::from_image(&image, FaultPlan::new(1));
    let pool = pool::<Array>(&disk, PageSize::MIN, file);
    let tree = polder_tree::Tree::open(pool.open_space(SPACE).unwrap());
    disk.set_plan(plan.clone());
    let mut subject = Subject { tree: &tree, version: 1 << 40 };
    let mut failed = 0;
    for op in workload(seed).take(ops) {
        match op.apply(&mut subject) {
            Ok(answer) => assert_eq!(answer, model.apply(&op), "{op}, {plan:?}"),
            Err(error) => {
                failed += 1;
                assert!(is_of_device(&error), "{op}, {plan:?}: {error:?}");
            }
        }
    }
    disk.set_plan(FaultPlan::new(1));
    for key in model.entries.clone().keys().step_by(7) {
        let op = Op::Get { key: key.clone() };
        assert_eq!(op.apply(&mut subject).unwrap(), model.apply(&op), "{op}, {plan:?}");
    }
    let report = tree.check(&mut |_| true).unwrap();
    assert_eq!(report.faults, [], "{plan:?}");
    let (_pool, tree) = reopen(&disk, pool, tree);
    assert_sound(&tree, model.entries.len() as u64);
    assert_content(&tree, &model);
    failed
}

fn is_of_device(error: &TreeError) -> bool {
    matches!(error, TreeError::Pool(error) if polder_testkit::pools::is_of_device(error))
}

#[test]
fn each_read_may_fail_once() {
    let prepared = prepared();
    let mut failed = 0;
    // One in a batch that reads ahead is not met by the operation: it reads the page again.
    for n in 0..130 * scale() {
        let plan = FaultPlan::new(n).fail(Operation::Read, When::Nth(n), Errno::IO);
        failed += survive(&prepared, plan, 90, n % 9);
    }
    assert!(failed > 60, "{failed} operations met a failing read");
}

#[test]
fn each_write_may_fail_once() {
    let prepared = prepared();
    for n in 0..40 * scale() {
        let plan = FaultPlan::new(n).fail(Operation::Write, When::Nth(n * 2), Errno::IO);
        survive(&prepared, plan, 200, n % 9);
    }
}

#[test]
fn a_share_of_all_requests_fails() {
    let prepared = prepared();
    for seed in 0..12 * scale() {
        let plan = FaultPlan::new(seed).fail(Operation::Read, When::Share(0.15), Errno::IO).fail(
            Operation::Write,
            When::Share(0.15),
            Errno::IO,
        );
        assert!(survive(&prepared, plan, 300, seed) > 0);
    }
}

#[test]
fn no_read_works_any_more() {
    let prepared = prepared();
    for n in [0, 1, 7, 40] {
        let plan = FaultPlan::new(n).fail(Operation::Read, When::From(n), Errno::IO);
        assert!(survive(&prepared, plan, 150, n) > 10);
    }
}

#[test]
fn allocation_may_fail() {
    let prepared = prepared();
    for n in 0..6 {
        for errno in [Errno::NO_SPACE, Errno::IO] {
            let plan = FaultPlan::new(n).fail(Operation::Allocate, When::From(n), errno);
            survive(&prepared, plan, 400, n);
        }
    }
}

#[test]
fn a_failed_flush_is_told_and_can_be_done_again() {
    let disk = disk();
    let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    for i in 0..300u64 {
        tree.insert(&i.to_be_bytes(), &[1; 200], i).unwrap();
    }
    disk.set_plan(FaultPlan::new(1).fail(Operation::Write, When::From(0), Errno::IO));
    assert!(matches!(pool.flush(), Err(PoolError::Write { .. })));
    disk.set_plan(FaultPlan::new(1).fail(Operation::Sync, When::Nth(0), Errno::IO));
    assert!(matches!(pool.flush(), Err(PoolError::Device { .. })));
    disk.set_plan(FaultPlan::new(1));
    let (_pool, tree) = reopen(&disk, pool, tree);
    assert_sound(&tree, 300);
}

/// Writing fails for good: what does not fit is refused with an error that says so, and all is well
/// when the device is.
#[test]
fn no_write_works_for_a_while() {
    let disk = disk();
    let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
    disk.set_plan(FaultPlan::new(1).fail(Operation::Write, When::From(0), Errno::IO));
    let mut there = 0u64;
    let error = loop {
        match tree.insert(&there.to_be_bytes(), &[1; 900], there) {
            Ok(_) => there += 1,
            Err(error) => break error,
        }
    };
    assert!(is_of_device(&error), "{error:?}");
    assert!(error.to_string().contains("the last write failed"), "{error}");
    disk.set_plan(FaultPlan::new(1));
    tree.insert(&there.to_be_bytes(), &[1; 900], there).unwrap();
    assert_sound(&tree, there + 1);
    let (_pool, tree) = reopen(&disk, pool, tree);
    assert_sound(&tree, there + 1);
}

#[test]
fn a_full_disk_refuses_inserts_and_nothing_else() {
    for kilobytes in [500, 700, 1500, 3001] {
        let plan = FaultPlan::new(3).capacity(kilobytes << 10);
        let disk = SimDisk::new(plan);
        let (pool, tree) = new_tree::<Array>(&disk, PageSize::MIN);
        let mut model = Model::default();
        let mut refused = 0;
        let keys = KeyShape::Mixed { key_bytes_max: 100 };
        let ops = Workload::new(1)
            .keys(keys, 100_000)
            .values(ValueShape::Pages { page_bytes: 4096 })
            .mix(Mix::GROWING);
        let mut subject = Subject { tree: &tree, version: 0 };
        for op in ops.take(6000) {
            match op.apply(&mut subject) {
                Ok(answer) => assert_eq!(answer, model.apply(&op)),
                Err(TreeError::Pool(PoolError::Full { .. })) => {
                    assert!(matches!(op, Op::Insert { .. } | Op::Update { .. }), "{op}");
                    refused += 1;
                }
                Err(error) => panic!("{op}: {error:?}"),
            }
        }
        assert!(refused > 100, "{refused}");
        assert_sound(&tree, model.entries.len() as u64);
        let (pool, tree) = reopen(&disk, pool, tree);
        assert_content(&tree, &model);
        // What is removed makes room.
        let mut subject = Subject { tree: &tree, version: 1 << 40 };
        for key in model.entries.clone().keys().step_by(2) {
            let op = Op::Remove { key: key.clone() };
            assert_eq!(op.apply(&mut subject).unwrap(), Answer::WasThere(true));
            model.apply(&op);
        }
        for i in 0..20u64 {
            let op = Op::Insert { key: i.to_be_bytes().to_vec(), value: vec![5; 300] };
            assert_eq!(op.apply(&mut subject).unwrap(), model.apply(&op));
        }
        // And so does a larger disk.
        disk.set_plan(FaultPlan::new(4));
        for i in 0..2000u64 {
            let op = Op::Insert { key: i.to_be_bytes().to_vec(), value: vec![6; 500] };
            assert_eq!(op.apply(&mut subject).unwrap(), model.apply(&op));
        }
        let (_pool, tree) = reopen(&disk, pool, tree);
        assert_sound(&tree, model.entries.len() as u64);
        assert_content(&tree, &model);
    }
}

/// A cursor that meets an error stays where it is, and goes on when the device is well again.
#[test]
fn a_cursor_survives_errors() {
    let prepared = prepared();
    let (image, file, model) = prepared;
    for seed in 0..4 {
        let disk = SimDisk::from_image(&image, FaultPlan::new(1));
        let pool = pool::<Array>(&disk, PageSize::MIN, file);
        let tree = polder_tree::Tree::open(pool.open_space(SPACE).unwrap());
        for forward in [true, false] {
            let mut cursor =
                if forward { tree.cursor_first().unwrap() } else { tree.cursor_last().unwrap() };
            let plan = FaultPlan::new(seed).fail(Operation::Read, When::Share(0.3), Errno::IO);
            disk.set_plan(plan);
            let mut failed = 0;
            let mut expected: Vec<_> = model.entries.iter().collect();
            if !forward {
                expected.reverse();
            }
            let mut expected = expected.into_iter();
            loop {
                let entry = if forward { cursor.next() } else { cursor.previous() };
                match entry {
                    Ok(Some((key, value))) => {
                        assert_eq!(expected.next(), Some((&key.to_vec(), &value.to_vec())));
                    }
                    Ok(None) => break,
                    Err(error) => {
                        assert!(is_of_device(&error), "{error:?}");
                        failed += 1;
                    }
                }
            }
            assert_eq!(expected.next(), None);
            assert!(failed > 20, "{failed}");
            disk.set_plan(FaultPlan::new(1));
        }
    }
}
