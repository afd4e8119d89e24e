//! The catalogue as leaves and log tell it: the names of tables and structures, and which were dropped.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use polder_format::{Lsn, PageId, SpaceId};

use super::KeyGap;
use super::coverage::{ByKey, Coverage};
use super::replay::{Heir, LeafFound, Stored};
use crate::catalogue::{Lodger, MAX_TABLE_NAME_BYTES, SpaceRecord, TAG_KEY};
use crate::error::StoreError;

/// Names of tables, in the making.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// Records by name, as the catalogue has them. All can be decoded.
    tables: ByKey,
    /// Spaces that had a name and lost it.
    dropped: HashSet<SpaceId>,
    covered: Coverage,
}

/// What tables and structures are called.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names {
    names: HashMap<SpaceId, (String, Lodger)>,
    /// Spaces without a name whose pages are a structure's.
    guests: HashMap<SpaceId, &'static str>,
    dropped: HashSet<SpaceId>,
}

impl Catalogue {
    /// Stretches of names of which nothing tells.
    pub(super) fn gaps(&self) -> Vec<KeyGap> {
        self.covered.gaps()
    }

    /// The names at the end.
    pub(crate) fn names(self) -> Names {
        let named = self.tables.into_iter().filter_map(|(name, record)| {
            let (name, record) = (String::from_utf8(name).ok()?, decoded(record)?);
            (name.len() <= MAX_TABLE_NAME_BYTES).then_some((record.space, (name, record.lodger)))
        });
        let (mut names, mut dropped) = (HashMap::new(), HashSet::new());
        names.extend(named);
        dropped.extend(self.dropped.into_iter().filter(|space| !names.contains_key(space)));
        Names { names, guests: HashMap::new(), dropped }
    }

    fn put(&mut self, key: &[u8], value: &Stored) {
        let Stored::Inline(value) = value else { return };
        if key != TAG_KEY
            && let Ok(record) = SpaceRecord::decode(value)
        {
            let old = self.tables.insert(key.to_vec(), Some(value.clone())).and_then(decoded);
            self.dropped.extend(old.map(|old| old.space).filter(|old| *old != record.space));
        }
    }

    fn forget(&mut self, key: &[u8]) {
        self.dropped.extend(self.tables.remove(key).and_then(decoded).map(|old| old.space));
    }
}

impl Heir for Catalogue {
    fn wants(&self, space: SpaceId) -> bool {
        space == SpaceId::CATALOGUE
    }

    fn leaf(&mut self, leaf: &LeafFound) -> Result<(), StoreError> {
        self.covered.add(leaf);
        let lower = leaf.lower.clone().map_or(Bound::Unbounded, Bound::Included);
        let upper = leaf.upper.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let there = self.tables.range((lower, upper)).map(|(name, _)| name.clone());
        let is_gone = |name: &Vec<u8>| !leaf.entries.iter().any(|(key, _)| key == name);
        for name in there.filter(is_gone).collect::<Vec<_>>() {
            self.forget(&name);
        }
        leaf.entries.iter().for_each(|(key, value)| self.put(key, value));
        Ok(())
    }

    fn insert(&mut self, _: SpaceId, _: Lsn, key: &[u8], value: &Stored) -> Result<(), StoreError> {
        self.put(key, value);
        Ok(())
    }

    fn remove(&mut self, _: SpaceId, _: Lsn, key: &[u8]) -> Result<(), StoreError> {
        self.forget(key);
        Ok(())
    }

    fn overflow(&mut self, _: PageId, _: Lsn, _: Lsn) {}
}

impl Names {
    /// The name of a space, if it has one.
    pub(crate) fn get(&self, space: SpaceId) -> Option<&str> {
        self.names.get(&space).map(|(name, _)| name.as_str())
    }

    /// A space has pages of a structure that is registered.
    pub(super) fn note_guest(&mut self, space: SpaceId, structure: &'static str) {
        if !self.names.contains_key(&space) && !self.dropped.contains(&space) {
            self.guests.insert(space, structure);
        }
    }

    /// The structure that a space has, if it is no table.
    pub(super) fn structure(&self, space: SpaceId) -> Option<&str> {
        match self.names.get(&space) {
            Some((_, Lodger::Structure { name, .. })) => Some(name),
            Some((_, Lodger::Own)) => None,
            None => self.guests.get(&space).copied(),
        }
    }

    /// Every space that has a structure, as far as is known, in order.
    pub(super) fn structures(&self) -> Vec<SpaceId> {
        let named = self.names.keys().filter(|space| self.structure(**space).is_some());
        in_order(named.chain(self.guests.keys()).copied())
    }

    /// Whether the space had a name and was dropped.
    pub(crate) fn is_dropped(&self, space: SpaceId) -> bool {
        self.dropped.contains(&space)
    }

    /// Every table that has a name, in no order.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (SpaceId, &str)> {
        let tables = self.names.iter().filter(|(_, (_, lodger))| *lodger == Lodger::Own);
        tables.map(|(space, (name, _))| (*space, name.as_str()))
    }

    /// A name for a space that has none.
    pub(crate) fn make(&self, space: SpaceId) -> String {
        let mut name = format!("space-{}", space.get());
        while self.names.values().any(|(taken, _)| *taken == name) {
            name.push('\'');
        }
        name
    }
}

fn decoded(record: Option<Vec<u8>>) -> Option<SpaceRecord> {
    SpaceRecord::decode(&record?).ok()
}

/// Spaces in their order.
pub(super) fn in_order(spaces: impl Iterator<Item = SpaceId>) -> Vec<SpaceId> {
    let mut spaces: Vec<_> = spaces.collect();
    spaces.sort_unstable();
    spaces
}
