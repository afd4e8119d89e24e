//! SSE2, which every x86-64 has.

use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};

/// A bit for each of the 16 bytes that is `wanted`, the lowest byte of the first word first.
#[inline(always)]
pub(super) fn equal(bytes: [u64; 2], wanted: u8) -> u32 {
    // SAFETY: SSE2 is part of x86-64, and nothing here touches memory.
    unsafe {
        let all = _mm_set_epi64x(bytes[1] as i64, bytes[0] as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_set1_epi8(wanted as i8))) as u32
    }
}
