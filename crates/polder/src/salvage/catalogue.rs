//! The catalogue as leaves and log tell it: the names of tables, and which were dropped.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use polder_format::{Lsn, PageId, SpaceId};

use super::KeyGap;
use super::coverage::Coverage;
use super::replay::{Heir, LeafFound, Stored};
use crate::catalogue::{MAX_TABLE_NAME_BYTES, TAG_KEY, TableRecord};
use crate::error::StoreError;

/// Names of tables, in the making.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    tables: BTreeMap<Vec<u8>, SpaceId>,
    /// Spaces that had a name and lost it.
    dropped: HashSet<SpaceId>,
    covered: Coverage,
}

/// What tables are called.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names {
    names: BTreeMap<SpaceId, String>,
    dropped: HashSet<SpaceId>,
}

impl Catalogue {
    /// Stretches of names of which nothing tells.
    pub(super) fn gaps(&self) -> Vec<KeyGap> {
        self.covered.gaps()
    }

    /// The names at the end.
    pub(crate) fn names(self) -> Names {
        let named = self.tables.into_iter().filter_map(|(name, space)| {
            let name = String::from_utf8(name).ok()?;
            (name.len() <= MAX_TABLE_NAME_BYTES).then_some((space, name))
        });
        let (mut names, mut dropped) = (BTreeMap::new(), HashSet::new());
        names.extend(named);
        dropped.extend(self.dropped.into_iter().filter(|space| !names.contains_key(space)));
        Names { names, dropped }
    }

    fn put(&mut self, key: &[u8], value: &Stored) {
        let Stored::Inline(value) = value else { return };
        if key != TAG_KEY
            && let Ok(record) = TableRecord::decode(value)
        {
            let old = self.tables.insert(key.to_vec(), record.space);
            self.dropped.extend(old.filter(|old| *old != record.space));
        }
    }

    fn forget(&mut self, key: &[u8]) {
        self.dropped.extend(self.tables.remove(key));
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
    /// The name of a space, if it is a table that has one.
    pub(crate) fn get(&self, space: SpaceId) -> Option<&str> {
        self.names.get(&space).map(String::as_str)
    }

    /// Whether the space was a table that was dropped.
    pub(crate) fn is_dropped(&self, space: SpaceId) -> bool {
        self.dropped.contains(&space)
    }

    /// Every table that has a name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (SpaceId, &str)> {
        self.names.iter().map(|(space, name)| (*space, name.as_str()))
    }

    /// A name for a space that has none.
    pub(crate) fn make(&self, space: SpaceId) -> String {
        let mut name = format!("space-{}", space.get());
        while self.names.values().any(|taken| *taken == name) {
            name.push('\'');
        }
        name
    }
}
