//! Whether keys, rows and vectors agree.

use super::Collection;
use super::record::{self, Place, label_of};
use crate::error::StoreError;

/// Faults that are listed.
const LISTED: usize = 100;

/// What a check of a collection has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CollectionReport {
    /// Keys that have a row and a vector.
    pub keys: u64,
    /// Vectors that have no row, and are being inserted or removed, or were when a crash came.
    pub pending: u64,
    /// How much does not agree.
    pub wrong: u64,
    /// What it is: the first hundred.
    pub faults: Vec<String>,
    /// Whether it was stopped before it was done.
    pub stopped: bool,
}

impl CollectionReport {
    fn fault(&mut self, what: String) {
        self.wrong += 1;
        if self.faults.len() < LISTED {
            self.faults.push(what);
        }
    }
}

/// Whether all agrees.
impl Collection {
    /// Compares keys, rows and vectors with each other, while nobody changes the collection.
    /// ([`Store::check`](crate::Store::check) looks at the pages that they are in.) `progress` is told how
    /// many of each are done, and stops it by returning false.
    ///
    /// # Errors
    /// Those of reading. What does not agree is in the report.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<CollectionReport, StoreError> {
        let mut report = CollectionReport::default();
        let mut done = 0;
        let mut goes_on = || {
            done += 1;
            progress(done)
        };
        for entry in self.keys.iter() {
            let (key, place) = entry?;
            let what = self.lacks(&key, Place::from_bytes(&place))?;
            match what {
                None => report.keys += 1,
                Some(what) => report.fault(format!("key {}: {what}", key.escape_ascii())),
            }
            report.stopped = !goes_on();
            if report.stopped {
                return Ok(report);
            }
        }
        for entry in self.rows.iter() {
            let (label, row) = entry?;
            let label = label_of(&label).ok_or_else(|| self.broken("a row has no label"))?;
            let (key, _) = record::row(&row).ok_or_else(|| self.broken("a row has no key"))?;
            if self.place(key)?.is_none_or(|(_, place)| place.label != label) {
                report.fault(format!("row {label}: its key {} is not there", key.escape_ascii()));
            }
            if self.pending.contains_key(label.to_be_bytes())? {
                report.fault(format!("row {label}: its vector is pending as well"));
            }
            report.stopped = !goes_on();
            if report.stopped {
                return Ok(report);
            }
        }
        self.for_each_vector(&mut |place| {
            let Place { label, node } = place;
            match self.row(label, |key, _| key.to_vec())? {
                None if self.pending.contains_key(label.to_be_bytes())? => report.pending += 1,
                None => report.fault(format!("{node:?}: its label {label} has no row")),
                // Its key looks for it elsewhere, or is not there, which was told.
                Some(key) => match self.place(&key)? {
                    Some((_, found)) if found.label == label && found.node != node => {
                        let key = key.escape_ascii();
                        report.fault(format!("{node:?}: its key {key} has it in {:?}", found.node));
                    }
                    _ => {}
                },
            }
            report.stopped = !goes_on();
            Ok(!report.stopped)
        })?;
        Ok(report)
    }

    /// What a key with this place lacks, if it lacks something.
    fn lacks(&self, key: &[u8], place: Option<Place>) -> Result<Option<&'static str>, StoreError> {
        let Some(place) = place else { return Ok(Some("its place cannot be read")) };
        Ok(match self.row(place.label, |of, _| of == key)? {
            None => Some("it has no row"),
            Some(false) => Some("its row is another key's"),
            Some(true) if self.has_vector(place)? => None,
            Some(true) => Some("its vector is not there"),
        })
    }

    pub(super) fn has_vector(&self, Place { label, node }: Place) -> Result<bool, StoreError> {
        Ok(self.read(|index| index.get(label, node))?.is_some())
    }

    /// Shows each vector of the index, until `see` returns false.
    pub(super) fn for_each_vector(
        &self,
        see: &mut dyn FnMut(Place) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut failed = None;
        let mut look = |label, node| {
            let goes_on = see(Place { label, node });
            goes_on.map_err(|error| failed = Some(error)).unwrap_or(false)
        };
        self.read(|index| index.for_each(&mut look))?;
        failed.map_or(Ok(()), Err)
    }
}
