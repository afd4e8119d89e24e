//! Extents that move while the file is made shorter.

use std::collections::BTreeSet;
use std::sync::Mutex;

use polder_format::Place;

use crate::sync::lock;

/// An extent on its way to another place: which of its pages were written to the old one.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) from: Place,
    pub(crate) pages: u64,
    pub(crate) noted: Mutex<BTreeSet<u64>>,
}

impl Moving {
    /// A page was written to `place`. Called while the gate is held shared, after the write.
    pub(crate) fn note(&self, place: Place) {
        if let Some(page) = place.get().checked_sub(self.from.get()).filter(|p| *p < self.pages) {
            lock(&self.noted).insert(page);
        }
    }
}
