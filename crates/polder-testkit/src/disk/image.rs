//! The bytes of a simulated disk: sparse, and cheap to copy.
//!
//! * A block that is not allocated reads as zeros, and so does what lies behind the end.
//! * Chunks are shared between copies until one of them is written.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::BLOCK_BYTES;

/// Bytes in a chunk.
const CHUNK_BYTES: u64 = 65536;
/// Blocks in a chunk: bits in [`Chunk::allocated`].
const CHUNK_BLOCKS: u64 = CHUNK_BYTES / BLOCK_BYTES;

#[derive(Debug, Clone, Default)]
struct Chunk {
    /// One bit a block.
    allocated: u16,
    /// None: all zeros.
    bytes: Option<Arc<[u8; CHUNK_BYTES as usize]>>,
}

/// A sparse file.
#[derive(Debug, Clone, Default)]
pub(super) struct Image {
    chunks: HashMap<u64, Chunk>,
    len: u64,
    allocated_blocks: u64,
}

impl Image {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        self.allocated_blocks * BLOCK_BYTES
    }

    /// How many bytes more would be allocated if this run were.
    pub(super) fn unallocated_bytes(&self, run: Range<u64>) -> u64 {
        let missing = |(chunk, mask): (u64, u16)| {
            let there = self.chunks.get(&chunk).map_or(0, |chunk| chunk.allocated);
            u64::from((mask & !there).count_ones())
        };
        blocks(&run).map(missing).sum::<u64>() * BLOCK_BYTES
    }

    /// Allocates the blocks of a run, and lets the file reach to its end.
    pub(super) fn allocate(&mut self, run: Range<u64>) {
        if run.is_empty() {
            return;
        }
        for (chunk, mask) in blocks(&run) {
            let chunk = self.chunks.entry(chunk).or_default();
            self.allocated_blocks += u64::from((mask & !chunk.allocated).count_ones());
            chunk.allocated |= mask;
        }
        self.len = self.len.max(run.end);
    }

    /// Fills `out` with the bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        for (index, within) in pieces(offset..offset + out.len() as u64) {
            let piece = &mut out[done..done + within.len()];
            done += within.len();
            match self.chunks.get(&index).and_then(|chunk| chunk.bytes.as_deref()) {
                Some(bytes) => piece.copy_from_slice(&bytes[within]),
                None => piece.fill(0),
            }
        }
    }

    /// Writes, allocating what was not.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.allocate(offset..offset + bytes.len() as u64);
        let mut done = 0;
        for (index, within) in pieces(offset..offset + bytes.len() as u64) {
            let piece = &bytes[done..done + within.len()];
            done += within.len();
            let chunk = self.chunks.entry(index).or_default();
            let shared = chunk.bytes.get_or_insert_with(|| Arc::new([0; CHUNK_BYTES as usize]));
            Arc::make_mut(shared)[within].copy_from_slice(piece);
        }
    }

    /// Gives the whole blocks of a run back; all of it reads as zeros.
    pub(super) fn punch(&mut self, run: Range<u64>) {
        for (index, within) in pieces(run.clone()) {
            if let Some(bytes) = self.chunks.get_mut(&index).and_then(|c| c.bytes.as_mut()) {
                Arc::make_mut(bytes)[within].fill(0);
            }
        }
        let whole = run.start.next_multiple_of(BLOCK_BYTES)..run.end - run.end % BLOCK_BYTES;
        for (index, mask) in blocks(&whole) {
            let Some(chunk) = self.chunks.get_mut(&index) else { continue };
            self.allocated_blocks -= u64::from((mask & chunk.allocated).count_ones());
            chunk.allocated &= !mask;
            if chunk.allocated == 0 {
                self.chunks.remove(&index);
            }
        }
    }

    /// Sets the length, giving back what lies behind it.
    pub(super) fn truncate(&mut self, len: u64) {
        let last = self.chunks.keys().max().map_or(0, |index| (index + 1) * CHUNK_BYTES);
        if len < last {
            self.punch(len..last);
        }
        self.len = len;
    }
}

/// The chunks that a run touches, each with what of it, in bytes.
fn pieces(run: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let chunks =
        if run.is_empty() { 0..0 } else { run.start / CHUNK_BYTES..run.end.div_ceil(CHUNK_BYTES) };
    chunks.map(move |index| {
        let base = index * CHUNK_BYTES;
        let from = run.start.max(base) - base;
        let to = run.end.min(base + CHUNK_BYTES) - base;
        (index, from as usize..to as usize)
    })
}

/// The chunks that a run touches, each with a mask of the blocks.
fn blocks(run: &Range<u64>) -> impl Iterator<Item = (u64, u16)> + use<> {
    pieces(run.clone()).map(|(index, within)| {
        let from = within.start as u64 / BLOCK_BYTES;
        let to = (within.end as u64).div_ceil(BLOCK_BYTES);
        let below = |block: u64| u16::MAX.checked_shl(block as u32).map_or(u16::MAX, |mask| !mask);
        debug_assert!(to <= CHUNK_BLOCKS);
        (index, below(to) & !below(from))
    })
}

#[cfg(test)]
mod tests;
