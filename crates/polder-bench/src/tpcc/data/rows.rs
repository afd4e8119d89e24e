//! Rows: numbers (little-endian) and text of fixed width at fixed places, and behind them, in some,
//! one text of any length.
//!
//! A transaction that changes a row patches the bytes that it read, and decodes nothing else. Money
//! is in hundredths, rates are in ten-thousandths, times are microseconds since 1970.

use polder::Table;
use zerocopy::little_endian::{I16, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::BenchError;

/// A warehouse.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Warehouse {
    pub(crate) name: [u8; 10],
    pub(crate) address: [u8; ADDRESS_BYTES],
    pub(crate) tax: U32,
    pub(crate) ytd: I64,
}

/// A district.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct District {
    pub(crate) name: [u8; 10],
    pub(crate) address: [u8; ADDRESS_BYTES],
    pub(crate) tax: U32,
    pub(crate) ytd: I64,
    pub(crate) next_o_id: U32,
}

/// A customer; behind it `C_DATA`, of at most [`CUSTOMER_DATA_BYTES`].
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Customer {
    pub(crate) first: [u8; 16],
    pub(crate) middle: [u8; 2],
    pub(crate) last: [u8; 16],
    pub(crate) address: [u8; ADDRESS_BYTES],
    pub(crate) phone: [u8; 16],
    pub(crate) since: U64,
    pub(crate) credit: [u8; 2],
    pub(crate) credit_lim: I64,
    pub(crate) discount: U32,
    pub(crate) balance: I64,
    pub(crate) ytd_payment: I64,
    pub(crate) payment_cnt: U32,
    pub(crate) delivery_cnt: U32,
}

/// A payment; behind it `H_DATA`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct History {
    pub(crate) c_id: U16,
    pub(crate) c_d_id: u8,
    pub(crate) c_w_id: U16,
    pub(crate) d_id: u8,
    pub(crate) w_id: U16,
    pub(crate) date: U64,
    pub(crate) amount: I64,
}

/// An order.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Order {
    pub(crate) c_id: U16,
    pub(crate) entry_d: U64,
    /// 0: none yet.
    pub(crate) carrier_id: u8,
    pub(crate) ol_cnt: u8,
    pub(crate) all_local: u8,
}

/// A line of an order.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct OrderLine {
    pub(crate) i_id: U32,
    pub(crate) supply_w_id: U16,
    /// 0: not delivered.
    pub(crate) delivery_d: U64,
    pub(crate) quantity: u8,
    pub(crate) amount: I64,
    pub(crate) dist_info: [u8; 24],
}

/// An item; behind it `I_DATA`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Item {
    pub(crate) im_id: U32,
    pub(crate) name: [u8; 24],
    pub(crate) price: U32,
}

/// What a warehouse has of an item; behind it `S_DATA`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Stock {
    pub(crate) quantity: I16,
    pub(crate) ytd: U32,
    pub(crate) order_cnt: U32,
    pub(crate) remote_cnt: U32,
    /// `S_DIST_01` to `S_DIST_10`.
    pub(crate) dist: [[u8; DIST_BYTES]; 10],
}

/// Two streets and a city of 20 each, state and zip.
pub(crate) const ADDRESS_BYTES: usize = 20 + 20 + 20 + 2 + 9;
/// `S_DIST_xx`, and what an order line copies of it.
pub(crate) const DIST_BYTES: usize = 24;
/// The longest `C_DATA`.
const CUSTOMER_DATA_BYTES: usize = 500;

/// What is at fixed places of a row.
pub(crate) trait Kind:
    'static + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned
{
    /// The fields of a row, and the text behind them. `None` if the bytes are too short.
    #[inline]
    fn of(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        Self::ref_from_prefix(bytes).ok()
    }

    /// A row of these fields, with this text behind them.
    fn with(&self, data: &[u8]) -> Vec<u8> {
        [self.as_bytes(), data].concat()
    }
}

impl<K: 'static + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned> Kind for K {}

impl Customer {
    /// Puts a note in front of the `C_DATA` of this row, which is cut at its longest.
    pub(crate) fn put_note(row: &mut Vec<u8>, note: &str) {
        let begin = size_of::<Customer>();
        row.splice(begin..begin, note.bytes());
        row.truncate(begin + CUSTOMER_DATA_BYTES);
    }
}

/// Looks at the fields of a row, and at the text behind them, if there is a whole row.
#[inline]
pub(crate) fn find<K: Kind, R>(
    table: &Table,
    key: &[u8],
    look: impl FnOnce(&K, &[u8]) -> R,
) -> Result<Option<R>, BenchError> {
    let look = |bytes: &[u8]| K::of(bytes).map(|(row, data)| look(row, data));
    Ok(table.get_with(key, look)?.flatten())
}

/// The same of a row that must be there.
#[inline]
pub(crate) fn look<K: Kind, R>(
    table: &Table,
    key: &[u8],
    look: impl FnOnce(&K) -> R,
) -> Result<R, BenchError> {
    find(table, key, |row, _| look(row))?.ok_or_else(|| BenchError::no_row(table, key))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn fields_follow_each_other() {
        assert_eq!((offset_of!(OrderLine, i_id), offset_of!(OrderLine, supply_w_id)), (0, 4));
        assert_eq!((offset_of!(OrderLine, delivery_d), offset_of!(OrderLine, dist_info)), (6, 23));
        assert_eq!(size_of::<OrderLine>(), 47);
        assert_eq!(size_of::<Customer>(), 16 + 2 + 16 + 71 + 16 + 8 + 2 + 8 + 4 + 8 + 8 + 4 + 4);
    }

    #[test]
    fn what_is_set_is_there_and_nothing_else_has_changed() {
        let mut dist = [[b'a'; DIST_BYTES]; 10];
        dist[9] = [b'z'; DIST_BYTES];
        let stock = Stock {
            quantity: (-7).into(),
            ytd: 0.into(),
            order_cnt: 0.into(),
            remote_cnt: 3.into(),
            dist,
        };
        let bytes = stock.with(b"ORIGINAL");
        let (row, data) = Stock::of(&bytes).unwrap();
        assert_eq!((row.quantity.get(), row.ytd.get()), (-7, 0));
        assert_eq!((row.remote_cnt.get(), data), (3, &b"ORIGINAL"[..]));
        assert_eq!((row.dist[0], row.dist[9]), ([b'a'; 24], [b'z'; 24]));
        assert_eq!(bytes.len(), size_of::<Stock>() + 8);
        assert_eq!(bytes[..2], (-7i16).to_le_bytes());
    }

    #[test]
    fn rows_that_are_too_short_are_refused() {
        let bytes = [0; size_of::<District>()];
        assert!(District::of(&bytes).is_some());
        assert!(District::of(&bytes[1..]).is_none());
    }

    #[test]
    fn data_is_cut_at_its_length() {
        let mut row = vec![b'x'; size_of::<Customer>() + 495];
        Customer::put_note(&mut row, "1 2 3 4|");
        let (_, data) = Customer::of(&row).unwrap();
        assert_eq!(data.len(), 500);
        assert!(data.starts_with(b"1 2 3 4|xxx"));
    }
}
