//! For processors of x86-64 with AVX512.

use std::arch::x86_64::*;

use polder_pool::bytes::Run;

use super::Sum;
use crate::element::ElementKind;

/// The kernel for these, if the processor has what it needs.
pub(super) fn kernel(element: ElementKind, sum: Sum) -> Option<unsafe fn(Run<'_>, Run<'_>) -> f32> {
    let is_here = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl");
    let counts_bits = is_x86_feature_detected!("avx512vpopcntdq");
    let is_here = is_here && (counts_bits || element != ElementKind::Bit);
    is_here.then_some(kernel_for!(element, sum))
}

/// For each kind of floats: how a register of them becomes one of f32.
macro_rules! floats {
    (
        $products:ident, $differences:ident,
        $bytes:literal by $load:ident $split:ident $cut:ident, $to_f32:expr
    ) => {
        kernel!(
            $products, "avx512f,avx512bw,avx512vl",
            $bytes by $load $split $cut, _mm512_setzero_ps(), _mm512_add_ps _mm512_reduce_add_ps,
            |sum, a, b| _mm512_fmadd_ps($to_f32(a), $to_f32(b), sum)
        );
        kernel!(
            $differences, "avx512f,avx512bw,avx512vl",
            $bytes by $load $split $cut, _mm512_setzero_ps(), _mm512_add_ps _mm512_reduce_add_ps,
            |sum, a, b| {
                let difference = _mm512_sub_ps($to_f32(a), $to_f32(b));
                _mm512_fmadd_ps(difference, difference, sum)
            }
        );
    };
}

floats!(products_f32, differences_f32, 64 by load_512 split_4x512 cut_512, _mm512_castsi512_ps);
floats!(products_f16, differences_f16, 32 by load_256 split_4x256 cut_256, _mm512_cvtph_ps);
floats!(products_bf16, differences_bf16, 32 by load_256 split_4x256 cut_256, bf16_to_f32);

#[inline]
#[target_feature(enable = "avx512f")]
fn bf16_to_f32(numbers: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(numbers)))
}

/// For bytes: they become numbers of two bytes, whose products are added in pairs. A lane has a sixteenth of
/// all: of the longest vectors that fit a page, 2^12 of at most 2^16 each.
macro_rules! bytes {
    ($name:ident, |$a:ident, $b:ident| $pairs:expr) => {
        kernel!(
            $name, "avx512f,avx512bw,avx512vl",
            32 by load_256 split_4x256 cut_256, _mm512_setzero_si512(), _mm512_add_epi32 total_epi32,
            |sum, a, b| {
                let ($a, $b) = (_mm512_cvtepi8_epi16(a), _mm512_cvtepi8_epi16(b));
                _mm512_add_epi32(sum, $pairs)
            }
        );
    };
}

bytes!(products_i8, |a, b| _mm512_madd_epi16(a, b));
bytes!(differences_i8, |a, b| {
    let difference = _mm512_sub_epi16(a, b);
    _mm512_madd_epi16(difference, difference)
});

kernel!(
    different_bits, "avx512f,avx512bw,avx512vl,avx512vpopcntdq",
    64 by load_512 split_4x512 cut_512, _mm512_setzero_si512(), _mm512_add_epi64 total_epi64,
    |sum, a, b| _mm512_add_epi64(sum, _mm512_popcnt_epi64(_mm512_xor_si512(a, b)))
);

/// The first `bytes` of a register, at least one, and zeros.
#[inline]
#[target_feature(enable = "avx512bw")]
fn cut_512(register: __m512i, bytes: usize) -> __m512i {
    _mm512_maskz_mov_epi8(u64::MAX >> (64 - bytes.min(64)), register)
}

#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn cut_256(register: __m256i, bytes: usize) -> __m256i {
    _mm256_maskz_mov_epi8(u32::MAX >> (32 - bytes.min(32)), register)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total_epi64(sums: __m512i) -> f32 {
    _mm512_reduce_add_epi64(sums) as f32
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total_epi32(sums: __m512i) -> f32 {
    let (low, high) = (_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
    total_epi64(_mm512_add_epi64(_mm512_cvtepi32_epi64(low), _mm512_cvtepi32_epi64(high)))
}
