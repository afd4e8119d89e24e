//! The part of RocksDB that the benchmarks use, safe to call.
//!
//! Invariants:
//! 1. A [`Handle`] is the only owner of its object, and destroys it once.
//! 2. Objects are used by one thread at a time, but for the database itself, which the library
//!    lets many threads use at once, and for options that nobody changes any more.
//! 3. What borrows from a database in the library holds a borrow of [`Db`] here.

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use polder_bench::engine::EngineError;

use super::ffi;

/// Bits of a Bloom filter for each key: 1% of the lookups of what is not there pass it.
const BLOOM_BITS: f64 = 10.0;

/// An object of the library that is ours.
struct Handle<T> {
    raw: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    /// # Safety
    ///
    /// The object is null, or one that nobody else will destroy, and that `destroy` destroys.
    unsafe fn new(
        raw: *mut T,
        destroy: unsafe extern "C" fn(*mut T),
    ) -> Result<Handle<T>, EngineError> {
        let raw = NonNull::new(raw).ok_or("RocksDB gave nothing where it should give an object")?;
        Ok(Handle { raw, destroy })
    }

    fn as_ptr(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: by invariant 1 the object is still there, and by the contract of `new` this
        // function is the one for it.
        unsafe { (self.destroy)(self.raw.as_ptr()) }
    }
}

/// Does a call that reports a failure by setting the pointer that it is handed.
fn checked<R>(call: impl FnOnce(*mut *mut c_char) -> R) -> Result<R, EngineError> {
    let mut error = ptr::null_mut();
    let result = call(&raw mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: the library set it, so it points to a string that ends with a zero and is ours.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: it is ours, came from the library, and is not used after this.
    unsafe { ffi::rocksdb_free(error.cast()) };
    Err(format!("RocksDB: {text}").into())
}

/// Bytes of the library.
///
/// # Safety
///
/// `data` points to `len` bytes that stay as they are for `'a`; where `len` is 0, to anything.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; any byte is a valid u8.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

fn c_path(path: &Path) -> Result<CString, EngineError> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// With what a database is made.
pub(super) struct Settings {
    pub(super) block_cache_bytes: usize,
    pub(super) write_buffer_bytes: usize,
    pub(super) write_buffers: i32,
    /// Keep the index and filter of each file in the block cache, not beside it.
    pub(super) cache_index_and_filter: bool,
    pub(super) log_limit_bytes: Option<u64>,
    /// Threads for flushes and compactions.
    pub(super) background_threads: i32,
    pub(super) log: Log,
}

/// What becomes of the log at a write.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Log {
    /// It is written, and on the device when the write returns.
    Synced,
    /// There is none.
    Off,
}

impl Settings {
    fn options(&self) -> Result<Handle<ffi::Options>, EngineError> {
        // SAFETY: a new object and its destructor.
        let options =
            unsafe { Handle::new(ffi::rocksdb_options_create(), ffi::rocksdb_options_destroy) }?;
        let table = self.table_options()?;
        let raw = options.as_ptr();
        // SAFETY: both objects are there and ours alone; the factory copies the table's options.
        unsafe {
            ffi::rocksdb_options_set_create_if_missing(raw, 1);
            ffi::rocksdb_options_set_error_if_exists(raw, 1);
            ffi::rocksdb_options_increase_parallelism(raw, self.background_threads);
            ffi::rocksdb_options_set_write_buffer_size(raw, self.write_buffer_bytes);
            ffi::rocksdb_options_set_max_write_buffer_number(raw, self.write_buffers);
            ffi::rocksdb_options_set_compression(raw, ffi::NO_COMPRESSION);
            ffi::rocksdb_options_set_use_direct_reads(raw, 1);
            ffi::rocksdb_options_set_use_direct_io_for_flush_and_compaction(raw, 1);
            ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(raw, 1);
            if let Some(bytes) = self.log_limit_bytes {
                ffi::rocksdb_options_set_max_total_wal_size(raw, bytes);
            }
            ffi::rocksdb_options_set_block_based_table_factory(raw, table.as_ptr());
        }
        Ok(options)
    }

    fn table_options(&self) -> Result<Handle<ffi::TableOptions>, EngineError> {
        // SAFETY: a new object and its destructor.
        let table = unsafe {
            let raw = ffi::rocksdb_block_based_options_create();
            Handle::new(raw, ffi::rocksdb_block_based_options_destroy)
        }?;
        // SAFETY: a new object and its destructor, which gives up our share of the cache.
        let cache = unsafe {
            let raw = ffi::rocksdb_cache_create_lru(self.block_cache_bytes);
            Handle::new(raw, ffi::rocksdb_cache_destroy)
        }?;
        let raw = table.as_ptr();
        let cached = u8::from(self.cache_index_and_filter);
        // SAFETY: the objects are there and ours alone. The table's options take the policy over
        // and share the cache.
        unsafe {
            let policy = ffi::rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS);
            ffi::rocksdb_block_based_options_set_filter_policy(raw, policy);
            ffi::rocksdb_block_based_options_set_block_cache(raw, cache.as_ptr());
            ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks(raw, cached);
            ffi::rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
                raw, cached,
            );
        }
        Ok(table)
    }

    fn write_options(&self) -> Result<Handle<ffi::WriteOptions>, EngineError> {
        // SAFETY: a new object and its destructor.
        let options = unsafe {
            Handle::new(ffi::rocksdb_writeoptions_create(), ffi::rocksdb_writeoptions_destroy)
        }?;
        // SAFETY: the object is there and ours alone.
        unsafe {
            match self.log {
                Log::Synced => ffi::rocksdb_writeoptions_set_sync(options.as_ptr(), 1),
                Log::Off => ffi::rocksdb_writeoptions_disable_WAL(options.as_ptr(), 1),
            }
        }
        Ok(options)
    }
}

/// An open database.
pub(super) struct Db {
    db: Handle<ffi::Db>,
    options: Handle<ffi::Options>,
    reading: Handle<ffi::ReadOptions>,
    writing: Handle<ffi::WriteOptions>,
}

// SAFETY: the library lets any threads use a database at once; the options are only read from here
// on (invariant 2), and nothing in any of these belongs to the thread that made it.
unsafe impl Send for Db {}
// SAFETY: as above.
unsafe impl Sync for Db {}

impl Db {
    /// Makes a new one in this directory, which is made too.
    pub(super) fn create(dir: &Path, settings: &Settings) -> Result<Db, EngineError> {
        let path = c_path(dir)?;
        let (options, writing) = (settings.options()?, settings.write_options()?);
        // SAFETY: a new object and its destructor.
        let reading = unsafe {
            Handle::new(ffi::rocksdb_readoptions_create(), ffi::rocksdb_readoptions_destroy)
        }?;
        // SAFETY: the options are there; the path ends with a zero.
        let raw =
            checked(|error| unsafe { ffi::rocksdb_open(options.as_ptr(), path.as_ptr(), error) })?;
        // SAFETY: a new object and its destructor.
        let db = unsafe { Handle::new(raw, ffi::rocksdb_close) }?;
        Ok(Db { db, options, reading, writing })
    }

    /// Replaces what is in `value` by the value of `key`; false where the key is not there.
    pub(super) fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        let (db, options) = (self.db.as_ptr(), self.reading.as_ptr());
        // SAFETY: the objects are there, and the key has so many bytes.
        let raw = checked(|error| unsafe {
            ffi::rocksdb_get_pinned(db, options, key.as_ptr().cast(), key.len(), error)
        })?;
        if raw.is_null() {
            return Ok(false);
        }
        // SAFETY: a new object and its destructor.
        let slice = unsafe { Handle::new(raw, ffi::rocksdb_pinnableslice_destroy) }?;
        let mut len = 0;
        // SAFETY: the bytes stay until the slice is destroyed, which is after their last use.
        let found = unsafe {
            let data = ffi::rocksdb_pinnableslice_value(slice.as_ptr(), &raw mut len);
            bytes(data, len)
        };
        value.clear();
        value.extend_from_slice(found);
        Ok(true)
    }

    /// Stores one value.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let (db, options) = (self.db.as_ptr(), self.writing.as_ptr());
        let (key_data, value_data) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the objects are there, key and value have so many bytes.
        checked(|error| unsafe {
            ffi::rocksdb_put(db, options, key_data, key.len(), value_data, value.len(), error);
        })
    }

    /// Stores what is in the batch, as one step, and empties it.
    pub(super) fn write(&self, batch: &mut Batch) -> Result<(), EngineError> {
        let (db, options) = (self.db.as_ptr(), self.writing.as_ptr());
        // SAFETY: the objects are there, the batch is ours alone.
        checked(|error| unsafe { ffi::rocksdb_write(db, options, batch.raw.as_ptr(), error) })?;
        batch.clear();
        Ok(())
    }

    /// Visits entries from the first one at or after `start`, as they are now, until there are no
    /// more or `visit` returns false.
    pub(super) fn scan(
        &self,
        start: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), EngineError> {
        // SAFETY: a new object and its destructor; it is gone before the database, which we borrow.
        let iterator = unsafe {
            let raw = ffi::rocksdb_create_iterator(self.db.as_ptr(), self.reading.as_ptr());
            Handle::new(raw, ffi::rocksdb_iter_destroy)
        }?;
        let raw = iterator.as_ptr();
        // SAFETY: the iterator is there, and the key has so many bytes.
        unsafe { ffi::rocksdb_iter_seek(raw, start.as_ptr().cast(), start.len()) };
        loop {
            // SAFETY: the iterator is there.
            if unsafe { ffi::rocksdb_iter_valid(raw) } == 0 {
                break;
            }
            let (mut key_len, mut value_len) = (0, 0);
            // SAFETY: the iterator is valid, so it has a key and a value, whose bytes stay until
            // it moves: after their last use.
            let (key, value) = unsafe {
                let key = ffi::rocksdb_iter_key(raw, &raw mut key_len);
                let value = ffi::rocksdb_iter_value(raw, &raw mut value_len);
                (bytes(key, key_len), bytes(value, value_len))
            };
            if !visit(key, value) {
                return Ok(());
            }
            // SAFETY: the iterator is valid.
            unsafe { ffi::rocksdb_iter_next(raw) };
        }
        // SAFETY: the iterator is there. It ends after an error as it does behind the last entry.
        checked(|error| unsafe { ffi::rocksdb_iter_get_error(raw, error) })
    }

    /// Writes what is in memory into files, and waits for that.
    pub(super) fn flush(&self) -> Result<(), EngineError> {
        // SAFETY: a new object and its destructor. By default a flush is waited for.
        let options = unsafe {
            Handle::new(ffi::rocksdb_flushoptions_create(), ffi::rocksdb_flushoptions_destroy)
        }?;
        // SAFETY: the objects are there.
        checked(|error| unsafe { ffi::rocksdb_flush(self.db.as_ptr(), options.as_ptr(), error) })
    }

    /// A figure that the database knows under this name.
    pub(super) fn figure(&self, name: &CStr) -> Result<u64, EngineError> {
        let mut value = 0;
        // SAFETY: the database is there, the name ends with a zero, and there is room for the
        // value.
        let status =
            unsafe { ffi::rocksdb_property_int(self.db.as_ptr(), name.as_ptr(), &raw mut value) };
        if status == 0 { Ok(value) } else { Err(format!("RocksDB knows no {name:?}").into()) }
    }

    /// Begins a file of sorted entries, for [`Db::ingest`].
    pub(super) fn table_file(&self, path: &Path) -> Result<TableFile<'_>, EngineError> {
        let path = c_path(path)?;
        // SAFETY: a new object and its destructor.
        let env = unsafe {
            Handle::new(ffi::rocksdb_envoptions_create(), ffi::rocksdb_envoptions_destroy)
        }?;
        // SAFETY: a new object and its destructor; both options are there, and copied.
        let raw = unsafe {
            let raw = ffi::rocksdb_sstfilewriter_create(env.as_ptr(), self.options.as_ptr());
            Handle::new(raw, ffi::rocksdb_sstfilewriter_destroy)
        }?;
        // SAFETY: the writer is there and ours alone; the path ends with a zero.
        checked(|error| unsafe {
            ffi::rocksdb_sstfilewriter_open(raw.as_ptr(), path.as_ptr(), error);
        })?;
        Ok(TableFile { raw, path, db: PhantomData })
    }

    /// Takes finished files over.
    pub(super) fn ingest(&self, files: &[CString]) -> Result<(), EngineError> {
        // SAFETY: a new object and its destructor.
        let options = unsafe {
            let raw = ffi::rocksdb_ingestexternalfileoptions_create();
            Handle::new(raw, ffi::rocksdb_ingestexternalfileoptions_destroy)
        }?;
        let paths: Vec<*const c_char> = files.iter().map(|path| path.as_ptr()).collect();
        let (db, count) = (self.db.as_ptr(), paths.len());
        // SAFETY: the objects are there; there are so many paths, and each ends with a zero.
        checked(|error| unsafe {
            ffi::rocksdb_ingestexternalfileoptions_set_move_files(options.as_ptr(), 1);
            ffi::rocksdb_ingest_external_file(db, paths.as_ptr(), count, options.as_ptr(), error);
        })
    }
}

/// Writes that belong together.
pub(super) struct Batch {
    raw: Handle<ffi::WriteBatch>,
    len: usize,
}

impl Batch {
    /// With nothing in it.
    pub(super) fn new() -> Result<Batch, EngineError> {
        // SAFETY: a new object and its destructor.
        let raw = unsafe {
            Handle::new(ffi::rocksdb_writebatch_create(), ffi::rocksdb_writebatch_destroy)
        }?;
        Ok(Batch { raw, len: 0 })
    }

    /// Adds a write.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (key_data, value_data) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the batch is there and ours alone; key and value have so many bytes, and are
        // copied.
        unsafe {
            ffi::rocksdb_writebatch_put(
                self.raw.as_ptr(),
                key_data,
                key.len(),
                value_data,
                value.len(),
            );
        }
        self.len += 1;
    }

    /// How many writes there are in it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        // SAFETY: the batch is there and ours alone.
        unsafe { ffi::rocksdb_writebatch_clear(self.raw.as_ptr()) };
        self.len = 0;
    }
}

/// A file of sorted entries that is being written.
pub(super) struct TableFile<'a> {
    raw: Handle<ffi::SstWriter>,
    path: CString,
    /// The writer shares the database's cache and filter (invariant 3).
    db: PhantomData<&'a Db>,
}

impl TableFile<'_> {
    /// Adds an entry, whose key must be above the last one's.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let raw = self.raw.as_ptr();
        let (key_data, value_data) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the writer is there and ours alone; key and value have so many bytes.
        checked(|error| unsafe {
            ffi::rocksdb_sstfilewriter_put(
                raw,
                key_data,
                key.len(),
                value_data,
                value.len(),
                error,
            );
        })
    }

    /// Completes the file, and says where it is.
    pub(super) fn finish(self) -> Result<CString, EngineError> {
        // SAFETY: the writer is there and ours alone.
        checked(|error| unsafe { ffi::rocksdb_sstfilewriter_finish(self.raw.as_ptr(), error) })?;
        Ok(self.path)
    }
}
