//! LMDB by heed.
//!
//! * `none` is `MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMETASYNC`: the fastest form that does not sync;
//!   pages are changed in the map itself. `sync` is without any of them, LMDB's default: each
//!   commit writes its pages and syncs. With a write map, synced commits were as fast.
//! * `MDB_NORDAHEAD` where the data is larger than `--pool`: reading ahead hurts random reads.
//! * A phase that only reads has one long read transaction in each thread. A mixed phase has a
//!   read transaction for each read, since a long one would not see what others wrote and would
//!   keep freed pages from being used again; and a write transaction for each write.
//! * Random loads put 1000 writes into a transaction, sorted loads 100000, those by `MDB_APPEND`,
//!   which leaves leaves full.
//! * LMDB has no cache of its own: its pages are in the kernel's page cache, which `--pool` does
//!   not limit. Its map counts as its resident set as far as it was touched.
//! * The map is four times the data and some GiB more, so that it never fills up; the file is
//!   sparse.

use std::ops::Bound;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RoTxn, RwTxn, WithTls};
use polder_bench::engine::{
    Access, ChangeValue, Engine, EngineError, EngineKind, Session, Setup, Visit,
};
use polder_bench::records::Key;
use polder_bench::{Durability, SortedRecords};

use crate::{WRITES_PER_BULK_LOAD, WRITES_PER_LOAD};

/// The engine `lmdb`.
pub(crate) const KIND: EngineKind = EngineKind {
    name: "lmdb",
    about: "LMDB (heed); cached by the kernel, --pool is no limit to it",
    is_bare: false,
    lends: true,
    durability: |durability| match durability {
        Durability::Sync | Durability::None => Ok(()),
        _ => Err("LMDB syncs each commit or none"),
    },
    create: |setup| Ok(Box::new(Lmdb::create(setup)?)),
};

/// Slots for readers: one for each thread that a benchmark can have, and some.
const READERS: u32 = 1100;

struct Lmdb {
    env: Env<WithTls>,
    database: Database<Bytes, Bytes>,
}

impl Lmdb {
    fn create(setup: &Setup<'_>) -> Result<Lmdb, EngineError> {
        // A multiple of any page size there is.
        let map_bytes = (setup.conditions.data_bytes().saturating_mul(4) >> 30 << 30) + (5 << 30);
        let mut flags = match setup.conditions.durability {
            Durability::Sync => EnvFlags::empty(),
            _ => EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC,
        };
        if setup.conditions.is_out_of_memory() {
            flags |= EnvFlags::NO_READ_AHEAD;
        }
        let mut options = EnvOpenOptions::new();
        options.map_size(usize::try_from(map_bytes)?).max_readers(READERS);
        // SAFETY: flags that give up durability are there only where none is asked for; the
        // directory was made for this environment alone, so nobody else opens, changes or
        // truncates its file.
        let env = unsafe { options.flags(flags).open(setup.dir)? };
        let mut txn = env.write_txn()?;
        let database = env.create_database(&mut txn, None)?;
        txn.commit()?;
        Ok(Lmdb { env, database })
    }
}

impl Engine for Lmdb {
    fn session(&self, access: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(match access {
            Access::Read => Box::new(Reader { lmdb: self, txn: self.env.read_txn()? }),
            Access::Mixed => Box::new(Mixed(self)),
            Access::Load => Box::new(Loader { lmdb: self, txn: None, writes: 0 }),
        })
    }

    fn bulk_load(&self, entries: &mut SortedRecords) -> Result<(), EngineError> {
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            let mut txn = self.env.write_txn()?;
            for (key, value) in entries.by_ref().take(WRITES_PER_BULK_LOAD) {
                let (flags, value) = (PutFlags::APPEND, value.as_ref());
                self.database.put_with_flags(&mut txn, flags, &key, value)?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), EngineError> {
        Ok(self.env.force_sync()?)
    }
}

fn get(lmdb: &Lmdb, txn: &RoTxn<'_>, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
    let Some(found) = lmdb.database.get(txn, key)? else {
        return Ok(false);
    };
    value.clear();
    value.extend_from_slice(found);
    Ok(true)
}

fn lend(
    lmdb: &Lmdb,
    txn: &RoTxn<'_>,
    key: &Key,
    read: &mut dyn FnMut(&[u8]),
) -> Result<bool, EngineError> {
    let found = lmdb.database.get(txn, key)?;
    found.into_iter().for_each(read);
    Ok(found.is_some())
}

fn scan(
    lmdb: &Lmdb,
    txn: &RoTxn<'_>,
    start: &Key,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), EngineError> {
    let bounds = (Bound::Included(start.as_slice()), Bound::Unbounded);
    for entry in lmdb.database.range(txn, &bounds)? {
        let (key, value) = entry?;
        if !visit(key, value) {
            break;
        }
    }
    Ok(())
}

fn read_only() -> EngineError {
    "this phase only reads".into()
}

/// One read transaction for the phase.
struct Reader<'a> {
    lmdb: &'a Lmdb,
    txn: RoTxn<'a, WithTls>,
}

impl Session for Reader<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        get(self.lmdb, &self.txn, key, value)
    }

    fn lend(&mut self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        lend(self.lmdb, &self.txn, key, read)
    }

    fn put(&mut self, _: &Key, _: &[u8]) -> Result<(), EngineError> {
        Err(read_only())
    }

    fn modify(&mut self, _: &Key, _: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        Err(read_only())
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(self.lmdb, &self.txn, start, visit)
    }
}

/// A transaction for each operation.
struct Mixed<'a>(&'a Lmdb);

impl Session for Mixed<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        let txn = self.0.env.read_txn()?;
        get(self.0, &txn, key, value)
    }

    fn lend(&mut self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let txn = self.0.env.read_txn()?;
        lend(self.0, &txn, key, read)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        let mut txn = self.0.env.write_txn()?;
        self.0.database.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        let mut txn = self.0.env.write_txn()?;
        for (key, value) in entries {
            self.0.database.put(&mut txn, key, value)?;
        }
        Ok(txn.commit()?)
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        let mut txn = self.0.env.write_txn()?;
        let mut value = match self.0.database.get(&txn, key)? {
            Some(value) => value.to_vec(),
            None => return Ok(false),
        };
        change(&mut value);
        self.0.database.put(&mut txn, key, &value)?;
        txn.commit()?;
        Ok(true)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        let txn = self.0.env.read_txn()?;
        scan(self.0, &txn, start, visit)
    }
}

/// Many writes in a transaction.
struct Loader<'a> {
    lmdb: &'a Lmdb,
    txn: Option<RwTxn<'a>>,
    writes: usize,
}

impl Session for Loader<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.finish()?;
        Mixed(self.lmdb).get(key, value)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        let mut txn = match self.txn.take() {
            Some(txn) => txn,
            None => self.lmdb.env.write_txn()?,
        };
        self.lmdb.database.put(&mut txn, key, value)?;
        self.txn = Some(txn);
        self.writes += 1;
        if self.writes == WRITES_PER_LOAD { self.finish() } else { Ok(()) }
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        self.finish()?;
        Mixed(self.lmdb).put_batch(entries)
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        self.finish()?;
        Mixed(self.lmdb).modify(key, change)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.finish()?;
        Mixed(self.lmdb).scan(start, visit)
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.writes = 0;
        match self.txn.take() {
            Some(txn) => Ok(txn.commit()?),
            None => Ok(()),
        }
    }
}
