//! The five transactions, clauses 2.4 to 2.8, and what they have in common.

use polder::{BatchError, Store, Table, WriteBatch};

use super::data::input::{self, percent, within};
use super::data::keys::{self, DISTRICTS, NAME_BYTES};
use super::data::rows::{
    Customer, District, History, Kind, Order, OrderLine, Row, Stock, Warehouse,
};
use super::data::{Scale, Tables};
use crate::error::BenchError;
use crate::random::Random;

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Transaction {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Committed,
    /// It was asked for an item that there is not.
    RolledBack,
}

/// What a try of a transaction came to; `None` if a row that it read had been changed by the time
/// it wrote.
type Tried = Result<Option<End>, BenchError>;

/// One thread that does transactions.
pub(super) struct Client<'a> {
    store: &'a Store,
    tables: &'a Tables,
    scale: Scale,
    warehouses: u16,
    pub(super) random: Random,
    changes: Changes,
    rows: Rows,
    /// What a range has found, of customers or items.
    found: Vec<u32>,
    /// Whether items and stocks are looked up together.
    many: bool,
    /// Their keys, then.
    wanted: Vec<[u8; 4]>,
    /// Tries that another transaction was faster than.
    pub(super) conflicts: u64,
    /// Bytes of keys and values that were written.
    pub(super) written_bytes: u64,
}

/// The row of each kind that was read last, so that reading allocates nothing.
struct Rows {
    warehouse: Row<Warehouse, Vec<u8>>,
    district: Row<District, Vec<u8>>,
    customer: Row<Customer, Vec<u8>>,
    order: Row<Order, Vec<u8>>,
    line: Row<OrderLine, Vec<u8>>,
    stock: Row<Stock, Vec<u8>>,
    history: Row<History, Vec<u8>>,
}

/// What a transaction is going to write.
struct Changes {
    batch: WriteBatch<'static>,
    bytes: u64,
}

impl Changes {
    fn clear(&mut self) {
        self.batch.clear();
        self.bytes = 0;
    }

    fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) {
        self.bytes += (key.len() + value.len()) as u64;
        self.batch.put(table, key, value);
    }

    /// Changes a row that was read in this version.
    fn replace(&mut self, table: &Table, key: &[u8], version: u64, value: &[u8]) {
        self.batch.expect(table, key, Some(version));
        self.insert(table, key, value);
    }

    /// Removes a row that was read in this version.
    fn remove(&mut self, table: &Table, key: &[u8], version: u64) {
        self.bytes += key.len() as u64;
        self.batch.expect(table, key, Some(version));
        self.batch.delete(table, key);
    }
}

/// Which customer a terminal asks for.
#[derive(Debug, Clone, Copy)]
enum By {
    Number(u16),
    LastName([u8; NAME_BYTES]),
}

impl By {
    /// In 60 of 100 cases the last name.
    fn draw(random: &mut Random, scale: Scale) -> By {
        match percent(random, 60) {
            true => By::LastName(input::name_of(input::last_name(random, scale))),
            false => By::Number(input::customer(random, scale)),
        }
    }
}

fn district(random: &mut Random) -> u8 {
    within(random, 1, DISTRICTS.into()) as u8
}

/// Copies a row; gives its version.
#[inline]
fn read<K: Kind>(table: &Table, key: &[u8], row: &mut Row<K, Vec<u8>>) -> Result<u64, BenchError> {
    let copy = |version, bytes: &[u8]| row.copy_from(bytes).then_some(version);
    let version = table.get_versioned_with(key, copy)?.flatten();
    version.ok_or_else(|| BenchError::no_row(table, key))
}

/// Looks at a row that is not going to be changed.
#[inline]
fn look<K: Kind, R>(
    table: &Table,
    key: &[u8],
    look: impl FnOnce(&K) -> R,
) -> Result<R, BenchError> {
    let found = table.get_with(key, |bytes| Row::of(bytes).map(|row| look(&row)))?.flatten();
    found.ok_or_else(|| BenchError::no_row(table, key))
}

impl<'a> Client<'a> {
    pub(super) fn new(
        store: &'a Store,
        tables: &'a Tables,
        scale: Scale,
        warehouses: u16,
        random: Random,
        many: bool,
    ) -> Client<'a> {
        Client {
            store,
            tables,
            scale,
            warehouses,
            random,
            changes: Changes { batch: WriteBatch::new(), bytes: 0 },
            rows: Rows {
                warehouse: Row::new(),
                district: Row::new(),
                customer: Row::new(),
                order: Row::new(),
                line: Row::new(),
                stock: Row::new(),
                history: Row::new(),
            },
            found: Vec::new(),
            many,
            wanted: Vec::new(),
            conflicts: 0,
            written_bytes: 0,
        }
    }

    /// Does a transaction of a terminal of this warehouse.
    pub(super) fn run(&mut self, transaction: Transaction, w: u16) -> Result<End, BenchError> {
        match transaction {
            Transaction::NewOrder => {
                let input = new_order::Input::draw(self, w);
                self.until_done(|client| client.new_order(&input))
            }
            Transaction::Payment => {
                let input = payment::Input::draw(self, w);
                self.until_done(|client| client.payment(&input))
            }
            Transaction::OrderStatus => {
                let d = district(&mut self.random);
                let by = By::draw(&mut self.random, self.scale);
                self.order_status(w, d, by)
            }
            Transaction::Delivery => {
                let carrier = within(&mut self.random, 1, 10) as u8;
                self.until_done(|client| client.delivery(w, carrier))
            }
            Transaction::StockLevel => {
                let d = district(&mut self.random);
                let threshold = within(&mut self.random, 10, 20) as i16;
                self.stock_level(w, d, threshold)
            }
        }
    }

    /// Tries until no other transaction comes in between. There is always one that gets through.
    fn until_done(&mut self, once: impl Fn(&mut Self) -> Tried) -> Result<End, BenchError> {
        loop {
            self.changes.clear();
            if let Some(end) = once(self)? {
                return Ok(end);
            }
            self.conflicts += 1;
        }
    }

    /// Writes what was collected, if nothing that it rests on has changed.
    fn commit(&mut self) -> Tried {
        match self.store.apply_mut(&mut self.changes.batch) {
            Ok(()) => {
                self.written_bytes += self.changes.bytes;
                Ok(Some(End::Committed))
            }
            Err(BatchError::Unexpected { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The number of a customer: of those with a last name, the middle one by first name, rounded
    /// up.
    fn customer(&mut self, w: u16, d: u8, by: By) -> Result<u16, BenchError> {
        let name = match by {
            By::Number(c) => return Ok(c),
            By::LastName(name) => name,
        };
        self.found.clear();
        let prefix = keys::customers_of_name(w, d, &name);
        let mut customers = self.tables.customer_by_name.prefix(prefix);
        while let Some((key, _)) = customers.next_entry()? {
            self.found.extend(keys::customer_of_name(key).map(u32::from));
        }
        let middle = self.found.len().saturating_sub(1) / 2;
        let found = self.found.get(middle).map(|c| *c as u16);
        found.ok_or_else(|| BenchError::no_row(&self.tables.customer_by_name, &prefix))
    }
}
