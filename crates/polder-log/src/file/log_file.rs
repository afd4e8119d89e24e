//! The log file of a store: how it is made, and how it is opened (R1).

use std::io;
use std::sync::Arc;

use polder_format::log::{LOG_BLOCK_BYTES, LogHeader, LogSeed, Region, RegionKind};
use polder_format::{FormatError, Lsn, PageSize, StoreId};
use polder_pool::device::{Device, read_block, write_block, write_zeros};

use super::segments::Segments;
use crate::error::LogError;

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// The first position of every log.
pub(crate) const FIRST_LSN: Lsn = Lsn(BLOCK);

/// Bytes of the greatest segments of a log whose limit the store chooses.
const SEGMENT_BYTES: u64 = 4 << 20;

/// How a log is made and kept.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Bytes that the log may take on the device.
    pub limit: u64,
    /// The limit was chosen by the store, which may choose another one each time that it is opened:
    /// segments are as long in all such logs.
    pub chosen: bool,
    /// Bytes of memory for groups that are not written yet: a power of two.
    pub buffer_bytes: u64,
    /// Bytes of memory that one group may take, which can be more than the buffer has.
    pub group_bytes: u64,
    /// Write pages twice even where the device of the data file writes each of them as a whole.
    pub always_double_write: bool,
}

impl LogOptions {
    /// The least limit in bytes.
    pub const LEAST_LIMIT: u64 = 4 << 20;

    /// No checkpoint is worth it before the log has grown by so many bytes, if it may have so many.
    pub const LEAST_AIM: u64 = 128 << 20;

    /// A buffer that suits a memory budget.
    pub fn buffer_for(memory_budget: u64, page_size: PageSize) -> u64 {
        let least = (256 << 10).max(16 * page_size.bytes() as u64);
        (memory_budget / 64).clamp(least, 4 << 20).next_power_of_two()
    }

    /// Bytes of the greatest segments of a new log, if the user has set this limit.
    pub(crate) fn segment_bytes(limit: Option<u64>) -> u64 {
        let of = |limit: u64| (limit / 128).clamp(256 << 10, 16 << 20).next_power_of_two();
        limit.map_or(SEGMENT_BYTES, of)
    }
}

/// The log file of a store, to read from.
#[derive(Debug)]
pub struct LogFile {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) segments: Segments,
    pub(crate) seed: LogSeed,
}

impl LogFile {
    /// Makes the log of a new store on an empty device.
    ///
    /// # Errors
    /// Those of the device.
    pub fn create(
        device: Arc<dyn Device>,
        store_id: StoreId,
        page_size: PageSize,
        options: &LogOptions,
    ) -> Result<LogFile, LogError> {
        let limit = (!options.chosen).then_some(options.limit);
        let header = LogHeader::new(store_id, page_size, LogOptions::segment_bytes(limit));
        let first = header.regions().take(LogHeader::FIRST).last();
        let end = first.map_or(BLOCK, |region| region.end());
        let make = || -> io::Result<()> {
            device.allocate(0, end)?;
            // Durable before anything is written behind it: where there is no header, nothing is
            // (`tells_of_store`), however a crash tears what is written here.
            write_block(&*device, 0, &header.encode())?;
            device.sync()?;
            // Written and not only allocated, so that syncs of it have nothing else to write.
            write_zeros(&*device, BLOCK..end, &mut || ())?;
            device.sync()
        };
        make().map_err(LogError::io("make"))?;
        LogFile::open(device, store_id)
    }

    /// R1: the log of the store with this id.
    ///
    /// # Errors
    /// [`LogError::Header`], and those of the device.
    pub fn open(device: Arc<dyn Device>, store_id: StoreId) -> Result<LogFile, LogError> {
        let block = read_block(&*device, 0, LOG_BLOCK_BYTES);
        let block = match block {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => vec![0; LOG_BLOCK_BYTES],
            block => block.map_err(LogError::io("read"))?,
        };
        let header = LogHeader::decode(&block, store_id)
            .map_err(|source| LogError::Header { offset: 0, source })?;
        let segments = Segments::read(Arc::clone(&device), header).map_err(LogError::io("read"))?;
        if header.regions_within(device.len().map_err(LogError::io("read"))?).count()
            < LogHeader::FIRST
        {
            let (offset, what) = (BLOCK, "segments of the log are missing");
            return Err(LogError::Header { offset, source: FormatError::Broken(what) });
        }
        Ok(LogFile { device, segments, seed: LogSeed::new(store_id) })
    }

    /// The slots of the double-write buffer.
    pub(crate) fn slots(&self) -> Vec<Region> {
        self.segments.header().of_kind(RegionKind::Slot, self.segments.file_bytes())
    }

    /// Where in the file a position of the log lies.
    pub fn offset(&self, lsn: Lsn) -> u64 {
        self.segments.offset(lsn.0).unwrap_or(0)
    }
}
