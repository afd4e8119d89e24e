//! The data that a run begins with: clause 4.3.3, each table in the order of its keys.
//!
//! What several tables say of one thing (a customer's name, an order's customer and the number of
//! its lines) is drawn from a source of that thing's own, so that each table can be made alone.

use polder::Table;
use rand::seq::SliceRandom;

use super::data::input::{self, percent, within};
use super::data::keys::{self, DISTRICTS, NAME_BYTES, OrderKey};
use super::data::rows::{
    Customer, DIST_BYTES, District, History, Item, Kind, Order, OrderLine, Stock, Warehouse,
};
use super::data::{Scale, Tables};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::progress::Tell;
use crate::random::{Random, stream};

/// What each customer has paid, in hundredths.
const PAID: i64 = 1000;

/// Sources of random numbers, one for each kind of thing.
#[derive(Debug, Clone, Copy)]
enum Source {
    Items = 1,
    Warehouse,
    Stock,
    District,
    /// For each customer.
    Name,
    Customers,
    /// Which order of a district is of which customer.
    OrdersOf,
    /// For each order.
    Order,
    Lines,
    History,
}

/// A loader of tables, and what it loads.
struct Loader<'a> {
    scale: Scale,
    warehouses: u16,
    seed: u64,
    now: u64,
    interrupt: &'a Interrupt,
    tell: Tell<'a>,
}

/// Fills the empty tables.
pub(crate) fn load(
    tables: &Tables,
    scale: Scale,
    warehouses: u16,
    seed: u64,
    interrupt: &Interrupt,
    tell: Tell<'_>,
) -> Result<(), BenchError> {
    let loader = Loader { scale, warehouses, seed, now: input::now(), interrupt, tell };
    let all = || (1..=warehouses).map(|w| (w, 0));
    let districts = || all().flat_map(|(w, _)| (1..=DISTRICTS).map(move |d| (w, d)));
    loader.fill(&tables.item, [(1, 0)], |_, _| loader.items())?;
    loader.fill(&tables.stock, all(), |w, _| loader.stock(w))?;
    loader.fill(&tables.customer, districts(), |w, d| loader.customers(w, d))?;
    loader.fill(&tables.customer_by_name, districts(), |w, d| loader.names(w, d))?;
    loader.fill(&tables.order_by_customer, districts(), |w, d| loader.orders_by_customer(w, d))?;
    loader.fill(&tables.orders, districts(), |w, d| loader.orders(w, d))?;
    loader.fill(&tables.order_line, districts(), |w, d| loader.order_lines(w, d))?;
    loader.fill(&tables.history, districts(), |w, d| loader.history(w, d))?;
    loader.fill(&tables.new_order, districts(), |w, d| loader.new_orders(w, d))?;
    loader.fill(&tables.district, districts(), |w, d| [loader.district(w, d)])?;
    loader.fill(&tables.warehouse, all(), |w, _| [loader.warehouse(w)])
}

impl Loader<'_> {
    /// Loads one table with what there is of each of these warehouses or districts.
    fn fill<K: AsRef<[u8]>, V: AsRef<[u8]>, I: IntoIterator<Item = (K, V)>>(
        &self,
        table: &Table,
        places: impl IntoIterator<Item = (u16, u8)>,
        rows: impl Fn(u16, u8) -> I,
    ) -> Result<(), BenchError> {
        let entries = places.into_iter().flat_map(|(w, d)| {
            (self.tell)(&format!("loading {}, {w} of {}", table.name(), self.warehouses));
            rows(w, d)
        });
        let loaded = table.bulk_load(entries.take_while(|_| !self.interrupt.is_set()));
        self.interrupt.check()?;
        loaded?;
        Ok(())
    }

    /// The random numbers of one thing.
    fn random(&self, source: Source, w: u16, d: u8, n: u32) -> Random {
        let place = u64::from(w) << 40 | u64::from(d) << 32 | u64::from(n);
        stream(self.seed, (source as u64) << 56 | place)
    }

    fn items(&self) -> impl Iterator<Item = ([u8; 4], Vec<u8>)> {
        let mut random = self.random(Source::Items, 0, 0, 0);
        (1..=self.scale.items).map(move |i| {
            let row = Item {
                im_id: (within(&mut random, 1, 10_000) as u32).into(),
                name: input::padded(&mut random, 14),
                price: (within(&mut random, 100, 10_000) as u32).into(),
            };
            (keys::item(i), row.with(&input::data(&mut random)))
        })
    }

    fn warehouse(&self, w: u16) -> ([u8; 2], Vec<u8>) {
        let mut random = self.random(Source::Warehouse, w, 0, 0);
        let row = Warehouse {
            name: input::padded(&mut random, 6),
            address: input::address(&mut random),
            tax: input::tax(&mut random).into(),
            ytd: (self.paid_in_district() * i64::from(DISTRICTS)).into(),
        };
        (keys::warehouse(w), row.with(&[]))
    }

    fn stock(&self, w: u16) -> impl Iterator<Item = ([u8; 4], Vec<u8>)> {
        let mut random = self.random(Source::Stock, w, 0, 0);
        (1..=self.scale.items).map(move |i| {
            let mut dist = [[0; DIST_BYTES]; 10];
            input::letters(&mut random, dist.as_flattened_mut());
            let quantity = (within(&mut random, 10, 100) as i16).into();
            let (ytd, order_cnt, remote_cnt) = (0.into(), 0.into(), 0.into());
            let row = Stock { quantity, ytd, order_cnt, remote_cnt, dist };
            (keys::stock(w, i), row.with(&input::data(&mut random)))
        })
    }

    fn district(&self, w: u16, d: u8) -> ([u8; 4], Vec<u8>) {
        let mut random = self.random(Source::District, w, d, 0);
        let row = District {
            name: input::padded(&mut random, 6),
            address: input::address(&mut random),
            tax: input::tax(&mut random).into(),
            ytd: self.paid_in_district().into(),
            next_o_id: (self.scale.orders_per_district() + 1).into(),
        };
        (keys::district(w, d), row.with(&[]))
    }

    fn paid_in_district(&self) -> i64 {
        PAID * i64::from(self.scale.customers_per_district)
    }

    /// Last and first name.
    fn name(&self, w: u16, d: u8, c: u16) -> ([u8; NAME_BYTES], [u8; NAME_BYTES]) {
        let mut random = self.random(Source::Name, w, d, c.into());
        let last = input::last_name_of(&mut random, self.scale, c);
        (input::name_of(last), input::padded(&mut random, 8))
    }

    fn customers(&self, w: u16, d: u8) -> impl Iterator<Item = ([u8; 4], Vec<u8>)> {
        let mut random = self.random(Source::Customers, w, d, 0);
        (1..=self.scale.customers_per_district).map(move |c| {
            let (last, first) = self.name(w, d, c);
            let is_bad = percent(&mut random, 10);
            let row = Customer {
                first,
                middle: *b"OE",
                last,
                address: input::address(&mut random),
                phone: input::digits(&mut random),
                since: self.now.into(),
                credit: if is_bad { *b"BC" } else { *b"GC" },
                credit_lim: 5_000_000.into(),
                discount: (within(&mut random, 0, 5000) as u32).into(),
                balance: (-PAID).into(),
                ytd_payment: PAID.into(),
                payment_cnt: 1.into(),
                delivery_cnt: 0.into(),
            };
            (keys::customer(w, d, c), row.with(&input::text(&mut random, 300, 500)))
        })
    }

    fn names(&self, w: u16, d: u8) -> Vec<([u8; 37], [u8; 0])> {
        let of = |c| {
            let (last, first) = self.name(w, d, c);
            (keys::customer_by_name(w, d, &last, &first, c), [])
        };
        let mut names: Vec<_> = (1..=self.scale.customers_per_district).map(of).collect();
        names.sort_unstable();
        names
    }

    /// The customer of each order, from order 1 on: all customers in random order.
    fn customers_of_orders(&self, w: u16, d: u8) -> impl Iterator<Item = (u32, u16)> {
        let mut customers: Vec<u16> = (1..=self.scale.customers_per_district).collect();
        customers.shuffle(&mut self.random(Source::OrdersOf, w, d, 0));
        (1..).zip(customers)
    }

    fn orders_by_customer(&self, w: u16, d: u8) -> Vec<([u8; 7], [u8; 0])> {
        let key = |(o, c)| (keys::order_by_customer(w, d, c, o), []);
        let mut keys: Vec<_> = self.customers_of_orders(w, d).map(key).collect();
        keys.sort_unstable();
        keys
    }

    /// The first order that is not delivered.
    fn first_undelivered(&self) -> u32 {
        self.scale.orders_per_district() - self.scale.undelivered + 1
    }

    fn lines_of_order(&self, w: u16, d: u8, o: u32) -> u8 {
        within(&mut self.random(Source::Order, w, d, o), 5, 15) as u8
    }

    fn orders(&self, w: u16, d: u8) -> impl Iterator<Item = (OrderKey, Vec<u8>)> {
        let mut random = self.random(Source::Order, w, d, 0);
        self.customers_of_orders(w, d).map(move |(o, c)| {
            let carrier = within(&mut random, 1, 10) as u8;
            let row = Order {
                c_id: c.into(),
                entry_d: self.now.into(),
                carrier_id: if o < self.first_undelivered() { carrier } else { 0 },
                ol_cnt: self.lines_of_order(w, d, o),
                all_local: 1,
            };
            (keys::order(w, d, o), row.with(&[]))
        })
    }

    fn order_lines(&self, w: u16, d: u8) -> impl Iterator<Item = (OrderKey, Vec<u8>)> {
        let mut random = self.random(Source::Lines, w, d, 0);
        let places = (1..=self.scale.orders_per_district())
            .flat_map(move |o| (1..=self.lines_of_order(w, d, o)).map(move |line| (o, line)));
        places.map(move |(o, line)| {
            let item = within(&mut random, 1, self.scale.items.into()) as u32;
            let amount = within(&mut random, 1, 999_999) as i64;
            let is_delivered = o < self.first_undelivered();
            let row = OrderLine {
                i_id: item.into(),
                supply_w_id: w.into(),
                delivery_d: if is_delivered { self.now } else { 0 }.into(),
                quantity: 5,
                amount: if is_delivered { 0 } else { amount }.into(),
                dist_info: input::padded(&mut random, 24),
            };
            (keys::order_line(w, d, o, line), row.with(&[]))
        })
    }

    fn history(&self, w: u16, d: u8) -> impl Iterator<Item = ([u8; 8], Vec<u8>)> {
        let mut random = self.random(Source::History, w, d, 0);
        (1..=self.scale.customers_per_district).map(move |c| {
            let row = History {
                c_id: c.into(),
                c_d_id: d,
                c_w_id: w.into(),
                d_id: d,
                w_id: w.into(),
                date: self.now.into(),
                amount: PAID.into(),
            };
            let data = input::text(&mut random, 12, 24);
            (keys::history(w, d, PAID * i64::from(c)), row.with(&data))
        })
    }

    fn new_orders(&self, w: u16, d: u8) -> impl Iterator<Item = (OrderKey, [u8; 0])> {
        let orders = self.first_undelivered()..=self.scale.orders_per_district();
        orders.map(move |o| (keys::order(w, d, o), []))
    }
}
