//! Lists of a store that has crashed since, and saving now and then.

use std::thread;
use std::time::{Duration, Instant};

use polder_format::StoreId;
use polder_pool::{Array, lock};
use polder_testkit::{Errno, FaultPlan, Operation, Random, SimDisk, When};

use super::*;
use crate::any::Any;
use crate::directory::RESIDENT;
use crate::warm::{INTERVAL, LEAST_PAGES, WarmRestart};
use crate::{Durability, Options, Store};

fn engine(store: &Store) -> &Arc<Engine<Array>> {
    let Any::Array(engine) = &store.engine;
    engine
}

fn value(key: u32, round: u32) -> Vec<u8> {
    [key.to_be_bytes(), round.to_be_bytes()].concat().repeat(12)
}

/// A list from before a loss of power is loaded into the store that was recovered behind it: tables
/// are gone, pages were freed and given out again, and some were never written. Nothing of it shows.
#[test]
fn a_list_from_before_a_crash_does_no_harm() {
    const KEYS: u32 = 6000;
    let budget = 32 << 20;
    let open = |data: &SimDisk, log: &SimDisk| {
        let options = Options::new("simulated").memory_budget(budget).log_limit(4 << 20);
        let options = options.durability(Durability::None);
        Store::open_on(Box::new(data.clone()), Box::new(log.clone()), options).unwrap()
    };
    for seed in 0..6 {
        let [data, log] = [1, 2].map(|disk| SimDisk::new(FaultPlan::new(disk)));
        let store = open(&data, &log);
        let (table, gone) = (store.create_table("t").unwrap(), store.create_table("gone").unwrap());
        for key in 0..KEYS {
            table.put(key.to_be_bytes(), value(key, 0)).unwrap();
            gone.put(key.to_be_bytes(), value(key, 0)).unwrap();
        }
        let mut random = Random::new(seed);
        let mut lists = vec![engine(&store).pool.resident_pages()];
        store.drop_table("gone").unwrap();
        let removed = KEYS / 4 * 3;
        for key in 0..removed {
            table.delete(key.to_be_bytes()).unwrap();
        }
        store.checkpoint().unwrap();
        lists.push(engine(&store).pool.resident_pages());
        let new = store.create_table("new").unwrap();
        for key in 0..KEYS {
            new.put(key.to_be_bytes(), value(key, 1)).unwrap();
        }
        store.flush().unwrap();
        lists.push(engine(&store).pool.resident_pages());
        // What comes behind may be lost.
        for key in 0..random.below(2000) as u32 {
            new.put((KEYS + key).to_be_bytes(), value(key, 2)).unwrap();
        }
        lists.push(engine(&store).pool.resident_pages());
        let [data, log] = SimDisk::crash_all([&data, &log], seed);
        drop((table, new, gone, store));

        for list in lists {
            let [data, log] = SimDisk::crash_all([&data, &log], seed);
            let store = open(&data, &log);
            let (table, new) = (store.table("t").unwrap(), store.table("new").unwrap());
            let pool = &engine(&store).pool;
            // In the midst of it others write, so that pages are freed and given out.
            thread::scope(|scope| {
                let prewarmer = scope.spawn(|| pool.prewarm(list.iter().copied(), |_| true));
                for key in 0..500u32 {
                    table.put(key.to_be_bytes(), value(key, 3)).unwrap();
                    new.delete(key.to_be_bytes()).unwrap();
                }
                let done = prewarmer.join().unwrap();
                assert_eq!(done.loaded + done.skipped, list.len() as u64);
            });
            for key in 0..KEYS {
                let of = |table: &crate::Table| table.get(key.to_be_bytes()).unwrap();
                let round = if key < 500 { Some(3) } else { (key >= removed).then_some(0) };
                assert_eq!(of(&table), round.map(|round| value(key, round)), "{key}");
                assert_eq!(of(&new), (key >= 500).then(|| value(key, 1)), "{key}");
            }
            assert_eq!(store.check(&mut |_, _| true).unwrap().faults, []);
            let stats = store.stats();
            assert_eq!(stats.pool.evictions, 0, "all has room");
            store.close().unwrap();
        }
    }
}

/// A store that is not closed saves its list when much was loaded and it is time.
#[test]
fn the_list_is_saved_now_and_then() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let open = || {
        let options = Options::new(&path).memory_budget(8 << 20).durability(Durability::None);
        Store::open(options).unwrap()
    };
    let store = open();
    let table = store.create_table("t").unwrap();
    let list = path.join(RESIDENT);
    let fill = |keys: std::ops::Range<u32>| {
        keys.for_each(|key| _ = table.put(key.to_be_bytes(), [7; 1000]).unwrap());
    };
    fill(0..8000);
    assert!(!list.exists(), "it is not time yet");
    lock(&engine(&store).warm.state).saved_at = Instant::now().checked_sub(INTERVAL).unwrap();
    fill(8000..16_000);
    let began = Instant::now();
    while !list.exists() || store.stats().saved_resident_pages == 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "it is not saved");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(store.stats().saved_resident_pages >= LEAST_PAGES as u64);
    let saved = std::fs::metadata(&list).unwrap().modified().unwrap();
    fill(16_000..24_000);
    assert_eq!(std::fs::metadata(&list).unwrap().modified().unwrap(), saved, "again at once");
}

/// `WARM-1`: a device that fails to read is no reason to forget what was in memory.
#[test]
fn a_list_is_kept_while_the_device_fails_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let [data, log] = [1, 2].map(|disk| SimDisk::new(FaultPlan::new(disk)));
    let open = || {
        let options = Options::new("simulated").memory_budget(32 << 20);
        Store::open_on(Box::new(data.clone()), Box::new(log.clone()), options).unwrap()
    };
    let list = |store: &Store| {
        let whose = (StoreId([3; 16]), engine(store).pool.page_size());
        WarmRestart::new(Some((dir.path().to_owned(), whose)), false, true)
    };
    let store = open();
    let table = store.create_table("t").unwrap();
    (0..30_000u32).for_each(|key| _ = table.put(key.to_be_bytes(), value(key, 0)).unwrap());
    drop(table);
    assert!(list(&store).save(&engine(&store).pool).unwrap() >= LEAST_PAGES as u64);
    store.close().unwrap();

    let store = open();
    let warm = list(&store);
    let load = || warm.load_now(&engine(&store).pool, &mut |_, _| true).unwrap();
    data.set_plan(FaultPlan::new(1).fail(Operation::Read, When::From(0), Errno::IO));
    let done = load();
    assert!(done.loaded == 0 && done.failed > 0, "{done:?}");
    warm.save_at_close(&engine(&store).pool);
    assert!(warm.has_list_to_load(), "it counts as loaded");
    data.set_plan(FaultPlan::new(1));
    let done = load();
    assert!(done.loaded >= LEAST_PAGES as u64 / 2 && done.failed == 0, "{done:?}");
    assert!(!warm.has_list_to_load());
}
