//! Polder itself, once for each translation: `polder:array`, `polder:hash` and so on.
//!
//! The memory budget is `--pool`; everything that is not said is as a new store has it. Nothing is
//! kept back in a session and nothing is prepared for a phase: each call is one operation of the
//! store.

use polder::{
    Change, OpenMode, Options, ReadMode, ReplacementKind, Store, Table, TranslationKind, WriteBatch,
};

use super::{Access, DeviceStats, Engine, EngineError, EngineKind, Session, Setup};
use crate::durability::Durability;
use crate::records::Key;
use crate::sorted::SortedRecords;

/// One engine for each translation.
pub(super) fn kinds() -> impl Iterator<Item = EngineKind> {
    TranslationKind::ALL.iter().map(|kind| EngineKind {
        // There are a few, in a list that is made once or twice in the life of the program.
        name: format!("{PREFIX}{}", kind.name()).leak(),
        about: kind.about(),
        is_bare: false,
        durability: |_| Ok(()),
        create: |setup| Ok(Box::new(Polder::create(setup)?)),
    })
}

/// The translation of the engine of this name, if it is one of these.
pub(crate) fn translation_of(engine: &str) -> Option<TranslationKind> {
    engine.strip_prefix(PREFIX)?.parse().ok()
}

/// What the names of all engines of Polder begin with.
const PREFIX: &str = "polder:";

/// Whether these may be chosen for the engine of this name; if not, why not.
pub(super) fn can_have(
    engine: &str,
    replacement: Option<ReplacementKind>,
    hold: Option<ReadMode>,
) -> Result<(), String> {
    let Some(kind) = translation_of(engine) else {
        return match (replacement, hold) {
            (None, None) => Ok(()),
            _ => Err(format!(
                "{engine} is not Polder: it has no replacement policy and no read mode to choose; \
                 engines of Polder take them behind their names, as in polder:array+lru"
            )),
        };
    };
    if let Some(policy) = replacement.filter(|_| !kind.evicts()) {
        return Err(format!(
            "{engine} never evicts: the replacement policy {policy} is not for it"
        ));
    }
    let hold = hold.unwrap_or_default();
    if let Some(why) = kind.why_not(ReadMode::Core).filter(|_| hold.is_by_cores()) {
        let (optimistic, shared) = (ReadMode::Optimistic, ReadMode::Shared);
        return Err(format!("{engine} has the read modes {optimistic} and {shared} alone: {why}"));
    }
    if let Some(why) = kind.why_not(hold) {
        return Err(format!("{engine} does not have the read mode {hold}: {why}"));
    }
    Ok(())
}

struct Polder {
    store: Store,
    table: Table,
}

impl Polder {
    fn create(setup: &Setup<'_>) -> Result<Polder, EngineError> {
        let translation = translation_of(setup.engine).ok_or("no translation has that name")?;
        let options = Options::new(setup.dir.join("store"))
            .memory_budget(setup.cache_bytes)
            .translation(translation)
            .replacement(setup.replacement)
            .read_mode(setup.hold)
            .prefault(setup.prefault)
            .durability(match setup.durability {
                Durability::Sync => polder::Durability::Sync,
                Durability::Periodic(period) => polder::Durability::Periodic(period),
                Durability::None => polder::Durability::None,
            })
            .mode(OpenMode::Create);
        let options = match setup.log_limit_bytes {
            Some(bytes) => options.log_limit(bytes),
            None => options,
        };
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
        Ok(self.store.checkpoint()?)
    }

    fn polder(&self) -> Option<&Store> {
        Some(&self.store)
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

    fn get_many(
        &mut self,
        keys: &[Key],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), EngineError> {
        Ok(self.0.get_many(keys, read)?)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.0.put(key, value)?;
        Ok(())
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        let mut batch = WriteBatch::new();
        for (key, value) in entries {
            batch.put(&self.0, key, value);
        }
        Ok(self.0.store().apply(batch)?)
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

#[cfg(test)]
mod tests;
