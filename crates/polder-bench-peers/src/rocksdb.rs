//! RocksDB, by its C interface, with the feature `rocksdb`.
//!
//! The library is the system's (on Debian `librocksdb-dev`), and [`ffi`] declares the few
//! functions that are needed. The crate `rocksdb` would build ten minutes of C++, and its bindings
//! need clang; so nothing of it is used, and without the feature the peers build without the
//! library.
//!
//! * `--pool` pays for two write buffers, each an eighth of it, at most 64 MiB (RocksDB's default),
//!   and the block cache, which has the rest. Where the data is larger than the pool, the indexes
//!   and filters of the files are in the block cache too; else they are beside it, as by default,
//!   which saves lookups in the cache.
//! * Bloom filters of 10 bits a key; no compression, since the other engines do not compress; two
//!   threads for flushes and compactions; levels sized from the last one up, as its tuning guide
//!   says; the rest by default.
//! * Reads, flushes and compactions are direct: the kernel caches no data. The log is not: RocksDB
//!   has no direct log.
//! * `sync`: each write is in the log and the log on the device. Writers that wait at once share a
//!   sync. `none`: without a log. What is in the write buffers is then lost with the process, and
//!   not only with the machine, but nothing that only writes the log is faster.
//! * `--log-limit` is `max_total_wal_size`, which RocksDB heeds only with several column families:
//!   with one, as here, the write buffers limit the log.
//! * A sorted load writes table files of 64 MiB, its default, and hands them over. A random load
//!   puts 1000 writes into a batch.
//! * A plain database has no atomic read-modify-write. `modify` locks the key against others of
//!   its kind, by one of 1024 mutexes, as RocksDB's own transactions do; simple writes do not come
//!   by, since no workload has both, and pay nothing.
//! * Settling flushes the write buffers and waits until no compaction runs or is wanted: what a
//!   round leaves behind is part of its write amplification.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use polder_bench::engine::{
    Access, ChangeValue, Engine, EngineError, EngineKind, Session, Setup, Visit,
};
use polder_bench::records::{KEY_BYTES, Key};
use polder_bench::{Durability, SortedRecords};

use crate::WRITES_PER_LOAD;

mod db;
mod ffi;

use db::{Batch, Db, Log, Settings};

/// The engine `rocksdb`.
pub(crate) const KIND: EngineKind = EngineKind {
    name: "rocksdb",
    about: "RocksDB (its C interface); --pool is its block cache and write buffers",
    is_bare: false,
    lends: false,
    durability: |durability| match durability {
        Durability::Sync | Durability::None => Ok(()),
        _ => Err("RocksDB syncs each write or leaves it to the kernel"),
    },
    create: |setup| Ok(Box::new(Rocks::create(setup)?)),
};

/// A write buffer is at most so large, RocksDB's default,
const MOST_WRITE_BUFFER_BYTES: u64 = 64 << 20;
/// and at least so large, which is the least that it takes.
const LEAST_WRITE_BUFFER_BYTES: u64 = 64 << 10;
/// One is filled while the other is written.
const WRITE_BUFFERS: i32 = 2;
/// For flushes and compactions.
const BACKGROUND_THREADS: i32 = 2;
/// Bytes of a file of a bulk load: RocksDB's default for a file.
const TABLE_FILE_BYTES: usize = 64 << 20;
/// Mutexes for read-modify-writes.
const STRIPES: usize = 1024;
/// How often a wait for compactions looks.
const PATIENCE: Duration = Duration::from_millis(20);

struct Rocks {
    db: Db,
    dir: PathBuf,
    /// Which of them guards a key follows from the key.
    stripes: Vec<Mutex<()>>,
}

impl Rocks {
    fn create(setup: &Setup<'_>) -> Result<Rocks, EngineError> {
        let eighth = setup.conditions.pool_bytes / 8;
        let write_buffer = eighth.clamp(LEAST_WRITE_BUFFER_BYTES, MOST_WRITE_BUFFER_BYTES);
        let write_buffers = write_buffer * WRITE_BUFFERS as u64;
        let settings = Settings {
            block_cache_bytes: usize::try_from(
                setup.conditions.pool_bytes.saturating_sub(write_buffers),
            )?,
            write_buffer_bytes: usize::try_from(write_buffer)?,
            write_buffers: WRITE_BUFFERS,
            cache_index_and_filter: setup.conditions.is_out_of_memory(),
            log_limit_bytes: setup.conditions.log_limit_bytes,
            background_threads: BACKGROUND_THREADS,
            log: if setup.conditions.durability == Durability::Sync {
                Log::Synced
            } else {
                Log::Off
            },
        };
        let db = Db::create(&setup.dir.join("rocksdb"), &settings)?;
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        Ok(Rocks { db, dir: setup.dir.to_owned(), stripes })
    }

    /// Whether flushes or compactions run or are wanted.
    fn is_busy(&self) -> Result<bool, EngineError> {
        const WORK: [&CStr; 4] = [
            c"rocksdb.mem-table-flush-pending",
            c"rocksdb.num-running-flushes",
            c"rocksdb.compaction-pending",
            c"rocksdb.num-running-compactions",
        ];
        // After such an error nothing goes on, whatever is wanted.
        if self.db.figure(c"rocksdb.background-errors")? > 0 {
            return Err("RocksDB failed to flush or compact".into());
        }
        for figure in WORK {
            if self.db.figure(figure)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Engine for Rocks {
    fn session(&self, access: Access) -> Result<Box<dyn Session + '_>, EngineError> {
        let client = Client { rocks: self, batch: Batch::new()? };
        Ok(match access {
            Access::Load => Box::new(Loader(client)),
            Access::Read | Access::Mixed => Box::new(client),
        })
    }

    fn bulk_load(&self, entries: &mut SortedRecords) -> Result<(), EngineError> {
        let per_file = (TABLE_FILE_BYTES / (KEY_BYTES + entries.value_size())).max(1);
        let mut files = Vec::new();
        let mut entries = entries.peekable();
        while entries.peek().is_some() {
            let path = self.dir.join(format!("sorted-{}.sst", files.len()));
            let mut file = self.db.table_file(&path)?;
            for (key, value) in entries.by_ref().take(per_file) {
                file.put(&key, value.as_ref())?;
            }
            files.push(file.finish()?);
        }
        self.db.ingest(&files)
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.db.flush()?;
        while self.is_busy()? {
            thread::sleep(PATIENCE);
        }
        Ok(())
    }
}

/// One thread's way to the database; there is nothing to prepare for a phase.
struct Client<'a> {
    rocks: &'a Rocks,
    batch: Batch,
}

impl Session for Client<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.rocks.db.get(key, value)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.rocks.db.put(key, value)
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        // What a batch that failed has left behind.
        self.batch.clear();
        for (key, value) in entries {
            self.batch.put(key, value);
        }
        self.rocks.db.write(&mut self.batch)
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        let stripe = u64::from_be_bytes(*key) as usize % STRIPES;
        // A panic while the lock is held ends the benchmark anyway, so poison says nothing new.
        let _alone = self.rocks.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner);
        let mut value = Vec::new();
        if !self.rocks.db.get(key, &mut value)? {
            return Ok(false);
        }
        change(&mut value);
        self.rocks.db.put(key, &value)?;
        Ok(true)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.rocks.db.scan(start, visit)
    }
}

/// Many writes in a batch.
struct Loader<'a>(Client<'a>);

impl Session for Loader<'_> {
    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.finish()?;
        self.0.get(key, value)
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<(), EngineError> {
        self.0.batch.put(key, value);
        if self.0.batch.len() == WRITES_PER_LOAD { self.finish() } else { Ok(()) }
    }

    fn put_batch(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<(), EngineError> {
        self.finish()?;
        self.0.put_batch(entries)
    }

    fn modify(&mut self, key: &Key, change: &mut ChangeValue<'_>) -> Result<bool, EngineError> {
        self.finish()?;
        self.0.modify(key, change)
    }

    fn scan(&mut self, start: &Key, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.finish()?;
        self.0.scan(start, visit)
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        match self.0.batch.len() {
            0 => Ok(()),
            _ => self.0.rocks.db.write(&mut self.0.batch),
        }
    }
}
