//! The consistency conditions 1 to 4 of clause 3.3.2.

use polder::StoreError;

use super::data::Tables;
use super::data::keys::{self, DISTRICTS};
use super::data::rows::{District, Kind, Order, Row, Warehouse};
use crate::error::BenchError;
use crate::interrupt::Interrupt;

/// What the conditions need to know of a district.
#[derive(Debug, Default)]
struct Found {
    /// Orders, the last of them, and how many lines they say they have.
    orders: u64,
    last_order: u32,
    lines_said: u64,
    lines: u64,
    /// Of the undelivered orders.
    undelivered: u64,
    first_undelivered: u32,
    last_undelivered: u32,
}

/// Looks at all of them, on a store that nobody writes to. Gives a sentence for each that does not
/// hold.
///
/// # Errors
/// Those of reading, and rows that are missing.
pub(crate) fn check(
    tables: &Tables,
    warehouses: u16,
    interrupt: &Interrupt,
) -> Result<Vec<String>, BenchError> {
    let mut wrong = Vec::new();
    for w in 1..=warehouses {
        interrupt.check()?;
        let taken = row::<Warehouse>(&tables.warehouse, &keys::warehouse(w))?.ytd.get();
        let mut taken_by_districts = 0;
        for d in 1..=DISTRICTS {
            let district = row::<District>(&tables.district, &keys::district(w, d))?;
            taken_by_districts += district.ytd.get();
            let found = Found::of(tables, w, d)?;
            found.check(district.next_o_id.get(), &mut |condition, what| {
                wrong.push(format!("condition {condition}: warehouse {w}, district {d}: {what}"));
            });
        }
        if taken != taken_by_districts {
            wrong.push(format!(
                "condition 1: warehouse {w} has taken {taken}, its districts {taken_by_districts}"
            ));
        }
    }
    Ok(wrong)
}

/// A row that is there.
fn row<K: Kind>(table: &polder::Table, key: &[u8]) -> Result<Row<K, Vec<u8>>, BenchError> {
    table.get(key)?.and_then(Row::of).ok_or_else(|| BenchError::no_row(table, key))
}

impl Found {
    fn of(tables: &Tables, w: u16, d: u8) -> Result<Found, BenchError> {
        let mut found = Found::default();
        let all = keys::orders(w, d);
        let mut orders = tables.orders.range(all.clone());
        while let Some((key, value)) = orders.next_entry()? {
            let order = Row::<Order, _>::of(value);
            let (order, number) = order
                .zip(keys::order_number(key))
                .ok_or_else(|| BenchError::no_row(&tables.orders, key))?;
            found.orders += 1;
            found.last_order = number;
            found.lines_said += u64::from(order.ol_cnt);
        }
        found.lines = count(tables.order_line.range(all.clone()), |_| ())?;
        found.undelivered = count(tables.new_order.range(all), |key| {
            let number = keys::order_number(key).unwrap_or_default();
            if found.first_undelivered == 0 {
                found.first_undelivered = number;
            }
            found.last_undelivered = number;
        })?;
        Ok(found)
    }

    /// Conditions 2 to 4. Where no order is open, the last open one is not the district's last.
    fn check(&self, next: u32, wrong: &mut dyn FnMut(u8, String)) {
        let last = next.saturating_sub(1);
        if self.last_order != last || self.orders != u64::from(last) {
            let (orders, found) = (self.orders, self.last_order);
            wrong(2, format!("the next order is {next}, but there are {orders}, the last {found}"));
        }
        if self.undelivered > 0 {
            let (first, newest) = (self.first_undelivered, self.last_undelivered);
            if newest != last {
                wrong(2, format!("the next order is {next}, but the last new one is {newest}"));
            }
            let span = u64::from(newest.abs_diff(first)) + 1;
            if self.undelivered != span {
                let undelivered = self.undelivered;
                wrong(3, format!("new orders {first} to {newest}, but there are {undelivered}"));
            }
        }
        if self.lines_said != self.lines {
            let (said, lines) = (self.lines_said, self.lines);
            wrong(4, format!("orders have {said} lines, but there are {lines}"));
        }
    }
}

/// How many entries there are; `visit` sees the key of each.
fn count(mut range: polder::Range, mut visit: impl FnMut(&[u8])) -> Result<u64, StoreError> {
    let mut count = 0;
    while let Some((key, _)) = range.next_entry()? {
        visit(key);
        count += 1;
    }
    Ok(count)
}
