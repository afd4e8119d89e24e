//! Keys: all columns of a key in one number, as many bits for each as it needs, big-endian, so that
//! keys are in the order of their columns.
//!
//! Not the tuple codec of Polder, which knows types and takes nine bytes for each number. The
//! columns of a key are always the same here; and a search that is decided by the first four bytes
//! behind what the keys of a node have in common looks at nothing else of them. So most keys have
//! four bytes.

use std::ops::Range;

/// Districts of a warehouse, always: clause 1.2.1.
pub(crate) const DISTRICTS: u8 = 10;
/// The last order that a district can have.
pub(crate) const LAST_ORDER: u32 = (1 << ORDER_BITS) - 1;
/// Bytes of a last or first name in a key: names are padded with zeros, which come before letters.
pub(crate) const NAME_BYTES: usize = 16;

/// Bits of the columns. A warehouse has what is left of the first 32.
const DISTRICT_BITS: u32 = 4;
const CUSTOMER_BITS: u32 = 12;
const ITEM_BITS: u32 = 17;
const ORDER_BITS: u32 = 25;
const LINE_BITS: u32 = 4;
/// What a district has taken, in hundredths.
const TAKEN_BITS: u32 = 45;

/// The key of an order or of a line of it.
pub(crate) type OrderKey = [u8; 6];

/// The lowest bytes of a number: warehouse and district, and behind them columns of so many bits.
#[inline]
fn key<const N: usize>(w: u16, d: u8, columns: &[(u64, u32)]) -> [u8; N] {
    let mut number = u64::from(w) << DISTRICT_BITS | u64::from(d);
    for (column, bits) in columns {
        debug_assert!(*column < 1 << bits, "{column} does not fit {bits} bits");
        number = number << bits | column;
    }
    let all = number.to_be_bytes();
    std::array::from_fn(|at| all[all.len() - N + at])
}

pub(crate) fn warehouse(w: u16) -> [u8; 2] {
    w.to_be_bytes()
}

pub(crate) fn district(w: u16, d: u8) -> [u8; 4] {
    key(w, d, &[])
}

pub(crate) fn customer(w: u16, d: u8, c: u16) -> [u8; 4] {
    key(w, d, &[(c.into(), CUSTOMER_BITS)])
}

pub(crate) fn item(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

pub(crate) fn stock(w: u16, i: u32) -> [u8; 4] {
    (u32::from(w) << ITEM_BITS | i).to_be_bytes()
}

/// An order, in the tables of orders and of new orders.
pub(crate) fn order(w: u16, d: u8, o: u32) -> OrderKey {
    order_line(w, d, o, 0)
}

/// The keys of all orders of a district, and of all their lines.
pub(crate) fn orders(w: u16, d: u8) -> Range<OrderKey> {
    order(w, d, 0)..order(w, d + 1, 0)
}

pub(crate) fn order_line(w: u16, d: u8, o: u32, line: u8) -> OrderKey {
    key(w, d, &[(o.into(), ORDER_BITS), (line.into(), LINE_BITS)])
}

/// The keys of all lines of these orders.
pub(crate) fn order_lines(w: u16, d: u8, orders: Range<u32>) -> Range<OrderKey> {
    order(w, d, orders.start)..order(w, d, orders.end)
}

/// The number of an order in its key.
pub(crate) fn order_number(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*key.last_chunk()?) >> LINE_BITS & LAST_ORDER)
}

/// Orders by customer: the key of an index without values.
pub(crate) fn order_by_customer(w: u16, d: u8, c: u16, o: u32) -> [u8; 7] {
    key(w, d, &[(c.into(), CUSTOMER_BITS), (o.into(), ORDER_BITS)])
}

/// The number of an order in the key of that index.
pub(crate) fn order_of_customer(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*key.last_chunk()?) & LAST_ORDER)
}

/// A payment has no key in the specification. This one is what the district has taken by then,
/// which rises with each payment and is expected by it: so it is unique, and payments are
/// appended.
pub(crate) fn history(w: u16, d: u8, taken: i64) -> [u8; 8] {
    key(w, d, &[(taken.cast_unsigned(), TAKEN_BITS)])
}

/// Customers by last name, then first name: the key of an index without values.
pub(crate) fn customer_by_name(
    w: u16,
    d: u8,
    last: &[u8; NAME_BYTES],
    first: &[u8; NAME_BYTES],
    c: u16,
) -> [u8; 5 + 2 * NAME_BYTES] {
    let mut key = [0; 5 + 2 * NAME_BYTES];
    key[..3 + NAME_BYTES].copy_from_slice(&customers_of_name(w, d, last));
    key[3 + NAME_BYTES..3 + 2 * NAME_BYTES].copy_from_slice(first);
    key[3 + 2 * NAME_BYTES..].copy_from_slice(&c.to_be_bytes());
    key
}

/// What the keys of all customers of a last name begin with.
pub(crate) fn customers_of_name(w: u16, d: u8, last: &[u8; NAME_BYTES]) -> [u8; 3 + NAME_BYTES] {
    let mut prefix = [0; 3 + NAME_BYTES];
    prefix[..3].copy_from_slice(&key::<3>(w, d, &[]));
    prefix[3..].copy_from_slice(last);
    prefix
}

/// The customer of a key of that index.
pub(crate) fn customer_of_name(key: &[u8]) -> Option<u16> {
    key.last_chunk().map(|c| u16::from_be_bytes(*c))
}

#[cfg(test)]
mod tests;
