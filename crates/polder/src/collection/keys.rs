//! Keys in order, with payloads, and sets of them.

use polder_vector::Places;

use super::Collection;
use super::record::Place;
use crate::error::StoreError;
use crate::key_range::KeyRange;
use crate::range::{Entry, Range};

/// The keys of a [`Collection`], in order ([`Collection::keys`]).
#[derive(Debug)]
pub struct Keys(Range);

impl Iterator for Keys {
    type Item = Result<Vec<u8>, StoreError>;

    fn next(&mut self) -> Option<Result<Vec<u8>, StoreError>> {
        Some(self.0.next()?.map(|(key, _)| key))
    }
}

/// The keys of a [`Collection`] with their payloads, in order ([`Collection::range`]).
#[derive(Debug)]
pub struct Entries {
    keys: Keys,
    collection: Collection,
}

impl Iterator for Entries {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Result<Entry, StoreError>> {
        loop {
            let key = match self.keys.next()? {
                Ok(key) => key,
                Err(error) => return Some(Err(error)),
            };
            // One that has gone meanwhile is passed over.
            if let Some(payload) = self.collection.payload(&key).transpose() {
                return Some(payload.map(|payload| (key, payload)));
            }
        }
    }
}

/// Vectors of a collection that some keys had when it was made ([`Collection::key_set`]), for searches
/// among them ([`Query::among`](crate::Query::among)). It takes 16 bytes and some more for each.
#[derive(Debug, Clone, PartialEq)]
pub struct KeySet(pub(super) Places);

impl KeySet {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Keys in order.
impl Collection {
    /// The keys of a range, in order.
    pub fn keys(&self, range: impl KeyRange) -> Keys {
        Keys(self.keys.range(range))
    }

    /// The keys of a range with their payloads, in the order of the keys.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::vector::{ElementKind, HnswOptions, Metric, VectorShape};
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// # let towns = store.create_collection("towns", HnswOptions::new(shape))?;
    /// towns.insert("nl/Delft", &[52.01_f32, 4.36], "Zuid-Holland")?;
    /// towns.insert("be/Gent", &[51.05_f32, 3.73], "Oost-Vlaanderen")?;
    /// let all: Vec<_> = towns.range("nl/".."nl0").collect::<Result<_, _>>()?;
    /// assert_eq!(all, [(b"nl/Delft".to_vec(), b"Zuid-Holland".to_vec())]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Entries {
        Entries { keys: self.keys(range), collection: self.clone() }
    }

    /// The vectors that the keys of a range have now. A search among them knows how many there are and where
    /// they lie, and asks nothing of rows; if they are few, it compares with these alone. It does not find what
    /// a key gets later.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::vector::{ElementKind, HnswOptions, Metric, VectorShape};
    /// # use polder::Query;
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// # let towns = store.create_collection("towns", HnswOptions::new(shape))?;
    /// towns.insert("nl/Delft", &[52.01_f32, 4.36], "")?;
    /// towns.insert("be/Gent", &[51.05_f32, 3.73], "")?;
    /// let belgian = towns.key_set("be/".."be0")?;
    /// let nearest = towns.search(&[52.0_f32, 4.4], &Query::new(1).among(&belgian))?;
    /// assert_eq!(nearest.hits[0].key, b"be/Gent");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of reading.
    pub fn key_set(&self, range: impl KeyRange) -> Result<KeySet, StoreError> {
        let (mut places, mut found) = (Vec::new(), self.keys.range(range));
        while let Some((_, place)) = found.next_entry()? {
            let place = Place::from_bytes(place);
            let Place { label, node } = place.ok_or_else(|| self.broken("a key has no place"))?;
            places.push((label, node));
        }
        Ok(KeySet(places.into_iter().collect()))
    }
}
