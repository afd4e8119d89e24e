//! Reading and writing a few bytes of a device by themselves, outside of the pool: superblocks.

use std::io;

use polder_format::PageId;

use super::{Batch, Buffer, Device, Direction, Request};
use crate::memory::Bounce;

/// Reads `len` bytes (a multiple of 4096) at `offset` (likewise).
///
/// # Errors
/// Those of the device.
pub fn read_block(device: &dyn Device, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bounce = Bounce::new(len).map_err(io::Error::other)?;
    transfer(device, Direction::Read, offset, &bounce, len)?;
    Ok(bounce.bytes_mut()[..len].to_vec())
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
    let batch = device.complete(device.submit(Batch::One(request)));
    batch.into_requests().into_iter().try_for_each(|request| request.outcome)
}
