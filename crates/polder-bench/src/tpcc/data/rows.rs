//! Rows: numbers (little-endian) and text of fixed width at fixed places, and behind them, in some,
//! one text of any length.
//!
//! A transaction that changes a row patches the bytes that it read, and decodes nothing else. Money
//! is in hundredths, rates are in ten-thousandths, times are microseconds since 1970.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A value that takes always as many bytes.
pub(crate) trait Fixed: Copy {
    const BYTES: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! fixed_numbers {
    ($($number:ty),+) => {
        $(impl Fixed for $number {
            const BYTES: usize = size_of::<$number>();

            #[inline]
            fn read(bytes: &[u8]) -> $number {
                let mut number = [0; size_of::<$number>()];
                number.copy_from_slice(bytes);
                <$number>::from_le_bytes(number)
            }

            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        })+
    };
}

fixed_numbers!(u8, u16, i16, u32, u64, i64);

impl<const N: usize> Fixed for [u8; N] {
    const BYTES: usize = N;

    #[inline]
    fn read(bytes: &[u8]) -> [u8; N] {
        let mut text = [0; N];
        text.copy_from_slice(bytes);
        text
    }

    #[inline]
    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self);
    }
}

/// A kind of row.
pub(crate) trait Kind {
    /// Bytes of what is at fixed places.
    const BYTES: usize;
}

/// Where a row of kind `K` has a value.
pub(crate) struct Field<K, T> {
    at: usize,
    kind: PhantomData<(K, T)>,
}

impl<K, T> Clone for Field<K, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, T> Copy for Field<K, T> {}

/// Makes kinds of rows, each with its fields in their order.
macro_rules! rows {
    ($($(#[$doc:meta])* $kind:ident { $($(#[$note:meta])* $field:ident: $type:ty,)* })+) => {
        $($(#[$doc])*
        #[repr(C, packed)]
        #[allow(non_snake_case, dead_code)] // It is there for its layout.
        pub(crate) struct $kind {
            $($(#[$note])* $field: $type,)*
        }

        impl $kind {
            $($(#[$note])*
            pub(crate) const $field: Field<$kind, $type> =
                Field { at: std::mem::offset_of!($kind, $field), kind: PhantomData };)*
        }

        impl Kind for $kind {
            const BYTES: usize = size_of::<$kind>();
        })+
    };
}

rows! {
    /// A warehouse.
    Warehouse {
        NAME: [u8; 10],
        ADDRESS: [u8; ADDRESS_BYTES],
        TAX: u32,
        YTD: i64,
    }
    /// A district.
    District {
        NAME: [u8; 10],
        ADDRESS: [u8; ADDRESS_BYTES],
        TAX: u32,
        YTD: i64,
        NEXT_O_ID: u32,
    }
    /// A customer; behind it `C_DATA`, of at most [`CUSTOMER_DATA_BYTES`].
    Customer {
        FIRST: [u8; 16],
        MIDDLE: [u8; 2],
        LAST: [u8; 16],
        ADDRESS: [u8; ADDRESS_BYTES],
        PHONE: [u8; 16],
        SINCE: u64,
        CREDIT: [u8; 2],
        CREDIT_LIM: i64,
        DISCOUNT: u32,
        BALANCE: i64,
        YTD_PAYMENT: i64,
        PAYMENT_CNT: u32,
        DELIVERY_CNT: u32,
    }
    /// A payment; behind it `H_DATA`.
    History {
        C_ID: u16,
        C_D_ID: u8,
        C_W_ID: u16,
        D_ID: u8,
        W_ID: u16,
        DATE: u64,
        AMOUNT: i64,
    }
    /// An order.
    Order {
        C_ID: u16,
        ENTRY_D: u64,
        /// 0: none yet.
        CARRIER_ID: u8,
        OL_CNT: u8,
        ALL_LOCAL: u8,
    }
    /// A line of an order.
    OrderLine {
        I_ID: u32,
        SUPPLY_W_ID: u16,
        /// 0: not delivered.
        DELIVERY_D: u64,
        QUANTITY: u8,
        AMOUNT: i64,
        DIST_INFO: [u8; 24],
    }
    /// An item; behind it `I_DATA`.
    Item {
        IM_ID: u32,
        NAME: [u8; 24],
        PRICE: u32,
    }
    /// What a warehouse has of an item; behind it `S_DATA`.
    Stock {
        QUANTITY: i16,
        YTD: u32,
        ORDER_CNT: u32,
        REMOTE_CNT: u32,
        /// `S_DIST_01` to `S_DIST_10`.
        DIST: [u8; 10 * DIST_BYTES],
    }
}

/// Two streets and a city of 20 each, state and zip.
pub(crate) const ADDRESS_BYTES: usize = 20 + 20 + 20 + 2 + 9;
/// `S_DIST_xx`, and what an order line copies of it.
pub(crate) const DIST_BYTES: usize = 24;
/// The longest `C_DATA`.
pub(crate) const CUSTOMER_DATA_BYTES: usize = 500;

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
        (bytes.len() >= K::BYTES).then_some(Row { bytes, kind: PhantomData })
    }

    #[inline]
    pub(crate) fn get<T: Fixed>(&self, field: Field<K, T>) -> T {
        T::read(&self.bytes[field.at..field.at + T::BYTES])
    }

    /// The text behind the fields.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[K::BYTES..]
    }
}

impl<B: Deref<Target = [u8]>> Row<Stock, B> {
    /// `S_DIST_xx` of a district.
    #[inline]
    pub(crate) fn dist(&self, d: u8) -> [u8; DIST_BYTES] {
        let at = Stock::DIST.at + usize::from(d.clamp(1, 10) - 1) * DIST_BYTES;
        Fixed::read(&self.bytes[at..at + DIST_BYTES])
    }
}

impl<K: Kind, B: DerefMut<Target = [u8]>> Row<K, B> {
    #[inline]
    pub(crate) fn set<T: Fixed>(&mut self, field: Field<K, T>, value: T) {
        value.write(&mut self.bytes[field.at..field.at + T::BYTES]);
    }
}

impl<K: Kind> Row<K, Vec<u8>> {
    /// A row of zeros, with nothing behind its fields.
    pub(crate) fn new() -> Row<K, Vec<u8>> {
        Row { bytes: vec![0; K::BYTES], kind: PhantomData }
    }

    /// The text behind the fields, to change.
    pub(crate) fn data_mut(&mut self) -> Data<'_> {
        Data { bytes: &mut self.bytes, begin: K::BYTES }
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
        let fits = bytes.len() >= K::BYTES;
        self.bytes.resize(bytes.len().max(K::BYTES), 0);
        fits
    }
}

/// The text behind the fields of a row.
pub(crate) struct Data<'r> {
    bytes: &'r mut Vec<u8>,
    begin: usize,
}

impl Data<'_> {
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
    }

    /// Puts text in front, and cuts the whole at this length.
    pub(crate) fn push_front(&mut self, text: &[u8], most: usize) {
        self.bytes.splice(self.begin..self.begin, text.iter().copied());
        self.bytes.truncate(self.begin + most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_each_other() {
        assert_eq!((OrderLine::I_ID.at, OrderLine::SUPPLY_W_ID.at), (0, 4));
        assert_eq!((OrderLine::DELIVERY_D.at, OrderLine::DIST_INFO.at), (6, 23));
        assert_eq!(OrderLine::BYTES, 47);
        assert_eq!(Customer::BYTES, 16 + 2 + 16 + 71 + 16 + 8 + 2 + 8 + 4 + 8 + 8 + 4 + 4);
    }

    #[test]
    fn what_is_set_is_there_and_nothing_else_has_changed() {
        let mut row = Row::<Stock, _>::new();
        row.set(Stock::QUANTITY, -7);
        row.set(Stock::REMOTE_CNT, 3);
        row.data_mut().push(b"ORIGINAL");
        assert_eq!((row.get(Stock::QUANTITY), row.get(Stock::YTD)), (-7, 0));
        assert_eq!((row.get(Stock::REMOTE_CNT), row.data()), (3, &b"ORIGINAL"[..]));
        let mut dist = [b'a'; 240];
        dist[216..].fill(b'z');
        row.set(Stock::DIST, dist);
        assert_eq!((row.dist(1), row.dist(10)), ([b'a'; 24], [b'z'; 24]));
        let bytes = row.into_bytes();
        assert_eq!(bytes.len(), Stock::BYTES + 8);
        assert_eq!(bytes[..2], (-7i16).to_le_bytes());
    }

    #[test]
    fn rows_that_are_too_short_are_refused() {
        let bytes = [0; District::BYTES];
        assert!(Row::<District, _>::of(&bytes[..]).is_some());
        assert!(Row::<District, _>::of(&bytes[1..]).is_none());
        let mut row = Row::<District, _>::new();
        assert!(!row.copy_from(&bytes[1..]));
        assert_eq!(row.get(District::NEXT_O_ID), 0);
    }

    #[test]
    fn data_is_cut_at_its_length() {
        let mut row = Row::<Customer, _>::new();
        row.data_mut().push(&[b'x'; 495]);
        row.data_mut().push_front(b"1 2 3 4|", CUSTOMER_DATA_BYTES);
        assert_eq!(row.data().len(), 500);
        assert!(row.data().starts_with(b"1 2 3 4|xxx"));
    }
}
