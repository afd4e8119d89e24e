//! What was cut off, by a crash or an error: vectors without rows leave the index.

use std::collections::HashMap;

use polder_vector::{IndexOptions, Metric, NodeId, Search, VectorBuf, VectorIndex};

use super::record::{Pending, Place, label_of};
use super::{Collection, VectorError};
use crate::error::StoreError;

/// How many of the nearest are looked at for a vector that is known.
const WIDTH: usize = 512;
/// What is nearer may be the same vector, where distances are rounded.
const SAME: f32 = 1e-4;

/// Where a vector is, of which the label is known.
enum Sought {
    There(NodeId),
    Nowhere,
    /// It was not seen, and others hide it.
    Hidden,
}

impl Collection {
    /// Settles what `pending` tells of the time before the store was opened.
    ///
    /// # Errors
    /// Those of reading and writing; what is left is settled by the next change.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        let element = self.options()?.shape().element;
        let mut hidden = HashMap::new();
        for entry in self.pending.range(..self.labels.first.to_be_bytes()) {
            let (key, record) = entry?;
            let broken = || self.broken("a record of what is pending cannot be read");
            let label = label_of(&key).ok_or_else(broken)?;
            // What a salvage has found may be older than the row.
            if self.rows.contains_key(&key)? {
                self.pending.delete(&key)?;
                continue;
            }
            match Pending::from_bytes(&record).ok_or_else(broken)? {
                Pending::Going(node) => self.leave(Place { label, node })?,
                // COLL-5
                Pending::Coming([]) => drop(hidden.insert(label, None)),
                Pending::Coming(bytes) => {
                    let vector = VectorBuf::from_bytes(element, bytes).ok_or_else(broken)?;
                    if !self.take_back(label, &vector)? {
                        hidden.insert(label, None);
                    }
                }
            }
        }
        if !hidden.is_empty() {
            self.read(|index| {
                index.for_each(&mut |label, node| {
                    hidden.entry(label).and_modify(|place| *place = Some(node));
                    true
                })
            })?;
        }
        for (label, node) in hidden {
            match node {
                Some(node) => self.withdraw(Place { label, node })?,
                None => drop(self.pending.delete(label.to_be_bytes())?),
            }
        }
        Ok(())
    }

    /// Takes back a vector that was coming, and may have come. Whether it is known that it is gone.
    pub(super) fn take_back(&self, label: u64, vector: &VectorBuf) -> Result<bool, StoreError> {
        match self.read(|index| seek(index, label, vector))? {
            Sought::There(node) => self.withdraw(Place { label, node })?,
            Sought::Nowhere => drop(self.pending.delete(label.to_be_bytes())?),
            Sought::Hidden => return Ok(false),
        }
        Ok(true)
    }

    /// A vector that has come, and has no row, leaves.
    pub(super) fn withdraw(&self, place: Place) -> Result<(), StoreError> {
        // Of one that is half out of the index only the node is left to find it by.
        let going = Pending::Going(place.node).to_bytes();
        self.pending.put(place.label.to_be_bytes(), going)?;
        self.leave(place)
    }

    /// A vector that is going, as `pending` says, leaves the index.
    pub(super) fn leave(&self, Place { label, node }: Place) -> Result<(), StoreError> {
        self.index.write(|index| index.remove(label, node))?;
        self.pending.delete(label.to_be_bytes()).map(drop)
    }
}

/// Looks for a vector where it must be, as near to itself as can be. In lists all that are there are found so,
/// but by the inner product, where others may be nearer, and where too many are the same. A graph may have
/// vectors to which no link leads.
fn seek(index: &dyn VectorIndex, label: u64, vector: &VectorBuf) -> Result<Sought, VectorError> {
    let found = index.search(vector.view(), &Search::new(WIDTH, WIDTH))?.found;
    if let Some(found) = found.iter().find(|found| found.label == label) {
        return Ok(Sought::There(found.node));
    }
    let has_all = found.len() < WIDTH || found.last().is_some_and(|last| last.distance > SAME);
    let is_sure = matches!(index.options(), IndexOptions::Ivf(_));
    Ok(match has_all && is_sure && index.options().shape().metric != Metric::InnerProduct {
        true => Sought::Nowhere,
        false => Sought::Hidden,
    })
}
