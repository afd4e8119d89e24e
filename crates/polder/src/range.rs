//! Entries in order, from both ends.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use polder_pool::Translation;
use polder_tree::Cursor;

use crate::any::{Any, Family, dispatch, map_any};
use crate::engine::TableCore;
use crate::error::StoreError;
use crate::table::Table;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A key and its value, lent.
pub type EntryRef<'r> = (&'r [u8], &'r [u8]);

/// Entries of a table in order. Holds no lock and no latch between steps.
///
/// As an iterator it gives copies; [`Range::next_entry`] lends instead. After an error the range
/// stays where it was.
pub struct Range {
    ends: Any<BothEnds>,
    /// So that the store is not closed meanwhile.
    table: Table,
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Range of {}", self.table.name())
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
}

impl Range {
    pub(crate) fn new(table: Table, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Range {
        let ends = map_any!(&table.core, core => Ends::new(Arc::clone(core), lower, upper));
        Range { ends, table }
    }

    /// The next entry, lent until the range is used again.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn next_entry(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        dispatch!(&mut self.ends, ends => ends.next())
    }

    /// The next entry from the other end, lent until the range is used again.
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn next_entry_back(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        dispatch!(&mut self.ends, ends => ends.next_back())
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

impl<T: Translation> Ends<T> {
    fn new(table: Arc<TableCore<T>>, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Ends<T> {
        Ends { table, lower, upper, front: None, back: None, done: false }
    }

    fn next(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        let Ends { table, lower, upper, front, done, .. } = self;
        table.check()?;
        if *done {
            return Ok(None);
        }
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
            *done = true;
            return Ok(None);
        };
        // The other end stops here.
        set_excluded(lower, key);
        Ok(Some((key, value)))
    }

    fn next_back(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        let Ends { table, lower, upper, back, done, .. } = self;
        table.check()?;
        if *done {
            return Ok(None);
        }
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
            *done = true;
            return Ok(None);
        };
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
