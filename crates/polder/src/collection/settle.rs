//! What was cut off, by a crash or an error: vectors without rows leave the index.

use std::sync::atomic::Ordering::Relaxed;

use polder_vector::VectorBuf;

use super::Collection;
use super::record::{Pending, Place, label_of};
use crate::error::StoreError;

impl Collection {
    /// Settles all that `pending` tells of, and finds the first label that was never given. Nobody else uses
    /// the collection meanwhile. In a store that is open to read, what is pending stays so: it has no row.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        let last = self.rows.last()?.and_then(|(label, _)| label_of(&label));
        let mut next = last.map_or(0, |last| last.saturating_add(1));
        let pending: Vec<_> = self.pending.iter().collect::<Result<_, _>>()?;
        let element = self.options()?.shape().element;
        for (key, record) in pending {
            let broken = || self.broken("a record of what is pending cannot be read");
            let label = label_of(&key).ok_or_else(broken)?;
            next = next.max(label.saturating_add(1));
            if self.store().is_read_only() {
                continue;
            }
            match Pending::from_bytes(&record).ok_or_else(broken)? {
                Pending::Going(node) => self.leave(Place { label, node })?,
                Pending::Coming(bytes) => {
                    let vector = VectorBuf::from_bytes(element, bytes).ok_or_else(broken)?;
                    self.take_back(label, &vector)?;
                }
            }
        }
        self.next_label.store(next, Relaxed);
        Ok(())
    }

    /// Takes back a vector that was coming, and may have come.
    pub(super) fn take_back(&self, label: u64, vector: &VectorBuf) -> Result<(), StoreError> {
        match self.read(|index| vector.view(|vector| index.find(label, vector))) {
            Ok(Some(node)) => self.withdraw(Place { label, node }),
            Ok(None) => self.pending.delete(label.to_be_bytes()).map(drop),
            // It is not a vector of the index, which has refused it.
            Err(StoreError::Structure { .. }) => self.pending.delete(label.to_be_bytes()).map(drop),
            Err(error) => Err(error),
        }
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
