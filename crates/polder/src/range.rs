//! Entries in order, from both ends.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use polder_pool::Translation;
use polder_tree::Cursor;

use crate::any::{Any, Family, dispatch, map_any};
use crate::engine::TableCore;
use crate::error::StoreError;
use crate::families::Tables;
use crate::handle::Store;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A key and its value, lent.
pub type EntryRef<'r> = (&'r [u8], &'r [u8]);

/// Entries of a table in order. Holds no lock and no latch between steps.
///
/// As an iterator it gives copies; [`Range::next_entry`] lends instead. After an error it gives
/// nothing more, from either end, until [`Range::resume`].
#[must_use = "a range reads nothing until it is asked for entries"]
pub struct Range {
    ends: Any<BothEnds>,
    /// So that the store is not closed meanwhile.
    _store: Store,
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dispatch!(&self.ends, ends => write!(f, "Range of {}", ends.table.name.get()))
    }
}

/// The ends of a range, once for each translation.
struct BothEnds;

impl Family for BothEnds {
    type Of<T: Translation> = Ends<T>;
}

/// Where the two ends stand.
struct Ends<T: Translation> {
    table: Arc<TableCore<T>>,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    front: Option<Cursor<T>>,
    back: Option<Cursor<T>>,
    /// The ends have met.
    done: bool,
    /// There was an error, and the caller has not asked to go on.
    failed: bool,
}

impl Range {
    pub(crate) fn new(
        table: &Any<Tables>,
        store: Store,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Range {
        let ends = map_any!(table, core => Ends::new(Arc::clone(core), lower, upper));
        Range { ends, _store: store }
    }

    #[cfg(feature = "async")]
    pub(crate) fn table_name(&self) -> String {
        dispatch!(&self.ends, ends => ends.table.name.get().to_string())
    }

    /// The next entry, lent until the range is used again.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let words = store.create_table("words")?;
    /// words.put("dike", "dijk")?;
    /// let (mut range, mut bytes) = (words.range(..), 0);
    /// while let Some((key, value)) = range.next_entry()? {
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn next_entry(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        dispatch!(&mut self.ends, ends => ends.next())
    }

    /// The next entry from the other end, lent until the range is used again.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let words = store.create_table("words")?;
    /// words.put("dike", "dijk")?;
    /// words.put("mill", "molen")?;
    /// let mut range = words.range(..);
    /// assert_eq!(range.next_entry_back()?, Some((&b"mill"[..], &b"molen"[..])));
    /// assert_eq!(range.next_entry()?, Some((&b"dike"[..], &b"dijk"[..])));
    /// assert_eq!(range.next_entry_back()?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn next_entry_back(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        dispatch!(&mut self.ends, ends => ends.next_back())
    }

    /// Goes on after an error, from where the range was when it came: for errors that pass, as
    /// those of a device that was away. Where they do not, as with a damaged page, the next step
    /// gives the same error.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use polder::{Options, Store};
    /// # let store = Store::open(Options::new(dir.path().join("s")).memory_budget(8 << 20))?;
    /// # let table = store.open_table("names")?;
    /// # table.put("1", "Ada")?;
    /// let mut range = table.iter();
    /// let first = match range.next() {
    ///     // Once more, if it is worth it.
    ///     Some(Err(error)) => {
    ///         eprintln!("{error}");
    ///         range.resume();
    ///         range.next()
    ///     }
    ///     entry => entry,
    /// };
    /// # assert_eq!(first.transpose()?.map(|(key, _)| key), Some(b"1".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(&mut self) {
        dispatch!(&mut self.ends, ends => ends.failed = false);
    }
}

fn owned(entry: Result<Option<EntryRef<'_>>, StoreError>) -> Option<Result<Entry, StoreError>> {
    entry.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).transpose()
}

impl Iterator for Range {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        owned(self.next_entry())
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        owned(self.next_entry_back())
    }
}

impl FusedIterator for Range {}

impl<T: Translation> Ends<T> {
    fn new(table: Arc<TableCore<T>>, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Ends<T> {
        Ends { table, lower, upper, front: None, back: None, done: false, failed: false }
    }

    fn next(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        let Ends { table, failed, lower, upper, front, done, .. } = self;
        if *done || *failed {
            return Ok(None);
        }
        // Until this step has gone well.
        *failed = true;
        table.check()?;
        if front.is_none() {
            let cursor = match lower {
                Bound::Unbounded => table.tree.cursor_first(),
                Bound::Included(key) => table.tree.cursor_at(key),
                Bound::Excluded(key) => table.tree.cursor_behind(key),
            };
            *front = Some(cursor.map_err(|error| table.error(error))?);
        }
        let Some(cursor) = front else { return Ok(None) };
        let entry = cursor.next().map_err(|error| table.error(error))?;
        let Some((key, value)) = entry.filter(|(key, _)| is_below(key, upper)) else {
            (*done, *failed) = (true, false);
            return Ok(None);
        };
        *failed = false;
        // The other end stops here.
        set_excluded(lower, key);
        Ok(Some((key, value)))
    }

    fn next_back(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        let Ends { table, failed, lower, upper, back, done, .. } = self;
        if *done || *failed {
            return Ok(None);
        }
        // Until this step has gone well.
        *failed = true;
        table.check()?;
        if back.is_none() {
            let cursor = match upper {
                Bound::Unbounded => table.tree.cursor_last(),
                Bound::Included(key) => table.tree.cursor_behind(key),
                Bound::Excluded(key) => table.tree.cursor_at(key),
            };
            *back = Some(cursor.map_err(|error| table.error(error))?);
        }
        let Some(cursor) = back else { return Ok(None) };
        let entry = cursor.previous().map_err(|error| table.error(error))?;
        let Some((key, value)) = entry.filter(|(key, _)| is_above(key, lower)) else {
            (*done, *failed) = (true, false);
            return Ok(None);
        };
        *failed = false;
        set_excluded(upper, key);
        Ok(Some((key, value)))
    }
}

fn is_below(key: &[u8], upper: &Bound<Vec<u8>>) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => key <= upper.as_slice(),
        Bound::Excluded(upper) => key < upper.as_slice(),
    }
}

fn is_above(key: &[u8], lower: &Bound<Vec<u8>>) -> bool {
    match lower {
        Bound::Unbounded => true,
        Bound::Included(lower) => key >= lower.as_slice(),
        Bound::Excluded(lower) => key > lower.as_slice(),
    }
}

/// Reuses the bound's memory.
fn set_excluded(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    let mut bytes = match std::mem::replace(bound, Bound::Unbounded) {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
        Bound::Unbounded => Vec::new(),
    };
    bytes.clear();
    bytes.extend_from_slice(key);
    *bound = Bound::Excluded(bytes);
}
