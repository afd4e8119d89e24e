//! Chunks: the pieces in which a space's page numbers are served.
//!
//! A flat array over all 2^34 page numbers of a space would take 128 GiB of addresses. Chunks
//! double instead: chunk 0 covers the first 2^F pages, chunk k > 0 the pages from 2^(F-1+k) to
//! twice that. So a directory of a few pointers covers a space, addresses are at most twice what is
//! used, and the chunk of a page is a shift and a count of leading zeros.

/// Number of chunks that cover 2^34 pages if the first has 2^`first_shift`.
pub(super) const fn chunk_count(first_shift: u32) -> usize {
    (34 - first_shift + 1) as usize
}

/// The chunk that covers `page`.
#[inline(always)]
pub(super) const fn chunk_of(first_shift: u32, page: u64) -> usize {
    ((page >> (first_shift - 1)) | 1).ilog2() as usize
}

/// The first page of chunk `k`.
#[inline(always)]
pub(super) const fn chunk_first(first_shift: u32, k: usize) -> u64 {
    if k == 0 { 0 } else { 1 << (first_shift - 1 + k as u32) }
}

/// The number of pages in chunk `k`.
pub(super) const fn chunk_len(first_shift: u32, k: usize) -> u64 {
    if k == 0 { 1 << first_shift } else { 1 << (first_shift - 1 + k as u32) }
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
