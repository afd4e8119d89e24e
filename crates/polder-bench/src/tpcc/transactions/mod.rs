//! The five transactions, clauses 2.4 to 2.8, and what they have in common.

use std::mem;
use std::ops::Range;

use polder::{BatchError, Store, Table, WriteBatch};
use zerocopy::IntoBytes;

use super::data::input::{self, percent, within};
use super::data::keys::{self, DISTRICTS};
use super::data::rows::{
    Customer, DIST_BYTES, District, History, Item, Kind, Order, OrderLine, Stock, Warehouse,
};
use super::data::{Scale, Tables};
use crate::error::BenchError;
use crate::random::Random;

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod reading;
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

/// Whether a try of a transaction has ended it; false if a row that it read had been changed by the
/// time it wrote.
type Tried = Result<bool, BenchError>;

/// One terminal, which reads and commits by futures, or all of a thread that does their transactions one
/// after the other, by calls: which of them is known to the compiler, so that calls cost no more.
pub(super) struct Client<'a, const AWAITS: bool> {
    store: &'a Store,
    tables: &'a Tables,
    scale: Scale,
    warehouses: u16,
    /// Whether a transaction looks up together what it is going to read one by one.
    many: bool,
    pub(super) random: Random,
    /// What the transaction is going to write, and how many bytes of keys and values.
    batch: WriteBatch<'static>,
    batch_bytes: u64,
    /// The row that was read last to be changed, so that reading allocates nothing.
    row: Vec<u8>,
    /// New orders that asked for an item that there is not.
    pub(super) rolled_back: u64,
    /// Tries that another transaction was faster than.
    pub(super) conflicts: u64,
    /// Bytes of keys and values that were written.
    pub(super) written_bytes: u64,
}

impl<'a, const AWAITS: bool> Client<'a, AWAITS> {
    pub(super) fn new(
        store: &'a Store,
        tables: &'a Tables,
        scale: Scale,
        warehouses: u16,
        many: bool,
        random: Random,
    ) -> Client<'a, AWAITS> {
        Client {
            store,
            tables,
            scale,
            warehouses,
            many,
            random,
            batch: WriteBatch::new(),
            batch_bytes: 0,
            row: Vec::new(),
            rolled_back: 0,
            conflicts: 0,
            written_bytes: 0,
        }
    }

    /// Does a transaction of a terminal of this warehouse. It is tried until no other transaction
    /// comes in between, always with the same input, which is drawn again from the same random
    /// numbers; there is always one transaction that gets through.
    pub(super) async fn run(&mut self, transaction: Transaction, w: u16) -> Result<(), BenchError> {
        let random = self.random.clone();
        loop {
            self.batch.clear();
            self.batch_bytes = 0;
            let has_ended = match transaction {
                Transaction::NewOrder => self.new_order(w).await,
                Transaction::Payment => self.payment(w).await,
                Transaction::OrderStatus => self.order_status(w).await,
                Transaction::Delivery => self.delivery(w).await,
                Transaction::StockLevel => self.stock_level(w).await,
            }?;
            if has_ended {
                return Ok(());
            }
            self.conflicts += 1;
            self.random = random.clone();
        }
    }

    /// Looks up rows together that are read one by one behind it, so that their pages come into memory at
    /// once.
    fn look_ahead<K: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: impl Iterator<Item = K>,
    ) -> Result<(), BenchError> {
        if self.many {
            table.contains_many(&keys.collect::<Vec<_>>(), |_, _| ())?;
        }
        Ok(())
    }

    /// Puts the row that was read last, as it is now, in the place of the one of this version.
    fn replace(&mut self, table: &Table, key: &[u8], version: u64) {
        self.batch.expect(table, key, Some(version)).put(table, key, &self.row);
        self.batch_bytes += (key.len() + self.row.len()) as u64;
    }

    /// Reads a row and changes it.
    #[inline]
    async fn change<K: Kind, R>(
        &mut self,
        table: &Table,
        key: &[u8],
        change: impl FnOnce(&mut K) -> R,
    ) -> Result<R, BenchError> {
        let (version, row) = self.read(table, key).await?;
        let result = change(row);
        self.replace(table, key, version);
        Ok(result)
    }

    fn insert(&mut self, table: &Table, key: &[u8], row: &[u8]) {
        self.batch.put(table, key, row);
        self.batch_bytes += (key.len() + row.len()) as u64;
    }

    /// Writes what was collected, if nothing that it rests on has changed.
    async fn commit(&mut self) -> Tried {
        let applied = match AWAITS {
            true => self.store.asynchronous().apply(mem::take(&mut self.batch)).await,
            false => self.store.apply_mut(&mut self.batch),
        };
        match applied {
            Ok(()) => {
                self.written_bytes += self.batch_bytes;
                Ok(true)
            }
            Err(BatchError::Unexpected { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Draws a customer of the district: in 60 of 100 cases by last name, which is, of those who
    /// have it, the middle one by first name, rounded up.
    async fn draw_customer(&mut self, w: u16, d: u8) -> Result<u16, BenchError> {
        if !percent(&mut self.random, 60) {
            return Ok(input::customer(&mut self.random, self.scale));
        }
        let name = input::name_of(input::last_name(&mut self.random, self.scale));
        let (table, prefix) = (&self.tables.customer_by_name, keys::customers_of_name(w, d, &name));
        let (mut customers, mut found) = (self.rows_with_prefix(table, prefix), Vec::new());
        while let Some(c) = customers.next(|key, _| keys::customer_of_name(key)).await? {
            found.extend(c);
        }
        let middle = found.len().saturating_sub(1) / 2;
        found.get(middle).copied().ok_or_else(|| BenchError::no_row(table, &prefix))
    }

    /// Draws another warehouse, if there is one.
    fn draw_other_warehouse(&mut self, w: u16) -> u16 {
        let warehouses = u64::from(self.warehouses);
        if warehouses < 2 {
            return w;
        }
        let other = within(&mut self.random, 1, warehouses - 1) as u16;
        if other < w { other } else { other + 1 }
    }

    /// Looks at all lines of these orders of a district.
    async fn each_line(
        &self,
        w: u16,
        d: u8,
        orders: Range<u32>,
        mut look: impl FnMut(&OrderLine),
    ) -> Result<(), BenchError> {
        let table = &self.tables.order_line;
        let mut lines = self.rows_in(table, keys::order_lines(w, d, orders));
        let mut look = |key: &[u8], value: &[u8]| {
            let (line, _) = OrderLine::of(value).ok_or_else(|| BenchError::no_row(table, key))?;
            look(line);
            Ok::<(), BenchError>(())
        };
        while let Some(looked) = lines.next(&mut look).await? {
            looked?;
        }
        Ok(())
    }
}
