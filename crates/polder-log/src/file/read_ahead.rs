//! The bytes of the log, read from the file in stretches: the next one while the last one is
//! looked at.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use polder_format::log::LOG_BLOCK_BYTES;
use polder_pool::device::{BlockReader, Device};
use polder_pool::threads_with_room;

use super::log_file::LogFile;
use crate::error::{LogError, reserve};

const BLOCK: u64 = LOG_BLOCK_BYTES as u64;
/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 2 << 20;

/// What was read of a log, and what is being read.
#[derive(Debug)]
pub(super) struct ReadAhead<'f> {
    pub(super) file: &'f LogFile,
    /// A part of the log that was read, and where it begins.
    chunk: Vec<u8>,
    chunk_at: u64,
    ahead: Option<Ahead>,
    reader: Option<BlockReader>,
}

impl<'f> ReadAhead<'f> {
    pub(super) fn new(file: &'f LogFile) -> ReadAhead<'f> {
        ReadAhead { file, chunk: Vec::new(), chunk_at: 0, ahead: None, reader: None }
    }

    /// The bytes of a group that was looked at just now.
    pub(super) fn held(&self, at: u64, len: usize) -> &[u8] {
        let begin = (at - self.chunk_at) as usize;
        &self.chunk[begin..begin + len]
    }

    /// At least `len` bytes at `at`, or as many as there are.
    pub(super) fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], LogError> {
        let there = |this: &Self| {
            let chunk_end = this.chunk_at + this.chunk.len() as u64;
            at >= this.chunk_at && at + len as u64 <= chunk_end
        };
        if !there(self) {
            self.read(at, len)?;
        }
        let begin = (at - self.chunk_at) as usize;
        let end = (begin + len).min(self.chunk.len());
        Ok(&self.chunk[begin.min(end)..end])
    }

    /// Fills the chunk from `at` on. A caller that reads on gets what was read ahead meanwhile.
    fn read(&mut self, at: u64, len: usize) -> Result<(), LogError> {
        let from = at / BLOCK * BLOCK;
        let chunk_end = self.chunk_at + self.chunk.len() as u64;
        let reads_on = self.chunk_at <= from && from <= chunk_end && !self.chunk.is_empty();
        if reads_on {
            self.chunk.drain(..(from - self.chunk_at) as usize);
        } else {
            self.chunk.clear();
            self.ahead = None;
        }
        self.chunk_at = from;
        let wanted = (at + len as u64).next_multiple_of(BLOCK);
        loop {
            let next = self.chunk_at + self.chunk.len() as u64;
            let (reader, len) = match self.ahead.take().filter(|ahead| ahead.at == next) {
                Some(ahead) => ahead.join(),
                None => Stretch::of(self.file, next).read(self.reader.take()),
            }
            .map_err(LogError::io("read"))?;
            if len == 0 {
                self.reader = Some(reader);
                return Ok(());
            }
            let bytes = reader.bytes(len);
            reserve(&mut self.chunk, bytes.len())?;
            self.chunk.extend_from_slice(bytes);
            let end = next + bytes.len() as u64;
            if end < wanted || !reads_on || threads_with_room(1) == 0 {
                self.reader = Some(reader);
            } else {
                self.ahead = Ahead::start(self.file, end, reader);
            }
            if end >= wanted {
                return Ok(());
            }
        }
    }
}

/// A stretch of the log that lies in one piece in the file.
struct Stretch {
    device: Arc<dyn Device>,
    offset: u64,
    len: u64,
}

impl Stretch {
    /// What begins at `at`, as far as it is read at a time; nothing, if its segment is missing.
    fn of(file: &LogFile, at: u64) -> Stretch {
        let (offset, end) = file.segments.place(at).unwrap_or((0, at));
        Stretch { device: Arc::clone(&file.device), offset, len: CHUNK_BYTES.min(end - at) }
    }

    /// Reads it into the buffer, or a new one, and gives that back with the length that was read.
    /// (The same memory again and again: memory that is touched for the first time is slow.)
    fn read(&self, reader: Option<BlockReader>) -> io::Result<(BlockReader, usize)> {
        let mut reader = reader.map_or_else(|| BlockReader::new(CHUNK_BYTES as usize), Ok)?;
        let len = self.len as usize;
        if len > 0 {
            reader.read(&*self.device, self.offset, len)?;
        }
        Ok((reader, len))
    }
}

/// A stretch that is read while the one before is looked at.
#[derive(Debug)]
struct Ahead {
    at: u64,
    thread: JoinHandle<io::Result<(BlockReader, usize)>>,
}

impl Ahead {
    fn start(file: &LogFile, at: u64, reader: BlockReader) -> Option<Ahead> {
        let stretch = Stretch::of(file, at);
        let thread = thread::Builder::new().spawn(move || stretch.read(Some(reader))).ok()?;
        Some(Ahead { at, thread })
    }

    fn join(self) -> io::Result<(BlockReader, usize)> {
        let lost = || io::Error::other("the thread that reads the log ended");
        self.thread.join().unwrap_or_else(|_| Err(lost()))
    }
}
