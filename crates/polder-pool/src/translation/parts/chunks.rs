//! Chunks: the pieces in which a space's page numbers are served.
//!
//! A flat array over all 2^34 page numbers of a space would take 128 GiB of addresses. Chunks
//! double instead: chunk 0 covers the first 2^F pages, chunk k > 0 the pages from 2^(F-1+k) to
//! twice that. So a directory of a few pointers covers a space, addresses are at most twice what is
//! used, and the chunk of a page is a shift and a count of leading zeros.

#![cfg(not(loom))]

/// Number of chunks that cover 2^34 pages if the first has 2^`first_shift`.
pub(crate) const fn chunk_count(first_shift: u32) -> usize {
    (34 - first_shift + 1) as usize
}

/// The chunk that covers `page`.
#[inline(always)]
pub(crate) const fn chunk_of(first_shift: u32, page: u64) -> usize {
    ((page >> (first_shift - 1)) | 1).ilog2() as usize
}

/// The first page of chunk `k`.
#[inline(always)]
pub(crate) const fn chunk_first(first_shift: u32, k: usize) -> u64 {
    if k == 0 { 0 } else { 1 << (first_shift - 1 + k as u32) }
}

/// The number of pages in chunk `k`.
pub(crate) const fn chunk_len(first_shift: u32, k: usize) -> u64 {
    if k == 0 { 1 << first_shift } else { 1 << (first_shift - 1 + k as u32) }
}

/// The chunks of all spaces that there ever were; those of dropped spaces serve others. Boxed, so
/// that they do not move.
#[derive(Debug)]
pub(crate) struct ChunkStore<C, const CHUNKS: usize> {
    #[allow(clippy::vec_box)]
    all: Vec<Box<C>>,
    /// Those that no space has, by their place in a directory.
    idle: [Vec<usize>; CHUNKS],
}

impl<C, const CHUNKS: usize> Default for ChunkStore<C, CHUNKS> {
    fn default() -> ChunkStore<C, CHUNKS> {
        ChunkStore { all: Vec::new(), idle: [const { Vec::new() }; CHUNKS] }
    }
}

impl<C, const CHUNKS: usize> ChunkStore<C, CHUNKS> {
    /// A chunk for the place `k` of a directory; a new one is told its number.
    pub(crate) fn take<E>(
        &mut self,
        k: usize,
        make: impl FnOnce(usize) -> Result<C, E>,
    ) -> Result<&C, E> {
        let index = match self.idle[k].pop() {
            Some(index) => index,
            None => {
                let index = self.all.len();
                self.all.push(Box::new(make(index)?));
                index
            }
        };
        Ok(&self.all[index])
    }

    /// The chunk with this number serves others.
    pub(crate) fn give_back(&mut self, k: usize, index: usize) {
        self.idle[k].push(index);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.all.iter().map(|chunk| &**chunk)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chunks_tile_the_space() {
        for shift in [10, 15] {
            let mut next = 0;
            for k in 0..chunk_count(shift) {
                assert_eq!(chunk_first(shift, k), next);
                next += chunk_len(shift, k);
                assert_eq!(chunk_of(shift, chunk_first(shift, k)), k);
                assert_eq!(chunk_of(shift, next - 1), k);
            }
            assert_eq!(next, 1 << 34);
        }
    }
}
