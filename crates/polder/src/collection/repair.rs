//! Making keys, rows and vectors agree.
//!
//! ```text
//! 1  nothing is pending: what has no row goes in 4
//! 2  by rows, in the order of labels: of each key the last row is its own, older ones go
//! 3  by keys: where the row is lost it is made again, without a payload
//! 4  by vectors: those without a row go; keys are told where those with one are
//! 5  by keys: where there is no vector key and row go, and the payload to a table of its own
//! ```

use std::collections::HashSet;

use polder_vector::NodeId;

use super::record::{self, Place, label_of, row_of};
use super::{Collection, table_name};
use crate::batch::{BatchError, WriteBatch};
use crate::durability::Durability;
use crate::error::StoreError;

/// The table of payloads whose vectors are lost.
const LOST: &str = "lost";

/// What a repair has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CollectionRepair {
    /// Keys that have a vector now.
    pub keys: u64,
    /// Of these, keys that were told where their vector is.
    pub told: u64,
    /// Vectors that had no row, and were not being inserted or removed: they were removed.
    pub unowned: u64,
    /// Keys whose payloads are lost: they are empty.
    pub lost_payloads: u64,
    /// Keys whose vectors are lost: their payloads are in the table of the collection's name and `.lost`.
    pub lost_vectors: u64,
    /// Whether it was stopped before it was done.
    pub stopped: bool,
}

/// Making all agree.
impl Collection {
    /// Makes keys, rows and vectors agree, while nobody else uses the collection: as a salvage needs it,
    /// which saves each of them by itself. What can be derived from what is left is; what is lost is told.
    /// `progress` is told how many keys, rows and vectors are done, and stops it by returning false.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn repair(
        &self,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<CollectionRepair, StoreError> {
        let (mut done, mut repair) = (0, CollectionRepair::default());
        let mut goes_on = || {
            done += 1;
            progress(done)
        };
        let pending = self.forget_pending()?;
        let is_whole = self.repair_rows(&mut goes_on)?
            && self.repair_payloads(&mut repair, &mut goes_on)?
            && self.repair_places(&pending, &mut repair, &mut goes_on)?
            && self.set_lost_aside(&mut repair, &mut goes_on)?;
        repair.stopped = !is_whole;
        self.store().flush()?;
        Ok(repair)
    }

    /// Step 1. Gives the labels that were pending.
    fn forget_pending(&self) -> Result<HashSet<u64>, StoreError> {
        let mut labels = HashSet::new();
        for entry in self.pending.iter() {
            let (key, _) = entry?;
            labels.extend(label_of(&key));
            self.pending.delete(key)?;
        }
        Ok(labels)
    }

    /// Step 2.
    fn repair_rows(&self, goes_on: GoesOn<'_>) -> Result<bool, StoreError> {
        for entry in self.rows.iter() {
            let (number, row) = entry?;
            let label = label_of(&number).ok_or_else(|| self.broken("a row has no label"))?;
            let (key, _) = record::row(&row).ok_or_else(|| self.broken("a row has no key"))?;
            let place = self.keys.get(key)?.and_then(|place| Place::from_bytes(&place));
            let mut batch = WriteBatch::new();
            match place {
                Some(place) if place.label == label => {}
                // Step 4 tells the key where the vector is.
                Some(place) if place.label < label || !self.has_row(place.label, key)? => {
                    batch.put(&self.keys, key, Place { label, ..place }.to_bytes());
                    if self.has_row(place.label, key)? {
                        batch.delete(&self.rows, place.label.to_be_bytes());
                    }
                }
                Some(_) => drop(batch.delete(&self.rows, &number)),
                None => drop(batch.put(&self.keys, key, self.nowhere(label)?.to_bytes())),
            }
            self.apply(batch)?;
            if !goes_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_row(&self, label: u64, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.row(label, |of, _| of == key)? == Some(true))
    }

    /// Step 3.
    fn repair_payloads(
        &self,
        repair: &mut CollectionRepair,
        goes_on: GoesOn<'_>,
    ) -> Result<bool, StoreError> {
        for entry in self.keys.iter() {
            let (key, place) = entry?;
            let place = Place::from_bytes(&place);
            let has_row = match place {
                Some(place) => self.has_row(place.label, &key)?,
                None => false,
            };
            if !has_row {
                repair.lost_payloads += 1;
                let mut batch = WriteBatch::new();
                match place {
                    // Another key's row: this one has nothing left.
                    Some(place) if self.rows.contains_key(place.label.to_be_bytes())? => {
                        batch.delete(&self.keys, &key).put(&self.lost()?, &key, "");
                    }
                    Some(place) => {
                        batch.put(&self.rows, place.label.to_be_bytes(), row_of(&key, &[]));
                    }
                    None => {
                        batch.delete(&self.keys, &key).put(&self.lost()?, &key, "");
                    }
                }
                self.apply(batch)?;
            }
            if !goes_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Step 4.
    fn repair_places(
        &self,
        pending: &HashSet<u64>,
        repair: &mut CollectionRepair,
        goes_on: GoesOn<'_>,
    ) -> Result<bool, StoreError> {
        let (mut unowned, mut is_done) = (Vec::new(), true);
        self.for_each_vector(&mut |here| {
            let key = self.row(here.label, |key, _| key.to_vec())?;
            let place = match &key {
                Some(key) => self.place(key)?.map(|(_, place)| place),
                None => None,
            };
            match (key, place) {
                (_, Some(place)) if place == here => {}
                // (A salvage may find a vector twice.)
                (Some(key), Some(place))
                    if place.label == here.label && !self.has_vector(place)? =>
                {
                    repair.told += 1;
                    let mut batch = WriteBatch::new();
                    batch.put(&self.keys, key, here.to_bytes());
                    self.apply(batch)?;
                }
                _ => unowned.push(here),
            }
            is_done = goes_on();
            Ok(is_done)
        })?;
        for place in unowned {
            self.withdraw(place)?;
            repair.unowned += u64::from(!pending.contains(&place.label));
        }
        Ok(is_done)
    }

    /// Step 5.
    fn set_lost_aside(
        &self,
        repair: &mut CollectionRepair,
        goes_on: GoesOn<'_>,
    ) -> Result<bool, StoreError> {
        for key in self.keys(..) {
            let key = key?;
            let Some((_, place)) = self.place(&key)? else { continue };
            if self.has_vector(place)? {
                repair.keys += 1;
            } else {
                repair.lost_vectors += 1;
                let payload = self.row(place.label, |_, payload| payload.to_vec())?;
                let mut batch = WriteBatch::new();
                batch.put(&self.lost()?, &key, payload.unwrap_or_default());
                batch.delete(&self.rows, place.label.to_be_bytes()).delete(&self.keys, &key);
                self.apply(batch)?;
            }
            if !goes_on() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The place of a vector of which only the label is known: the first page of an index has no node.
    fn nowhere(&self, label: u64) -> Result<Place, StoreError> {
        let node = NodeId::from_bits(1 << 9).ok_or_else(|| self.broken("a node has no number"))?;
        Ok(Place { label, node })
    }

    fn lost(&self) -> Result<crate::table::Table, StoreError> {
        self.store().open_table(&table_name(self.name(), LOST))
    }

    /// All of it is made durable at the end.
    fn apply(&self, mut batch: WriteBatch<'_>) -> Result<(), StoreError> {
        match self.store().apply_tables(batch.durability(Durability::None), &|_| ()) {
            Err(BatchError::Store(error)) => Err(error),
            Err(_) => Err(self.broken("it was changed while it was repaired")),
            Ok(()) => Ok(()),
        }
    }
}

/// Whether there is to be more, which is asked behind each thing that is done.
type GoesOn<'g> = &'g mut dyn FnMut() -> bool;
