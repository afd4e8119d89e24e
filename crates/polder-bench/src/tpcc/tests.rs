//! Transactions on tiny data, and whether the consistency conditions notice what is wrong.

use std::path::Path;

use futures_lite::future::block_on;
use polder::{Durability, Options, Store, TranslationKind};
use tempfile::TempDir;

use super::data::keys::{self, DISTRICTS};
use super::data::rows::{Customer, District, History, Kind, Order, OrderLine, Stock, Warehouse};
use super::transactions::{Client, Transaction};
use super::*;
use crate::interrupt::Interrupt;
use crate::random::stream;
use crate::team::{Outcome, Team};

mod conditions;
mod kill;

/// A loaded store, in a directory of its own.
struct Loaded {
    dir: TempDir,
    store: Store,
    tables: Tables,
    warehouses: u16,
}

/// A directory on the disk of the build.
fn directory() -> TempDir {
    let parent = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, Into::into);
    std::fs::create_dir_all(&parent).unwrap();
    tempfile::tempdir_in(parent).unwrap()
}

fn options(dir: &Path, kind: TranslationKind, budget: u64) -> Options {
    let options = Options::new(dir.join("store")).translation(kind).memory_budget(budget);
    options.durability(Durability::None)
}

/// Enough for everything.
const AMPLE: u64 = 64 << 20;

/// As little memory as a store can have: less than the data takes.
fn least() -> u64 {
    Options::least_memory_budget(4096)
}

impl Loaded {
    fn new(kind: TranslationKind, warehouses: u16, budget: u64) -> Loaded {
        let dir = directory();
        let store = Store::open(options(dir.path(), kind, budget)).unwrap();
        let tables = Tables::open(&store).unwrap();
        load(&tables, Scale::TINY, warehouses, 1, &Interrupt::silent(), &|_| ()).unwrap();
        Loaded { dir, store, tables, warehouses }
    }

    fn small() -> Loaded {
        Loaded::new(TranslationKind::Array, 2, AMPLE)
    }

    fn run(&self, mix: Mix, threads: usize, affinity: bool, seconds: f64) -> (Outcome, Tally) {
        self.run_by((threads, None), mix, affinity, seconds)
    }

    /// The same, where each thread serves so many terminals at once.
    fn run_by(
        &self,
        (threads, tasks): (usize, Option<usize>),
        mix: Mix,
        affinity: bool,
        seconds: f64,
    ) -> (Outcome, Tally) {
        let interrupt = Interrupt::silent();
        let run = Run {
            store: &self.store,
            tables: &self.tables,
            scale: Scale::TINY,
            plan: TpccPlan { warehouses: self.warehouses, affinity, mix, check: true },
            team: Team { threads, counts: false, limit: None, interrupt: &interrupt },
            seed: 1,
            number: 1,
            seconds,
            interval: interval(seconds),
            until: None,
            many: threads > 1,
            tasks,
        };
        run.run().unwrap()
    }

    fn client(&self) -> Client<'_, false> {
        Client::new(&self.store, &self.tables, Scale::TINY, self.warehouses, true, stream(7, 7))
    }

    fn wrong(&self) -> Vec<String> {
        check(&self.tables, self.warehouses, &Interrupt::silent()).unwrap()
    }

    fn assert_sound(&self) {
        assert_eq!(self.wrong(), Vec::<String>::new());
        let report = self.store.check(&mut |_, _| true).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }
}

fn get<K: Kind, T>(table: &polder::Table, key: &[u8], field: impl FnOnce(&K) -> T) -> T {
    field(K::of(&table.get(key).unwrap().unwrap()).unwrap().0)
}

#[test]
fn a_load_has_all_rows_and_is_consistent() {
    let loaded = Loaded::small();
    loaded.assert_sound();
    let Loaded { tables, warehouses, .. } = &loaded;
    let districts = u64::from(*warehouses) * u64::from(DISTRICTS);
    for (table, rows) in [
        (&tables.item, 200),
        (&tables.stock, 200 * u64::from(*warehouses)),
        (&tables.customer, 30 * districts),
        (&tables.customer_by_name, 30 * districts),
        (&tables.orders, 30 * districts),
        (&tables.order_by_customer, 30 * districts),
        (&tables.history, 30 * districts),
        (&tables.new_order, 9 * districts),
        (&tables.district, districts),
        (&tables.warehouse, u64::from(*warehouses)),
    ] {
        assert_eq!(table.len(), rows, "{}", table.name());
    }
    let lines = tables.order_line.len() as f64 / (30 * districts) as f64;
    assert!((9.0..11.0).contains(&lines), "{lines} lines an order");
    // What the specification says of sums: 10.00 from each customer.
    let taken = get(&tables.warehouse, &keys::warehouse(2), |row: &Warehouse| row.ytd.get());
    assert_eq!(taken, 1000 * 30 * i64::from(DISTRICTS));
}

#[test]
fn a_load_is_the_same_for_a_seed() {
    let rows = |loaded: &Loaded| {
        let stock = loaded.tables.stock.get(keys::stock(2, 77)).unwrap();
        (stock, loaded.tables.customer_by_name.first().unwrap())
    };
    assert_eq!(rows(&Loaded::small()), rows(&Loaded::small()));
}

#[test]
fn indexes_agree_with_their_tables() {
    let loaded = Loaded::small();
    loaded.run(Mix::Standard, 2, false, 0.1);
    let tables = &loaded.tables;
    for w in 1..=2 {
        for d in 1..=DISTRICTS {
            for c in 1..=Scale::TINY.customers_per_district {
                let key = keys::customer(w, d, c);
                let (last, first) = (
                    get(&tables.customer, &key, |row: &Customer| row.last),
                    get(&tables.customer, &key, |row: &Customer| row.first),
                );
                let key = keys::customer_by_name(w, d, &last, &first, c);
                assert!(tables.customer_by_name.contains_key(key).unwrap());
            }
        }
    }
    for entry in tables.orders.iter() {
        let (key, row) = entry.unwrap();
        let (c, o) = (Order::of(&row).unwrap().0.c_id.get(), keys::order_number(&key).unwrap());
        let (w, d) = (1..=2)
            .flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
            .find(|(w, d)| key == keys::order(*w, *d, o))
            .unwrap();
        let index = keys::order_by_customer(w, d, c, o);
        assert!(tables.order_by_customer.contains_key(index).unwrap());
    }
    assert_eq!(tables.order_by_customer.len(), tables.orders.len());
}

#[test]
fn an_order_changes_what_it_should() {
    let loaded = Loaded::small();
    let (tables, mut client) = (&loaded.tables, loaded.client());
    let sum = |field: fn(&Stock) -> u32| {
        let keys = (1..=2).flat_map(|w| (1..=200).map(move |i| keys::stock(w, i)));
        keys.map(|key| u64::from(get(&tables.stock, &key, field))).sum::<u64>()
    };
    for _ in 0..300 {
        block_on(client.run(Transaction::NewOrder, 1)).unwrap();
    }
    let rolled_back = client.rolled_back;
    assert!((1..15).contains(&rolled_back), "{rolled_back}");
    let made = 300 - rolled_back;
    assert_eq!(tables.orders.len(), 600 + made);
    assert_eq!(tables.new_order.len(), 180 + made);
    let (mut quantity, mut lines, mut remote) = (0, 0, 0);
    let mut local_orders = 0;
    for d in 1..=DISTRICTS {
        let next =
            get(&tables.district, &keys::district(1, d), |row: &District| row.next_o_id.get());
        for o in 31..next {
            let of_order = keys::order_lines(1, d, o..o + 1);
            let mut here = 0;
            for entry in tables.order_line.range(of_order) {
                let (_, bytes) = entry.unwrap();
                let (row, _) = OrderLine::of(&bytes).unwrap();
                quantity += u64::from(row.quantity);
                lines += 1;
                here += u64::from(row.supply_w_id.get() == 2);
                assert_eq!(row.delivery_d.get(), 0);
            }
            remote += here;
            let is_local = get(&tables.orders, &keys::order(1, d, o), |row: &Order| row.all_local);
            assert_eq!(is_local == 1, here == 0);
            local_orders += u64::from(is_local);
        }
    }
    // Of an item that comes twice in an order each line counts.
    assert_eq!(sum(|row| row.ytd.get()), quantity);
    assert_eq!((sum(|row| row.order_cnt.get()), sum(|row| row.remote_cnt.get())), (lines, remote));
    assert!(remote > 0 && local_orders > 0);
    let left = |i| get(&tables.stock, &keys::stock(1, i), |row: &Stock| row.quantity.get());
    assert!((1..=200).all(|i| (10..=100).contains(&left(i))));
    loaded.assert_sound();
}

#[test]
fn payments_are_counted_everywhere() {
    let loaded = Loaded::small();
    let (tables, mut client) = (&loaded.tables, loaded.client());
    for _ in 0..200 {
        block_on(client.run(Transaction::Payment, 1)).unwrap();
    }
    let taken =
        get(&tables.warehouse, &keys::warehouse(1), |row: &Warehouse| row.ytd.get()) - 300_000;
    assert_eq!(tables.history.len(), 600 + 200);
    let (mut paid, mut count, mut notes) = (0, 0, 0);
    for entry in tables.customer.iter() {
        let (_, bytes) = entry.unwrap();
        let (row, data) = Customer::of(&bytes).unwrap();
        paid += row.ytd_payment.get() - 1000;
        count += row.payment_cnt.get() - 1;
        assert_eq!(row.balance.get(), -row.ytd_payment.get());
        let has_note = data.contains(&b'|');
        let has_paid_badly = row.credit == *b"BC" && row.payment_cnt.get() > 1;
        assert_eq!(has_note, has_paid_badly);
        notes += u32::from(has_note);
        assert!((300..=500).contains(&data.len()));
    }
    assert_eq!((paid, count), (taken, 200));
    assert!(notes > 0);
    let mut of_history = 0;
    for entry in tables.history.iter() {
        let (_, bytes) = entry.unwrap();
        let (row, data) = History::of(&bytes).unwrap();
        of_history += row.amount.get();
        assert!((12..=24).contains(&data.len()), "{:?}", data);
    }
    assert_eq!(of_history, taken + 600 * 1000);
    loaded.assert_sound();
}

#[test]
fn deliveries_take_the_oldest_orders_until_there_are_none() {
    let loaded = Loaded::small();
    let (tables, mut client) = (&loaded.tables, loaded.client());
    block_on(client.run(Transaction::Delivery, 1)).unwrap();
    let oldest = Scale::TINY.orders_per_district() - Scale::TINY.undelivered + 1;
    for d in 1..=DISTRICTS {
        let key = keys::order(1, d, oldest);
        assert!(!tables.new_order.contains_key(key).unwrap());
        assert!(tables.new_order.contains_key(keys::order(1, d, oldest + 1)).unwrap());
        assert!((1..=10).contains(&get(&tables.orders, &key, |row: &Order| row.carrier_id)));
        let mut amount = 0;
        for entry in tables.order_line.range(keys::order_lines(1, d, oldest..oldest + 1)) {
            let (_, bytes) = entry.unwrap();
            let (row, _) = OrderLine::of(&bytes).unwrap();
            amount += row.amount.get();
            assert!(row.delivery_d.get() > 0);
        }
        let c = keys::customer(1, d, get(&tables.orders, &key, |row: &Order| row.c_id.get()));
        assert_eq!(get(&tables.customer, &c, |row: &Customer| row.balance.get()), amount - 1000);
        assert_eq!(get(&tables.customer, &c, |row: &Customer| row.delivery_cnt.get()), 1);
    }
    loaded.assert_sound();
    for _ in 0..20 {
        block_on(client.run(Transaction::Delivery, 1)).unwrap();
    }
    assert_eq!(tables.new_order.len(), 9 * u64::from(DISTRICTS));
    loaded.assert_sound();
}

#[test]
fn what_only_reads_writes_nothing() {
    let loaded = Loaded::small();
    let (outcome, tally) = loaded.run(Mix::NewOrders(0), 2, true, 0.05);
    assert!(outcome.ops > 0);
    assert_eq!(tally.written_bytes, 0);
    let mut client = loaded.client();
    for _ in 0..100 {
        block_on(client.run(Transaction::OrderStatus, 2)).unwrap();
    }
    assert_eq!((client.written_bytes, client.conflicts), (0, 0));
}

/// On one warehouse payments alone would follow each other; with four threads they meet.
#[test]
fn transactions_that_meet_are_tried_again() {
    let loaded = Loaded::new(TranslationKind::Array, 1, AMPLE);
    let mut conflicts = 0;
    for _ in 0..50 {
        let (_, tally) = loaded.run(Mix::Standard, 4, false, 0.2);
        conflicts += tally.conflicts;
        if conflicts > 0 {
            break;
        }
    }
    assert!(conflicts > 0);
    loaded.assert_sound();
}

/// A thread that does one transaction after the other never meets itself.
#[test]
fn a_thread_serves_other_terminals_while_one_waits() {
    let loaded = Loaded::new(TranslationKind::Array, 2, least());
    let conflicts = |tasks| loaded.run_by((1, Some(tasks)), Mix::Standard, false, 0.2).1.conflicts;
    assert_eq!(conflicts(1), 0);
    assert!((0..50).any(|_| conflicts(8) > 0));
    loaded.assert_sound();
}

/// In every way to find pages, most of which are not in memory.
#[test]
fn conditions_hold_after_runs_out_of_memory() {
    for kind in TranslationKind::ALL.iter().copied() {
        let evicts = kind.evicts();
        let budget = if evicts { least() } else { AMPLE };
        for (affinity, mix) in [(false, Mix::Standard), (true, Mix::NewOrders(50))] {
            let loaded = Loaded::new(kind, 3, budget);
            let clients = if affinity { (4, None) } else { (2, Some(4)) };
            let (outcome, _) = loaded.run_by(clients, mix, affinity, 0.2);
            assert!(outcome.ops > 0, "{kind}");
            assert_eq!(outcome.ops, outcome.latencies.len());
            loaded.assert_sound();
            if evicts {
                let stats = loaded.store.stats();
                assert!(stats.pool.device_reads > 0, "{kind}: everything is in memory");
            }
        }
    }
}

#[test]
fn what_was_written_is_there_in_the_next_life() {
    let Loaded { dir, store, tables, warehouses } = Loaded::small();
    let loaded = Loaded { dir, store, tables, warehouses };
    loaded.run(Mix::Standard, 2, true, 0.1);
    let Loaded { dir, store, tables, .. } = loaded;
    let orders = tables.orders.len();
    drop(tables);
    store.close().unwrap();
    // Another one, where more than one is built.
    let other = TranslationKind::EVICTING.last().copied().unwrap();
    let store = Store::open(options(dir.path(), other, AMPLE)).unwrap();
    let tables = Tables::open(&store).unwrap();
    assert_eq!(tables.orders.len(), orders);
    let loaded = Loaded { dir, store, tables, warehouses };
    loaded.assert_sound();
    loaded.run(Mix::Standard, 2, false, 0.1);
    loaded.assert_sound();
}

#[test]
fn an_interrupt_ends_loads_runs_and_checks() {
    let dir = directory();
    let store = Store::open(options(dir.path(), TranslationKind::Array, AMPLE)).unwrap();
    let tables = Tables::open(&store).unwrap();
    let interrupt = Interrupt::silent();
    interrupt.set();
    let loaded = load(&tables, Scale::TINY, 1, 1, &interrupt, &|_| ());
    assert!(matches!(loaded, Err(crate::BenchError::Interrupted)));
    assert!(matches!(check(&tables, 1, &interrupt), Err(crate::BenchError::Interrupted)));
}
