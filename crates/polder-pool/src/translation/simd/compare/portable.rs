//! The reference: byte by byte.

/// A bit for each of the 16 bytes that is `wanted`, the lowest byte of the first word first.
#[inline(always)]
pub(super) fn equal(bytes: [u64; 2], wanted: u8) -> u32 {
    let byte = |at: usize| (bytes[at / 8] >> (at % 8 * 8)) as u8;
    (0..16).filter(|at| byte(*at) == wanted).fold(0, |mask, at| mask | 1 << at)
}
