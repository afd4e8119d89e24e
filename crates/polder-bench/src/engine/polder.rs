//! Polder itself, once for each translation: `polder:array`, `polder:hash` and so on.
//!
//! The memory budget is `--pool`; everything that is not said is as a new store has it. Nothing is
//! kept back in a session and nothing is prepared for a phase: each call is one operation of the
//! store.

use std::ops::ControlFlow;

use polder::{Change, OpenMode, Options, Store, Table, TranslationKind, WriteBatch};

use super::named::POLDER;
use super::{
    Access, ChangeValue, DeviceStats, Engine, EngineError, EngineKind, ReadMany, Session, Setup,
    Visit, VisitMany,
};
use crate::records::Key;
use crate::sorted::SortedRecords;

/// One engine for each translation.
pub(super) fn kinds() -> impl Iterator<Item = EngineKind> {
    TranslationKind::ALL.iter().map(|kind| EngineKind {
        // There are a few, in a list that is made once or twice in the life of the program.
        name: format!("{POLDER}{}", kind.name()).leak(),
        about: kind.about(),
        is_bare: false,
        lends: true,
        durability: |_| Ok(()),
        create: |setup| Ok(Box::new(Polder::create(setup)?)),
    })
}

/// Values above this length are copied out of what the store lends, and not out of a copy.
const LONG_VALUE_BYTES: usize = 1024;

struct Polder {
    store: Store,
    table: Table,
    is_long: bool,
}

impl Polder {
    fn create(setup: &Setup<'_>) -> Result<Polder, EngineError> {
        let Setup { named, dir, conditions, .. } = *setup;
        let mut options = named
            .of(Options::new(dir.join("store")), conditions.pool_bytes)
            .prefault(conditions.prefault)
            .durability(conditions.durability)
            .mode(OpenMode::Create);
        if let Some(bytes) = conditions.log_limit_bytes {
            options = options.log_limit(bytes);
        }
        let store = Store::open(options)?;
        let table = store.create_table("records")?;
        Ok(Polder { store, table, is_long: conditions.value_size > LONG_VALUE_BYTES })
    }
}

impl Engine for Polder {
    fn session(&self, _: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(Box::new(Client { table: self.table.clone(), is_long: self.is_long }))
    }

    fn bulk_load(&self, entries: &mut SortedRecords) -> Result<(), EngineError> {
        self.table.bulk_load(entries)?;
        Ok(())
    }

    fn settle(&self) -> Result<(), EngineError> {
        Ok(self.store.checkpoint()?)
    }

    fn polder(&self) -> Option<&Store> {
        Some(&self.store)
    }

    fn device_stats(&self) -> Option<DeviceStats> {
        let stats = self.store.stats();
        Some(DeviceStats { reads: stats.pool.device_reads, writes: stats.pool.device_writes })
    }
}

/// A handle of one thread's own.
struct Client {
    table: Table,
    is_long: bool,
}

impl Session for Client {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        if self.is_long {
            value.clear();
            return self.lend(key, &mut |piece| value.extend_from_slice(piece));
        }
        let found = self.table.get_with(key, |found| {
            value.clear();
            value.extend_from_slice(found);
        })?;
        Ok(found.is_some())
    }

    fn lend(&mut self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let found = self.table.get_ref(key)?;
        found.iter().flat_map(|value| value.chunks()).for_each(read);
        Ok(found.is_some())
    }

    fn get_many(&mut self, keys: &[Key], read: &mut ReadMany<'_>) -> Result<(), EngineError> {
        Ok(self.table.get_many(keys, read)?)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.table.put(key, value)?;
        Ok(())
    }

    fn put_many(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        self.table.put_many(entries)?;
        Ok(())
    }

    fn scan_many(&mut self, starts: &[Key], visit: &mut VisitMany<'_>) -> Result<(), EngineError> {
        let ranges: Vec<_> = starts.iter().map(|start| *start..).collect();
        self.table.range_many(&ranges, |i, key, value| match visit(i, key, value) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })?;
        Ok(())
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        let mut batch = WriteBatch::new();
        for (key, value) in entries {
            batch.put(&self.table, key, value);
        }
        Ok(self.table.store().apply(batch)?)
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        let mut found = false;
        self.table.update_with(key, |value| {
            found = value.is_some();
            value.map_or(Change::Keep, |value| {
                let mut changed = value.to_vec();
                change(&mut changed);
                Change::Insert(changed)
            })
        })?;
        Ok(found)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        let mut entries = self.table.range(start.as_slice()..);
        while entries.next_entry()?.is_some_and(|(key, value)| visit(key, value)) {}
        Ok(())
    }
}

#[cfg(test)]
mod tests;
