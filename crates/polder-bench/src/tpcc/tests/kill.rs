//! A process that does transactions is killed in their midst; what it leaves is consistent.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// What tells the child its store, and its durability.
const PATH: &str = "POLDER_TEST_TPCC_STORE";
const LEVEL: &str = "POLDER_TEST_TPCC_LEVEL";
/// What the child says when it begins.
const READY: &str = "#ready";

const LEVELS: [Durability; 3] =
    [Durability::Sync, Durability::Periodic(Duration::from_millis(5)), Durability::None];

fn open(dir: &Path, level: usize) -> (Store, Tables) {
    let options = options(dir, TranslationKind::Array, least()).durability(LEVELS[level]);
    let store = Store::open(options).unwrap();
    let tables = Tables::open(&store).unwrap();
    (store, tables)
}

/// Not a test of its own: what the child does.
#[test]
fn child_that_runs_until_it_is_killed() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let level = std::env::var(LEVEL).unwrap().parse().unwrap();
    let (store, tables) = open(Path::new(&path), level);
    println!("\n{READY}");
    let interrupt = Interrupt::silent();
    let run = Run {
        store: &store,
        tables: &tables,
        scale: Scale::TINY,
        plan: TpccPlan { warehouses: 2, affinity: false, mix: Mix::Standard, check: true },
        team: Team { threads: 3, counts: false, limit: None, interrupt: &interrupt },
        seed: u64::from(std::process::id()),
        number: 1,
        // Longer than it has to live.
        seconds: 60.0,
        interval: interval(60.0),
        until: None,
        many: false,
        tasks: Some(3),
    };
    run.run().unwrap();
}

fn live_and_die(path: &Path, level: usize, life: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tpcc::tests::kill::child_that_runs_until_it_is_killed", "--nocapture"])
        .env(PATH, path)
        .env(LEVEL, level.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == READY), "the child did not begin");
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn conditions_hold_after_a_kill() {
    for (level, durability) in LEVELS.into_iter().enumerate() {
        let dir = directory();
        let (store, tables) = open(dir.path(), level);
        load(&tables, Scale::TINY, 2, 1, &Interrupt::silent(), &|_| ()).unwrap();
        let mut orders = tables.orders.len();
        drop(tables);
        store.close().unwrap();
        let (mut grown, mut replayed) = (false, false);
        for life_ms in [40, 150, 300] {
            live_and_die(dir.path(), level, Duration::from_millis(life_ms));
            let (store, tables) = open(dir.path(), level);
            // Without a promise all that a short life wrote may be lost.
            let promised = durability != Durability::None;
            // So may what it wrote in the first milliseconds, of a machine that is busy.
            replayed |= store.recovery().groups > 0 || !promised;
            let loaded = Loaded { dir: directory(), store, tables, warehouses: 2 };
            loaded.assert_sound();
            let now = loaded.tables.orders.len();
            assert!(now >= orders, "{durability:?}: {orders} orders were there, {now} are");
            grown |= now > orders || !promised;
            loaded.run(Mix::Standard, 2, false, 0.05);
            loaded.assert_sound();
            orders = loaded.tables.orders.len();
            let Loaded { store, tables, .. } = loaded;
            drop(tables);
            store.close().unwrap();
        }
        assert!(replayed, "{durability:?}: nothing to replay");
        assert!(grown, "{durability:?}: nothing of the child's is left");
    }
}
