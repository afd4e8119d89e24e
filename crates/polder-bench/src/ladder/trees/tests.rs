use std::collections::HashSet;
use std::sync::Mutex;

use super::super::setup::testing::{assert_half_full, run};
use super::*;

#[test]
fn keys_ascend_also_behind_the_last_record() {
    for records in [1, 2, 1000, 50_000_000] {
        let keys = Keys::new(records);
        let first = (0..1000.min(2 * records - 1)).collect::<Vec<_>>();
        let last = (2 * records - 1).saturating_sub(1000)..2 * records - 1;
        for record in first.into_iter().chain(last) {
            assert!(keys.key(record) < keys.key(record + 1), "{record} of {records}");
        }
    }
}

#[test]
fn no_drive_asks_again_for_what_one_before_asked_for() {
    run(|setup| {
        let streams = setup.streams();
        let among = 1 << 60;
        let drawn = || {
            let drawn = Mutex::new(HashSet::new());
            let driven = setup.drive(2, |_| {
                let chooser = Chooser::new(Dist::Uniform, YCSB_THETA, among);
                let mut asked = asked(chooser, among, streams.next());
                let (drawn, mut left) = (&drawn, 1000);
                move || {
                    left -= 1;
                    drawn.lock().unwrap().insert(asked());
                    Ok(left)
                }
            });
            driven.unwrap();
            drawn.into_inner().unwrap()
        };
        let (first, second) = (drawn(), drawn());
        assert!(first.len() > 100 && second.len() > 100);
        assert!(first.is_disjoint(&second));
    });
}

#[test]
fn resident_trees_fill_half_of_their_pool() {
    run(|setup| {
        for records in [setup.scale.records, 500_000] {
            let (pool, _tree) = resident::<Array>(setup, Keys::new(records)).unwrap();
            assert_half_full(&pool, &format!("{records} records"));
        }
    });
}

#[test]
fn touching_leaves_none_out() {
    run(|setup| {
        let stored = Stored::find(setup, 50_000).unwrap();
        let (pool, tree) = stored.open::<Array>(setup, 4 * stored.bytes).unwrap();
        touch(setup, &tree, Keys::new(stored.records), 0..stored.records).unwrap();
        let before = pool.stats().faults;
        (0..stored.records).for_each(|record| {
            read(&tree, Keys::new(stored.records), record).unwrap();
        });
        assert_eq!(pool.stats().faults, before);
    });
}

#[test]
fn inner_nodes_are_counted() {
    run(|setup| {
        let stored = Stored::find(setup, 200_000).unwrap();
        let (_pool, tree) = stored.open::<Array>(setup, 4 * stored.bytes).unwrap();
        let keys = Keys::new(stored.records);
        let inner: HashSet<PageNo> = (0..stored.records)
            .step_by(STRIDE as usize)
            .flat_map(|record| {
                let mut pages = path_to_leaf(&tree, &keys.key(record), |page| page).unwrap();
                pages.pop();
                pages
            })
            .collect();
        assert!(inner.len() > 10);
        assert_eq!(inner.len() as u64, stored.inner_nodes);
    });
}
