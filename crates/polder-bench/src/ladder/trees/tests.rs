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
        let among = 1 << 60;
        let drawn = || {
            let drawn = Mutex::new(HashSet::new());
            let driven = setup.drive(2, |_| {
                let mut chooser = Chooser::new(Dist::Uniform, YCSB_THETA, among);
                let mut random = setup.streams.next();
                let (drawn, mut left) = (&drawn, 1000);
                move || {
                    left -= 1;
                    drawn.lock().unwrap().insert(chooser.record(&mut random, among));
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
            let subject = Subject::<Array>::resident(setup, records).unwrap();
            assert_half_full(&subject.pool, &format!("{records} records"));
        }
    });
}

#[test]
fn touching_leaves_none_out() {
    run(|setup| {
        let stored = Stored::find(setup, &[50_000]).unwrap();
        let subject = stored.open::<Array>(setup, 4 * stored.bytes).unwrap();
        subject.touch(stored.records).unwrap();
        let before = subject.pool.stats().faults;
        (0..stored.records).for_each(|record| {
            read(&subject.tree, subject.keys, record).unwrap();
        });
        assert_eq!(subject.pool.stats().faults, before);
    });
}
