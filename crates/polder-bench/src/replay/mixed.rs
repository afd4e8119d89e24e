//! A made trace of reads and writes: page accesses like those of TPC-C, in which some pages are
//! written nearly each time that somebody comes to them, and others never. It is not TPC-C: there
//! are no rows and no inner pages, and what a transaction does is simplified.

use super::trace::Trace;
use super::zipf::made;
use crate::random::{Random, RngExt};

const WAREHOUSES: u64 = 10;
const DISTRICTS: u64 = 10;

// Pages of 4 KiB, of each warehouse but for the items, by the sizes of rows in the specification.
const STOCK_PAGES: u64 = 8000;
const CUSTOMER_PAGES: u64 = 5000;
const ITEM_PAGES: u64 = 2200;
/// Orders, with their lines, that fill a page.
const ORDERS_PER_PAGE: u64 = 6;
/// Pages of orders in each district. Nobody asks for orders that are older than that, so that their
/// pages serve as new ones.
const ORDER_PAGES: u64 = 600;

const ITEMS: u64 = 100_000;
const CUSTOMERS: u64 = 30_000;
/// Lines of an order.
const LINES: u64 = 10;

/// Where the pages of each table begin. Leaves alone: the pages above them are always resident.
const STOCK: u64 = 0;
const CUSTOMER: u64 = STOCK + WAREHOUSES * STOCK_PAGES;
const ITEM: u64 = CUSTOMER + WAREHOUSES * CUSTOMER_PAGES;
const WAREHOUSE: u64 = ITEM + ITEM_PAGES;
const DISTRICT: u64 = WAREHOUSE + WAREHOUSES;
const ORDER: u64 = DISTRICT + WAREHOUSES;
const PAGES: u64 = ORDER + WAREHOUSES * DISTRICTS * ORDER_PAGES;

/// The five transactions of TPC-C in their standard mix, on ten warehouses, as the pages that they
/// come to.
pub(super) fn mixed(requests: u32) -> Trace {
    let mut orders = [ORDERS_PER_PAGE * ORDER_PAGES / 2; (WAREHOUSES * DISTRICTS) as usize];
    made(requests, PAGES as u32, |random, trace| transaction(random, &mut orders, trace))
}

/// The specification's skewed choice below `count`: 2.1.6, with its constant 0.
fn skewed(random: &mut Random, mask: u64, count: u64) -> u64 {
    (random.random_range(..mask + 1) | random.random_range(..count)) % count
}

/// One transaction; `orders` are the numbers of the next ones, by district.
fn transaction(random: &mut Random, orders: &mut [u64], trace: &mut Trace) {
    let mut access = |page: u64, writes: bool| {
        trace.requests.push(page as u32);
        trace.writes.push(writes);
    };
    let warehouse = random.random_range(..WAREHOUSES);
    let district = warehouse * DISTRICTS + random.random_range(..DISTRICTS);
    let next = &mut orders[district as usize];
    let order_page =
        |order: u64| ORDER + district * ORDER_PAGES + order / ORDERS_PER_PAGE % ORDER_PAGES;
    // Of any district: one draw for all of them.
    let customer = |random: &mut Random| {
        let row = skewed(random, 1023, CUSTOMERS);
        CUSTOMER + warehouse * CUSTOMER_PAGES + row * CUSTOMER_PAGES / CUSTOMERS
    };
    let item = |random: &mut Random| skewed(random, 8191, ITEMS);
    let stock = |item: u64| STOCK + warehouse * STOCK_PAGES + item * STOCK_PAGES / ITEMS;
    match random.random_range(..100u64) {
        // New-order.
        0..45 => {
            access(WAREHOUSE + warehouse, false);
            access(DISTRICT + warehouse, true);
            access(customer(random), false);
            for _ in 0..LINES {
                let item = item(random);
                access(ITEM + item * ITEM_PAGES / ITEMS, false);
                access(stock(item), true);
            }
            access(order_page(*next), true);
            *next += 1;
        }
        // Payment.
        45..88 => {
            access(WAREHOUSE + warehouse, true);
            access(DISTRICT + warehouse, true);
            access(customer(random), true);
        }
        // Order-status.
        88..92 => {
            access(customer(random), false);
            access(order_page(*next - 1 - random.random_range(..ORDERS_PER_PAGE * 20)), false);
        }
        // Delivery.
        92..96 => {
            access(order_page(*next - ORDERS_PER_PAGE * 100), true);
            access(customer(random), true);
        }
        // Stock-level: the last twenty orders, and the stock of what they hold.
        _ => {
            access(DISTRICT + warehouse, false);
            (1..=4).for_each(|back| access(order_page(*next - back * ORDERS_PER_PAGE), false));
            (0..40).for_each(|_| access(stock(item(random)), false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_it_writes_and_items_are_only_read() {
        let trace = mixed(200_000);
        assert_eq!(trace.requests.len(), trace.writes.len());
        assert!(trace.requests.iter().all(|page| *page < trace.pages));
        let writes = trace.writes.iter().filter(|write| **write).count();
        let percent = 100 * writes / trace.writes.len();
        assert!((40..60).contains(&percent), "{percent}% of the requests write");
        for (page, write) in trace.requests.iter().zip(&trace.writes) {
            let is_item = (ITEM..WAREHOUSE).contains(&u64::from(*page));
            assert!(!(is_item && *write), "the page {page} of items is written");
        }
    }
}
