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

/// The range of all keys that begin with some bytes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
/// use polder::Prefix;
///
/// let cities = store.open_table("cities")?;
/// for name in ["be/Gent", "nl/Delft", "nl/Utrecht"] {
///     cities.put(name, "")?;
/// }
/// assert_eq!(cities.count_range(Prefix::new("nl/"))?, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    prefix: Vec<u8>,
    /// The first key behind them.
    end: Option<Vec<u8>>,
}

impl Prefix {
    /// All keys that begin so.
    pub fn new(prefix: impl AsRef<[u8]>) -> Prefix {
        let prefix = prefix.as_ref().to_vec();
        // Up to the next key that does not begin so: the last byte that can be raised is raised.
        let mut end = prefix.clone();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = end.last_mut().map(|last| *last += 1).map(|()| end);
        Prefix { prefix, end }
    }
}

impl KeyRange for Prefix {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(&self.prefix), end)
    }
}
