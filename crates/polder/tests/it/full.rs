//! A disk without room: inserts are refused, all else goes on.

use polder::{Store, StoreError};
use polder_testkit::{FaultPlan, Model, Random};

use crate::mount::Mount;
use crate::support::*;

/// Fills the store until it refuses, and sees what still works. Gives what is there.
fn fill(store: &Store) -> Model {
    let table = store.open_table("t").unwrap();
    let mut model = Model::default();
    let mut random = Random::new(1);
    let mut refused = 0;
    while refused < 200 {
        let key = random.next_u64().to_be_bytes().to_vec();
        let len = if random.chance(0.03) { 20_000 } else { 400 };
        match table.put(&key, vec![key[0]; len]) {
            Ok(new) => {
                assert!(new);
                model.entries.insert(key, vec![0; len]);
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Full { .. }), "{}", full_text(&error));
                assert!(error.to_string().contains("no room"), "{error}");
                assert_eq!(table.get(&key).unwrap(), None);
                refused += 1;
            }
        }
    }
    for (key, value) in &mut model.entries {
        value.fill(key[0]);
    }
    let name = "n".repeat(200);
    let error = store
        .create_table(&name)
        .and_then(|table| table.bulk_load((0..).map(|i: u64| (i.to_be_bytes(), [1; 900]))));
    assert!(matches!(error, Err(StoreError::Full { .. })), "{error:?}");
    // Where there was room for the table, and not for what was to be loaded.
    let _ = store.drop_table(&name);
    assert_content(&table, &model);
    assert_sound(store);
    model
}

/// Removing makes room again.
fn empty_a_little(store: &Store, model: &mut Model) {
    let table = store.open_table("t").unwrap();
    for key in model.entries.keys().step_by(2).cloned().collect::<Vec<_>>() {
        assert!(table.delete(&key).unwrap());
        model.entries.remove(&key);
    }
    for i in 0..50u64 {
        table.put(i.to_be_bytes(), [1; 400]).unwrap();
        model.entries.insert(i.to_be_bytes().to_vec(), vec![1; 400]);
    }
    assert_content(&table, model);
}

#[test]
fn a_full_simulated_disk() {
    for kilobytes in [400, 901, 2500] {
        let disk = disk();
        disk.data.set_plan(FaultPlan::new(1).capacity(kilobytes << 10));
        let store = open_on(&disk);
        let mut model = fill(&store);
        store.close().unwrap();
        let store = open_on(&disk);
        assert_content(&store.table("t").unwrap(), &model);
        assert_sound(&store);
        empty_a_little(&store, &mut model);
        store.close().unwrap();
        // Dropping works on a full disk, and gives all back.
        let store = open_on(&disk);
        assert_content(&store.table("t").unwrap(), &model);
        for name in store.tables().unwrap() {
            store.drop_table(&name).unwrap();
        }
        assert_sound(&store);
        fill(&store);
        store.close().unwrap();
        // And so does a larger disk.
        disk.data.set_plan(FaultPlan::new(1));
        let store = open_on(&disk);
        let table = store.table("t").unwrap();
        let before = table.len();
        for i in 0..3000u64 {
            table.put(i.to_be_bytes(), [2; 400]).unwrap();
        }
        assert_eq!(table.len(), before + 3000);
        assert_sound(&store);
    }
}

#[test]
fn a_full_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(dir.path(), "12M") else { return };
    let path = dir.path().join("store");
    let store = Store::open(quick(&path)).unwrap();
    fill(&store);
    // It gets larger: inserts go on at once, until it is full again.
    let table = store.open_table("t").unwrap();
    let before = table.len();
    mount.resize("16M");
    for i in 0..1000u64 {
        table.put(i.to_be_bytes(), [0; 400]).unwrap();
    }
    assert_eq!(table.len(), before + 1000);
    store.drop_table("t").unwrap();
    let mut model = fill(&store);
    drop(table);
    store.close().unwrap();
    let store = Store::open(quick(&path)).unwrap();
    assert_content(&store.table("t").unwrap(), &model);
    assert_sound(&store);
    empty_a_little(&store, &mut model);
    store.close().unwrap();
    let store = Store::open(quick(&path)).unwrap();
    assert_content(&store.table("t").unwrap(), &model);
    for name in store.tables().unwrap() {
        store.drop_table(&name).unwrap();
    }
    store.shrink().unwrap();
    let left = std::fs::metadata(path.join("data")).unwrap().len();
    assert!(left < 1 << 20, "{left} bytes are left");
    store.close().unwrap();
}
