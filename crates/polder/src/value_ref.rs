//! A value that is lent.

use std::fmt;

/// A value of a table, lent by [`Table::get_ref`](crate::Table::get_ref).
///
/// A long value, which has pages of its own, lies in the store's memory and was not copied: it stays
/// there and does not change as long as this is kept, whatever becomes of its key, its table or the
/// store. A short one is a copy.
///
/// This keeps nobody waiting, be it a reader or a writer, and its owner may do whatever it likes with the
/// store meanwhile, also on the same thread. It may go to another thread. What it keeps is memory: a
/// store whose memory is taken by values that are lent cannot read others, and says so
/// ([`StoreError::PoolExhausted`](crate::StoreError)). A value of more than an eighth of the store's memory is
/// copied for that reason.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
/// let maps = store.create_table("maps")?;
/// maps.put("Beemster", [7; 10_000])?;
/// let Some(map) = maps.get_ref("Beemster")? else { return Ok(()) };
/// maps.remove("Beemster")?;
/// store.drop_table("maps")?;
/// // It is what it was, page by page.
/// assert_eq!(map.len(), 10_000);
/// assert!(map.is_lent() && map.as_slice().is_none());
/// assert!(map.chunks().flatten().all(|byte| *byte == 7));
/// assert_eq!(map.to_vec(), [7; 10_000]);
/// # Ok(())
/// # }
/// ```
pub struct ValueRef<'t>(polder_tree::ValueRef<'t>);

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'t> ValueRef<'t> {
    pub(crate) fn new(value: polder_tree::ValueRef<'t>) -> ValueRef<'t> {
        ValueRef(value)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these are the very bytes in the store's memory, and no copy.
    pub fn is_lent(&self) -> bool {
        self.0.is_lent()
    }

    /// The value, if it lies in one piece: that of a copy does, and that of a long value which fits in
    /// one page.
    #[inline]
    pub fn as_slice(&self) -> Option<&[u8]> {
        self.0.as_slice()
    }

    /// The pieces in which the value lies, in order; none of them is empty. A long value has one in each
    /// of its pages.
    #[inline]
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.0.chunks()
    }

    /// A copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Copies the value into the beginning of `out`, as much of it as there is room for. Gives how many
    /// bytes that are.
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        self.0.copy_to(out)
    }
}
