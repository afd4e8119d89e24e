//! For processors of aarch64, all of which have NEON.

use std::arch::aarch64::*;
use std::arch::asm;
use std::array::from_fn;

use polder_pool::bytes::Run;

use super::Sum;
use crate::element::ElementKind;

/// Registers take numbers as they lie in a page: the lowest byte first.
const IS_HERE: bool = cfg!(target_endian = "little");

/// The kernel for these, if the processor has what it needs.
pub(super) fn kernel(element: ElementKind, sum: Sum) -> Option<unsafe fn(Run<'_>, Run<'_>) -> f32> {
    IS_HERE.then_some(kernel_for!(element, sum))
}

/// The kernel for numbers of codes, if the processor has what it needs.
pub(super) fn kernel_of_codes(bits: usize) -> Option<unsafe fn(Run<'_>, Run<'_>) -> f32> {
    IS_HERE.then_some(match bits {
        1 => products_of_codes::<1>,
        2 => products_of_codes::<2>,
        _ => products_of_codes::<4>,
    })
}

/// For each kind of floats: how a register of them becomes one of f32, or two, which have sums of their own.
macro_rules! floats {
    ($products:ident, $differences:ident, $registers:literal by $to_f32:ident) => {
        kernel!(
            $products, "neon",
            16 by load_128 split_4x128 cut, [vdupq_n_f32(0.0); $registers], add total,
            |sum, a, b| {
                let (a, b) = ($to_f32(a), $to_f32(b));
                from_fn(|i| vfmaq_f32(sum[i], a[i], b[i]))
            }
        );
        kernel!(
            $differences, "neon",
            16 by load_128 split_4x128 cut, [vdupq_n_f32(0.0); $registers], add total,
            |sum, a, b| {
                let (a, b) = ($to_f32(a), $to_f32(b));
                from_fn(|i| {
                    let difference = vsubq_f32(a[i], b[i]);
                    vfmaq_f32(sum[i], difference, difference)
                })
            }
        );
    };
}

floats!(products_f32, differences_f32, 1 by f32_to_f32);
floats!(products_f16, differences_f16, 2 by f16_to_f32);
floats!(products_bf16, differences_bf16, 2 by bf16_to_f32);

#[inline]
#[target_feature(enable = "neon")]
fn f32_to_f32(numbers: uint8x16_t) -> [float32x4_t; 1] {
    [vreinterpretq_f32_u8(numbers)]
}

/// In assembly, since the functions for these instructions are younger than the oldest Rust that will do.
#[inline]
#[target_feature(enable = "neon")]
fn f16_to_f32(numbers: uint8x16_t) -> [float32x4_t; 2] {
    let (low, high);
    // SAFETY: every aarch64 has these instructions, which compute and do nothing else.
    unsafe {
        asm!("fcvtl {0:v}.4s, {2:v}.4h", "fcvtl2 {1:v}.4s, {2:v}.8h",
            out(vreg) low, out(vreg) high, in(vreg) numbers, options(pure, nomem, nostack));
    }
    [low, high]
}

#[inline]
#[target_feature(enable = "neon")]
fn bf16_to_f32(numbers: uint8x16_t) -> [float32x4_t; 2] {
    let numbers = vreinterpretq_u16_u8(numbers);
    [vshll_n_u16::<16>(vget_low_u16(numbers)), vshll_high_n_u16::<16>(numbers)]
        .map(|numbers| vreinterpretq_f32_u32(numbers))
}

#[inline]
#[target_feature(enable = "neon")]
fn add<const N: usize>(a: [float32x4_t; N], b: [float32x4_t; N]) -> [float32x4_t; N] {
    from_fn(|i| vaddq_f32(a[i], b[i]))
}

#[inline]
#[target_feature(enable = "neon")]
fn total<const N: usize>(sums: [float32x4_t; N]) -> f32 {
    sums.map(|sum| vaddvq_f32(sum)).iter().sum()
}

// Bytes: their products have two bytes each, and are added in pairs. A lane has a quarter of all: of the
// longest vectors that fit a page, 2^14 of at most 2^16 each.
kernel!(
    products_i8, "neon",
    16 by load_128 split_4x128 cut, vdupq_n_s32(0), vaddq_s32 total_s32,
    |sum, a, b| {
        let (a, b) = (vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b));
        let low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
        vpadalq_s16(vpadalq_s16(sum, low), vmull_high_s8(a, b))
    }
);
kernel!(
    differences_i8, "neon",
    16 by load_128 split_4x128 cut, vdupq_n_u32(0), vaddq_u32 total_u32,
    |sum, a, b| {
        // Without their signs, they fit a byte.
        let differences = vabdq_s8(vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b));
        let differences = vreinterpretq_u8_s8(differences);
        let low = vmull_u8(vget_low_u8(differences), vget_low_u8(differences));
        vpadalq_u16(vpadalq_u16(sum, low), vmull_high_u8(differences, differences))
    }
);

kernel!(
    different_bits, "neon",
    16 by load_128 split_4x128 cut, vdupq_n_u32(0), vaddq_u32 total_u32,
    |sum, a, b| vpadalq_u16(sum, vpaddlq_u8(vcntq_u8(veorq_u8(a, b))))
);

/// The first `bytes` of a register, and zeros.
#[inline]
#[target_feature(enable = "neon")]
fn cut(register: uint8x16_t, bytes: usize) -> uint8x16_t {
    let lanes = vcombine_u8(vcreate_u8(0x0706_0504_0302_0100), vcreate_u8(0x0f0e_0d0c_0b0a_0908));
    vandq_u8(register, vcltq_u8(lanes, vdupq_n_u8(bytes.min(16) as u8)))
}

#[inline]
#[target_feature(enable = "neon")]
fn total_s32(sums: int32x4_t) -> f32 {
    vaddlvq_s32(sums) as f32
}

#[inline]
#[target_feature(enable = "neon")]
fn total_u32(sums: uint32x4_t) -> f32 {
    vaddlvq_u32(sums) as f32
}

/// Sixteen bytes of a code at a time, of which sixteen numbers are unpacked at once. A lane of two bytes sums
/// up what it has of these bytes, less than 2^13; one of four bytes a quarter of all: of the longest vectors
/// that there can be, 2^18 products below 2^11.
#[target_feature(enable = "neon")]
fn products_of_codes<const BITS: i8>(code: Run<'_>, query: Run<'_>) -> f32 {
    let mask = vdupq_n_u8((1 << BITS) - 1);
    let mut sum = vdupq_n_s32(0);
    let mut done = 0;
    for at in (0..code.len()).step_by(16) {
        let unit = code.load_128(at);
        let mut products = vdupq_n_s16(0);
        for part in 0..8 / BITS {
            let numbers = vandq_u8(vshlq_u8(unit, vdupq_n_s8(-BITS * part)), mask);
            let numbers = vreinterpretq_s8_u8(numbers);
            let others = vreinterpretq_s8_u8(query.load_128(done));
            products = vmlal_s8(products, vget_low_s8(numbers), vget_low_s8(others));
            products = vmlal_high_s8(products, numbers, others);
            done += 16;
        }
        sum = vpadalq_s16(sum, products);
    }
    total_s32(sum)
}
