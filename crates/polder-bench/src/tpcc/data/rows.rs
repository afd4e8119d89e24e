//! Rows: numbers (little-endian) and text of fixed width at fixed places, and behind them, in some,
//! one text of any length.
//!
//! A transaction that changes a row patches the bytes that it read, and decodes nothing else. Money
//! is in hundredths, rates are in ten-thousandths, times are microseconds since 1970.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use zerocopy::little_endian::{I16, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

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
pub(crate) const CUSTOMER_DATA_BYTES: usize = 500;

/// What is at fixed places of a row.
pub(crate) trait Kind: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned {}

impl<K: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned> Kind for K {}

/// A row of this kind, in bytes that are at least as long as its fields.
#[derive(Debug, Clone)]
pub(crate) struct Row<K, B> {
    bytes: B,
    kind: PhantomData<K>,
}

impl<K: Kind, B: Deref<Target = [u8]>> Row<K, B> {
    /// None if the bytes are too short to be one.
    #[inline]
    pub(crate) fn of(bytes: B) -> Option<Row<K, B>> {
        (bytes.len() >= size_of::<K>()).then_some(Row { bytes, kind: PhantomData })
    }

    /// The text behind the fields.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[size_of::<K>()..]
    }
}

impl<K: Kind, B: Deref<Target = [u8]>> Deref for Row<K, B> {
    type Target = K;

    #[inline]
    fn deref(&self) -> &K {
        let fields = K::ref_from_bytes(&self.bytes[..size_of::<K>()]);
        fields.unwrap_or_else(|_| unreachable!("any bytes of this length are fields"))
    }
}

impl<K: Kind, B: DerefMut<Target = [u8]>> DerefMut for Row<K, B> {
    #[inline]
    fn deref_mut(&mut self) -> &mut K {
        let fields = K::mut_from_bytes(&mut self.bytes[..size_of::<K>()]);
        fields.unwrap_or_else(|_| unreachable!("any bytes of this length are fields"))
    }
}

impl<K: Kind> Row<K, Vec<u8>> {
    /// A row of zeros, with nothing behind its fields.
    pub(crate) fn new() -> Row<K, Vec<u8>> {
        Row { bytes: vec![0; size_of::<K>()], kind: PhantomData }
    }

    /// Leaves nothing behind the fields.
    pub(crate) fn clear_data(&mut self) {
        self.bytes.truncate(size_of::<K>());
    }

    /// Puts text behind all there is.
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
    }

    /// Puts text in front of that behind the fields, and cuts the whole at this length.
    pub(crate) fn push_front(&mut self, text: &[u8], most: usize) {
        let begin = size_of::<K>();
        self.bytes.splice(begin..begin, text.iter().copied());
        self.bytes.truncate(begin + most);
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All of it.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Makes this row what these bytes are; false if they are too short to be one.
    #[inline]
    pub(crate) fn copy_from(&mut self, bytes: &[u8]) -> bool {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        let fits = bytes.len() >= size_of::<K>();
        self.bytes.resize(bytes.len().max(size_of::<K>()), 0);
        fits
    }
}

impl Stock {
    /// `S_DIST_xx` of a district.
    #[inline]
    pub(crate) fn dist_of(&self, d: u8) -> [u8; DIST_BYTES] {
        self.dist[usize::from(d.clamp(1, 10) - 1)]
    }
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
        let mut row = Row::<Stock, _>::new();
        row.quantity.set(-7);
        row.remote_cnt.set(3);
        row.push(b"ORIGINAL");
        assert_eq!((row.quantity.get(), row.ytd.get()), (-7, 0));
        assert_eq!((row.remote_cnt.get(), row.data()), (3, &b"ORIGINAL"[..]));
        let mut dist = [[b'a'; 24]; 10];
        dist[9] = [b'z'; 24];
        row.dist = dist;
        assert_eq!((row.dist_of(1), row.dist_of(10)), ([b'a'; 24], [b'z'; 24]));
        let bytes = row.into_bytes();
        assert_eq!(bytes.len(), size_of::<Stock>() + 8);
        assert_eq!(bytes[..2], (-7i16).to_le_bytes());
    }

    #[test]
    fn rows_that_are_too_short_are_refused() {
        let bytes = [0; size_of::<District>()];
        assert!(Row::<District, _>::of(&bytes[..]).is_some());
        assert!(Row::<District, _>::of(&bytes[1..]).is_none());
        let mut row = Row::<District, _>::new();
        assert!(!row.copy_from(&bytes[1..]));
        assert_eq!(row.next_o_id.get(), 0);
    }

    #[test]
    fn data_is_cut_at_its_length() {
        let mut row = Row::<Customer, _>::new();
        row.push(&[b'x'; 495]);
        row.push_front(b"1 2 3 4|", CUSTOMER_DATA_BYTES);
        assert_eq!(row.data().len(), 500);
        assert!(row.data().starts_with(b"1 2 3 4|xxx"));
    }
}
