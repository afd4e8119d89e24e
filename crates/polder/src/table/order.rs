//! A table's entries in order.

use std::ops::Bound;

use super::Table;
use crate::error::StoreError;
use crate::key_range::KeyRange;
use crate::range::{Entry, Range};

impl Table {
    /// The entry with the least key.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// assert_eq!(cities.first()?, None);
    /// cities.put("Groningen", "238147")?;
    /// cities.put("Delft", "109577")?;
    /// assert_eq!(cities.first()?, Some((b"Delft".to_vec(), b"109577".to_vec())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn first(&self) -> Result<Option<Entry>, StoreError> {
        self.iter().next().transpose()
    }

    /// The entry with the greatest key.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let events = store.open_table("events")?;
    /// events.put(41u64.to_be_bytes(), "started")?;
    /// // The next number of a log that only grows.
    /// let next = match events.last()? {
    ///     Some((key, _)) => u64::from_be_bytes(key[..].try_into()?) + 1,
    ///     None => 0,
    /// };
    /// assert_eq!(next, 42);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn last(&self) -> Result<Option<Entry>, StoreError> {
        self.iter().next_back().transpose()
    }

    /// All entries in order, as [`Table::range`] gives them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Groningen", "238147")?;
    /// cities.put("Delft", "109577")?;
    /// let mut names = Vec::new();
    /// for entry in cities.iter() {
    ///     let (name, _) = entry?;
    ///     names.push(name);
    /// }
    /// assert_eq!(names, [&b"Delft"[..], b"Groningen"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> Range {
        self.bounded(Bound::Unbounded, Bound::Unbounded)
    }

    /// The entries whose keys lie within `bounds`, in order; `.rev()` for the other order. Bounds
    /// that contain nothing give nothing.
    ///
    /// What is written meanwhile may be seen or not; keys that are there all the time are seen just
    /// once. Which bounds there are: [`KeyRange`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// for name in ["Delft", "Groningen", "Haarlem", "Utrecht"] {
    ///     cities.put(name, "")?;
    /// }
    /// let names = |range: polder::Range| -> Result<Vec<String>, polder::StoreError> {
    ///     range.map(|entry| Ok(String::from_utf8_lossy(&entry?.0).into_owned())).collect()
    /// };
    /// assert_eq!(names(cities.range("G".."I"))?, ["Groningen", "Haarlem"]);
    /// assert_eq!(names(cities.range(..="Groningen"))?, ["Delft", "Groningen"]);
    /// // The last one below a key.
    /// let last = cities.range(.."Utrecht").next_back().transpose()?;
    /// assert_eq!(last.map(|(name, _)| name), Some(b"Haarlem".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, bounds: impl KeyRange) -> Range {
        let (lower, upper) = bounds.into_bounds();
        self.bounded(lower, upper)
    }

    /// The entries whose keys begin with `prefix`, in order.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// for name in ["be/Gent", "nl/Delft", "nl/Utrecht"] {
    ///     cities.put(name, "")?;
    /// }
    /// assert_eq!(cities.prefix("nl/").count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        let prefix = prefix.as_ref();
        // Up to the next key that does not begin so: the last byte that can be raised is raised.
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        self.bounded(Bound::Included(prefix.to_vec()), end)
    }

    fn bounded(&self, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Range {
        Range::new(&self.core, self.store.clone(), lower, upper)
    }
}

/// As [`Table::iter`].
impl IntoIterator for &Table {
    type Item = Result<Entry, StoreError>;
    type IntoIter = Range;

    fn into_iter(self) -> Range {
        self.iter()
    }
}
