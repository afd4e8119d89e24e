//! Whether keys, rows and vectors agree, and making them agree.

use polder_vector::NodeId;

use super::record::{self, Place, label_of};
use super::{Collection, table_name};
use crate::batch::{BatchError, WriteBatch};
use crate::error::StoreError;

/// The table of keys whose vectors are lost.
const LOST: &str = "lost";
/// Faults that are listed.
const LISTED: usize = 100;

/// Is shown a key, and what it lacks if it lacks something. Whether there are to be more.
type SeeKey<'s> = dyn FnMut(&[u8], Option<&'static str>) -> Result<bool, StoreError> + 's;

/// What a check of a collection has found, or a repair has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CollectionReport {
    /// Keys that have a row and a vector.
    pub keys: u64,
    /// Vectors that are in other nodes than their keys say.
    pub moved: u64,
    /// Vectors that have no row, and are not being inserted or removed.
    pub unowned: u64,
    /// Keys whose vectors are lost, and rows without a key.
    pub lost: u64,
    /// What is wrong: the first hundred.
    pub faults: Vec<String>,
    /// Whether it was stopped before it was done.
    pub stopped: bool,
}

impl CollectionReport {
    fn fault(&mut self, what: String) {
        if self.faults.len() < LISTED {
            self.faults.push(what);
        }
    }
}

/// A vector of the index, as the tables know it.
enum Known {
    /// The key that it belongs to has it in this very node.
    There,
    /// It belongs to this key, which has it elsewhere by this version word.
    Elsewhere(Vec<u8>, u64, Place),
    Pending,
    Unowned,
}

/// Whether all agrees.
impl Collection {
    /// Compares keys, rows and vectors with each other, while nobody changes the collection.
    /// ([`Store::check`](crate::Store::check) looks at the pages that they are in.) `progress` is told how
    /// many keys and vectors are done, and stops it by returning false.
    ///
    /// # Errors
    /// Those of reading. What does not agree is in the report.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<CollectionReport, StoreError> {
        let mut report = CollectionReport::default();
        let mut done = 0;
        self.look_at_vectors(&mut |label, node, known| {
            match known {
                Known::There | Known::Pending => {}
                Known::Elsewhere(key, ..) => {
                    report.moved += 1;
                    let key = key.escape_ascii();
                    report.fault(format!(
                        "the vector of key {key} is in {node:?}, and not where it is looked for"
                    ));
                }
                Known::Unowned => {
                    report.unowned += 1;
                    report.fault(format!(
                        "the vector in {node:?} has the label {label}, which has no row"
                    ));
                }
            }
            done += 1;
            report.stopped = !progress(done);
            Ok(!report.stopped)
        })?;
        if !report.stopped {
            self.look_at_keys(&mut |key, what| {
                match what {
                    None => report.keys += 1,
                    Some(what) => {
                        report.lost += 1;
                        report.fault(format!("key {}: {what}", key.escape_ascii()));
                    }
                }
                done += 1;
                report.stopped = !progress(done);
                Ok(!report.stopped)
            })?;
            let (keys, rows) = (self.keys.len(), self.rows.len());
            if !report.stopped && keys != rows {
                report.lost += rows.saturating_sub(keys);
                report.fault(format!("there are {keys} keys, and {rows} rows"));
            }
        }
        Ok(report)
    }

    /// Makes keys, rows and vectors agree, while nobody changes the collection: as a salvage needs it, which
    /// saves each of them by itself. Keys are told where their vectors are; vectors without a row go; keys
    /// whose vectors are lost go with their payloads to a table of the collection's name and `.lost`. The
    /// report says how many there were of each; its faults are empty.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn repair(
        &self,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<CollectionReport, StoreError> {
        let mut report = CollectionReport::default();
        let (mut done, mut unowned) = (0, Vec::new());
        self.look_at_vectors(&mut |label, node, known| {
            match known {
                Known::There | Known::Pending => {}
                Known::Unowned => unowned.push(Place { label, node }),
                Known::Elsewhere(key, version, place) => {
                    if self.read(|index| index.get(label, place.node))?.is_some() {
                        unowned.push(Place { label, node });
                    } else {
                        let mut batch = WriteBatch::new();
                        let here = Place { label, node }.to_bytes();
                        batch.expect(&self.keys, &key, Some(version)).put(&self.keys, key, here);
                        self.apply(batch)?;
                        report.moved += 1;
                    }
                }
            }
            done += 1;
            report.stopped = !progress(done);
            Ok(!report.stopped)
        })?;
        for place in &unowned {
            self.withdraw(*place)?;
            report.unowned += 1;
        }
        let mut lost = Vec::new();
        if !report.stopped {
            self.look_at_keys(&mut |key, what| {
                match what {
                    None => report.keys += 1,
                    Some(_) => lost.push(key.to_vec()),
                }
                done += 1;
                report.stopped = !progress(done);
                Ok(!report.stopped)
            })?;
        }
        for key in &lost {
            self.set_aside(key)?;
            report.lost += 1;
        }
        // Rows of which no key tells are of keys that are lost, or were replaced.
        if !report.stopped {
            report.lost += self.set_aside_rows()?;
        }
        self.store().flush()?;
        self.settle()?;
        Ok(report)
    }

    /// Shows each vector of the index, until `see` returns false.
    fn look_at_vectors(
        &self,
        see: &mut dyn FnMut(u64, NodeId, Known) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        let mut look = |label, node| {
            let goes_on = self.known(label, node).and_then(|known| see(label, node, known));
            goes_on.map_err(|error| failed = Some(error)).unwrap_or(false)
        };
        self.read(|index| index.for_each(&mut look))?;
        failed.map_or(Ok(()), Err)
    }

    fn known(&self, label: u64, node: NodeId) -> Result<Known, StoreError> {
        let key = self.row(label, |key, _| key.to_vec())?;
        let Some(key) = key else {
            return Ok(match self.pending.contains_key(label.to_be_bytes())? {
                true => Known::Pending,
                false => Known::Unowned,
            });
        };
        Ok(match self.place(&key)? {
            Some((_, place)) if place == (Place { label, node }) => Known::There,
            Some((version, place)) if place.label == label => Known::Elsewhere(key, version, place),
            _ => Known::Unowned,
        })
    }

    /// Shows each key, and of those that lack something what; until `see` returns false.
    fn look_at_keys(&self, see: &mut SeeKey<'_>) -> Result<(), StoreError> {
        for key in self.keys(..) {
            let key = key?;
            let Some((_, place)) = self.place(&key)? else { continue };
            let what = match self.row(place.label, |of, _| of == key)? {
                Some(true) => match self.read(|index| index.get(place.label, place.node))? {
                    Some(_) => None,
                    None => Some("its vector is not there"),
                },
                Some(false) => Some("its row is another key's"),
                None => Some("it has no row"),
            };
            if !see(&key, what)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Moves a key whose vector is lost to the table of those.
    fn set_aside(&self, key: &[u8]) -> Result<(), StoreError> {
        let Some((_, place)) = self.place(key)? else { return Ok(()) };
        let payload = self.row(place.label, |of, payload| (of == key).then(|| payload.to_vec()))?;
        let mut batch = WriteBatch::new();
        batch.delete(&self.keys, key);
        if let Some(payload) = payload.flatten() {
            batch.put(&self.lost()?, key, payload);
            batch.delete(&self.rows, place.label.to_be_bytes());
        }
        self.apply(batch)
    }

    /// Moves rows of which no key tells. How many.
    fn set_aside_rows(&self) -> Result<u64, StoreError> {
        let mut moved = 0;
        for entry in self.rows.iter() {
            let (number, row) = entry?;
            let label = label_of(&number).ok_or_else(|| self.broken("a row has no label"))?;
            let (key, payload) =
                record::row(&row).ok_or_else(|| self.broken("a row has no key"))?;
            if self.place(key)?.is_some_and(|(_, place)| place.label == label) {
                continue;
            }
            let mut batch = WriteBatch::new();
            batch.put(&self.lost()?, key, payload).delete(&self.rows, number);
            self.apply(batch)?;
            moved += 1;
        }
        Ok(moved)
    }

    fn lost(&self) -> Result<crate::table::Table, StoreError> {
        self.store().open_table(&table_name(self.name(), LOST))
    }

    fn apply(&self, mut batch: WriteBatch<'_>) -> Result<(), StoreError> {
        match self.store().apply_tables(&mut batch) {
            Err(BatchError::Store(error)) => Err(error),
            Err(_) => Err(self.broken("it was changed while it was repaired")),
            Ok(()) => Ok(()),
        }
    }
}
