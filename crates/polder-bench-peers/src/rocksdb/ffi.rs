//! What we use of RocksDB's C interface (`rocksdb/c.h` of version 7.8), under the names it has
//! there without their prefix for types.
//!
//! Booleans are bytes. A function that can fail takes a pointer to a null pointer, which afterwards
//! points to a message that is ours to free, if it failed.

use std::ffi::{c_char, c_double, c_int, c_uchar, c_void};

/// Types of which we only ever have pointers.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[repr(C)]
            pub(super) struct $name {
                _private: [u8; 0],
            }
        )*
    };
}

opaque! {
    Db Options TableOptions FilterPolicy Cache ReadOptions WriteOptions FlushOptions EnvOptions
    IngestOptions SstWriter WriteBatch Iterator PinnableSlice
}

/// `rocksdb_no_compression`.
pub(super) const NO_COMPRESSION: c_int = 0;

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub(super) fn rocksdb_free(memory: *mut c_void);

    pub(super) fn rocksdb_options_create() -> *mut Options;
    pub(super) fn rocksdb_options_destroy(options: *mut Options);
    pub(super) fn rocksdb_options_set_create_if_missing(options: *mut Options, yes: c_uchar);
    pub(super) fn rocksdb_options_set_error_if_exists(options: *mut Options, yes: c_uchar);
    pub(super) fn rocksdb_options_increase_parallelism(options: *mut Options, threads: c_int);
    pub(super) fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    pub(super) fn rocksdb_options_set_max_write_buffer_number(options: *mut Options, count: c_int);
    pub(super) fn rocksdb_options_set_max_total_wal_size(options: *mut Options, bytes: u64);
    pub(super) fn rocksdb_options_set_compression(options: *mut Options, which: c_int);
    pub(super) fn rocksdb_options_set_use_direct_reads(options: *mut Options, yes: c_uchar);
    pub(super) fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(
        options: *mut Options,
        yes: c_uchar,
    );
    pub(super) fn rocksdb_options_set_level_compaction_dynamic_level_bytes(
        options: *mut Options,
        yes: c_uchar,
    );
    /// The factory copies the table options.
    pub(super) fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        table: *mut TableOptions,
    );

    pub(super) fn rocksdb_block_based_options_create() -> *mut TableOptions;
    pub(super) fn rocksdb_block_based_options_destroy(table: *mut TableOptions);
    /// Takes the policy over.
    pub(super) fn rocksdb_block_based_options_set_filter_policy(
        table: *mut TableOptions,
        policy: *mut FilterPolicy,
    );
    /// Shares the cache.
    pub(super) fn rocksdb_block_based_options_set_block_cache(
        table: *mut TableOptions,
        cache: *mut Cache,
    );
    pub(super) fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        table: *mut TableOptions,
        yes: c_uchar,
    );
    pub(super) fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        table: *mut TableOptions,
        yes: c_uchar,
    );
    pub(super) fn rocksdb_filterpolicy_create_bloom_full(bits_a_key: c_double)
    -> *mut FilterPolicy;
    pub(super) fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
    /// Gives up our share.
    pub(super) fn rocksdb_cache_destroy(cache: *mut Cache);

    pub(super) fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub(super) fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    pub(super) fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub(super) fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub(super) fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, yes: c_uchar);
    pub(super) fn rocksdb_writeoptions_disable_WAL(options: *mut WriteOptions, yes: c_int);
    pub(super) fn rocksdb_flushoptions_create() -> *mut FlushOptions;
    pub(super) fn rocksdb_flushoptions_destroy(options: *mut FlushOptions);

    /// Copies what it needs of the options.
    pub(super) fn rocksdb_open(
        options: *const Options,
        path: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub(super) fn rocksdb_close(db: *mut Db);
    pub(super) fn rocksdb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
    /// Null where the key is not there, or after an error.
    pub(super) fn rocksdb_get_pinned(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        error: *mut *mut c_char,
    ) -> *mut PinnableSlice;
    pub(super) fn rocksdb_flush(db: *mut Db, options: *const FlushOptions, error: *mut *mut c_char);
    /// 0 where the property is there.
    pub(super) fn rocksdb_property_int(db: *mut Db, name: *const c_char, value: *mut u64) -> c_int;

    /// Valid until the slice is destroyed.
    pub(super) fn rocksdb_pinnableslice_value(
        slice: *const PinnableSlice,
        len: *mut usize,
    ) -> *const c_char;
    pub(super) fn rocksdb_pinnableslice_destroy(slice: *mut PinnableSlice);

    pub(super) fn rocksdb_create_iterator(
        db: *mut Db,
        options: *const ReadOptions,
    ) -> *mut Iterator;
    pub(super) fn rocksdb_iter_destroy(iterator: *mut Iterator);
    pub(super) fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_len: usize);
    pub(super) fn rocksdb_iter_next(iterator: *mut Iterator);
    pub(super) fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    /// This and the value are valid until the iterator moves or is destroyed.
    pub(super) fn rocksdb_iter_key(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    pub(super) fn rocksdb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    pub(super) fn rocksdb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);

    pub(super) fn rocksdb_writebatch_create() -> *mut WriteBatch;
    pub(super) fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
    pub(super) fn rocksdb_writebatch_clear(batch: *mut WriteBatch);
    /// Copies key and value.
    pub(super) fn rocksdb_writebatch_put(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );

    pub(super) fn rocksdb_envoptions_create() -> *mut EnvOptions;
    pub(super) fn rocksdb_envoptions_destroy(options: *mut EnvOptions);
    /// Copies both options.
    pub(super) fn rocksdb_sstfilewriter_create(
        env: *const EnvOptions,
        options: *const Options,
    ) -> *mut SstWriter;
    pub(super) fn rocksdb_sstfilewriter_destroy(writer: *mut SstWriter);
    pub(super) fn rocksdb_sstfilewriter_open(
        writer: *mut SstWriter,
        path: *const c_char,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_sstfilewriter_put(
        writer: *mut SstWriter,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_sstfilewriter_finish(writer: *mut SstWriter, error: *mut *mut c_char);
    pub(super) fn rocksdb_ingestexternalfileoptions_create() -> *mut IngestOptions;
    pub(super) fn rocksdb_ingestexternalfileoptions_destroy(options: *mut IngestOptions);
    pub(super) fn rocksdb_ingestexternalfileoptions_set_move_files(
        options: *mut IngestOptions,
        yes: c_uchar,
    );
    pub(super) fn rocksdb_ingest_external_file(
        db: *mut Db,
        paths: *const *const c_char,
        count: usize,
        options: *const IngestOptions,
        error: *mut *mut c_char,
    );
}
