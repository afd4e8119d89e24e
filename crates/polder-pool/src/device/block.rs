//! Reading and writing a few bytes of a device by themselves, outside of the pool: superblocks.

use std::io;
use std::ops::Range;

use polder_format::PageId;

use super::{Batch, Buffer, Device, Direction, Request};
use crate::device::bounce::Bounce;

/// Bytes of zeros that are written at a time.
const ZEROS_BYTES: usize = 1 << 20;

/// Reads `len` bytes (a multiple of 4096) at `offset` (likewise).
///
/// # Errors
/// Those of the device.
pub fn read_block(device: &dyn Device, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bounce = Bounce::new(len).map_err(io::Error::other)?;
    transfer(device, Direction::Read, offset, &bounce, len)?;
    Ok(bounce.bytes_mut()[..len].to_vec())
}

/// A buffer that many blocks are read into, one after the other.
#[derive(Debug)]
pub struct BlockReader {
    bounce: Bounce,
    len: usize,
}

impl BlockReader {
    /// A buffer of `len` bytes, a multiple of 4096.
    ///
    /// # Errors
    /// If the system has no memory to give.
    pub fn new(len: usize) -> io::Result<BlockReader> {
        Ok(BlockReader { bounce: Bounce::new(len).map_err(io::Error::other)?, len })
    }

    /// Reads `len` bytes (a multiple of 4096, at most what the buffer has) at `offset` (likewise).
    ///
    /// # Errors
    /// Those of the device.
    pub fn read(&mut self, device: &dyn Device, offset: u64, len: usize) -> io::Result<&[u8]> {
        if len > self.len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        transfer(device, Direction::Read, offset, &self.bounce, len)?;
        Ok(self.bytes(len))
    }

    /// The first `len` bytes of what was read last, at most all of the buffer.
    pub fn bytes(&self, len: usize) -> &[u8] {
        &self.bounce.bytes()[..len.min(self.len)]
    }
}

/// Writes `bytes` (a multiple of 4096 of them) at `offset` (likewise).
///
/// # Errors
/// Those of the device.
pub fn write_block(device: &dyn Device, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut bounce = Bounce::new(bytes.len()).map_err(io::Error::other)?;
    bounce.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    transfer(device, Direction::Write, offset, &bounce, bytes.len())
}

/// Writes zeros to a range, whose ends are multiples of 4096, a megabyte at a time; `between` is
/// called after each.
///
/// # Errors
/// Those of the device.
pub fn write_zeros(
    device: &dyn Device,
    range: Range<u64>,
    between: &mut dyn FnMut(),
) -> io::Result<()> {
    // Memory as the system gives it.
    let zeros = Bounce::new(ZEROS_BYTES).map_err(io::Error::other)?;
    for at in range.clone().step_by(ZEROS_BYTES) {
        let len = (range.end - at).min(ZEROS_BYTES as u64) as usize;
        transfer(device, Direction::Write, at, &zeros, len)?;
        between();
    }
    Ok(())
}

fn transfer(
    device: &dyn Device,
    direction: Direction,
    offset: u64,
    bounce: &Bounce,
    len: usize,
) -> io::Result<()> {
    // SAFETY: the bounce buffer has `len` bytes and is borrowed until the batch is complete.
    let buffer = unsafe { Buffer::new(bounce.base(), len) };
    let request = Request::new(direction, PageId::NULL, offset, buffer);
    device.perform(Batch::One(request)).outcome()
}
