//! Bounds of keys.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// Which keys a [`Table::range`](crate::Table::range) has: a range of anything that can be had as
/// bytes, or a pair of [`Bound`]s.
///
/// The standard library's `RangeBounds` would say the same, but what the ends are of `..`, which
/// has none, could then not be inferred.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
/// use std::ops::Bound;
///
/// let table = store.open_table("numbers")?;
/// table.bulk_load((0..100u32).map(|n| (n.to_be_bytes(), "")))?;
/// let key = 10u32.to_be_bytes();
/// assert_eq!(table.range(..).count(), 100);
/// assert_eq!(table.range(key..).count(), 90);
/// assert_eq!(table.range(..=&key).count(), 11);
/// assert_eq!(table.range(key.to_vec()..vec![0, 0, 0, 20]).count(), 10);
/// assert_eq!(table.range("a".."z").count(), 0);
/// // Behind a key: what no range of the language says.
/// assert_eq!(table.range((Bound::Excluded(key), Bound::Unbounded)).count(), 89);
/// # Ok(())
/// # }
/// ```
pub trait KeyRange {
    /// The bound below and the bound above.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

fn lent<'k, K: AsRef<[u8]> + 'k>(
    bounds: &'k impl RangeBounds<K>,
) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (bounds.start_bound().map(AsRef::as_ref), bounds.end_bound().map(AsRef::as_ref))
}

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! key_ranges {
    ($($range:ty),*) => {
        $(impl<K: AsRef<[u8]>> KeyRange for $range {
            fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                lent(self)
            }
        })*
    };
}
key_ranges!(
    Range<K>,
    RangeFrom<K>,
    RangeInclusive<K>,
    RangeTo<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);
