//! redb.
//!
//! * `sync` is redb's `Durability::Immediate`, each commit with one sync; `none` its
//!   `Durability::None`: commits do not sync. Settling is an empty commit that does, which brings
//!   all before it to the device.
//! * The cache has `--pool` bytes; the rest goes by the kernel's page cache.
//! * Keys are `&[u8; 8]`: redb stores keys of fixed size without their offsets.
//! * A phase that only reads has one read transaction and one open table in each thread. A mixed
//!   phase has a transaction for each operation, since a long one would not see what others wrote.
//! * Random loads put 1000 writes into a transaction, sorted loads 100000. A session cannot hold a
//!   table beside the transaction that it borrows from, so a loading session collects its writes
//!   and does them together: of its latencies, only the tail shows the engine at work. There is
//!   no bulk loader: a sorted load inserts in key order.

use polder_bench::engine::{
    Access, ChangeValue, Engine, EngineError, EngineKind, Session, Setup, Visit,
};
use polder_bench::records::Key;
use polder_bench::{Durability, SortedRecords};
use redb::{
    Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

use crate::{WRITES_PER_BULK_LOAD, WRITES_PER_LOAD};

/// The engine `redb`.
pub(crate) const KIND: EngineKind = EngineKind {
    name: "redb",
    about: "redb; --pool is its cache",
    is_bare: false,
    lends: false,
    durability: |durability| match durability {
        Durability::Sync | Durability::None => Ok(()),
        _ => Err("redb syncs each commit or none"),
    },
    create: |setup| Ok(Box::new(Redb::create(setup)?)),
};

const TABLE: TableDefinition<'_, &Key, &[u8]> = TableDefinition::new("records");

type Reading = ReadOnlyTable<&'static Key, &'static [u8]>;

struct Redb {
    database: Database,
    durability: redb::Durability,
}

impl Redb {
    fn create(setup: &Setup<'_>) -> Result<Redb, EngineError> {
        let database = Database::builder()
            .set_cache_size(usize::try_from(setup.conditions.pool_bytes)?)
            .create(setup.dir.join("redb"))?;
        let durability = match setup.conditions.durability {
            Durability::Sync => redb::Durability::Immediate,
            _ => redb::Durability::None,
        };
        let redb = Redb { database, durability };
        // Readers need the table to be there.
        redb.write(std::iter::empty::<(Key, &[u8])>())?;
        Ok(redb)
    }

    fn begin(&self) -> Result<WriteTransaction, EngineError> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(self.durability)?;
        Ok(txn)
    }

    /// One transaction with these writes.
    fn write<V: AsRef<[u8]>>(
        &self,
        entries: impl Iterator<Item = (Key, V)>,
    ) -> Result<(), EngineError> {
        let txn = self.begin()?;
        {
            let mut table = txn.open_table(TABLE)?;
            for (key, value) in entries {
                table.insert(&key, value.as_ref())?;
            }
        }
        Ok(txn.commit()?)
    }

    fn reading(&self) -> Result<Reading, EngineError> {
        Ok(self.database.begin_read()?.open_table(TABLE)?)
    }
}

impl Engine for Redb {
    fn session(&self, access: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(match access {
            Access::Read => Box::new(Reader(self.reading()?)),
            Access::Mixed => Box::new(Mixed(self)),
            Access::Load => Box::new(Loader { redb: self, keys: Vec::new(), values: Vec::new() }),
        })
    }

    fn bulk_load(&self, entries: &mut SortedRecords) -> Result<(), EngineError> {
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            self.write(entries.by_ref().take(WRITES_PER_BULK_LOAD))?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), EngineError> {
        let mut txn = self.database.begin_write()?;
        txn.set_durability(redb::Durability::Immediate)?;
        Ok(txn.commit()?)
    }
}

fn get(table: &Reading, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
    let Some(found) = table.get(key)? else {
        return Ok(false);
    };
    value.clear();
    value.extend_from_slice(found.value());
    Ok(true)
}

fn scan(
    table: &Reading,
    start: &Key,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), EngineError> {
    for entry in table.range::<&Key>(start..)? {
        let (key, value) = entry?;
        if !visit(key.value(), value.value()) {
            break;
        }
    }
    Ok(())
}

fn read_only() -> EngineError {
    "this phase only reads".into()
}

/// One read transaction, kept alive by its table, for the phase.
struct Reader(Reading);

impl Session for Reader {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        get(&self.0, key, value)
    }

    fn put(&mut self, _: &Key, _: &[u8]) -> Result<(), EngineError> {
        Err(read_only())
    }

    fn modify(&mut self, _: &Key, _: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        Err(read_only())
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.0, start, visit)
    }
}

/// A transaction for each operation.
struct Mixed<'a>(&'a Redb);

impl Session for Mixed<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        get(&self.0.reading()?, key, value)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.0.write(std::iter::once((*key, value)))
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        self.0.write(entries.iter().map(|(key, value)| (*key, value)))
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        let txn = self.0.begin()?;
        {
            let mut table = txn.open_table(TABLE)?;
            let found = table.get(key)?.map(|value| value.value().to_vec());
            let Some(mut value) = found else {
                return Ok(false);
            };
            change(&mut value);
            table.insert(key, value.as_slice())?;
        }
        txn.commit()?;
        Ok(true)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.0.reading()?, start, visit)
    }
}

/// Writes that wait for their transaction.
struct Loader<'a> {
    redb: &'a Redb,
    /// Each key with the end of its value.
    keys: Vec<(Key, usize)>,
    /// All values, one after the other.
    values: Vec<u8>,
}

impl Session for Loader<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.finish()?;
        Mixed(self.redb).get(key, value)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.values.extend_from_slice(value);
        self.keys.push((*key, self.values.len()));
        if self.keys.len() == WRITES_PER_LOAD { self.finish() } else { Ok(()) }
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        self.finish()?;
        Mixed(self.redb).put_batch(entries)
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        self.finish()?;
        Mixed(self.redb).modify(key, change)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.finish()?;
        Mixed(self.redb).scan(start, visit)
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let mut start = 0;
        let entries = self.keys.iter().map(|&(key, end)| {
            let value = &self.values[start..end];
            start = end;
            (key, value)
        });
        self.redb.write(entries)?;
        self.keys.clear();
        self.values.clear();
        Ok(())
    }
}
