//! The new store: what was found is put into its tables.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Bound;

use polder_format::{Lsn, PageId, SpaceId};
use polder_log::Tally;

use super::catalogue::{Names, in_order};
use super::copies::Copies;
use super::coverage::{ByKey, Coverage};
use super::replay::{Heir, LeafFound, Stored};
use super::source::Source;
use super::values::Values;
use super::{LISTED, SalvagedTable};
use crate::error::StoreError;
use crate::handle::Store;
use crate::maps::{Maps, Standing};
use crate::table::Table;

/// Keys that are removed at a time.
const KEYS_A_STEP: usize = 1000;

/// Tables in the making.
pub(super) struct Tables<'s> {
    store: &'s Store,
    source: &'s Source,
    values: Values<'s>,
    names: Names,
    made: HashMap<SpaceId, Made>,
    /// Records of the log that were met.
    pub(super) records: u64,
}

/// A table of the new store.
struct Made {
    table: Table,
    named: bool,
    doubtful: u64,
    /// Keys whose values are lost, and nothing about them.
    lost: ByKey,
    covered: Coverage,
}

impl<'s> Tables<'s> {
    pub(super) fn new(
        store: &'s Store,
        source: &'s Source,
        copies: &'s Copies,
        names: Names,
    ) -> Tables<'s> {
        let values = Values::new(source, copies);
        Tables { store, source, values, names, made: HashMap::new(), records: 0 }
    }

    /// Makes the tables of which nothing but the name was found, and says what there is, in no
    /// order.
    pub(super) fn finish(mut self) -> Result<Vec<SalvagedTable>, StoreError> {
        for space in self.unmade() {
            made(&mut self.made, self.store, &self.names, space)?;
        }
        self.store.flush()?;
        let tally = self.source.tally.as_ref();
        let about = |(space, made): (SpaceId, Made)| {
            let gaps = made.covered.gaps();
            SalvagedTable {
                name: made.table.name().to_string(),
                named: made.named,
                entries: made.table.len(),
                counted: tally.map(|tally| tally.entries(space)),
                doubtful: made.doubtful.min(made.table.len()),
                lost: made.lost.len() as u64,
                lost_keys: made.lost.into_keys().take(LISTED).collect(),
                key_gaps: gaps.len() as u64,
                gaps: gaps.into_iter().take(LISTED).collect(),
                structure: None,
            }
        };
        Ok(self.made.into_iter().map(about).collect())
    }

    /// Tables of which nothing but the name or the number of entries was found.
    fn unmade(&self) -> Vec<SpaceId> {
        let counts = self.source.tally.as_ref().map(Tally::counts).unwrap_or_default();
        let counted = counts.into_iter().map(|count| count.space).filter(|space| {
            let maps = self.source.maps.as_ref();
            let is_there =
                |maps: &RefCell<Maps>| maps.borrow().has_space(*space, Lsn(0)) == Standing::InUse;
            self.wants(*space) && maps.is_some_and(is_there)
        });
        in_order(self.names.tables().map(|(space, _)| space).chain(counted))
    }

    /// Whether a space was there at `lsn`, as far as anybody knows.
    fn is_there(&self, space: SpaceId, lsn: Lsn) -> bool {
        let maps = self.source.maps.as_ref();
        maps.is_none_or(|maps| maps.borrow().has_space(space, lsn) != Standing::Gone)
    }

    fn put(
        &mut self,
        space: SpaceId,
        lsn: Lsn,
        key: &[u8],
        value: &Stored,
    ) -> Result<(), StoreError> {
        let made = made(&mut self.made, self.store, &self.names, space)?;
        let read;
        let value = match value {
            Stored::Inline(value) => Some(value),
            Stored::Long(long) => {
                read = self.values.read(*long, lsn);
                read.as_ref()
            }
        };
        match value {
            Some(value) => {
                made.lost.remove(key);
                made.table.put(key, value)?;
            }
            None => {
                // An older value would be a wrong one.
                made.lost.insert(key.to_vec(), None);
                made.table.delete(key)?;
            }
        }
        Ok(())
    }
}

/// The table for a space; made if there is none.
fn made<'t>(
    tables: &'t mut HashMap<SpaceId, Made>,
    store: &Store,
    names: &Names,
    space: SpaceId,
) -> Result<&'t mut Made, StoreError> {
    use std::collections::hash_map::Entry;
    match tables.entry(space) {
        Entry::Occupied(there) => Ok(there.into_mut()),
        Entry::Vacant(vacant) => {
            let name = names.get(space).map_or_else(|| names.make(space), str::to_string);
            let (table, named) = (store.create_table(&name)?, names.get(space).is_some());
            Ok(vacant.insert(Made {
                table,
                named,
                doubtful: 0,
                lost: ByKey::new(),
                covered: Coverage::default(),
            }))
        }
    }
}

impl Made {
    /// Removes every key between the fences of a leaf that the leaf does not have.
    fn clear(&mut self, leaf: &LeafFound) -> Result<(), StoreError> {
        let upper = leaf.upper.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let mut lower = leaf.lower.clone().map_or(Bound::Unbounded, Bound::Included);
        let is_gone =
            |key: &[u8]| leaf.entries.binary_search_by(|(has, _)| has.as_slice().cmp(key)).is_err();
        let lost = self.lost.range((lower.clone(), upper.clone()));
        for key in lost.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.lost.remove(&key);
        }
        loop {
            let (mut gone, mut seen) = (Vec::new(), 0);
            let mut range = self.table.range((lower.clone(), upper.clone()));
            while seen < KEYS_A_STEP
                && let Some((key, _)) = range.next_entry()?
            {
                seen += 1;
                lower = Bound::Excluded(key.to_vec());
                if is_gone(key) {
                    gone.push(key.to_vec());
                }
            }
            drop(range);
            for key in gone {
                self.table.delete(&key)?;
            }
            if seen < KEYS_A_STEP {
                return Ok(());
            }
        }
    }
}

impl Heir for Tables<'_> {
    fn wants(&self, space: SpaceId) -> bool {
        let is_table = self.names.structure(space).is_none();
        space > SpaceId::CATALOGUE && is_table && !self.names.is_dropped(space)
    }

    fn leaf(&mut self, leaf: &LeafFound) -> Result<(), StoreError> {
        let space = leaf.page.space();
        if !self.is_there(space, leaf.lsn) {
            return Ok(());
        }
        let made = made(&mut self.made, self.store, &self.names, space)?;
        made.covered.add(leaf);
        made.clear(leaf)?;
        if leaf.doubtful {
            made.doubtful += leaf.entries.len() as u64;
        }
        for (key, value) in &leaf.entries {
            self.put(space, leaf.lsn, key, value)?;
        }
        Ok(())
    }

    fn insert(
        &mut self,
        space: SpaceId,
        lsn: Lsn,
        key: &[u8],
        value: &Stored,
    ) -> Result<(), StoreError> {
        self.records += 1;
        if self.is_there(space, lsn) { self.put(space, lsn, key, value) } else { Ok(()) }
    }

    fn remove(&mut self, space: SpaceId, lsn: Lsn, key: &[u8]) -> Result<(), StoreError> {
        self.records += 1;
        if self.is_there(space, lsn) {
            let made = made(&mut self.made, self.store, &self.names, space)?;
            made.lost.remove(key);
            made.table.delete(key)?;
        }
        Ok(())
    }

    fn overflow(&mut self, page: PageId, lsn: Lsn, group: Lsn) {
        self.values.note(page, lsn, group);
    }
}
