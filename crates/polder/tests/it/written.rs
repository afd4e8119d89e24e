//! What the devices are given: how much, what for, and how much of it twice.

use polder::{Options, Store};
use polder_pool::device::Device;
use polder_testkit::{FaultPlan, Random, SimDisk};

use crate::support::Disks;

const RECORDS: u64 = 20_000;

/// Random records in a pool that has not room for all of them, and a checkpoint behind them.
fn loaded(disks: &Disks, options: Options) -> Store {
    let store = disks.open(options.memory_budget(2 << 20)).unwrap();
    let table = store.open_table("t").unwrap();
    let mut random = Random::new(3);
    for _ in 0..RECORDS {
        table.put(random.next_u64().to_be_bytes(), [7; 120]).unwrap();
    }
    store.checkpoint().unwrap();
    store
}

fn options() -> Options {
    Options::new("simulated").durability(polder::Durability::None).log_limit(16 << 20)
}

/// All that the disks were given is told by what it was for.
#[test]
fn the_bytes_by_what_for_are_what_the_disks_were_given() {
    let disks = Disks::new();
    let store = loaded(&disks, options());
    let stats = store.stats();
    store.close().unwrap();
    let store = disks.open(options().memory_budget(2 << 20)).unwrap();
    let [data, log] = [&disks.data, &disks.log].map(|disk| disk.counts().written_bytes);
    drop(store);
    let pages = stats.pool.checkpoint_page_bytes
        + stats.pool.evicted_page_bytes
        + stats.pool.map_page_bytes;
    assert_eq!(pages, stats.pool.device_written_bytes, "{stats:?}");
    assert!(
        stats.pool.evicted_page_bytes > stats.pool.checkpoint_page_bytes
            && stats.pool.map_page_bytes > 0
    );
    // Beside pages there are superblocks, and headers of segments, and what comes behind the load.
    let slack = 512 << 10;
    assert!(pages < data && data < pages + slack, "{pages} of {data} bytes: {stats:?}");
    let logged = stats.log_written_bytes + stats.log_zeroed_bytes + stats.double_write_bytes;
    assert!(logged < log && log < logged + slack, "{logged} of {log} bytes: {stats:?}");
    assert!(stats.double_write_bytes > 0, "this disk promises nothing");
    let records = RECORDS * 128;
    assert!(stats.log_image_bytes > records / 2 && stats.log_written_bytes > 2 * records);
    assert!(stats.log_image_bytes < stats.log_written_bytes - records);
}

/// A split of a page that the log has, and that was not written since, logs no page (`HALF-1`).
#[test]
fn a_load_in_memory_logs_its_entries_and_no_pages() {
    let disks = Disks::new();
    let store = disks.open(options().memory_budget(32 << 20)).unwrap();
    let table = store.open_table("t").unwrap();
    let mut random = Random::new(3);
    let records = RECORDS * 128;
    let mut last = 0;
    for round in 0..2 {
        for _ in 0..RECORDS {
            table.put(random.next_u64().to_be_bytes(), [7; 120]).unwrap();
        }
        let images = store.stats().log_image_bytes - last;
        // Behind a checkpoint the log has no page: each that is split logs one.
        let few = images < records / 20;
        assert!(if round == 0 { few } else { !few && images < records }, "{images} bytes");
        last += images;
        store.checkpoint().unwrap();
    }
}

/// Pages are written twice only where one can be torn.
#[test]
fn pages_are_written_twice_where_they_can_be_torn() {
    let twice = |atomic: usize, options: Options| {
        let disks = Disks::new();
        disks.data.write_atomically(atomic);
        let store = loaded(&disks, options);
        let stats = store.stats();
        assert_eq!(stats.atomic_write_bytes, atomic as u64);
        stats.double_write_bytes
    };
    assert_eq!(twice(4096, options()), 0);
    assert_eq!(twice(16384, options().page_size(8192)), 0);
    let whole = twice(0, options());
    assert!(whole > 1 << 20);
    // All lines, unless what is torn is surely old or new in each byte.
    let lines = 64 << 10..whole / 2;
    assert!(lines.contains(&twice(512, options())));
    assert!(twice(4096, options().always_double_write(true)) > 1 << 20);
    assert!(twice(4096, options().page_size(8192)) > 64 << 10, "a page is two blocks of this disk");
}

/// A log without a limit of the user's has one by the budget, and is made shorter when a checkpoint
/// is worth what it writes; one with a limit is used as far as that goes.
#[test]
fn checkpoints_come_when_they_are_worth_it() {
    let open = |options: Options| Disks::new().open(options.memory_budget(100 << 20)).unwrap();
    let options = Options::new("simulated");
    assert_eq!(open(options.clone()).stats().log_limit_bytes, 400 << 20);
    assert_eq!(open(options.clone().log_limit(8 << 20)).stats().log_limit_bytes, 8 << 20);
    let least = options.memory_budget(4 << 20);
    let disks = Disks::new();
    let store = disks.open(least.clone()).unwrap();
    assert_eq!(store.stats().log_limit_bytes, 256 << 20);
    store.close().unwrap();
    // It is chosen anew each time, and one that was given stays.
    let store = disks.open(least.clone().memory_budget(128 << 20)).unwrap();
    assert_eq!(store.stats().log_limit_bytes, 512 << 20);
    store.close().unwrap();
    disks.open(least.clone().log_limit(32 << 20)).unwrap().close().unwrap();
    assert_eq!(disks.open(least).unwrap().stats().log_limit_bytes, 32 << 20);
}

/// Little data that is written again and again is brought to its place long before the log is as long
/// as it may be, and a limit of the user's is used.
#[test]
fn a_small_store_has_a_short_log() {
    let replayed = |options: Options, bytes: usize| {
        let store = Disks::new().open(options).unwrap();
        let table = store.open_table("t").unwrap();
        let mut most = 0;
        for i in 0..bytes / 3000 {
            table.put((i % 100).to_be_bytes(), [i as u8; 3000]).unwrap();
            if i % 1000 == 0 {
                most = most.max(store.stats().log_replay_bytes);
            }
        }
        most
    };
    let options = Options::new("simulated").durability(polder::Durability::None);
    let chosen = options.clone().memory_budget(256 << 20);
    // It is wanted after 128 MiB, and goes on while the log grows by so much again.
    let most = replayed(chosen, 320 << 20);
    assert!((128 << 20..288 << 20).contains(&most), "{most} bytes to be replayed");
    let given = options.memory_budget(256 << 20).log_limit(1 << 30);
    let most = replayed(given, 320 << 20);
    assert!(most > 320 << 20, "{most} bytes to be replayed");
}

/// A device that is nearly full keeps most of its room for others than the log.
#[test]
fn a_chosen_limit_leaves_room_on_the_device() {
    let open = |capacity: u64| {
        let disks = Disks {
            data: SimDisk::new(FaultPlan::new(1)),
            log: SimDisk::new(FaultPlan::new(1).capacity(capacity)),
        };
        assert_eq!(disks.log.free_bytes(), Some(capacity));
        let options = Options::new("simulated").memory_budget(64 << 20);
        disks.open(options).unwrap().stats().log_limit_bytes
    };
    assert_eq!(open(1 << 40), 256 << 20);
    assert_eq!(open(800 << 20), 100 << 20);
    assert_eq!(open(100 << 20), 64 << 20);
}
