//! The consistency conditions 1 to 4 of clause 3.3.2.

use polder::Table;

use super::data::Tables;
use super::data::keys::{self, DISTRICTS};
use super::data::rows::{District, Kind, Order, Warehouse, look};
use crate::error::BenchError;
use crate::interrupt::Interrupt;

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
        let key = keys::warehouse(w);
        let taken = look(&tables.warehouse, &key, |row: &Warehouse| row.ytd.get())?;
        let mut taken_by_districts = 0;
        for d in 1..=DISTRICTS {
            let key = keys::district(w, d);
            let (taken, next) = look(&tables.district, &key, |row: &District| {
                (row.ytd.get(), row.next_o_id.get())
            })?;
            taken_by_districts += taken;
            check_orders(tables, w, d, next, |condition, what| {
                wrong.push(format!("condition {condition}: warehouse {w}, district {d}: {what}"));
            })?;
        }
        if taken != taken_by_districts {
            wrong.push(format!(
                "condition 1: warehouse {w} has taken {taken}, its districts {taken_by_districts}"
            ));
        }
    }
    Ok(wrong)
}

/// Conditions 2 to 4, of a district whose next order has this number.
fn check_orders(
    tables: &Tables,
    w: u16,
    d: u8,
    next: u32,
    mut wrong: impl FnMut(u8, String),
) -> Result<(), BenchError> {
    let (last, mut lines_said) = (next.saturating_sub(1), 0);
    let orders = numbers(&tables.orders, w, d, |row| {
        let (order, _) = Order::of(row)?;
        lines_said += usize::from(order.ol_cnt);
        Some(())
    })?;
    let found = orders.last().copied().unwrap_or_default();
    if found != last || orders.len() != last as usize {
        let orders = orders.len();
        wrong(2, format!("the next order is {next}, but there are {orders}, the last {found}"));
    }
    let open = numbers(&tables.new_order, w, d, |_| Some(()))?;
    // Where no order is open, the last open one is not the district's last.
    if let (Some(first), Some(newest)) = (open.first(), open.last()) {
        if *newest != last {
            wrong(2, format!("the next order is {next}, but the last new one is {newest}"));
        }
        if open.len() != (newest - first) as usize + 1 {
            let undelivered = open.len();
            wrong(3, format!("new orders {first} to {newest}, but there are {undelivered}"));
        }
    }
    let lines = numbers(&tables.order_line, w, d, |_| Some(()))?.len();
    if lines_said != lines {
        wrong(4, format!("orders have {lines_said} lines, but there are {lines}"));
    }
    Ok(())
}

/// The numbers of a district's orders for each row of this table; `visit` sees the rows, and gives
/// `None` if one is not whole.
fn numbers(
    table: &Table,
    w: u16,
    d: u8,
    mut visit: impl FnMut(&[u8]) -> Option<()>,
) -> Result<Vec<u32>, BenchError> {
    let (mut rows, mut numbers) = (table.range(keys::orders(w, d)), Vec::new());
    while let Some((key, row)) = rows.next_entry()? {
        let number = keys::order_number(key).filter(|_| visit(row).is_some());
        numbers.push(number.ok_or_else(|| BenchError::no_row(table, key))?);
    }
    Ok(numbers)
}
