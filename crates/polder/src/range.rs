//! Entries in order, from both ends.
//!
//! A range allocates nothing, once its thread has had one: what it works in is used again by the next
//! one (`range/key_copy.rs`, and the cursor's memory in polder-tree).

mod key_copy;

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use polder_pool::Translation;
use polder_tree::Place;

use crate::any::{Any, Family, dispatch, map_any};
use crate::engine::TableCore;
use crate::error::StoreError;
use crate::families::Tables;
use crate::handle::{Closer, Store};
use key_copy::{KeyCopy, lent};

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
    _store: Arc<Closer>,
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
    lower: Bound<KeyCopy>,
    upper: Bound<KeyCopy>,
    front: Option<Place>,
    back: Option<Place>,
    /// The ends have met.
    done: bool,
    /// There was an error, and the caller has not asked to go on.
    failed: bool,
}

impl Range {
    pub(crate) fn new(
        table: &Any<Tables>,
        store: &Store,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> Range {
        let ends = map_any!(table, core => Ends::new(Arc::clone(core), lower, upper));
        Range { ends, _store: Arc::clone(&store.closer) }
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

    /// Reads no more of the table than it takes, and copies nothing; an error is one item, the last.
    fn count(mut self) -> usize {
        if let Some(count) = dispatch!(&self.ends, ends => ends.count()) {
            return count as usize;
        }
        let mut count = 0;
        while self.next_entry().map_or(true, |entry| entry.is_some()) {
            count += 1;
        }
        count
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        owned(self.next_entry_back())
    }
}

impl FusedIterator for Range {}

/// A function of its own: the code for it is there once, and not for each translation.
#[inline(never)]
fn step_up(place: &mut Place) -> bool {
    place.step_up()
}

/// As [`step_up`].
#[inline(never)]
fn step_down(place: &mut Place) -> bool {
    place.step_down()
}

impl<T: Translation> Ends<T> {
    fn new(table: Arc<TableCore<T>>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Ends<T> {
        let (lower, upper) = (lower.map(KeyCopy::new), upper.map(KeyCopy::new));
        Ends { table, lower, upper, front: None, back: None, done: false, failed: false }
    }

    fn next(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        // Mostly there is one end, and the next entry lies in the leaf where it stands.
        let is_begun = !self.failed && self.back.is_none() && self.table.check().is_ok();
        let there = (is_begun && self.front.as_mut().is_some_and(step_up)) || self.go_up()?;
        Ok(self.front.as_ref().filter(|_| there).map(Place::entry))
    }

    fn next_back(&mut self) -> Result<Option<EntryRef<'_>>, StoreError> {
        let is_begun = !self.failed && self.front.is_none() && self.table.check().is_ok();
        let there = (is_begun && self.back.as_mut().is_some_and(step_down)) || self.go_down()?;
        Ok(self.back.as_ref().filter(|_| there).map(Place::entry))
    }

    /// A step of the front. False if there is no entry between it and the other end.
    #[inline(never)]
    fn go_up(&mut self) -> Result<bool, StoreError> {
        let Ends { table, lower, upper, front, back, done, failed } = self;
        if *done || *failed {
            return Ok(false);
        }
        // Until this step has gone well.
        *failed = true;
        table.check()?;
        if front.is_none() {
            let place = Place::above(&table.tree, lent(lower));
            *front = Some(place.map_err(|error| table.error(error))?);
        }
        let Some(front) = front else { return Ok(false) };
        let entry = front.next(&table.tree, lent(upper)).map_err(|error| table.error(error))?;
        *failed = false;
        // The other end was here.
        let other = back.as_ref().and_then(Place::last_key);
        *done = entry.is_none_or(|(key, _)| other.is_some_and(|other| key >= other));
        Ok(!*done)
    }

    /// As [`Ends::go_up`], of the back.
    #[inline(never)]
    fn go_down(&mut self) -> Result<bool, StoreError> {
        let Ends { table, lower, upper, front, back, done, failed } = self;
        if *done || *failed {
            return Ok(false);
        }
        // Until this step has gone well.
        *failed = true;
        table.check()?;
        if back.is_none() {
            let place = Place::below(&table.tree, lent(upper));
            *back = Some(place.map_err(|error| table.error(error))?);
        }
        let Some(back) = back else { return Ok(false) };
        let entry = back.previous(&table.tree, lent(lower)).map_err(|error| table.error(error))?;
        *failed = false;
        let other = front.as_ref().and_then(Place::last_key);
        *done = entry.is_none_or(|(key, _)| other.is_some_and(|other| key <= other));
        Ok(!*done)
    }

    /// All of it, if it has not been begun and there is no error.
    fn count(&self) -> Option<u64> {
        let is_new = self.front.is_none() && self.back.is_none() && !self.done && !self.failed;
        if !is_new || self.table.check().is_err() {
            return None;
        }
        self.table.tree.count(lent(&self.lower), lent(&self.upper)).ok()
    }
}
