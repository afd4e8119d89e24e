use std::path::Path;

use super::*;
use crate::records;

fn setup(dir: &Path) -> Setup<'_> {
    Setup {
        engine: "polder:array",
        dir,
        prefault: false,
        cache_bytes: 64 << 20,
        records: 100,
        value_size: 100,
        data_bytes: 10_800,
        device_bytes: None,
        durability: Durability::None,
        log_limit_bytes: None,
        replacement: ReplacementKind::default(),
        hold: ReadMode::default(),
        memory: Default::default(),
        threads: 1,
    }
}

/// The budget pays for what a policy and a read mode take of memory.
#[test]
fn policy_and_hold_come_to_the_store() {
    let frames = |replacement, hold| {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup { replacement, hold, ..setup(dir.path()) };
        Polder::create(&setup).unwrap().store.stats().pool.frames
    };
    let plain = frames(ReplacementKind::Clock, ReadMode::Optimistic);
    assert!(frames(ReplacementKind::TwoQueues, ReadMode::Optimistic) < plain);
    assert!(frames(ReplacementKind::Clock, ReadMode::Core) < plain);
}

#[test]
fn a_batch_is_stored_and_the_last_of_a_key_stays() {
    let dir = tempfile::tempdir().unwrap();
    for kind in kinds() {
        let setup = Setup { engine: kind.name, ..setup(dir.path()) };
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
