//! Inserting and removing vectors, alone and in batches.
//!
//! ```text
//! 1  of the parts about one key the last one counts
//! 2  each vector that is inserted: its record in `pending`, then it, in the index (COLL-3)
//! 3  one batch: rows, keys, records of 2 gone, and records of those that are going, beside all that the
//!    caller has put into it (COLL-4). If a key is another one by now: 3 again
//! 4  each vector that is going: out of the index, then its record goes
//! ```
//!
//! If 2 or 3 fails, the vectors of 2 go as those of 4 do. What fails then, or in 4, is settled when the
//! collection is opened again.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use polder_vector::{VectorBuf, VectorRef};

use super::Collection;
use super::record::{Pending, Place, row_of};
use crate::batch::{Around, BatchError, End, WriteBatch};
use crate::error::StoreError;
use crate::handle::Store;

/// What a batch does to collections.
#[derive(Default)]
struct Vectors(Vec<VectorPart>);

impl Around for Vectors {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn apply_around(&self, store: &Store, batch: &mut WriteBatch<'_>) -> Result<(), BatchError> {
        apply(store, &self.0, batch).map(drop)
    }
}

/// What a batch does to a key of a collection.
struct VectorPart {
    collection: Collection,
    key: Vec<u8>,
    /// The vector and the payload that it gets. `None`: it is removed.
    value: Option<(VectorBuf, Vec<u8>)>,
}

/// A part whose vector is in the index, if it has one.
struct Ready<'b> {
    part: &'b VectorPart,
    new: Option<Place>,
    /// Where the vector of the key is, and the version word of that; none if there is no such key.
    old: Option<(u64, Place)>,
}

/// Changes of vectors. (With the feature `vector`.)
impl WriteBatch<'_> {
    /// Gives a key of a collection a vector and a payload, as [`Collection::insert`] does. Of several
    /// changes of one key the last one is made.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = polder::Store::open(polder::Options::new(dir.path().join("s")))?;
    /// # use polder::vector::{ElementKind, HnswOptions, Metric, VectorShape};
    /// use polder::WriteBatch;
    /// # let shape = VectorShape { element: ElementKind::F32, dimensions: 2, metric: Metric::L2 };
    /// let pages = store.create_collection("pages", &HnswOptions::new(shape))?;
    /// let books = store.create_table("books")?;
    /// // The book and its pages are there together, or none of them is.
    /// let mut batch = WriteBatch::new();
    /// batch.put(&books, "book 7", "of two pages");
    /// batch.insert_vector(&pages, "book 7, page 1", &[0.1_f32, 0.9], "It was a dark night");
    /// batch.insert_vector(&pages, "book 7, page 2", &[0.4_f32, 0.2], "and so on");
    /// store.apply(batch)?;
    /// assert_eq!((books.len(), pages.len()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_vector<'v>(
        &mut self,
        collection: &Collection,
        key: impl AsRef<[u8]>,
        vector: impl Into<VectorRef<'v>>,
        payload: impl AsRef<[u8]>,
    ) -> &mut Self {
        let value = (VectorBuf::from(vector.into()), payload.as_ref().to_vec());
        self.push_vector(collection, key.as_ref(), Some(value))
    }

    /// Removes a key of a collection, if it is there, as [`Collection::remove`] does.
    pub fn remove_vector(&mut self, collection: &Collection, key: impl AsRef<[u8]>) -> &mut Self {
        self.push_vector(collection, key.as_ref(), None)
    }

    fn push_vector(
        &mut self,
        collection: &Collection,
        key: &[u8],
        value: Option<(VectorBuf, Vec<u8>)>,
    ) -> &mut Self {
        let (collection, key) = (collection.clone(), key.to_vec());
        let vectors = self.around.get_or_insert_with(|| Box::new(Vectors::default()));
        let vectors: &mut dyn Any = &mut **vectors;
        if let Some(Vectors(parts)) = vectors.downcast_mut() {
            parts.push(VectorPart { collection, key, value });
        }
        self
    }
}

/// Changes.
impl Collection {
    /// Gives a key a vector and a payload, whether it is there or not. Whether it was. Both are there at
    /// once, for searches and after a crash; what the key had before is gone.
    ///
    /// Many at once are inserted by [`Collection::load`], and together with others by
    /// [`WriteBatch::insert_vector`].
    ///
    /// # Errors
    /// [`StoreError::Structure`] for a vector that is not one of the collection: of other numbers or another
    /// length, with numbers that are not finite, or without a direction where only that counts;
    /// [`StoreError::KeyTooLong`], [`StoreError::ValueTooLong`], and those of writing.
    pub fn insert<'v>(
        &self,
        key: impl AsRef<[u8]>,
        vector: impl Into<VectorRef<'v>>,
        payload: impl AsRef<[u8]>,
    ) -> Result<bool, StoreError> {
        let value = (VectorBuf::from(vector.into()), payload.as_ref().to_vec());
        self.change(key.as_ref(), Some(value))
    }

    /// Removes a key with its vector and its payload. Whether it was there.
    ///
    /// # Errors
    /// Those of writing.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.change(key.as_ref(), None)
    }

    fn change(&self, key: &[u8], value: Option<(VectorBuf, Vec<u8>)>) -> Result<bool, StoreError> {
        let part = VectorPart { collection: self.clone(), key: key.to_vec(), value };
        let mut batch = WriteBatch::new();
        batch.durability(self.durability);
        match apply(self.store(), &[part], &mut batch) {
            Ok(replaced) => Ok(replaced > 0),
            Err(BatchError::Store(error)) => Err(error),
            // It expects nothing that is not looked at again, and this is its own store.
            Err(_) => Err(self.broken("a batch of one vector was refused")),
        }
    }

    /// Step 2 for one vector.
    fn bring(&self, vector: &VectorBuf) -> Result<Place, StoreError> {
        let label = self.next_label.fetch_add(1, Relaxed);
        let coming = Pending::Coming(&vector.to_bytes()).to_bytes();
        self.pending.put(label.to_be_bytes(), coming)?;
        match self.index.write(|index| vector.view(|vector| index.insert(label, vector))) {
            Ok(node) => Ok(Place { label, node }),
            Err(error) => {
                let _ = self.take_back(label, vector);
                Err(error)
            }
        }
    }
}

/// Applies a batch, and changes of vectors with it. Gives how many of their keys were there.
fn apply(
    store: &Store,
    vectors: &[VectorPart],
    batch: &mut WriteBatch<'_>,
) -> Result<usize, BatchError> {
    let end = batch.end();
    let applied = prepare(store, vectors).and_then(|mut ready| {
        let applied = bring_all(&mut ready).and_then(|()| commit(store, batch, &mut ready, end));
        finish(&ready, &applied);
        applied.map(|()| ready.iter().filter(|ready| ready.old.is_some()).count())
    });
    batch.cut(end);
    applied
}

/// Step 1, and what can be refused before anything is done.
fn prepare<'b>(store: &Store, vectors: &'b [VectorPart]) -> Result<Vec<Ready<'b>>, BatchError> {
    let mut ready: Vec<Ready<'b>> = Vec::with_capacity(vectors.len());
    let mut known = HashMap::new();
    let limit = store.max_key_bytes();
    for part in vectors {
        let VectorPart { collection, key, .. } = part;
        if !Arc::ptr_eq(&collection.store().closer, &store.closer) {
            return Err(BatchError::Foreign { table: collection.name().to_string() });
        }
        if key.len() > limit {
            return Err(StoreError::KeyTooLong { len: key.len(), limit }.into());
        }
        match known.get(&(collection.name(), key)) {
            Some(at) => ready[*at] = Ready { part, new: None, old: None },
            None => {
                known.insert((collection.name(), key), ready.len());
                ready.push(Ready { part, new: None, old: None });
            }
        }
    }
    Ok(ready)
}

/// Step 2.
fn bring_all(ready: &mut [Ready<'_>]) -> Result<(), BatchError> {
    for ready in ready {
        if let Some((vector, _)) = &ready.part.value {
            ready.new = Some(ready.part.collection.bring(vector)?);
        }
    }
    Ok(())
}

/// Step 3. `end` is that of the caller's part of the batch.
fn commit(
    store: &Store,
    batch: &mut WriteBatch<'_>,
    ready: &mut [Ready<'_>],
    end: End,
) -> Result<(), BatchError> {
    let mut is_first = true;
    loop {
        let mut has_changed = is_first;
        for ready in &mut *ready {
            let old = ready.part.collection.place(&ready.part.key)?;
            has_changed |= old != ready.old;
            ready.old = old;
        }
        batch.cut(end);
        ready.iter().for_each(|ready| ready.put(batch));
        match store.apply_tables(batch) {
            // A key of a collection, if one of them is another one by now.
            Err(BatchError::Unexpected { .. }) if has_changed && is_stale(ready)? => {
                is_first = false;
            }
            applied => return applied,
        }
    }
}

/// Whether the key of any part is not as it was seen.
fn is_stale(ready: &[Ready<'_>]) -> Result<bool, StoreError> {
    for Ready { part, old, .. } in ready {
        if part.collection.place(&part.key)? != *old {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Step 4, or what is done in its place where there was no step 3. What fails here is left to be settled.
fn finish(ready: &[Ready<'_>], applied: &Result<(), BatchError>) {
    for Ready { part: VectorPart { collection, .. }, new, old } in ready {
        match (applied, new, old) {
            (Ok(()), _, Some((_, old))) => drop(collection.leave(*old)),
            (Ok(()), _, None) => {}
            // It was made.
            (Err(BatchError::Store(StoreError::NotDurable { .. })), ..) => {}
            (Err(_), Some(new), _) => drop(collection.withdraw(*new)),
            (Err(_), None, _) => {}
        }
    }
}

impl Ready<'_> {
    /// Adds what it does to the tables of the collection.
    fn put(&self, batch: &mut WriteBatch<'_>) {
        let VectorPart { collection, key, value } = self.part;
        batch.expect(&collection.keys, key, self.old.map(|(version, _)| version));
        if let Some((_, old)) = self.old {
            batch.delete(&collection.rows, old.label.to_be_bytes());
            let going = Pending::Going(old.node).to_bytes();
            batch.put(&collection.pending, old.label.to_be_bytes(), going);
        }
        match (value, self.new) {
            (Some((_, payload)), Some(new)) => {
                batch.put(&collection.keys, key, new.to_bytes());
                batch.put(&collection.rows, new.label.to_be_bytes(), row_of(key, payload));
                batch.delete(&collection.pending, new.label.to_be_bytes());
            }
            _ => drop(batch.delete(&collection.keys, key)),
        }
    }
}
