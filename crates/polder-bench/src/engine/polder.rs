//! Polder itself, once for each translation: `polder:array` and `polder:direct`.
//!
//! The memory budget is `--pool`; everything else is as a new store has it. Nothing is kept back in
//! a session and nothing is prepared for a phase: each call is one operation of the store.

use polder::{Change, OpenMode, Options, Store, Table, TranslationKind};

use super::{Access, DeviceStats, Engine, EngineError, EngineKind, Session, Setup};
use crate::records::Key;
use crate::sorted::SortedRecords;

/// One engine for each translation.
pub const KINDS: [EngineKind; 2] = [
    EngineKind {
        name: "polder:array",
        about: "Polder with translation arrays, its default; --pool is its memory budget",
        lookups_only: false,
        create: |setup| Ok(Box::new(Polder::create(setup, TranslationKind::Array)?)),
    },
    EngineKind {
        name: "polder:direct",
        about: "Polder without eviction, the yardstick: all data must fit into --pool",
        lookups_only: false,
        create: |setup| Ok(Box::new(Polder::create(setup, TranslationKind::Direct)?)),
    },
];

struct Polder {
    store: Store,
    table: Table,
}

impl Polder {
    fn create(setup: &Setup<'_>, translation: TranslationKind) -> Result<Polder, EngineError> {
        let options = Options::new(setup.dir.join("store"))
            .memory_budget(setup.cache_bytes)
            .translation(translation)
            .prefault(setup.prefault)
            .mode(OpenMode::Create);
        let store = Store::open(options)?;
        let table = store.create_table("records")?;
        Ok(Polder { store, table })
    }
}

impl Engine for Polder {
    fn session(&self, _: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(Box::new(Client(self.table.clone())))
    }

    fn bulk_load(&self, entries: &mut SortedRecords) -> Result<(), EngineError> {
        self.table.bulk_load(entries)?;
        Ok(())
    }

    fn settle(&self) -> Result<(), EngineError> {
        Ok(self.store.flush()?)
    }

    fn device_stats(&self) -> Option<DeviceStats> {
        let stats = self.store.stats();
        Some(DeviceStats { reads: stats.device_reads, writes: stats.device_writes })
    }
}

/// A handle of one thread's own.
struct Client(Table);

impl Session for Client {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        let found = self.0.get_with(key, |found| {
            value.clear();
            value.extend_from_slice(found);
        })?;
        Ok(found.is_some())
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.0.insert(key, value)?;
        Ok(())
    }

    fn modify(
        &mut self,
        key: &Key,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, EngineError> {
        let mut found = false;
        self.0.update_with(key, |value| {
            found = value.is_some();
            value.map_or(Change::Keep, |value| {
                let mut changed = value.to_vec();
                change(&mut changed);
                Change::Insert(changed)
            })
        })?;
        Ok(found)
    }

    fn scan(
        &mut self,
        start: &Key,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        let mut entries = self.0.range(start.as_slice()..);
        while let Some((key, value)) = entries.next_entry()? {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}
