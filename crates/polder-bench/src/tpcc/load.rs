//! The data that a run begins with: clause 4.3.3, each table in the order of its keys.
//!
//! What several tables say of one thing (a customer's name, an order's customer and the number of
//! its lines) is drawn from a source of that thing's own, so that each table can be made alone.

use polder::Table;
use rand::seq::SliceRandom;

use super::data::input::{self, percent, within};
use super::data::keys::{self, DISTRICTS, NAME_BYTES, OrderKey};
use super::data::rows::{
    Customer, District, History, Item, Order, OrderLine, Row, Stock, Warehouse,
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
    Items,
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
    loader.fill(&tables.item, 1..=1, |_| loader.items())?;
    loader.by_warehouse(&tables.stock, |w| loader.stock(w))?;
    loader.by_district(&tables.customer, |w, d| loader.customers(w, d))?;
    loader.by_district(&tables.customer_by_name, |w, d| loader.names(w, d))?;
    loader.by_district(&tables.order_by_customer, |w, d| loader.orders_by_customer(w, d))?;
    loader.by_district(&tables.orders, |w, d| loader.orders(w, d))?;
    loader.by_district(&tables.order_line, |w, d| loader.order_lines(w, d))?;
    loader.by_district(&tables.history, |w, d| loader.history(w, d))?;
    loader.by_district(&tables.new_order, |w, d| loader.new_orders(w, d))?;
    loader.by_district(&tables.district, |w, d| [loader.district(w, d)])?;
    loader.by_warehouse(&tables.warehouse, |w| [loader.warehouse(w)])
}

impl Loader<'_> {
    /// Loads one table with what there is of each warehouse.
    fn fill<K, V, I>(
        &self,
        table: &Table,
        warehouses: impl Iterator<Item = u16>,
        of: impl Fn(u16) -> I,
    ) -> Result<(), BenchError>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        I: IntoIterator<Item = (K, V)>,
    {
        let entries = warehouses.flat_map(|w| {
            (self.tell)(&format!("loading {}, {w} of {}", table.name(), self.warehouses));
            of(w)
        });
        let loaded = table.bulk_load(entries.take_while(|_| !self.interrupt.is_set()));
        self.interrupt.check()?;
        loaded?;
        Ok(())
    }

    fn by_warehouse<K, V, I>(&self, table: &Table, of: impl Fn(u16) -> I) -> Result<(), BenchError>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        I: IntoIterator<Item = (K, V)>,
    {
        self.fill(table, 1..=self.warehouses, of)
    }

    fn by_district<K, V, I>(
        &self,
        table: &Table,
        of: impl Fn(u16, u8) -> I,
    ) -> Result<(), BenchError>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        I: IntoIterator<Item = (K, V)>,
    {
        let of = &of;
        self.by_warehouse(table, |w| (1..=DISTRICTS).flat_map(move |d| of(w, d)))
    }

    /// The random numbers of one thing.
    fn random(&self, source: Source, w: u16, d: u8, n: u32) -> Random {
        let place = u64::from(w) << 40 | u64::from(d) << 32 | u64::from(n);
        stream(self.seed, (source as u64 + 1) << 56 | place)
    }

    fn customers_of_district(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.scale.customers_per_district
    }

    fn items(&self) -> impl Iterator<Item = ([u8; 4], Vec<u8>)> {
        let mut random = self.random(Source::Items, 0, 0, 0);
        (1..=self.scale.items).map(move |i| {
            let mut row = Row::<Item, _>::new();
            row.im_id.set(within(&mut random, 1, 10_000) as u32);
            row.name = input::padded(&mut random, 14);
            row.price.set(within(&mut random, 100, 10_000) as u32);
            row.push(&input::data(&mut random));
            (keys::item(i), row.into_bytes())
        })
    }

    fn warehouse(&self, w: u16) -> ([u8; 2], Vec<u8>) {
        let mut random = self.random(Source::Warehouse, w, 0, 0);
        let mut row = Row::<Warehouse, _>::new();
        row.name = input::padded(&mut random, 6);
        row.address = input::address(&mut random);
        row.tax.set(input::tax(&mut random));
        row.ytd.set(self.paid_in_district() * i64::from(DISTRICTS));
        (keys::warehouse(w), row.into_bytes())
    }

    fn stock(&self, w: u16) -> impl Iterator<Item = ([u8; 4], Vec<u8>)> {
        let mut random = self.random(Source::Stock, w, 0, 0);
        (1..=self.scale.items).map(move |i| {
            let mut row = Row::<Stock, _>::new();
            input::letters(&mut random, row.dist.as_flattened_mut());
            row.quantity.set(within(&mut random, 10, 100) as i16);
            row.push(&input::data(&mut random));
            (keys::stock(w, i), row.into_bytes())
        })
    }

    fn district(&self, w: u16, d: u8) -> ([u8; 4], Vec<u8>) {
        let mut random = self.random(Source::District, w, d, 0);
        let mut row = Row::<District, _>::new();
        row.name = input::padded(&mut random, 6);
        row.address = input::address(&mut random);
        row.tax.set(input::tax(&mut random));
        row.ytd.set(self.paid_in_district());
        row.next_o_id.set(self.scale.orders_per_district() + 1);
        (keys::district(w, d), row.into_bytes())
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
        self.customers_of_district().map(move |c| {
            let mut row = Row::<Customer, _>::new();
            let (last, first) = self.name(w, d, c);
            let is_bad = percent(&mut random, 10);
            row.first = first;
            row.middle = *b"OE";
            row.last = last;
            row.address = input::address(&mut random);
            row.phone = input::digits(&mut random);
            row.since.set(self.now);
            row.credit = if is_bad { *b"BC" } else { *b"GC" };
            row.credit_lim.set(5_000_000);
            row.discount.set(within(&mut random, 0, 5000) as u32);
            row.balance.set(-PAID);
            row.ytd_payment.set(PAID);
            row.payment_cnt.set(1);
            row.push(&input::text(&mut random, 300, 500));
            (keys::customer(w, d, c), row.into_bytes())
        })
    }

    fn names(&self, w: u16, d: u8) -> Vec<([u8; 37], [u8; 0])> {
        let of = |c| {
            let (last, first) = self.name(w, d, c);
            (keys::customer_by_name(w, d, &last, &first, c), [])
        };
        let mut names: Vec<_> = self.customers_of_district().map(of).collect();
        names.sort_unstable();
        names
    }

    /// The customer of each order, from order 1 on: all customers in random order.
    fn customers_of_orders(&self, w: u16, d: u8) -> Vec<u16> {
        let mut customers: Vec<u16> = self.customers_of_district().collect();
        customers.shuffle(&mut self.random(Source::OrdersOf, w, d, 0));
        customers
    }

    fn orders_by_customer(&self, w: u16, d: u8) -> Vec<([u8; 7], [u8; 0])> {
        let customers = self.customers_of_orders(w, d);
        let keys = (1..).zip(customers).map(|(o, c)| (keys::order_by_customer(w, d, c, o), []));
        let mut keys: Vec<_> = keys.collect();
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
        (1..).zip(self.customers_of_orders(w, d)).map(move |(o, c)| {
            let carrier = within(&mut random, 1, 10) as u8;
            let mut row = Row::<Order, _>::new();
            row.c_id.set(c);
            row.entry_d.set(self.now);
            row.carrier_id = if o < self.first_undelivered() { carrier } else { 0 };
            row.ol_cnt = self.lines_of_order(w, d, o);
            row.all_local = 1;
            (keys::order(w, d, o), row.into_bytes())
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
            let mut row = Row::<OrderLine, _>::new();
            row.i_id.set(item);
            row.supply_w_id.set(w);
            row.delivery_d.set(if is_delivered { self.now } else { 0 });
            row.quantity = 5;
            row.amount.set(if is_delivered { 0 } else { amount });
            row.dist_info = input::padded(&mut random, 24);
            (keys::order_line(w, d, o, line), row.into_bytes())
        })
    }

    fn history(&self, w: u16, d: u8) -> impl Iterator<Item = ([u8; 8], Vec<u8>)> {
        let mut random = self.random(Source::History, w, d, 0);
        self.customers_of_district().map(move |c| {
            let mut row = Row::<History, _>::new();
            row.c_id.set(c);
            row.c_d_id = d;
            row.c_w_id.set(w);
            row.d_id = d;
            row.w_id.set(w);
            row.date.set(self.now);
            row.amount.set(PAID);
            row.push(&input::text(&mut random, 12, 24));
            (keys::history(w, d, PAID * i64::from(c)), row.into_bytes())
        })
    }

    fn new_orders(&self, w: u16, d: u8) -> impl Iterator<Item = (OrderKey, [u8; 0])> {
        let orders = self.first_undelivered()..=self.scale.orders_per_district();
        orders.map(move |o| (keys::order(w, d, o), []))
    }
}
