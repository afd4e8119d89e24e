//! NEON, which every aarch64 has.

use std::arch::aarch64::{
    vandq_u8, vceqq_u8, vcombine_u8, vcreate_u8, vdupq_n_u8, vgetq_lane_u64, vpaddlq_u8,
    vpaddlq_u16, vpaddlq_u32,
};

/// A bit for each of the 16 bytes that is `wanted`, the lowest byte of the first word first.
#[inline(always)]
pub(super) fn equal(bytes: [u64; 2], wanted: u8) -> u32 {
    /// The bit that a byte contributes to its half.
    const BITS: u64 = 0x8040_2010_0804_0201;
    // SAFETY: NEON is part of aarch64, and nothing here touches memory.
    unsafe {
        let all = vcombine_u8(vcreate_u8(bytes[0]), vcreate_u8(bytes[1]));
        let same = vceqq_u8(all, vdupq_n_u8(wanted));
        let bits = vandq_u8(same, vcombine_u8(vcreate_u8(BITS), vcreate_u8(BITS)));
        // The bits of a half are distinct, so that their sum is their union.
        let halves = vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(bits)));
        (vgetq_lane_u64::<0>(halves) | vgetq_lane_u64::<1>(halves) << 8) as u32
    }
}
