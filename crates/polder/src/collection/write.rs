//! Inserting and removing vectors, alone and in batches.
//!
//! ```text
//! 1  of the parts about one key the last one counts; what a crash has cut off is settled
//! 2  each vector that is inserted: its record in `pending`, then it, in the index (COLL-3)
//! 3  one batch: rows, keys, records of 2 gone, and records of those that are going, beside all that the
//!    caller has put into it (COLL-4). If a key is another one by now: 3 again
//! 4  each vector that is going: out of the index, then its record goes
//! ```
//!
//! If 2 or 3 fails, the vectors of 2 go as those of 4 do. What fails then, or in 4, stays in `pending`.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use polder_tree::node::MAX_VALUE_BYTES;
use polder_vector::{VectorBuf, VectorRef};

use super::Collection;
use super::record::{Pending, Place, row_len, row_of};
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
    action: Action,
}

enum Action {
    Insert(VectorBuf, Vec<u8>),
    /// The same, if the key is not there.
    InsertNew(VectorBuf, Vec<u8>),
    /// The same of a vector that is in the index already.
    Placed(Vec<u8>),
    /// Another payload for the vector that is there.
    SetPayload(Vec<u8>),
    Remove,
}

/// A vector that has come, and the version word of its record in `pending`.
#[derive(Clone, Copy)]
pub(super) struct New {
    pub(super) place: Place,
    pub(super) record: Option<u64>,
}

/// A part whose vector is in the index, if it has one.
struct Ready<'b> {
    part: &'b VectorPart,
    new: Option<New>,
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
    /// let pages = store.create_collection("pages", HnswOptions::new(shape))?;
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
        let vector = VectorBuf::from(vector.into());
        let action = Action::Insert(vector, payload.as_ref().to_vec());
        self.push_vector(collection, key.as_ref(), action)
    }

    /// Removes a key of a collection, if it is there, as [`Collection::remove`] does.
    pub fn remove_vector(&mut self, collection: &Collection, key: impl AsRef<[u8]>) -> &mut Self {
        self.push_vector(collection, key.as_ref(), Action::Remove)
    }

    fn push_vector(&mut self, collection: &Collection, key: &[u8], action: Action) -> &mut Self {
        let (collection, key) = (collection.clone(), key.to_vec());
        let vectors = self.around.get_or_insert_with(|| Box::new(Vectors::default()));
        let vectors: &mut dyn Any = &mut **vectors;
        if let Some(Vectors(parts)) = vectors.downcast_mut() {
            parts.push(VectorPart { collection, key, action });
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
        let vector = VectorBuf::from(vector.into());
        self.change(key.as_ref(), Action::Insert(vector, payload.as_ref().to_vec()))
    }

    /// The same, if the key is not there; else nothing is changed. Whether it was not there.
    ///
    /// # Errors
    /// As [`Collection::insert`].
    pub fn insert_new<'v>(
        &self,
        key: impl AsRef<[u8]>,
        vector: impl Into<VectorRef<'v>>,
        payload: impl AsRef<[u8]>,
    ) -> Result<bool, StoreError> {
        if self.contains_key(&key)? {
            return Ok(false);
        }
        let vector = VectorBuf::from(vector.into());
        let was_there =
            self.change(key.as_ref(), Action::InsertNew(vector, payload.as_ref().to_vec()))?;
        Ok(!was_there)
    }

    /// Gives a key another payload, and leaves its vector as it is. Whether the key is there.
    ///
    /// # Errors
    /// [`StoreError::ValueTooLong`], and those of writing.
    pub fn set_payload(
        &self,
        key: impl AsRef<[u8]>,
        payload: impl AsRef<[u8]>,
    ) -> Result<bool, StoreError> {
        self.change(key.as_ref(), Action::SetPayload(payload.as_ref().to_vec()))
    }

    /// Removes a key with its vector and its payload. Whether it was there.
    ///
    /// # Errors
    /// Those of writing.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.change(key.as_ref(), Action::Remove)
    }

    /// Whether the key was there.
    fn change(&self, key: &[u8], action: Action) -> Result<bool, StoreError> {
        let part = VectorPart { collection: self.clone(), key: key.to_vec(), action };
        let mut batch = WriteBatch::new();
        batch.durability(self.durability);
        match apply(self.store(), &[part], &mut batch) {
            Ok(there) => Ok(there > 0),
            Err(error) => Err(self.error_of(error)),
        }
    }

    /// Steps 3 and 4 for a new key whose vector has come. Whether the key was not there; if it was, the
    /// vector goes.
    pub(super) fn give_row(
        &self,
        key: &[u8],
        payload: &[u8],
        new: New,
    ) -> Result<bool, StoreError> {
        let action = Action::Placed(payload.to_vec());
        let part = VectorPart { collection: self.clone(), key: key.to_vec(), action };
        let mut batch = WriteBatch::new();
        batch.durability(self.durability);
        let end = batch.end();
        let mut ready = [Ready { part: &part, new: Some(new), old: None }];
        let applied = commit(self.store(), &mut batch, &mut ready, end);
        finish(&ready, &applied);
        applied.map_err(|error| self.error_of(error))
    }

    /// Whether a key and a payload can be those of a row.
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`], [`StoreError::ValueTooLong`].
    pub(super) fn check_row(&self, key: &[u8], payload: &[u8]) -> Result<(), StoreError> {
        let limit = self.store().max_key_bytes();
        if key.len() > limit {
            return Err(StoreError::KeyTooLong { len: key.len(), limit });
        }
        let len = row_len(key, payload);
        if len as u64 > MAX_VALUE_BYTES {
            return Err(StoreError::ValueTooLong { len, limit: MAX_VALUE_BYTES });
        }
        Ok(())
    }

    /// Why a batch was not applied that expects nothing that is not looked at again, in its own store.
    fn error_of(&self, error: BatchError) -> StoreError {
        match error {
            BatchError::Store(error) => error,
            _ => self.broken("what is pending was changed by others"),
        }
    }

    /// Step 2 for one vector.
    fn bring(&self, vector: &VectorBuf) -> Result<New, StoreError> {
        let label = self.labels.give();
        let coming = Pending::Coming(&vector.to_bytes()).to_bytes();
        self.pending.put(label.to_be_bytes(), coming)?;
        let record = self.pending.version(label.to_be_bytes())?;
        match self.index.write(|index| index.insert(label, vector.view())) {
            Ok(node) => Ok(New { place: Place { label, node }, record }),
            // It is none of the index, and has not come.
            Err(error @ StoreError::Structure { .. }) => {
                let _ = self.pending.delete(label.to_be_bytes());
                Err(error)
            }
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
    let mut ready = prepare(store, vectors)?;
    let end = batch.end();
    let applied = bring_all(&mut ready).and_then(|()| commit(store, batch, &mut ready, end));
    batch.cut(end);
    finish(&ready, &applied);
    applied.map(|_| ready.iter().filter(|ready| ready.old.is_some()).count())
}

/// Step 1, and what can be refused before anything is done.
fn prepare<'b>(store: &Store, vectors: &'b [VectorPart]) -> Result<Vec<Ready<'b>>, BatchError> {
    let mut ready: Vec<Ready<'b>> = Vec::with_capacity(vectors.len());
    let mut known = HashMap::new();
    for part in vectors {
        let VectorPart { collection, key, action } = part;
        if !Arc::ptr_eq(&collection.store().closer, &store.closer) {
            return Err(BatchError::Foreign { table: collection.name().to_string() });
        }
        collection.check_row(key, action.payload())?;
        let new = Ready { part, new: None, old: None };
        match known.entry((Arc::as_ptr(&collection.labels), key)) {
            Entry::Occupied(at) => ready[*at.get()] = new,
            Entry::Vacant(entry) => {
                entry.insert(ready.len());
                ready.push(new);
                // What it leaves undone is left to the next one.
                let _ = collection.labels.settle_once(|| collection.settle());
            }
        }
    }
    Ok(ready)
}

/// Step 2.
fn bring_all(ready: &mut [Ready<'_>]) -> Result<(), BatchError> {
    for ready in ready {
        if let Action::Insert(vector, _) | Action::InsertNew(vector, _) = &ready.part.action {
            ready.new = Some(ready.part.collection.bring(vector)?);
        }
    }
    Ok(())
}

/// Rows begin to come and go, or have: searches may meet some of it.
fn tell_searches(ready: &[Ready<'_>], begins: bool) {
    for labels in ready.iter().map(|ready| &ready.part.collection.labels) {
        match begins {
            true => labels.begin_change(),
            false => labels.end_change(),
        }
    }
}

/// Step 3. `end` is that of the caller's part of the batch. Whether it was made: not if a key is there that
/// is to be new.
fn commit(
    store: &Store,
    batch: &mut WriteBatch<'_>,
    ready: &mut [Ready<'_>],
    end: End,
) -> Result<bool, BatchError> {
    loop {
        batch.cut(end);
        for ready in &mut *ready {
            ready.old = ready.part.collection.place(&ready.part.key)?;
            if ready.old.is_some() && ready.part.action.is_of_new_key() {
                return Ok(false);
            }
            ready.put(batch);
        }
        match store.apply_tables(batch, &|begins| tell_searches(ready, begins)) {
            Err(BatchError::Unexpected { table, key, expected })
                if ready.iter().any(|ready| ready.has_expected(&table, &key, expected)) => {}
            applied => return applied.map(|()| true),
        }
    }
}

/// Step 4, or what is done in its place where there was no step 3. What fails here is left in `pending`.
fn finish(ready: &[Ready<'_>], applied: &Result<bool, BatchError>) {
    // It was made, and nothing more can be.
    let is_last = matches!(applied, Err(BatchError::Store(StoreError::NotDurable { .. })));
    for Ready { part: VectorPart { collection, action, .. }, new, old } in ready {
        match (applied, new, old) {
            (Ok(true), _, Some((_, old))) if !matches!(action, Action::SetPayload(_)) => {
                let _ = collection.leave(*old);
            }
            (Ok(false) | Err(_), Some(new), _) if !is_last => {
                let _ = collection.withdraw(new.place);
            }
            _ => {}
        }
    }
}

impl Action {
    fn payload(&self) -> &[u8] {
        match self {
            Action::Insert(_, payload)
            | Action::InsertNew(_, payload)
            | Action::Placed(payload)
            | Action::SetPayload(payload) => payload,
            Action::Remove => &[],
        }
    }

    /// Whether it does nothing where the key is there.
    fn is_of_new_key(&self) -> bool {
        matches!(self, Action::InsertNew(..) | Action::Placed(_))
    }
}

impl Ready<'_> {
    /// Adds what it does to the tables of the collection.
    fn put(&self, batch: &mut WriteBatch<'_>) {
        let VectorPart { collection, key, action } = self.part;
        let Collection { keys, rows, pending, .. } = collection;
        batch.expect(keys, key, self.old.map(|(version, _)| version));
        if let Action::SetPayload(payload) = action {
            if let Some((_, old)) = self.old {
                batch.put(rows, old.label.to_be_bytes(), row_of(key, payload));
            }
            return;
        }
        if let Some((_, old)) = self.old {
            batch.delete(rows, old.label.to_be_bytes());
            batch.put(pending, old.label.to_be_bytes(), Pending::Going(old.node).to_bytes());
        }
        let Some(New { place, record }) = self.new else {
            batch.delete(keys, key);
            return;
        };
        let label = place.label.to_be_bytes();
        batch.put(keys, key, place.to_bytes());
        batch.put(rows, label, row_of(key, action.payload()));
        batch.expect(pending, label, record).delete(pending, label);
    }

    /// Whether it was this that a batch did not find as it was expected.
    fn has_expected(&self, table: &str, key: &[u8], version: Option<u64>) -> bool {
        self.part.collection.keys.name() == table
            && self.part.key == key
            && self.old.map(|(version, _)| version) == version
    }
}
