use polder::Durability;

use super::*;
use crate::bench::Bench;
use crate::conditions::Conditions;
use crate::engine::{Named, built_in};
use crate::plan::Plan;
use crate::records;

/// What tests of a small store say.
fn conditions() -> Conditions {
    Conditions { pool_bytes: 64 << 20, records: 100, value_size: 100, ..Plan::usual().conditions }
}

/// The budget pays for what a policy and a read mode take of memory.
#[test]
fn policy_and_hold_come_to_the_store() {
    let frames = |name: &str| {
        let dir = tempfile::tempdir().unwrap();
        let named = Named::find(&built_in(), name).unwrap();
        let conditions = conditions();
        let setup =
            Setup { named: &named, dir: dir.path(), bench: Bench::Load, conditions: &conditions };
        Polder::create(&setup).unwrap().store.stats().pool.frames
    };
    let plain = frames("polder:array+clock");
    assert!(frames("polder:array+2q") < plain);
    assert!(frames("polder:array+clock+core") < plain);
}

#[test]
fn a_batch_is_stored_and_the_last_of_a_key_stays() {
    let dir = tempfile::tempdir().unwrap();
    for kind in kinds() {
        let (named, conditions) = (Named::find(&[kind], kind.name).unwrap(), conditions());
        let setup =
            Setup { named: &named, dir: dir.path(), bench: Bench::Load, conditions: &conditions };
        let store = (kind.create)(&setup).unwrap();
        let mut session = store.session(Access::Mixed).unwrap();
        let entry = |record: u64, salt: u64| {
            let key = records::key(record);
            let mut value = vec![0; 100];
            records::fill(key, salt, &mut value);
            (key, value)
        };
        let mut batch: Vec<_> = (0..100).map(|record| entry(record, 1)).collect();
        batch.push(entry(50, 2));
        session.put_batch(&batch).unwrap();
        let mut value = Vec::new();
        for record in 0..100 {
            let (key, expected) = entry(record, if record == 50 { 2 } else { 1 });
            assert!(session.get(&key, &mut value).unwrap());
            assert_eq!(value, expected, "record {record}");
        }
        drop(session);
        drop(store);
        std::fs::remove_dir_all(dir.path().join("store")).unwrap();
    }
}

#[test]
fn every_durability_is_offered() {
    for kind in kinds() {
        assert!((kind.durability)(Durability::None).is_ok());
        assert!((kind.durability)(Durability::Sync).is_ok());
        let periodic = Durability::Periodic(std::time::Duration::from_millis(10));
        assert!((kind.durability)(periodic).is_ok());
    }
}
