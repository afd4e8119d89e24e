//! A table's entries in order.

use std::ops::{Bound, ControlFlow};

use polder_tree::Place;

use super::Table;
use crate::any::dispatch;
use crate::error::StoreError;
use crate::key_range::{KeyRange, Prefix};
use crate::range::{Entry, Range};

/// Sees an entry, and says whether it wants more.
type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

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
        let (lower, upper) = bounds.bounds();
        self.bounded(lower, upper)
    }

    /// Shows the entries whose keys lie within `bounds` to `visit`, in order. It sees copies that no
    /// writer can touch, and no latch is held meanwhile; what is written meanwhile may be seen or not.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let cities = store.open_table("cities")?;
    /// cities.put("Delft", "109577")?;
    /// cities.put("Groningen", "238147")?;
    /// let mut digits = 0;
    /// cities.for_each(.., |_, people| digits += people.len())?;
    /// assert_eq!(digits, 12);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages; the entries before have been shown.
    pub fn for_each(
        &self,
        bounds: impl KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let shown = self.try_for_each(bounds, |key, value| {
            visit(key, value);
            ControlFlow::<()>::Continue(())
        });
        shown.map(drop)
    }

    /// As [`Table::for_each`], until `visit` breaks off; gives what it broke off with.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # let cities = store.open_table("cities")?;
    /// # cities.put("Delft", "109577")?;
    /// # cities.put("Groningen", "238147")?;
    /// use std::ops::ControlFlow;
    /// let large = cities.try_for_each("A"..="Z", |name, people| match people {
    ///     b"238147" => ControlFlow::Break(name.to_vec()),
    ///     _ => ControlFlow::Continue(()),
    /// })?;
    /// assert_eq!(large, ControlFlow::Break(b"Groningen".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Table::for_each`].
    pub fn try_for_each<B>(
        &self,
        bounds: impl KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let mut broken_off = ControlFlow::Continue(());
        self.show(bounds.bounds(), &mut |key, value| match visit(key, value) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            stop => {
                broken_off = stop;
                ControlFlow::Break(())
            }
        })?;
        Ok(broken_off)
    }

    fn show(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        dispatch!(&self.core, table => {
            table.check()?;
            let shown = Place::above(&table.tree, lower)
                .and_then(|mut place| place.try_for_each(&table.tree, upper, visit));
            shown.map(drop).map_err(|error| table.error(error))
        })
    }

    /// How many entries have keys within `bounds`. It looks at each leaf of the table that has some, but
    /// at no key or value in it, except at both ends; [`Table::len`] knows how many there are in all.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// let events = store.open_table("events")?;
    /// events.bulk_load((0..100u64).map(|number| (number.to_be_bytes(), "tick")))?;
    /// assert_eq!(events.count_range(10u64.to_be_bytes()..50u64.to_be_bytes())?, 40);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading pages.
    pub fn count_range(&self, bounds: impl KeyRange) -> Result<u64, StoreError> {
        let (lower, upper) = bounds.bounds();
        dispatch!(&self.core, table => {
            table.check()?;
            table.tree.count(lower, upper).map_err(|error| table.error(error))
        })
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
        self.range(Prefix::new(prefix))
    }

    fn bounded(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Range {
        Range::new(&self.core, &self.store, lower, upper)
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
